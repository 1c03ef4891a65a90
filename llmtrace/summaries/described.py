"""Reading histograms as people describe distributions: how many values, their mean, extremes and percentiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries.quantiles import percentile_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["described"]


def described(summary: pl.DataFrame, percents: Sequence[int], *, bits: int) -> pl.DataFrame:
    """The rows of a histogram summary as numbers.

    Args:
        summary: made with `bits`.
        percents: ascending.
        bits: significant bits of its histograms.

    Returns:
        Its labels, `requests` with a value, and `mean`, `min`, a column for each percentile as `p50`, and `max`, all Float64, in
        the summary's own steps, and null where there is no value.
    """
    known, total = summary["known"].to_numpy(), summary["sum"].cast(pl.Float64).to_numpy()
    # By NumPy: Polars multiplies by the reciprocal where it knows that all rows have one divisor, and that rounds otherwise.
    with np.errstate(invalid="ignore"):
        mean = pl.Series("mean", total / known).fill_nan(None)
    labels = [name for name in ("column", "time", "key") if name in summary.columns]
    return summary.select(
        *labels,
        pl.col("known").alias("requests"),
        mean,
        pl.col("min").cast(pl.Float64),
        *percentile_columns(summary, percents, bits=bits),
        pl.col("max").cast(pl.Float64),
    )
