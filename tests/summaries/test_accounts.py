"""Accounts of keys: a dictionary is the oracle, whatever the cut."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import accounts
from llmtrace.summaries.keys import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rows = Sequence[tuple[int, int, int, int]]

TOKENS = st.integers(-1, 9) | st.integers(2**32 - 2, 2**32 + 1) | st.just(2**63 - 1)
ROWS = st.lists(st.tuples(st.integers(-3, 9), st.sampled_from([UNKNOWN, 3, 7, 2**64 - 1]), TOKENS, TOKENS), max_size=30).map(
    sorted
)
SCHEMA = {"time_us": pl.Int64, "key": pl.UInt64, "input": pl.Int64, "output": pl.Int64}


def summarised(rows: Rows, lot: int = 40) -> pl.DataFrame:
    """The accounts of requests that come in lots of so many."""
    together = accounts.Accounts()
    frame = pl.DataFrame(rows, SCHEMA, orient="row")
    names = frame.select(pl.when(pl.col("key") != UNKNOWN).then(pl.format("key {}", "key"))).to_series()
    for start in range(0, len(rows), lot):
        keys, *columns = (frame[name][start : start + lot].to_numpy() for name in ("key", "time_us", "input", "output"))
        ids = together.count(keys, names[start : start + lot], *columns)
        found = together.groups(ids)
        ranks = dict(zip(found.order.tolist(), found.labels["key"].to_list(), strict=True))
        assert [ranks[one] for one in ids.tolist()] == keys.tolist()
    return together.total()


def of_parts(rows: Rows, cuts: list[int]) -> list[pl.DataFrame]:
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    return [summarised(rows[start:end]) for start, end in pairwise(borders)]


def added(values: list[int]) -> int | None:
    known = [value for value in values if value >= 0]
    return sum(known) if known else None


@given(rows=ROWS, cuts=st.lists(st.integers(0, 30), max_size=3))
def test_an_account_has_what_a_loop_over_its_requests_finds(rows: Rows, cuts: list[int]) -> None:
    found = accounts.combine(of_parts(rows, cuts))
    expected = []
    for key in sorted({row[1] for row in rows}):
        own = [row for row in rows if row[1] == key]
        times = [row[0] for row in own]
        name = None if key == UNKNOWN else f"key {key}"
        tokens = [added([row[place] for row in own]) for place in (2, 3)]
        expected.append((key, name, len(own), times[0], times[-1], len(set(times)), *tokens))
    columns = ("key", "name", "requests", "first_us", "last_us", "instants")
    assert found.select(*columns, a=accounts.tokens("input"), b=accounts.tokens("output")).rows() == expected


@given(rows=ROWS, cuts=st.lists(st.integers(0, 30), max_size=3))
def test_cuts_and_groupings_of_them_change_nothing(rows: Rows, cuts: list[int]) -> None:
    first, *others = of_parts(rows, cuts)
    one_by_one = first
    for other in others:
        one_by_one = accounts.combine([one_by_one, other])
    whole = summarised(rows)
    assert_frame_equal(summarised(rows, 7), whole)
    assert dict(whole.schema) == dict(accounts.SCHEMA)
    assert_frame_equal(one_by_one, whole)
    assert_frame_equal(accounts.combine([first, *others]), whole)
