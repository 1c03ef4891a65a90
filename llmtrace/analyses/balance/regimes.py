"""Whether a user finds its cache on all of its instances alike: its busiest hour (Figure 19 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.summaries import regimes

if TYPE_CHECKING:
    from llmtrace.analyses.base import State
    from llmtrace.result import Scalar

__all__ = ["HIGH_AT", "LOW_AT", "MIXED_AT", "MOST_USERS", "Regimes", "read"]

HIGH_AT, LOW_AT = 0.4, 0.2
"""The lowest token hit ratio of the high tier and the highest of the low one, as in the paper."""
MIXED_AT = 0.1
"""Which share of a user's requests must go to instances of either tier for it to count as one between them."""
MOST_USERS = 1_000
"""How many users the table of them lists."""

_TIERS = ("high", "medium", "low")


@dataclass(frozen=True)
class Regimes:
    """What a state says about busiest hours.

    Attributes:
        scalars: counts of users.
        listed: a row per user, those with most requests first.
        instances: the instances of the two users that the figure shows, in order of first requests.
    """

    scalars: dict[str, Scalar]
    listed: pl.DataFrame
    instances: pl.DataFrame


def read(state: State, least: int) -> Regimes:
    """What is known of users with at least so many requests in an hour."""
    rows = regimes.busiest(state, least).with_columns(_hit_ratio(), pl.col("hour_us").cast(pl.Datetime("us")).alias("time"))
    rows = rows.with_columns(_tier())
    users = _users(rows).join(state["user_names"].rename({"name": "of"}), left_on="user", right_on="key")
    users = users.sort("requests", "of", descending=[True, False])
    mixed = users.filter(pl.col("high_ratio") >= MIXED_AT, pl.col("low_ratio") >= MIXED_AT)
    shown = users.select(pl.col("of").alias("user"), pl.exclude("user", "of"))
    return Regimes(
        scalars={
            "regime_users": users.height,
            **{f"{tier}_tier_users": int((users["tier"] == tier).sum()) for tier in _TIERS},
            "mixed_users": mixed.height,
        },
        listed=shown.head(MOST_USERS),
        instances=_instances(rows, users, state["instance_names"]),
    )


def _hit_ratio() -> pl.Expr:
    measured = pl.when(pl.col("input_tokens") > 0)
    return measured.then(pl.col("cached_tokens") / pl.col("input_tokens")).alias("token_hit_ratio")


def _tier() -> pl.Expr:
    ratio = pl.col("token_hit_ratio")
    tier = pl.when(ratio >= HIGH_AT).then(pl.lit("high")).when(ratio <= LOW_AT).then(pl.lit("low")).otherwise(pl.lit("medium"))
    return pl.when(ratio.is_not_null()).then(tier).alias("tier")


def _users(rows: pl.DataFrame) -> pl.DataFrame:
    """A row per user: its hour, its requests, instances and hits there, and the share of its requests by tier of the instance."""
    requests = pl.col("requests")
    by_tier = (requests.filter(pl.col("tier") == tier).sum().alias(f"{tier}_ratio") for tier in _TIERS)
    summed = rows.group_by("user").agg(
        pl.col("time").first(),
        requests.sum(),
        pl.len().cast(pl.Int64).alias("instances"),
        pl.col("input_tokens", "cached_tokens").sum(),
        *by_tier,
    )
    ratios = [(pl.col(f"{tier}_ratio") / requests).alias(f"{tier}_ratio") for tier in _TIERS]
    return (
        summed.with_columns(_hit_ratio(), *ratios)
        .with_columns(_tier())
        .select("user", "time", "requests", "instances", "token_hit_ratio", "tier", *(f"{tier}_ratio" for tier in _TIERS))
    )


def _instances(rows: pl.DataFrame, users: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Of the users of the high tier the one with most requests and the one with fewest; ties by name."""
    high = users.filter(pl.col("tier") == "high")
    top, least = high.head(1), high.sort("requests", "of").head(1)
    picks = [top.with_columns(pl.lit("top").alias("pick"))]
    picks += [least.with_columns(pl.lit("min").alias("pick"))] if high.height > 1 else []
    picked = pl.concat(picks).select("pick", "user", "of", pl.col("requests").alias("all"))
    named = names.rename({"name": "at"})
    found = picked.join(rows, on="user", maintain_order="left_right").join(
        named, left_on="instance", right_on="key", how="left", maintain_order="left"
    )
    return found.select(
        "pick",
        pl.col("of").alias("user"),
        "time",
        pl.col("at").alias("instance"),
        "requests",
        (pl.col("requests") / pl.col("all")).alias("requests_ratio"),
        "input_tokens",
        "cached_tokens",
        "token_hit_ratio",
        "tier",
    )
