"""Counts of pairs of keys: `collections.Counter` is the oracle, whatever the cut."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import crosstab
from llmtrace.summaries.groups import group
from llmtrace.summaries.keys import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rows = Sequence[tuple[int, int]]

OUTER, INNER = st.sampled_from([UNKNOWN, 3, 7, 2**64 - 1]), st.sampled_from([UNKNOWN, 2, 5, 8, 11])
ROWS = st.lists(st.tuples(OUTER, INNER), max_size=40)
CUTS = st.lists(st.integers(0, 40), max_size=4)


State = dict[str, pl.DataFrame]


def state_of(rows: Rows) -> State:
    frame = pl.DataFrame(rows, {"outer": pl.UInt64, "inner": pl.UInt64}, orient="row")
    return crosstab.summarise(group(frame, "outer"), group(frame, "inner"))


def states_of(rows: Rows, cuts: list[int]) -> list[State]:
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    return [state_of(rows[start:end]) for start, end in pairwise(borders)]


def counts(state: State) -> dict[tuple[Any, Any], Any]:
    keys = state["inner"]["key"].to_list()
    outer = [key for key, pairs in state["outer"].rows() for _ in range(pairs)]
    return {(one, keys[inner]): requests for one, (inner, requests) in zip(outer, state["pairs"].rows(), strict=True)}


@given(rows=ROWS, cuts=CUTS)
def test_every_pair_of_known_keys_is_counted(rows: Rows, cuts: list[int]) -> None:
    state = crosstab.combine(states_of(rows, cuts))
    known = [row for row in rows if UNKNOWN not in row]
    assert counts(state) == Counter(known)
    breadth = {outer: len({row for row in known if row[0] == outer}) for outer in sorted({outer for outer, _ in rows})}
    assert dict(state["outer"].rows()) == breadth
    assert state["inner"]["key"].to_list() == sorted({inner for _, inner in rows})
    assert list(counts(state)) == sorted(Counter(known), key=lambda pair: pair[0])


@given(rows=ROWS, cuts=CUTS)
def test_groupings_change_nothing(rows: Rows, cuts: list[int]) -> None:
    first, *others = states_of(rows, cuts)
    whole = state_of(rows)
    from_right = crosstab.combine([first, crosstab.combine(others)]) if others else first
    for name, schema in crosstab.SCHEMAS.items():
        assert dict(whole[name].schema) == dict(schema)
        assert_frame_equal(crosstab.combine([first, *others])[name], whole[name])
        assert_frame_equal(from_right[name], whole[name])


@given(rows=ROWS, percent=st.sampled_from([1, 50, 90, 100]))
def test_each_inner_key_has_its_outer_ones(rows: Rows, percent: int) -> None:
    state = state_of(rows)
    for key, (pairs, met, most, needed) in zip(state["inner"]["key"], crosstab.by_inner(state, percent).rows(), strict=True):
        counts = sorted(Counter(row for row in rows if UNKNOWN not in row and row[1] == key).values(), reverse=True)
        enough = [count for count in range(len(counts) + 1) if 100 * sum(counts[:count]) >= percent * sum(counts)]
        assert (pairs, met, most, needed) == (len(counts), sum(counts), max(counts, default=0), enough[0])


@given(rows=ROWS)
def test_each_outer_key_has_the_inner_one_that_it_meets_most(rows: Rows) -> None:
    state = state_of(rows)
    keys = state["inner"]["key"].to_list()
    for key, (pairs, met, inner, most) in zip(state["outer"]["key"], crosstab.by_outer(state).rows(), strict=True):
        counts = Counter(row[1] for row in rows if UNKNOWN not in row and row[0] == key)
        assert (pairs, met, most) == (len(counts), counts.total(), max(counts.values(), default=0))
        # `most_common` has of equal counts the one first met.
        assert (None if inner is None else keys[inner]) == (counts.most_common(1)[0][0] if counts else None)


def test_counts_beyond_32_bits_are_kept() -> None:
    one = state_of([(3, 5)])
    many = {**one, "pairs": one["pairs"].with_columns(requests=pl.lit(2**32 - 1, pl.UInt32))}
    more = crosstab.combine([many, one])
    assert counts(more) == {(3, 5): 2**32}
    assert counts(crosstab.combine([more, one])) == {(3, 5): 2**32 + 1}
    assert more["pairs"]["requests"].dtype == pl.UInt64
    assert crosstab.combine([one, one])["pairs"]["requests"].dtype == pl.UInt32
