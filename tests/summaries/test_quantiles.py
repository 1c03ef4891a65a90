from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmtrace.summaries import histogram
from llmtrace.summaries.quantiles import percentile_columns, quantiles

if TYPE_CHECKING:
    from collections.abc import Callable

    OfWhole = Callable[..., pl.DataFrame]

AT = [0.0, 0.01, 0.05, 0.1, 0.25, 0.333, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0]


def described(of_whole: OfWhole, values: list[int], bits: int) -> pl.DataFrame:
    return of_whole(histogram.summary(["value"], bits=bits), pl.DataFrame({"value": values}, {"value": pl.Int64}))


@given(st.lists(st.integers(0, 511), min_size=1, max_size=60))
def test_quantiles_of_small_values_are_those_of_numpy(of_whole: OfWhole, values: list[int]) -> None:
    found = quantiles(described(of_whole, values, 8), AT, bits=8)
    np.testing.assert_allclose(found[0], np.quantile(values, AT), rtol=1e-12)


@example([0, 2**60, 2**60 + 2**48], 11)
@given(st.lists(st.integers(0, 10**5) | st.integers(2**60, 2**63 - 1), min_size=1, max_size=60), st.sampled_from([6, 8, 11]))
def test_quantiles_of_large_values_are_within_the_bound(of_whole: OfWhole, values: list[int], bits: int) -> None:
    found = quantiles(described(of_whole, values, bits), AT, bits=bits)[0]
    # The bound is met to the last bit, which the rounding of floats may turn over.
    bound = histogram.relative_error(bits) * (1 + 1e-9)
    np.testing.assert_allclose(found, np.quantile(np.array(values, np.float64), AT), rtol=bound)
    assert found[0] == min(values)
    assert found[-1] == float(max(values))
    assert (np.diff(found) >= 0).all()


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60))
def test_positive_quantiles_leave_zeros_out(of_whole: OfWhole, values: list[int]) -> None:
    found = quantiles(described(of_whole, values, 8), AT, bits=8, positive=True)[0]
    positive = [value for value in values if value > 0]
    if positive:
        np.testing.assert_allclose(found, np.quantile(positive, AT), rtol=1e-12)
    else:
        assert np.isnan(found).all()


def test_a_value_is_drawn_into_the_range_that_occurs(of_whole: OfWhole) -> None:
    """1000 and 1001 share a bucket of four at six bits, whose middle is 1001.5."""
    assert quantiles(described(of_whole, [1000, 1001, 1001], 6), [0.5], bits=6)[0].tolist() == [1001.0]


def test_a_row_without_values_has_no_quantiles(of_whole: OfWhole) -> None:
    assert np.isnan(quantiles(described(of_whole, [], 8), [0.5], bits=8)).all()


def test_rows_do_not_mix(of_whole: OfWhole) -> None:
    frame = pl.DataFrame({"key": [1, 1, 1, 2, 2], "value": [1, 2, 3, None, 10]}, {"key": pl.UInt64, "value": pl.Int64})
    found = of_whole(histogram.summary(["value"], bits=8, by="key"), frame)
    assert quantiles(found, [0.0, 0.5, 1.0], bits=8).tolist() == [[1, 2, 3], [10, 10, 10]]
    assert quantiles(found[1:], [0.5], bits=8).tolist() == [[10]]


def test_percentile_columns_are_named_scaled_and_null_where_nothing_is_known(of_whole: OfWhole) -> None:
    frame = pl.concat([described(of_whole, [1000, 3000], 11), described(of_whole, [], 11)])
    columns = percentile_columns(frame, [1, 50], bits=11, unit=1000)
    assert [column.name for column in columns] == ["p1", "p50"]
    assert columns[1].to_list() == [2.0, None]


def test_many_values_take_the_same_ranks_as_numpy(of_whole: OfWhole) -> None:
    values = np.random.default_rng(3).integers(0, 4096, 100_001)
    found = quantiles(described(of_whole, values.tolist(), 11), AT, bits=11)[0]
    assert found == pytest.approx(np.quantile(values, AT), rel=1e-12)
