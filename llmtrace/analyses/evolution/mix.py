"""Models from period to period: how many are active, which are new, and what share the busiest have (Figure 10 of the paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.summaries.sums import narrowed

if TYPE_CHECKING:
    from llmtrace.analyses.base import State
    from llmtrace.analyses.evolution.grid import Grid

__all__ = ["OTHERS", "busiest", "by_period", "model_share", "top_models", "totals"]

OTHERS = "Others"
"""What stands for all models but the busiest; it has no rank, in case that a model is called so."""

_SIDES = ("input", "output")
_TOKENS = [f"{side}_tokens" for side in _SIDES]


def totals(state: State) -> pl.DataFrame:
    """Per period and model: `time`, `name`, `requests`, `input_tokens` and `output_tokens` (null where none is known)."""
    return state["models"].select("time", "name", "requests", *(_tokens(side) for side in _SIDES))


def by_period(models: pl.DataFrame, grid: Grid) -> pl.DataFrame:
    """A row per period: requests, tokens, and how many models are active, new, and as good as equally busy.

    Args:
        models: see `totals`.
        grid: the periods.
    """
    named = models.filter(pl.col("name").is_not_null())
    share = pl.col("requests") / pl.col("requests").sum()
    active = named.group_by("time").agg(pl.len().cast(pl.Int64).alias("models"), (1 / (share**2).sum()).alias("effective_models"))
    first = named.group_by("name").agg(pl.col("time").min()).group_by("time").agg(pl.len().cast(pl.Int64).alias("new_models"))
    sums = models.group_by("time").agg(pl.col("requests").sum(), *(_known_sum(column) for column in _TOKENS))
    rows = grid.frame().select("time")
    for table in (sums, active, first):
        rows = rows.join(table, on="time", how="left", maintain_order="left")
    counted = ["requests", *(["models", "new_models"] if named.height else [])]
    known = [column for column in _TOKENS if models[column].null_count() < models.height]
    is_empty = pl.col("requests").is_null()
    return narrowed(
        rows.with_columns(pl.when(is_empty).then(0).otherwise(pl.col(column)).alias(column) for column in known)
        .with_columns(pl.col(counted).fill_null(0))
        .select("time", "requests", *_TOKENS, "models", "new_models", "effective_models")
    )


def top_models(models: pl.DataFrame, top: int) -> list[str]:
    """The models with most requests in all, the busiest first; of those with as many, the one whose name comes first."""
    named = models.filter(pl.col("name").is_not_null()).group_by("name").agg(pl.col("requests").sum())
    return named.sort(["requests", "name"], descending=[True, False])["name"].head(top).to_list()


def busiest(models: pl.DataFrame, time: object) -> str | None:
    """The model with most requests in the period that begins at a time; of those with as many, the one whose name comes first."""
    inside = models.filter(pl.col("time") == time, pl.col("name").is_not_null())
    return None if inside.is_empty() else str(inside.sort(["requests", "name"], descending=[True, False])["name"][0])


def model_share(models: pl.DataFrame, grid: Grid, top: list[str]) -> pl.DataFrame:
    """A row per period and one of the busiest models, and one for all others together if there are any.

    Args:
        models: see `totals`.
        grid: the periods.
        top: see `top_models`.
    """
    ranks = pl.DataFrame({"name": top, "rank": range(1, len(top) + 1)}, {"name": pl.String, "rank": pl.Int64})
    ranked = models.join(ranks, on="name", how="left")
    rest = pl.DataFrame({"rank": [None], "name": [None]}, {"rank": pl.Int64, "name": pl.String})
    rows = pl.concat([ranks.select("rank", "name"), rest if ranked["rank"].null_count() else rest.clear()])
    summed = ranked.group_by("time", "rank").agg(
        pl.col("name").drop_nulls().n_unique().cast(pl.Int64).alias("models"),
        pl.col("requests").sum(),
        *(_known_sum(column) for column in _TOKENS),
    )
    both = pl.sum_horizontal(column.fill_null(0) for column in map(pl.col, _TOKENS))
    nothing = pl.lit(0 if any(models[column].count() for column in _TOKENS) else None, pl.Int128)
    is_known = pl.any_horizontal(pl.col(column).is_not_null() for column in _TOKENS)
    tokens = pl.when(is_known).then(both).when(pl.col("requests") == 0).then(nothing)
    whole = pl.col("tokens").sum().over("time")
    return narrowed(
        grid.frame()
        .join(rows if top else rows.clear(), how="cross", maintain_order="left_right")
        .join(summed, on=["time", "rank"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.col("models", "requests").fill_null(0))
        .with_columns(tokens.alias("tokens"))
        .with_columns(
            pl.when(pl.col("requests").sum().over("time") > 0)
            .then(pl.col("requests") / pl.col("requests").sum().over("time"))
            .alias("requests_ratio"),
            pl.when(whole > 0).then(pl.col("tokens").fill_null(0) / whole).alias("tokens_ratio"),
        )
        .select(
            "time",
            "rank",
            pl.col("name").fill_null(OTHERS).alias("model"),
            "models",
            "requests",
            "requests_ratio",
            "tokens",
            "tokens_ratio",
            "partial",
        )
    )


def _tokens(side: str) -> pl.Expr:
    upper, lower = (pl.col(f"{side}_{part}").cast(pl.Int128) for part in ("upper", "lower"))
    return pl.when(pl.col(f"{side}_known") > 0).then(upper * (1 << 32) + lower).alias(f"{side}_tokens")


def _known_sum(column: str) -> pl.Expr:
    return pl.when(pl.col(column).count() > 0).then(pl.col(column).sum()).alias(column)
