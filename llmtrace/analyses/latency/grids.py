"""Medians over a grid of input and output tokens (Figure 4 a and b of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from llmtrace.errors import UsageError
from llmtrace.summaries.quantiles import percentile_columns
from llmtrace.summaries.ratios import MILLION

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BITS", "GRIDS", "LEAST_REQUESTS", "Grid", "left_out", "table"]

GRIDS: Mapping[str, str] = {"duration_grid": "grid_duration_us", "ttft_grid": "grid_ttft_us"}
"""The column of each grid, by the name of its table."""
LEAST_REQUESTS = 50
"""A cell with fewer requests is not shown, as in the paper."""
BITS = 8
MOST_TOKENS = 1_000_000_000

_BEYOND = 0
_PERCENTS = (50, 90)


@dataclass(frozen=True)
class Grid:
    """A grid over input and output tokens that begins at zero. Its cells are numbered from 1 on; 0 is what lies beyond it.

    Attributes:
        input_step: how many input tokens a bin spans.
        output_step: how many output tokens.
        input_bins: how many bins of input tokens there are, with the paper's step up to 32,000.
        output_bins: how many of output tokens, up to 8,000.

    Raises:
        UsageError: if a step is not between 1 and a thousand million.
    """

    input_step: int
    output_step: int
    input_bins: ClassVar[int] = 16
    output_bins: ClassVar[int] = 40

    def __post_init__(self) -> None:
        """Check the steps."""
        for option, step in (("--input-step", self.input_step), ("--output-step", self.output_step)):
            if not 1 <= step <= MOST_TOKENS:
                raise UsageError(f"{option} {step}: out of range", f"Give a whole number from 1 to {MOST_TOKENS:,}.")


def table(summary: pl.DataFrame, grid: Grid, name: str) -> pl.DataFrame:
    """A row per cell with enough requests: where it begins, its requests, and what these took.

    Args:
        summary: the histograms of all cells.
        grid: its steps.
        name: which of `GRIDS`.
    """
    shown = _inside(summary, name).filter(pl.col("known") >= LEAST_REQUESTS)
    cell, measure = pl.col("key").cast(pl.Int64) - 1, name.removesuffix("_grid")
    percentiles = percentile_columns(shown, _PERCENTS, bits=BITS, unit=MILLION)
    return shown.select(
        (cell // grid.output_bins * grid.input_step).alias("input_tokens"),
        (cell % grid.output_bins * grid.output_step).alias("output_tokens"),
        pl.col("known").alias("requests"),
    ).with_columns(column.alias(f"{measure}_{column.name}_s") for column in percentiles)


def left_out(summary: pl.DataFrame, name: str) -> tuple[int, int]:
    """How many requests lie beyond a grid, and how many in cells with too few requests."""
    beyond = summary.filter(pl.col("column") == GRIDS[name], pl.col("key") == _BEYOND)
    few = _inside(summary, name).filter(pl.col("known") < LEAST_REQUESTS)
    return int(beyond["known"].sum()), int(few["known"].sum())


def _inside(summary: pl.DataFrame, name: str) -> pl.DataFrame:
    return summary.filter(pl.col("column") == GRIDS[name], pl.col("key") != _BEYOND)
