"""Gaps of a key and their lag-1 dependence, against NumPy and SciPy on lists of gaps, wherever the requests are cut."""

from __future__ import annotations

from functools import partial, reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy import stats

from llmtrace.summaries import by_key, lags
from llmtrace.summaries.keys import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BITS = 3
TIMES = st.integers(0, 12) | st.integers(0, 10**7) | st.integers(-(10**14), 10**14)
ROWS = st.lists(st.tuples(TIMES, st.sampled_from([UNKNOWN, 1, 2, 2**64 - 1])), max_size=40)


def frame_of(rows: list[tuple[int, int]]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, {"timestamp": pl.Int64, "model_key": pl.UInt64}, orient="row")
    return frame.with_columns(pl.col("timestamp").cast(pl.Datetime("us"))).sort("timestamp", maintain_order=True)


def gaps_of(frame: pl.DataFrame, key: int) -> list[int]:
    return frame.filter(pl.col("model_key") == key)["timestamp"].to_physical().diff().drop_nulls().to_list()


def state_of(frame: pl.DataFrame, bits: int = BITS) -> pl.DataFrame:
    found, _ = by_key.arranged(frame["timestamp"].to_physical().to_numpy(), frame["model_key"].to_numpy())
    return lags.summary(bits=bits).summarise(found)


def pearson(gaps: list[float]) -> float | None:
    earlier, later = gaps[:-1], gaps[1:]
    if len(earlier) < 3 or len(set(earlier)) == 1 or len(set(later)) == 1:
        return None
    return float(np.corrcoef(earlier, later)[0, 1])


def spearman(pairs: list[tuple[int, int]]) -> float | None:
    earlier, later = [one for one, _ in pairs], [other for _, other in pairs]
    if len(pairs) < 3 or len(set(earlier)) == 1 or len(set(later)) == 1:
        return None
    return float(stats.spearmanr(earlier, later).statistic)


def kinds(gaps: list[int]) -> dict[str, list[tuple[int, int]]]:
    """All pairs of consecutive gaps; and those of two positive gaps, as Figure 9b of the paper takes them."""
    pairs = list(pairwise(gaps))
    return {"lag1_spearman": pairs, "lag1_spearman_positive": [pair for pair in pairs if min(pair) > 0]}


@given(ROWS, st.lists(st.integers(0, 40), max_size=4).map(sorted))
def test_no_cut_changes_a_bit(rows: list[tuple[int, int]], cuts: list[int]) -> None:
    frame = frame_of(rows)
    whole = state_of(frame)
    parts = [state_of(frame[start:end]) for start, end in pairwise([0, *cuts, max(frame.height, *cuts, 0)])]
    together = partial(lags.combine, bits=BITS)
    from_left = reduce(lambda left, right: together([left, right]), parts)
    from_right = reduce(lambda right, left: together([left, right]), reversed(parts))
    for found in (from_left, from_right, together(parts)):
        assert_frame_equal(found, whole)
        assert_frame_equal(lags.describe(found, bits=BITS), lags.describe(whole, bits=BITS), check_exact=True)


@given(st.lists(TIMES, max_size=30), st.lists(st.integers(0, 30), max_size=3))
def test_all_requests_are_one_key_without_a_column(
    of_whole: Callable[..., pl.DataFrame], of_parts: Callable[..., list[pl.DataFrame]], times: list[int], cuts: list[int]
) -> None:
    frame, summary = frame_of([(time, lags.WHOLE) for time in times]), lags.summary_of_all(bits=BITS)
    assert_frame_equal(of_whole(summary, frame), state_of(frame))
    for found in of_parts(summary, partial(lags.combine, bits=BITS), frame, cuts):
        assert_frame_equal(found, state_of(frame))


@given(ROWS)
def test_counts_and_moments_are_those_of_the_gaps(rows: list[tuple[int, int]]) -> None:
    frame = frame_of(rows)
    described = lags.describe(state_of(frame), bits=BITS)
    assert described["key"].to_list() == sorted({key for _, key in rows} - {UNKNOWN})
    for row in described.iter_rows(named=True):
        gaps = gaps_of(frame, row["key"])
        assert (row["requests"], row["gaps"], row["ties"]) == (len(gaps) + 1, len(gaps), gaps.count(0))
        mean = np.mean(gaps) / 1e6 if gaps else None
        std = np.std(np.array(gaps, np.longdouble), ddof=1) / 1e6 if len(gaps) > 1 else None
        assert row["mean_gap_s"] == (None if mean is None else pytest.approx(mean, rel=1e-14))
        assert row["std_gap_s"] == (None if std is None else pytest.approx(float(std), rel=1e-9))
        if std is None or not mean:
            assert row["cv"] is None
            assert row["burstiness"] is None
        else:
            assert row["cv"] == pytest.approx(float(std / mean), rel=1e-9)
            assert row["burstiness"] == pytest.approx(float((std - mean) / (std + mean)), rel=1e-9, abs=1e-9)


