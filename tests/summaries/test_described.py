"""Described histograms against NumPy on the values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from llmtrace.summaries import histogram
from llmtrace.summaries.described import described

if TYPE_CHECKING:
    from collections.abc import Callable

PERCENTS = (1, 25, 50, 99)


def test_numbers_are_numpys(of_whole: Callable[..., pl.DataFrame]) -> None:
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "key": pl.Series([3, 8, 9], dtype=pl.UInt64).sample(900, with_replacement=True, seed=1),
            "value": rng.integers(0, 9**9, 900),
        }
    ).with_columns(pl.when(pl.col("key") != 9).then("value"))
    table = described(of_whole(histogram.summary(["value"], bits=8, by="key"), frame), PERCENTS, bits=8)
    assert table.columns == ["column", "key", "requests", "mean", "min", *(f"p{percent}" for percent in PERCENTS), "max"]
    for row in table.head(2).iter_rows(named=True):
        values = frame.filter(key=row["key"])["value"].to_numpy()
        assert (row["requests"], row["min"], row["max"]) == (values.size, values.min(), values.max())
        assert row["mean"] == pytest.approx(values.mean(), rel=1e-12)
        assert [row[f"p{percent}"] for percent in PERCENTS] == pytest.approx(np.percentile(values, PERCENTS).tolist(), rel=2**-9)
    assert table.row(2)[:3] == ("value", 9, 0)
    assert set(table.row(2)[3:]) == {None}
