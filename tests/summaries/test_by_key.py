from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries import by_key
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.summary import Summary

ROWS = st.lists(st.tuples(st.integers(-9, 9), st.sampled_from([UNKNOWN, 1, 5, 2**64 - 1])), max_size=40).map(sorted)


@given(ROWS)
def test_arrivals_stand_by_key_in_order_of_time(rows: list[tuple[int, int]]) -> None:
    times, row_keys = np.array([time for time, _ in rows], np.int64), np.array([key for _, key in rows], np.uint64)
    found, first_rows = by_key.arranged(times, row_keys)
    keys = sorted({key for _, key in rows if key != UNKNOWN})
    assert found.rows() == [(key, [time for time, of in rows if of == key]) for key in keys]
    assert first_rows.tolist() == [row_keys.tolist().index(key) for key in keys]
    read, arrivals, offsets = by_key.read(found)
    assert read.tolist() == keys
    assert [arrivals[start:end].tolist() for start, end in pairwise(offsets)] == found["arrivals"].to_list()


def test_a_part_is_summarised_as_a_whole_and_by_key() -> None:
    times = [datetime(1970, 1, 1, 0, 0, second) for second in range(4)]
    whole = pl.DataFrame({"timestamp": times, "user": ["b", None, "a", "b"]})
    timed = {"latest": Summary({}, {"timestamp": pl.Int64()}, lambda frame: frame.tail(1))}
    keyed = {"arrivals": Summary({}, {"key": pl.UInt64(), "arrivals": pl.List(pl.Int64())}, lambda frame: frame)}
    plans = by_key.plans(pl.concat([whole[:2], whole[2:]], rechunk=False).lazy(), "user", timed, keyed)
    tables = dict(zip(plans, pl.collect_all(plans.values()), strict=True))
    assert tables["latest"].rows() == [(3_000_000,)]
    found = tables["names"].join(tables["arrivals"], on="key")
    assert dict(found.select("name", "arrivals").iter_rows()) == {"a": [2_000_000], "b": [0, 3_000_000]}


KEYS = st.lists(st.sampled_from([1, 2, 5, 2**64 - 1]), unique=True).map(sorted)


@given(st.lists(KEYS, min_size=1, max_size=4))
def test_names_of_all_parts_are_one_to_a_key(parts: list[list[int]]) -> None:
    frames = [
        pl.DataFrame({"key": keys, "name": [str(key) for key in keys]}, {"key": pl.UInt64, "name": pl.String}) for keys in parts
    ]
    expected = sorted({key for keys in parts for key in keys})
    assert by_key.combine_names(frames).rows() == [(key, str(key)) for key in expected]
