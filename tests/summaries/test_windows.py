"""Counts in windows and gaps within windows, against loops, wherever the requests are cut."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import windows
from llmtrace.summaries.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTHS = [Interval.parse(text) for text in ("1s", "2s", "5s", "10s", "1m")]
TIMES = st.lists(st.integers(-40, 80).map(lambda second: second * 1_000_000) | st.integers(-(10**8), 10**8), max_size=60)


def frame_of(times: list[int]) -> pl.DataFrame:
    return pl.DataFrame({"timestamp": sorted(times)}, {"timestamp": pl.Int64}).select(pl.col("timestamp").cast(pl.Datetime("us")))


def counts_of(times: list[int], width: int) -> list[int]:
    """Requests of all windows after the first one and before the last one that have any."""
    counted = Counter(time // width for time in times)
    return [counted[window] for window in range(min(counted, default=0) + 1, max(counted, default=0))]


@given(TIMES)
def test_dispersion_is_variance_over_mean_of_all_inner_windows(of_whole: Callable[..., pl.DataFrame], times: list[int]) -> None:
    found = windows.dispersion(of_whole(windows.counts(WIDTHS), frame_of(times)))
    assert found["window_s"].to_list() == ([width.seconds for width in WIDTHS] if times else [])
    for width, row in zip(WIDTHS, found.iter_rows(named=True), strict=False):
        counts = counts_of(times, width.width_us)
        assert row["windows"] == len(counts)
        assert row["mean_requests"] == (pytest.approx(np.mean(counts)) if counts else None)
        if len(counts) > 1 and any(counts):
            assert row["index_of_dispersion"] == pytest.approx(np.var(counts, ddof=1) / np.mean(counts), rel=1e-12)
        else:
            assert row["index_of_dispersion"] is None


@given(TIMES, st.lists(st.integers(0, 60), max_size=4))
def test_no_cut_changes_counts(
    of_whole: Callable[..., pl.DataFrame], of_parts: Callable[..., list[pl.DataFrame]], times: list[int], cuts: list[int]
) -> None:
    frame, summary = frame_of(times), windows.counts(WIDTHS)
    whole = windows.combine_counts([of_whole(summary, frame)])
    for found in of_parts(summary, windows.combine_counts, frame, cuts):
        assert_frame_equal(found, whole)
        assert_frame_equal(windows.dispersion(found), windows.dispersion(whole), check_exact=True)


@given(TIMES)
def test_gaps_within_windows_are_those_of_a_loop(of_whole: Callable[..., pl.DataFrame], times: list[int]) -> None:
    width = Interval.parse("10s")
    arrivals = defaultdict(list)
    for time in sorted(times):
        arrivals[time // width.width_us * width.width_us].append(time)
    expected = [
        (start, len(held), held[0], held[-1], sum((after - before) ** 2 for before, after in pairwise(held)))
        for start, held in sorted(arrivals.items())
    ]
    assert of_whole(windows.gaps(width), frame_of(times)).rows() == expected


@given(TIMES, st.lists(st.integers(0, 60), max_size=4))
def test_no_cut_changes_gaps(
    of_whole: Callable[..., pl.DataFrame], of_parts: Callable[..., list[pl.DataFrame]], times: list[int], cuts: list[int]
) -> None:
    frame, summary = frame_of(times), windows.gaps(Interval.parse("10s"))
    for found in of_parts(summary, windows.combine_gaps, frame, cuts):
        assert_frame_equal(found, of_whole(summary, frame))


def test_a_poisson_stream_is_not_dispersed_at_any_scale(of_whole: Callable[..., pl.DataFrame]) -> None:
    times = np.random.default_rng(3).integers(0, 20_000_000_000, 200_000).tolist()
    found = windows.dispersion(of_whole(windows.counts(WIDTHS), frame_of(times)))
    assert found["index_of_dispersion"].to_list() == pytest.approx([1.0] * len(WIDTHS), abs=0.2)


def test_a_regular_stream_has_no_dispersion(of_whole: Callable[..., pl.DataFrame]) -> None:
    found = windows.dispersion(of_whole(windows.counts(WIDTHS), frame_of([step * 500_000 for step in range(1000)])))
    assert found["index_of_dispersion"].to_list() == [0.0] * len(WIDTHS)
