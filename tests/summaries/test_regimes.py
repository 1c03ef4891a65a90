"""Busiest hours against a loop over requests, wherever they are cut, and a case worked out by hand."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import regimes

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = tuple[int, int, int, int, int]
    State = dict[str, pl.DataFrame]

HOUR_US = 3_600_000_000
LEAST = 3
TIMES = st.builds(lambda hour, us: hour * HOUR_US + us, st.integers(-2, 4), st.sampled_from([0, 1, HOUR_US - 1]))
ROWS = st.lists(
    st.tuples(
        TIMES,
        st.sampled_from([1, 1, 2, 3, 2**64 - 1]),
        st.sampled_from([7, 8, 9]),
        st.sampled_from([0, 0, 10]),
        st.integers(0, 10),
    ),
    max_size=60,
)
CUTS = st.lists(st.integers(0, 60), max_size=5).map(sorted)


def state_of(rows: Sequence[Row]) -> State:
    schema = {"time": pl.Int64, "user": pl.UInt64, "instance": pl.UInt64, "input_tokens": pl.Int64, "cached_tokens": pl.Int64}
    frame = pl.DataFrame(rows, schema, orient="row").with_columns(pl.lit(1, pl.Int64).alias("requests"))
    return regimes.summarise(frame["time"].to_numpy(), frame, LEAST)


def naive(rows: Sequence[Row]) -> list[tuple[int, int, int, int, int, int]]:
    hours: dict[int, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        hours[row[1]][row[0] // HOUR_US].append(row)
    found = []
    for user, own in sorted(hours.items()):
        eligible = [hour for hour, some in own.items() if len(some) >= LEAST and any(row[3] for row in some)]
        if not eligible:
            continue
        best = max(sorted(eligible), key=lambda hour: len(own[hour]))
        for instance in dict.fromkeys(row[2] for row in own[best]):
            there = [row for row in own[best] if row[2] == instance]
            found.append((best * HOUR_US, user, instance, len(there), sum(row[3] for row in there), sum(row[4] for row in there)))
    return found


@given(ROWS)
def test_busiest_hours_are_those_of_a_loop(rows: list[Row]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    assert regimes.busiest(state_of(rows), LEAST).rows() == naive(rows)


@given(ROWS, CUTS)
def test_no_cut_changes_a_bit(rows: list[Row], cuts: list[int]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    whole = state_of(rows)
    parts = [state_of(rows[start:end]) for start, end in pairwise([0, *cuts, max(len(rows), *cuts, 0)])]
    from_left = reduce(lambda left, right: regimes.combine([left, right], LEAST), parts)
    from_right = reduce(lambda right, left: regimes.combine([left, right], LEAST), reversed(parts))
    for found in (from_left, from_right, regimes.combine(parts, LEAST)):
        for name, table in whole.items():
            assert_frame_equal(found[name], table)


def test_a_case_by_hand() -> None:
    """User 1's second hour ties with its third and comes first; the fourth has more requests, none of them with logged input."""
    rows = [
        (0, 1, 7, 10, 0),
        *((HOUR_US + us, 1, 8 - us % 2, 10, us) for us in range(3)),
        *((2 * HOUR_US + us, 1, 9, 10, 5) for us in range(3)),
    ]
    rows += [(3 * HOUR_US + us, 1, 7, 0, 0) for us in range(4)]
    assert regimes.busiest(state_of(rows), LEAST).rows() == [(HOUR_US, 1, 8, 2, 20, 2), (HOUR_US, 1, 7, 1, 10, 1)]
