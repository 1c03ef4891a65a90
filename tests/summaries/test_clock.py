"""The clock's grain: counts, ties and gaps against a loop, the same wherever the trace is cut."""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import clock

START = datetime(2025, 4, 11)


def state(microseconds: list[int]) -> dict[str, pl.DataFrame]:
    times = pl.Series("timestamp", [START + timedelta(microseconds=us) for us in sorted(microseconds)], dtype=pl.Datetime("us"))
    plans = clock.plan(pl.LazyFrame([times]))
    return dict(zip(plans, pl.collect_all(list(plans.values())), strict=True))


times = st.lists(st.integers(0, 10**7) | st.integers(0, 9).map(lambda step: step * 10**6), min_size=1, max_size=60)


@given(times)
def test_counts_equal_a_loop(microseconds: list[int]) -> None:
    ordered = sorted(microseconds)
    gaps = [after - before for before, after in pairwise(ordered)]
    grain = clock.grain(state(microseconds))
    assert grain.requests == len(ordered)
    assert grain.ties == gaps.count(0)
    assert grain.first == START + timedelta(microseconds=ordered[0])
    assert grain.last == START + timedelta(microseconds=ordered[-1])
    assert grain.tie_share == (gaps.count(0) / len(gaps) if gaps else None)
    assert grain.mean_gap_s == (pytest.approx(sum(gaps) / len(gaps) / 1e6) if gaps else None)
    assert grain.gaps_above(0.0) == len(gaps) - gaps.count(0)
    longest = sorted((gap for gap in gaps if gap), reverse=True)[:10]
    assert clock.longest(state(microseconds))["gap_s"].to_list() == pytest.approx([gap / 1e6 for gap in longest], rel=1e-15)


@given(times, st.lists(st.integers(0, 10**7), max_size=4))
def test_cutting_changes_nothing(microseconds: list[int], cuts: list[int]) -> None:
    edges = [-1, *sorted(cuts), 10**8]
    parts = [state([us for us in microseconds if low < us <= high]) for low, high in pairwise(edges)]
    whole = clock.combine([state(microseconds)])
    for states in (parts, [clock.combine(parts[:2]), *parts[2:]], [*parts[:-2], clock.combine(parts[-2:])]):
        combined = clock.combine(states)
        for name, frame in whole.items():
            assert_frame_equal(combined[name], frame)


def test_a_stepping_clock_shows_its_step() -> None:
    stamps = [step * 3_000_000 + late for step, late in zip(range(200), [0, 1000, -1000, 0, 0] * 40, strict=True)]
    assert clock.grain(state([stamp for stamp in stamps for _ in range(9)])).quantum_s == pytest.approx(3.0, rel=1e-3)


def test_a_regular_stream_has_its_period_as_quantum() -> None:
    assert clock.grain(state([step * 250_000 for step in range(50)])).quantum_s == 0.25


@given(st.lists(st.integers(1, 10**9).map(lambda n: 7 * n), min_size=3, max_size=40, unique=True))
def test_without_a_mode_the_quantum_is_the_common_divisor(gaps: list[int]) -> None:
    stamps = [sum(gaps[:count]) for count in range(len(gaps) + 1)]
    spread = Counter(gaps)
    near = max(sum(count for other, count in spread.items() if abs(other - gap) <= 0.011 * gap) for gap in gaps)
    if near < 0.2 * len(gaps):
        assert clock.grain(state(stamps)).quantum_s == pytest.approx(math.gcd(*gaps) / 1e6)


def test_nothing_is_not_zero() -> None:
    grain = clock.grain(clock.combine([state([]), state([])]))
    assert (grain.requests, grain.first, grain.tie_share, grain.quantum_s, grain.mean_gap_s) == (0, None, None, None, None)
    assert clock.grain(state([5])).tie_share is None
    assert clock.grain(state([5, 5])).quantum_s is None
