"""The shape of distributions against NumPy, SciPy and a search through all pairs of bins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kurtosis, skew

from llmtrace.analyses.hit_dist import shape

STEPS = 20
CELLS = 2 * STEPS + 1

Row = list[int]

ROWS = st.lists(st.integers(0, 5) | st.sampled_from([0, 0, 0, 1_000]), min_size=CELLS, max_size=CELLS)
TABLES = st.lists(ROWS, min_size=1, max_size=4)


def values_of(row: Row) -> list[float]:
    return [cell / (2 * STEPS) for cell, count in enumerate(row) for _ in range(count)]


def prominent(bins: list[int]) -> tuple[int, int, int] | None:
    """The fullest bin, the bin that stands out most from it, and the lowest between; the definition once more."""
    first = bins.index(max(bins))
    best: tuple[int, int, int] | None = None
    height = 0
    for away in range(1, len(bins)):
        for second in (first - away, first + away):
            if 0 <= second < len(bins):
                between = range(second, first + 1)[::-1] if second < first else range(first, second + 1)
                valley = min(between, key=bins.__getitem__)
                above = bins[second] - bins[valley]
                better = above > height or (above == height > 0 and best is not None and best[1] > first > second)
                best, height = ((first, second, valley), above) if better else (best, height)
    return best


@given(TABLES)
def test_quantiles_are_numpys(table: list[Row]) -> None:
    at = [0.0, 0.1, 0.5, 0.9, 1.0]
    for found, row in zip(shape.quantiles(np.array(table), at), table, strict=True):
        values = values_of(row)
        assert found.tolist() == (pytest.approx(np.quantile(values, at)) if values else pytest.approx([np.nan] * 5, nan_ok=True))


@given(TABLES)
def test_sarles_coefficient_is_scipys(table: list[Row]) -> None:
    for found, row in zip(shape.bimodality(np.array(table)), table, strict=True):
        values = values_of(row)
        size = len(values)
        if size < 4 or len(set(values)) < 2:
            assert np.isnan(found)
        else:
            spread = kurtosis(values, bias=False) + 3 * (size - 1) ** 2 / ((size - 2) * (size - 3))
            assert found == pytest.approx((skew(values, bias=False) ** 2 + 1) / spread, rel=1e-6)


@given(TABLES)
def test_humps_and_valley(table: list[Row]) -> None:
    found = shape.modes(np.array(table))
    for place, row in enumerate(table):
        bins = [sum(row[2 * one : 2 * one + 2]) for one in range(19)] + [sum(row[38:])]
        wanted = prominent(bins)
        columns = [column[place] for column in (found.depth, found.lower, found.valley, found.upper, found.lesser)]
        if wanted is None:
            assert np.isnan(columns).all()
            continue
        first, second, valley = wanted
        beyond = bins[:valley] if second < valley else bins[valley + 1 :]
        assert columns == pytest.approx(
            [
                1 - bins[valley] / bins[second],
                (min(first, second) + 0.5) / 20,
                (valley + 0.5) / 20,
                (max(first, second) + 0.5) / 20,
                sum(beyond) / sum(bins),
            ]
        )


def test_no_rows() -> None:
    nothing = np.zeros((0, CELLS), np.int64)
    assert shape.quantiles(nothing, [0.5]).shape == (0, 1)
    assert shape.bimodality(nothing).shape == shape.modes(nothing).depth.shape == (0,)
