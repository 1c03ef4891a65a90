"""The load of minutes against a loop over requests, wherever they are cut."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from functools import reduce
from itertools import pairwise, zip_longest
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import fleet

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = tuple[int, int, int, int]
    State = dict[str, pl.DataFrame]

MINUTE_US = 60_000_000
MOST = 2**32 - 1
TIMES = st.builds(lambda minute, us: minute * MINUTE_US + us, st.integers(-2, 4), st.sampled_from([0, 1, MINUTE_US - 1]))
ROWS = st.lists(
    st.tuples(TIMES, st.sampled_from([0, 5, 6]), st.sampled_from([1, 2, 3, 2**64 - 1]), st.sampled_from([0, 1, 7, 1000, MOST])),
    max_size=80,
)
MANY_ROWS = st.lists(
    st.tuples(st.sampled_from([0, MINUTE_US]), st.sampled_from([0, 5]), st.sampled_from([1, 2]), st.sampled_from([0, 7, MOST])),
    min_size=30,
    max_size=80,
)
"""Pools that are busy enough to have valid minutes."""
CUTS = st.lists(st.integers(0, 50), max_size=5).map(sorted)


def state_of(rows: Sequence[Row]) -> State:
    times, pools, instances, tokens = zip(*rows, strict=True) if rows else ((), (), (), ())
    keys = np.array(pools, np.uint64), np.array(instances, np.uint64)
    return fleet.summarise(np.array(times, np.int64), *keys, np.array(tokens, np.int64))


def naive(rows: Sequence[Row]) -> list[tuple[int, int, int, int, int, int]]:
    minutes: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for time, _, instance, tokens in rows:
        minutes[time // MINUTE_US * MINUTE_US][instance].append(tokens)
    found = []
    for minute, served in sorted(minutes.items()):
        loads = [min(sum(tokens), MOST) for tokens in served.values()]
        requests = sum(map(len, served.values()))
        found.append((minute, requests, len(loads), sum(loads), max(loads), sum(load**2 for load in loads)))
    return found


def naive_pools(rows: Sequence[Row]) -> dict[int, list[float]]:
    """Per pool its minutes, requests, instances of minutes, tokens, valid minutes, and sums over these of the three balances."""
    found: dict[int, list[float]] = {}
    for pool in sorted({row[1] for row in rows}):
        sums = [0.0] * 8
        for _, requests, instances, tokens, most, squares in naive([row for row in rows if row[1] == pool]):
            valid = instances >= 2 and requests >= 10 and tokens > 0
            more: list[float] = [1, requests, instances, tokens, valid]
            if valid:
                jain = tokens**2 / (instances * squares)
                more += [most * instances / tokens, jain, sqrt(Fraction(instances * squares, tokens**2) - 1)]
            sums = [sum(pair) for pair in zip_longest(sums, more, fillvalue=0)]
        found[pool] = sums
    return found


def rows_of(state: State) -> list[tuple[int, ...]]:
    return fleet.closed(state)["minutes"].with_columns(pl.col("time").to_physical()).rows()


@given(ROWS)
def test_minutes_are_those_of_a_loop(rows: list[Row]) -> None:
    assert rows_of(state_of(sorted(rows, key=lambda row: row[0]))) == naive(rows)


@given(MANY_ROWS)
def test_pools_are_those_of_a_loop(rows: list[Row]) -> None:
    found = fleet.closed(state_of(sorted(rows, key=lambda row: row[0])))["pools"]
    expected = naive_pools(rows)
    assert found["pool"].to_list() == list(expected)
    names = ("minutes", "requests", "instances", "tokens", "valid_minutes", "max_mean", "jain", "cv")
    sums = [[row[name] / (fleet.STEPS if name in names[5:] else 1) for name in names] for row in found.iter_rows(named=True)]
    assert sums == [pytest.approx(one, abs=1e-5) for one in expected.values()]


@given(ROWS, CUTS)
def test_no_cut_changes_a_bit(rows: list[Row], cuts: list[int]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    whole = state_of(rows)
    parts = [state_of(rows[start:end]) for start, end in pairwise([0, *cuts, max(len(rows), *cuts, 0)])]
    from_left = reduce(lambda left, right: fleet.combine([left, right]), parts)
    from_right = reduce(lambda right, left: fleet.combine([left, right]), reversed(parts))
    for found in (from_left, from_right, fleet.combine(parts)):
        for name, table in whole.items():
            assert_frame_equal(found[name], table)


def test_what_is_over_is_closed() -> None:
    state = state_of([(minute * MINUTE_US, 5, 1, minute) for minute in range(5)])
    assert state["minutes"]["tokens"].to_list() == [1, 2, 3]
    assert state["open_minutes"]["tokens"].to_list() == [0, 4]


@given(st.lists(st.integers(0, MOST), min_size=1, max_size=20))
def test_balances_are_those_of_fractions(loads: list[int]) -> None:
    found = fleet.closed(state_of([(0, 5, place, load) for place, load in enumerate(loads)]))["minutes"].select(
        **fleet.balances()
    )
    total, number, squares = sum(loads), len(loads), sum(load**2 for load in loads)
    if not total:
        assert found.rows() == [(None, None, None)]
        return
    expected = (
        Fraction(max(loads) * number, total),
        Fraction(total**2, number * squares),
        Fraction(number * squares, total**2) - 1,
    )
    max_mean, jain, cv = found.row(0)
    assert (max_mean, jain, cv) == pytest.approx((float(expected[0]), float(expected[1]), sqrt(expected[2])), rel=1e-12)


def test_equal_loads_are_balanced_to_the_last_bit() -> None:
    rows = [(0, 5, instance, MOST - 1) for instance in range(1, 1000)]
    assert fleet.closed(state_of(rows))["minutes"].select(**fleet.balances()).rows() == [(1.0, 1.0, 0.0)]
