from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy import stats

from llmtrace.summaries.jitter import spread

STEP = 1_000
STAMPS = st.lists(st.integers(-20, 20).map(lambda tick: tick * STEP), max_size=60).map(sorted)


def frame_of(stamps: list[int]) -> pl.DataFrame:
    frame = pl.DataFrame({"timestamp": stamps, "row": range(len(stamps))}, {"timestamp": pl.Int64, "row": pl.Int64})
    return frame.with_columns(pl.col("timestamp").cast(pl.Datetime("us")))


def spread_out(stamps: list[int], seed: int = 1) -> pl.DataFrame:
    return spread(frame_of(stamps).lazy(), STEP, seed).collect()


@given(STAMPS)
def test_every_request_stays_within_its_step_and_all_are_in_order(stamps: list[int]) -> None:
    found = spread_out(stamps)
    assert found["timestamp"].is_sorted()
    moved = found.sort("row")["timestamp"].to_physical().to_list()
    assert all(stamp <= time < stamp + STEP for stamp, time in zip(stamps, moved, strict=True))


@given(STAMPS, st.lists(st.integers(-20, 20).map(lambda tick: tick * STEP), max_size=3).map(sorted))
def test_no_cut_between_stamps_changes_a_time(stamps: list[int], cuts: list[int]) -> None:
    borders = [-(10**9), *cuts, 10**9]
    parts = [spread_out([stamp for stamp in stamps if start <= stamp < end]) for start, end in pairwise(borders)]
    assert_frame_equal(pl.concat(parts).select("timestamp"), spread_out(stamps).select("timestamp"))


def test_the_seed_decides_and_ties_become_uniform() -> None:
    stamps = [0] * 4000
    one, again, other = spread_out(stamps), spread_out(stamps), spread_out(stamps, seed=2)
    assert_frame_equal(one, again)
    assert not one["timestamp"].equals(other["timestamp"])
    for found in (one, other):
        assert stats.kstest(found["timestamp"].to_physical().to_numpy() / STEP, "uniform").pvalue > 0.01


def test_requests_alone_at_their_stamps_are_spread_uniformly_too() -> None:
    stamps = [tick * STEP for tick in range(4000)]
    late = spread_out(stamps)["timestamp"].to_physical().to_numpy() - np.array(stamps)
    assert stats.kstest(late / STEP, "uniform").pvalue > 0.01
    assert np.corrcoef(late[:-1], late[1:])[0, 1] == pytest.approx(0, abs=0.05)
