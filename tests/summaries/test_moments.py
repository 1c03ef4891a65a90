"""Deviation and correlation against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries import moments

NUMBERS = st.integers(0, 3) | st.integers(10**12, 10**12 + 5) | st.integers(0, 10**14)


def spread(xs: list[int], ys: list[int]) -> Fraction:
    mean_x, mean_y = Fraction(sum(xs), len(xs)), Fraction(sum(ys), len(ys))
    return sum(((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)), Fraction(0))


def root(square: Fraction) -> float:
    return math.isqrt(square.numerator * 10**40 // square.denominator) / 1e20


@given(st.lists(NUMBERS, max_size=30))
def test_a_deviation_is_that_of_exact_fractions(values: list[int]) -> None:
    frame = pl.DataFrame(
        {"n": [len(values)], "sum": [sum(values)], "squares": [sum(value**2 for value in values)]},
        {"n": pl.Int64, "sum": pl.Int64, "squares": pl.Int128},
    )
    found = moments.deviation(frame["n"], frame["sum"], frame["squares"]).item()
    expected = root(spread(values, values) / (len(values) - 1)) if len(values) > 1 else None
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-14))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30))
def test_a_correlation_is_that_of_exact_fractions(pairs: list[tuple[int, int]]) -> None:
    xs, ys = ([pair[side] for pair in pairs] for side in (0, 1))
    sums = {
        "count": len(pairs),
        "x": sum(xs),
        "xx": sum(x * x for x in xs),
        "y": sum(ys),
        "yy": sum(y * y for y in ys),
        "xy": sum(x * y for x, y in pairs),
    }
    frame = pl.DataFrame({name: pl.Series([value], dtype=pl.Int128) for name, value in sums.items()})
    found = moments.correlation(moments.Sums(**{name: frame[name] for name in sums})).item()
    if len(pairs) < 3 or len(set(xs)) == 1 or len(set(ys)) == 1:
        assert found is None
    else:
        expected = spread(xs, ys) / 1
        size = root(spread(xs, xs)) * root(spread(ys, ys))
        assert found == pytest.approx(float(expected) / size, rel=1e-12, abs=1e-14)


def test_what_does_not_vary_deviates_by_exactly_nothing() -> None:
    frame = pl.DataFrame({"n": [10**6], "sum": [10**6 * 999_999_999_999], "squares": [10**6 * 999_999_999_999**2]}, strict=False)
    frame = frame.with_columns(pl.col("squares").cast(pl.Int128))
    assert moments.deviation(frame["n"], frame["sum"], frame["squares"]).item() == 0.0
