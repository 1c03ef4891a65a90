"""The main table of `evolution`, and its scalars: what stands out of the other tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.analyses.evolution.mix import busiest
from llmtrace.summaries.periods import Periods

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from llmtrace.analyses.evolution.grid import Grid
    from llmtrace.result import Scalar
    from llmtrace.summaries.span import Span

__all__ = ["active", "scalars"]

_MONTH = Periods.parse("month")
_SIDES = ("input", "output")
_OF_ENDS = (
    *("first_time", "last_time", "top_model_first", "top_model_last"),
    *(f"{side}_median_{end}" for side in _SIDES for end in ("first", "last")),
    *(f"{side}_psi_last" for side in _SIDES),
)


def active(models: pl.DataFrame, users: pl.DataFrame, grid: Grid) -> pl.DataFrame:
    """A row per period: requests, tokens, active models and users, and those that are new; what is known nowhere is null.

    Args:
        models: see `mix.by_period`.
        users: see `people.active`.
        grid: the periods.
    """
    together = models.join(users, on="time", how="left", maintain_order="left")
    if not users["users"].sum():
        together = together.with_columns(pl.lit(None, pl.Int64).alias(name) for name in ("users", "new_users"))
    return together.with_columns(covered_ratio=pl.Series(grid.covered), partial=pl.Series(grid.partial))


def scalars(span: Span, grid: Grid, interval: str, models: pl.DataFrame, tables: Mapping[str, pl.DataFrame]) -> dict[str, Scalar]:
    """Every scalar, in reading order; None is "not known".

    Args:
        span: of all requests.
        grid: the periods.
        interval: what they are.
        models: see `mix.totals`.
        tables: of the result.
    """
    return {
        "requests": span.requests,
        "interval": interval,
        "periods": grid.size,
        "partial_periods": int(grid.partial.sum()),
        "months": _MONTH.count(span.first, span.last) if span.first is not None and span.last is not None else 0,
        "models": _total(tables["active"], "new_models"),
        "users": int(tables["cohorts"]["users"].sum()) or None,
        **_of_ends(grid, models, tables),
        "retained_ratio_1": _retained(tables["retention"]),
        "switched_ratio": _switched(tables["switching"]),
    }


def _of_ends(grid: Grid, models: pl.DataFrame, tables: Mapping[str, pl.DataFrame]) -> dict[str, Scalar]:
    """What stands out of the first and of the last whole period with lengths, or with requests where none has a length."""
    if not grid.size:
        return dict.fromkeys(_OF_ENDS)
    filled = [np.flatnonzero(tables[name]["requests"].to_numpy()) for name in ("tokens_by_month", "active")]
    whole = grid.whole(next(places for places in filled if places.size))
    places = {"first": int(whole[0]), "last": int(whole[-1])}
    times = {end: tables["tokens_by_month"]["time"][place] for end, place in places.items()}
    medians = {
        f"{side}_median_{end}": tables["tokens_by_month"][f"p50_{side}_tokens"][place]
        for side in _SIDES
        for end, place in places.items()
    }
    found = {
        **{f"{end}_time": time for end, time in times.items()},
        **{f"top_model_{end}": busiest(models, time) for end, time in times.items()},
        **medians,
        **{f"{side}_psi_last": _psi(tables["drift"], side, times["last"]) for side in _SIDES},
    }
    return {name: found[name] for name in _OF_ENDS}


def _total(table: pl.DataFrame, column: str) -> int | None:
    return None if table[column].null_count() == table.height else int(table[column].sum())


def _psi(drift: pl.DataFrame, side: str, time: datetime) -> float | None:
    found = drift.filter(pl.col("column") == f"{side}_tokens", pl.col("time") == time, ~pl.col("is_reference"))["psi"]
    return found[0] if found.len() else None


def _retained(retention: pl.DataFrame) -> float | None:
    """Users that are active in the period after their first one, over all cohorts of which both periods are whole."""
    whole = retention.filter(pl.col("age") == 0, ~pl.col("partial"))["cohort_time"]
    after = retention.filter(pl.col("age") == 1, ~pl.col("partial"), pl.col("cohort_time").is_in(whole.implode()))
    users, size = (int(after[name].sum()) for name in ("users", "cohort_users"))
    return users / size if size else None


def _switched(switching: pl.DataFrame) -> float | None:
    users, switched = (int(switching[name].sum()) for name in ("users", "switched_users"))
    return switched / users if users else None
