from __future__ import annotations

from fractions import Fraction
from math import floor

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries.ratios import millionths

TOKENS = st.none() | st.integers(0, 5) | st.integers(0, 2**42)


def ratios(pairs: list[tuple[int | None, int | None]]) -> list[int | None]:
    frame = pl.DataFrame(pairs, {"out": pl.Int64, "in": pl.Int64}, orient="row")
    return frame.lazy().select(millionths("out", "in")).collect().to_series().to_list()


@given(st.lists(st.tuples(TOKENS, TOKENS), max_size=30))
def test_ratios_are_exact_millionths(pairs: list[tuple[int | None, int | None]]) -> None:
    expected = [
        None if top is None or not bottom else max(floor(Fraction(top * 1_000_000, bottom) + Fraction(1, 2)), min(top, 1))
        for top, bottom in pairs
    ]
    assert ratios(pairs) == expected


def test_a_ratio_of_something_is_never_zero() -> None:
    assert ratios([(1, 2**63 - 1), (0, 2**63 - 1)]) == [1, 0]


def test_huge_numerators_are_divided_in_floating_point_and_bounded() -> None:
    third, bounded = ratios([(2**62, 3 * 2**60), (2**63 - 1, 1)])
    assert third == pytest.approx(4e6 / 3, rel=1e-6)
    assert bounded == 2**62
