"""The tables of `hit-dist` by user (F13d of the paper): classes of users, a grid of them, and on request each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.summaries import hits
from llmtrace.summaries.histogram import bucket_indices, bucket_starts
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.sums import narrowed

if TYPE_CHECKING:
    from llmtrace.analyses.base import State

__all__ = ["FEWEST", "by_user", "described", "grid", "users"]

FEWEST = 10
"""Users with more measured requests are in the grid, as in the paper."""
GRID_BITS, GRID_ROWS = 3, 200
"""The grid: significant bits of the number of requests, and rows over the mean hit ratio."""

_PERCENTS = (10, 25, 50, 75, 90)
_RATIOS = ("mean_request_hit_ratio", "token_hit_ratio")
_MOST_DIGITS = 19


def described(state: State) -> pl.DataFrame:
    """Every known user with a measured request, as `hits.described` has it, beside the key."""
    return hits.described(state["users"].filter(pl.col("key") != UNKNOWN, pl.col("measured") > 0))


def by_user(found: pl.DataFrame) -> pl.DataFrame:
    """One row per class of users that occurs: 1 to 10 measured requests, 11 to 100, and so on."""
    digits = sum((pl.col("measured_requests") > 10**power).cast(pl.Int64) for power in range(1, _MOST_DIGITS)).alias("class")
    spread = [
        pl.col(ratio).quantile(percent / 100, "linear").alias(f"{ratio}_p{percent}") for ratio in _RATIOS for percent in _PERCENTS
    ]
    edges = {power: 10**power for power in range(1, _MOST_DIGITS)}
    lower = pl.col("class").replace_strict({power: edge + 1 for power, edge in edges.items()}, default=1, return_dtype=pl.Int64)
    upper = (pl.col("class") + 1).replace_strict(edges, default=None, return_dtype=pl.Int64)
    weighted = (pl.col("mean_request_hit_ratio") * pl.col("measured_requests")).sum() / pl.col("measured_requests").sum()
    tokens = [pl.col(name).cast(pl.Int128).sum() for name in ("input_tokens", "cached_tokens")]
    return narrowed(
        found.group_by(digits)
        .agg(pl.len().cast(pl.Int64).alias("users"), pl.col("measured_requests").sum(), *tokens, weighted.alias("mean"), *spread)
        .sort("class")
        .select(
            lower.alias("requests_from"),
            upper.alias("requests_to"),
            "users",
            "measured_requests",
            pl.col("mean").alias("mean_request_hit_ratio"),
            (pl.col("cached_tokens") / pl.col("input_tokens")).alias("token_hit_ratio"),
            *(f"{ratio}_p{percent}" for ratio in _RATIOS for percent in _PERCENTS),
            "input_tokens",
            "cached_tokens",
        )
    )


def grid(found: pl.DataFrame) -> pl.DataFrame:
    """How many users with more than 10 measured requests have about so many of them and about such a mean hit ratio."""
    busy = found.filter(pl.col("measured_requests") > FEWEST)
    place = pl.Series("place", bucket_indices(busy["measured_requests"].to_numpy(), GRID_BITS))
    row = pl.min_horizontal((pl.col("mean_request_hit_ratio") * GRID_ROWS).floor().cast(pl.Int64), GRID_ROWS - 1).alias("row")
    counted = busy.select(place, row).group_by("place", "row").agg(pl.len().cast(pl.Int64).alias("users")).sort("place", "row")
    places, rows = counted["place"].to_numpy(), counted["row"].to_numpy()
    return counted.select(
        pl.Series("requests_from", bucket_starts(places, GRID_BITS)),
        pl.Series("requests_to", bucket_starts(places + 1, GRID_BITS) - 1),
        pl.Series("hit_ratio_from", rows / GRID_ROWS),
        pl.Series("hit_ratio_to", (rows + 1) / GRID_ROWS),
        "users",
    )


def users(state: State) -> pl.DataFrame:
    """One row per known user, those with most measured requests first."""
    return (
        hits.described(state["users"].filter(pl.col("key") != UNKNOWN))
        .join(state["user_names"], on="key", how="left")
        .select(pl.col("name").alias("user"), pl.exclude("key", "name"))
        .sort("measured_requests", "requests", "user", descending=[True, True, False])
    )
