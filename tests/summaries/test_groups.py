from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries.groups import group
from llmtrace.summaries.intervals import Interval

KEYS = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5), max_size=40)
SECOND = Interval.parse("1s")


@given(KEYS)
def test_groups_by_key_ascend(keys: list[int]) -> None:
    groups = group(pl.DataFrame({"key": keys}, {"key": pl.UInt64}), by="key")
    labels = groups.labels["key"].to_list()
    assert labels == sorted(set(keys))
    ranks = {one: rank for rank, one in enumerate(groups.order.tolist())}
    assert [labels[ranks[one]] for one in groups.ids.tolist()] == keys


@given(st.lists(st.tuples(st.integers(0, 5_000_000), st.integers(0, 3)), max_size=40))
def test_groups_by_interval_and_key_are_the_pairs_that_occur(rows: list[tuple[int, int]]) -> None:
    rows.sort(key=lambda row: row[0])
    frame = pl.DataFrame(rows, {"timestamp": pl.Int64, "key": pl.UInt64}, orient="row")
    groups = group(frame, "key", SECOND)
    labels = list(zip(groups.labels["time"].dt.epoch("us").to_list(), groups.labels["key"].to_list(), strict=True))
    pairs = [(time - time % 1_000_000, key) for time, key in rows]
    assert labels == sorted(set(pairs))
    ranks = {one: rank for rank, one in enumerate(groups.order.tolist())}
    assert [labels[ranks[one]] for one in groups.ids.tolist()] == pairs


@given(KEYS)
def test_arranged_values_stand_group_by_group_in_their_order(keys: list[int]) -> None:
    groups = group(pl.DataFrame({"key": keys}, {"key": pl.UInt64}), by="key")
    offsets = groups.offsets()
    rows = groups.arranged(np.arange(len(keys)), offsets)
    for one, key in enumerate(dict.fromkeys(keys)):
        assert rows[offsets[one] : offsets[one + 1]].tolist() == [row for row, other in enumerate(keys) if other == key]


def test_without_key_and_interval_all_rows_are_one_group() -> None:
    groups = group(pl.DataFrame({"value": [1, 2, 3]}))
    assert groups.ids.tolist() == [0, 0, 0]
    assert groups.labels == {}
    assert groups.order.tolist() == [0]
