"""The paper's hourly protocol, against a loop over hours, wherever the requests are cut."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import by_key, hours
from llmtrace.summaries.histogram import bucket_of, bucket_starts
from llmtrace.summaries.keys import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR_US = 3_600_000_000
OFFSETS = st.sampled_from([0, HOUR_US - 1]) | st.integers(0, 30).map(lambda step: step * 120_000_001 % HOUR_US)
TIMES = st.builds(lambda hour, offset: hour * HOUR_US + offset, st.sampled_from([-2, 0, 0, 0, 1, 2]), OFFSETS)
ROWS = st.lists(st.tuples(TIMES, st.sampled_from([UNKNOWN, 1, 1, 2**64 - 1])), max_size=120)


def frame_of(rows: Sequence[tuple[int, int]]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, {"timestamp": pl.Int64, "model_key": pl.UInt64}, orient="row")
    return frame.with_columns(pl.col("timestamp").cast(pl.Datetime("us"))).sort("timestamp", maintain_order=True)


def state_of(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    found, _ = by_key.arranged(frame["timestamp"].to_physical().to_numpy(), frame["model_key"].to_numpy())
    return {name: summary.summarise(found) for name, summary in hours.summaries().items()}


def naive(frame: pl.DataFrame) -> dict[int, list[tuple[int, float | None]]]:
    """Requests, and the coefficient of variation where valid, of each busy hour of each key."""
    arrivals = defaultdict(list)
    for time, key in frame.select(pl.col("timestamp").to_physical(), "model_key").iter_rows():
        if key != UNKNOWN:
            arrivals[key, time // HOUR_US].append(time)
    found = defaultdict(list)
    for (key, _), times in arrivals.items():
        gaps = [after - before for before, after in pairwise(times) if after > before]
        if len(times) >= 10:
            cv = float(np.std(gaps, ddof=1) / np.mean(gaps)) if len(gaps) >= 5 else None
            found[key].append((len(times), cv))
    return found


@given(ROWS)
def test_hours_are_those_of_a_loop(rows: list[tuple[int, int]]) -> None:
    frame = frame_of(rows)
    expected = naive(frame)
    closed = hours.closed(state_of(frame))
    assert closed["key"].to_list() == sorted(expected)
    for row in closed.iter_rows(named=True):
        loads = [load for load, _ in expected[row["key"]]]
        valid = [(load, cv) for load, cv in expected[row["key"]] if cv is not None]
        cvs = [cv for _, cv in valid]
        assert (row["busy"], row["requests"], row["squares"]) == (len(loads), sum(loads), sum(load**2 for load in loads))
        assert (row["least_requests"], row["most_requests"]) == (min(loads), max(loads))
        assert (row["valid"], row["valid_requests"]) == (len(valid), sum(load for load, _ in valid))
        assert row["cv_sum"] * hours.CV_UNIT == pytest.approx(sum(cvs), abs=1e-8)
        assert (row["above_1"], row["above_2"]) == (sum(cv > 1 for cv in cvs), sum(cv > 2 for cv in cvs))
        if cvs:
            assert row["least_cv"] * hours.CV_UNIT == pytest.approx(min(cvs), abs=1e-9)
            assert row["most_cv"] * hours.CV_UNIT == pytest.approx(max(cvs), abs=1e-9)
        assert dict(zip(row["load_buckets"], row["load_counts"], strict=True)) == Counter(
            bucket_of(load, hours.BITS) for load in loads
        )
        starts = bucket_starts(np.array(row["cv_buckets"]), hours.BITS) * hours.CV_UNIT
        assert np.repeat(starts, row["cv_counts"]) == pytest.approx(sorted(cvs), rel=2**-hours.BITS)


@given(ROWS, st.lists(st.integers(0, 120), max_size=4).map(sorted))
def test_no_cut_changes_a_bit(rows: list[tuple[int, int]], cuts: list[int]) -> None:
    frame = frame_of(rows)
    whole = state_of(frame)
    parts = [state_of(frame[start:end]) for start, end in pairwise([0, *cuts, max(frame.height, *cuts, 0)])]
    from_left = reduce(lambda left, right: hours.combine([left, right]), parts)
    from_right = reduce(lambda right, left: hours.combine([left, right]), reversed(parts))
    for found in (from_left, from_right, hours.combine(parts)):
        assert_frame_equal(found["open_hours"], hours.combine([whole])["open_hours"])
        assert_frame_equal(hours.closed(found), hours.closed(whole))


def test_a_gap_over_the_end_of_an_hour_counts_nowhere() -> None:
    early, late = range(HOUR_US - 10, HOUR_US), range(HOUR_US, HOUR_US + 10)
    row = hours.closed(state_of(frame_of([(time, 1) for time in (*early, *late)]))).row(0, named=True)
    assert (row["valid"], row["cv_sum"]) == (2, 0)


def test_a_busy_hour_of_ties_is_not_valid() -> None:
    row = hours.closed(state_of(frame_of([(5, 1)] * 20))).row(0, named=True)
    assert (row["busy"], row["valid"], row["most_cv"]) == (1, 0, -1)
