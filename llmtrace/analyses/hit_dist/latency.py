"""The tables of `hit-dist` on time to first token (TTFT): by length and hit ratio (F4c of the paper), and what hits save."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.summaries import histogram
from llmtrace.summaries.hit_lengths import BITS, COLUMNS, ROWS
from llmtrace.summaries.quantiles import quantiles

if TYPE_CHECKING:
    from llmtrace.analyses.base import State
    from llmtrace.result import Scalar

__all__ = ["FEWEST", "by_hit", "saved", "scalars"]

FEWEST = 200
"""A cell with fewer requests has no TTFT, as in the paper."""

_MICRO = 1e6
_COLUMN, _ROW = pl.col("key").cast(pl.Int64) // ROWS, pl.col("key").cast(pl.Int64) % ROWS
_RATIOS = {row: row / (ROWS - 1) for row in range(ROWS)}
_HIGH = ROWS - 2


def by_hit(state: State) -> pl.DataFrame:
    """One row per cell of input length and hit ratio that has requests with a TTFT."""
    found = _described(state["ttft"])
    reference = found.filter(_ROW == 0).select(_COLUMN.alias("column"), pl.col("ttft_p50_s").alias("without_s"))
    saved_s = (pl.col("without_s") - pl.col("ttft_p50_s")).alias("saved_s")
    return (
        found.with_columns(_COLUMN.alias("column"))
        .join(reference, on="column", how="left", maintain_order="left")
        .select(
            *_edges(),
            _ROW.replace_strict(_RATIOS, return_dtype=pl.Float64).alias("hit_ratio_from"),
            (_ROW + 1).replace_strict(_RATIOS, default=1.0, return_dtype=pl.Float64).alias("hit_ratio_to"),
            "requests",
            "ttft_mean_s",
            "ttft_p50_s",
            "ttft_p95_s",
            saved_s,
            (saved_s / pl.col("without_s")).alias("saved_ratio"),
        )
    )


def saved(state: State) -> pl.DataFrame:
    """One row per input length: the median TTFT with hardly any hit and with nearly all of the input hit, side by side."""
    found = state["ttft"]
    low, high = (_over_columns(found.filter(test)) for test in (_ROW == 0, _ROW >= _HIGH))
    total = found.group_by(_COLUMN.alias("column")).agg(pl.col("known").sum().alias("requests")).sort("column")
    sides = total.join(low, on="column", how="left", maintain_order="left").join(
        high, on="column", how="left", maintain_order="left", suffix="_high"
    )
    before, after = pl.col("ttft_p50_s"), pl.col("ttft_p50_s_high")
    return sides.select(
        *_edges(),
        "requests",
        pl.col("known").fill_null(0).alias("requests_without_hit"),
        pl.col("known_high").fill_null(0).alias("requests_with_hit"),
        before.alias("ttft_without_hit_p50_s"),
        after.alias("ttft_with_hit_p50_s"),
        (before - after).alias("saved_s"),
        ((before - after) / before).alias("saved_ratio"),
    )


def scalars(by_hit: pl.DataFrame) -> dict[str, Scalar]:
    """Requests with a TTFT, and what those that hit at least a tenth of their input save in the median at equal length."""
    # Not the sum of what is saved and what is left, which loses digits where almost all is saved, or the contrary.
    without = by_hit.filter(pl.col("hit_ratio_from") == 0).select("input_tokens_from", without_s="ttft_p50_s")
    hit = by_hit.filter(pl.col("hit_ratio_from") > 0, pl.col("saved_s").is_not_null()).join(without, on="input_tokens_from")
    weight = pl.col("requests") / pl.col("requests").sum()
    row = hit.select(
        pl.col("requests").sum(),
        saved_s=(weight * pl.col("saved_s")).sum(),
        without_s=(weight * pl.col("without_s")).sum(),
    ).row(0, named=True)
    known = row["requests"] > 0
    return {
        "ttft_requests": int(by_hit["requests"].sum()),
        "compared_requests": row["requests"],
        "ttft_saved_s": row["saved_s"] if known else None,
        "ttft_saved_ratio": row["saved_s"] / row["without_s"] if known and row["without_s"] > 0 else None,
    }


def _described(frame: pl.DataFrame) -> pl.DataFrame:
    """Requests, mean, median and 95th percentile of each histogram; times are null where it has too few."""
    values = quantiles(frame, [0.5, 0.95], bits=BITS) / _MICRO
    enough = pl.col("known") >= FEWEST
    named = {"p50": pl.Series(values[:, 0], dtype=pl.Float64), "p95": pl.Series(values[:, 1], dtype=pl.Float64)}
    return frame.with_columns(**named).select(
        "key",
        pl.col("known").alias("requests"),
        pl.when(enough).then(pl.col("sum") / pl.col("known") / _MICRO).alias("ttft_mean_s"),
        pl.when(enough).then("p50").alias("ttft_p50_s"),
        pl.when(enough).then("p95").alias("ttft_p95_s"),
    )


def _over_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """The median of each column, whatever the rows; of few requests null."""
    rows = [frame.filter(_ROW.eq(row)).with_columns(_COLUMN.cast(pl.UInt64).alias("key")) for row in range(ROWS)]
    together = histogram.combine(rows)
    median = pl.Series("median", quantiles(together, [0.5], bits=BITS)[:, 0] / _MICRO, pl.Float64)
    return together.select(
        pl.col("key").cast(pl.Int64).alias("column"), "known", pl.when(pl.col("known") >= FEWEST).then(median).alias("ttft_p50_s")
    )


def _edges() -> tuple[pl.Expr, pl.Expr]:
    """The lowest input tokens of a column, and those of the next one."""
    edges = dict(enumerate(COLUMNS))
    lower = pl.col("column").replace_strict(edges, return_dtype=pl.Int64).alias("input_tokens_from")
    upper = (pl.col("column") + 1).replace_strict(edges, default=None, return_dtype=pl.Int64).alias("input_tokens_to")
    return lower, upper