@given(ROWS)
def test_correlations_are_those_of_consecutive_gaps(rows: list[tuple[int, int]]) -> None:
    frame = frame_of(rows)
    described = lags.describe(state_of(frame), bits=BITS)
    for row in described.iter_rows(named=True):
        gaps = gaps_of(frame, row["key"])
        positive = [gap for gap in gaps if gap > 0]
        expected = pearson([float(gap) for gap in gaps])
        assert row["lag1_pearson"] == (None if expected is None else pytest.approx(expected, abs=1e-9))
        expected = pearson(np.log(positive).tolist())
        assert row["lag1_log_pearson"] == (None if expected is None else pytest.approx(expected, abs=1e-6))
        for name, pairs in kinds(gaps).items():
            exact = spearman(pairs)
            if exact is None or row[name] is None:  # different gaps may share a bucket, so that they seem not to vary
                continue
            assert abs(row[name] - exact) <= row[f"{name}_bound"] + 1e-12
            if max(map(max, pairs)) < 1 << (BITS + 1):
                assert row[name] == pytest.approx(exact, abs=1e-12)
                assert row[f"{name}_bound"] == pytest.approx(0, abs=1e-7)


NARROW = st.sampled_from([0, 1]) | st.integers(60, 70) | st.integers(1000, 1300)


@given(st.lists(NARROW, min_size=4, max_size=40), st.sampled_from([1, 7, 1000, 10**6]), st.integers(1, BITS))
def test_the_bound_holds_where_gaps_crowd_into_few_buckets(numbers: list[int], step_us: int, bits: int) -> None:
    gaps = [number * step_us for number in numbers]
    frame = frame_of([(int(time), 1) for time in np.cumsum([0, *gaps])])
    row = lags.describe(state_of(frame, bits), bits=bits, step_us=step_us).row(0, named=True)
    for name, pairs in kinds(gaps).items():
        exact = spearman(pairs)
        if exact is not None and row[name] is not None:
            assert abs(row[name] - exact) <= row[f"{name}_bound"] + 1e-12


def test_on_a_clock_of_long_steps_buckets_of_one_value_are_exact() -> None:
    gaps = np.random.default_rng(5).integers(0, 8, 500) * 10**6
    state = state_of(frame_of([(int(time), 1) for time in np.cumsum(gaps)]), 2)
    fine, coarse = (lags.describe(state, bits=2, step_us=step_us).row(0, named=True) for step_us in (1, 10**6))
    assert coarse["lag1_spearman"] == pytest.approx(spearman(list(pairwise(gaps[1:].tolist()))), abs=1e-12)
    assert coarse["lag1_spearman_bound"] == pytest.approx(0, abs=1e-12)
    assert fine["lag1_spearman"] == coarse["lag1_spearman"]
    assert fine["lag1_spearman_bound"] > 0.01


def test_gaps_in_one_bucket_that_all_have_the_same_neighbours_are_bounded_closely() -> None:
    """Mooncake's clock: steps of 3 s give or take a millisecond, and ties in between."""
    steps = 3_000_000 + 1000 * np.random.default_rng(5).integers(-1, 2, 1000)
    gaps = np.column_stack([steps, np.zeros((1000, 9), np.int64)]).ravel()
    row = lags.describe(state_of(frame_of([(int(time), 1) for time in np.cumsum(gaps)]), 4), bits=4).row(0, named=True)
    exact = spearman(list(pairwise(gaps[1:].tolist())))
    assert exact is not None
    assert abs(row["lag1_spearman"] - exact) <= row["lag1_spearman_bound"] < 0.001


@pytest.mark.parametrize("bits", [2, 5])
@pytest.mark.parametrize("dependence", [-0.6, 0.0, 0.3, 0.9])
def test_binned_ranks_come_close_to_exact_ones(bits: int, dependence: float) -> None:
    generator = np.random.default_rng(7)
    noise = generator.normal(size=20_000)
    walk = [noise[0]]
    for step in noise[1:]:
        walk.append(dependence * walk[-1] + step)
    gaps = np.exp(9 + np.array(walk)).astype(np.int64)
    frame = frame_of([(int(time), 1) for time in np.cumsum(gaps)])
    row = lags.describe(state_of(frame, bits), bits=bits).row(0, named=True)
    exact = spearman(list(pairwise(gaps[1:].tolist())))
    assert row["lag1_spearman"] == pytest.approx(exact, abs=0.02 if bits == 2 else 0.001)
    assert abs(row["lag1_spearman"] - exact) <= row["lag1_spearman_bound"] < (0.11 if bits == 2 else 0.014)


def test_a_regular_stream_does_not_vary_at_all() -> None:
    frame = frame_of([(time * 333_333_333_333, 1) for time in range(1000)])
    row = lags.describe(state_of(frame), bits=BITS).row(0, named=True)
    assert (row["std_gap_s"], row["cv"], row["burstiness"]) == (0.0, 0.0, -1.0)
    assert row["lag1_pearson"] is None


def test_a_summary_survives_parquet(tmp_path: Path) -> None:
    found = state_of(frame_of([(0, 1), (10**14, 1), (3 * 10**14, 1)] * 9))
    found.write_parquet(tmp_path / "lags.parquet")
    assert_frame_equal(pl.read_parquet(tmp_path / "lags.parquet"), found)
