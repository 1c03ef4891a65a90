"""How even the load is within each model, whose instances alone can take it from one another, and how far its users spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.summaries.fleet import STEPS
from llmtrace.summaries.sums import narrowed

if TYPE_CHECKING:
    from llmtrace.result import Scalar

__all__ = ["MOST_MODELS", "by_model", "scalars"]

MOST_MODELS = 1_000
"""How many models the table of them has."""

_BALANCES = {"max_mean": "imbalance_max_mean", "jain": "jain", "cv": "cv"}


def by_model(pools: pl.DataFrame, copies: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """A row per model, those with most tokens first; ties by requests, then by name.

    Args:
        pools: the table of `fleet`, all minutes closed.
        copies: of models, as `spread` has them.
        names: of models.
    """
    named = pools.join(names.rename({"name": "model"}), left_on="pool", right_on="key", how="left")
    ordered = named.sort("tokens", "requests", "model", descending=[True, True, False], nulls_last=True).head(MOST_MODELS)
    found = ordered.join(copies.rename({"model": "pool"}), on="pool", how="left", maintain_order="left")
    valid = pl.when(pl.col("valid_minutes") > 0)
    means = (valid.then(_ones(name) / pl.col("valid_minutes")).alias(name) for name in _BALANCES)
    active = (pl.col("instances") / pl.col("minutes")).alias("active_instances")
    spread = [column for column in copies.columns if column != "model"]
    return narrowed(
        found.select("model", "requests", "tokens", "minutes", active, "valid_minutes", *means, *spread)
    ).with_columns(pl.col("keys").fill_null(0))


def scalars(pools: pl.DataFrame) -> dict[str, Scalar]:
    """The means over valid minutes of every model; None where there are none."""
    minutes = int(pools["valid_minutes"].sum())
    found = {name: float(int(pools[name].sum()) / STEPS / minutes) if minutes else None for name in _BALANCES}
    return {"models": pools.height} | {f"within_model_{name}": found[column] for column, name in _BALANCES.items()}


def _ones(steps: str) -> pl.Expr:
    """A sum of steps as a number."""
    return pl.col(steps).cast(pl.Float64) / STEPS
