"""The scalars of `popularity`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.analyses.popularity.concentration import Spread
    from llmtrace.analyses.popularity.entities import Entities
    from llmtrace.result import Scalar

__all__ = ["LEAST_REQUESTS", "scalars"]

LEAST_REQUESTS = 100
"""Models with fewer requests count in no share of models."""
_HALF = 0.5
_PERCENT = 90


def scalars(entities: Entities, spreads: Sequence[Spread]) -> dict[str, Scalar]:
    """Every scalar, in reading order; None is "not known"."""
    requests, tokens = ({one.of: one for one in spreads if one.by == by} for by in ("requests", "tokens"))
    users, models = entities.users, entities.models
    busy = models.filter(pl.col("requests") >= LEAST_REQUESTS, pl.col("pairs") > 0)
    used = users.filter(pl.col("pairs") > 0)
    return {
        "requests": entities.requests,
        "users": users.height or None,
        "models": models.height or None,
        "pairs": int(users["pairs"].sum()) or None,
        "top1_user_share": requests["user"].top(1),
        "top10_user_share": requests["user"].top(10),
        "users_for_90": requests["user"].needed(_PERCENT),
        "gini_users": requests["user"].gini,
        "gini_users_tokens": tokens["user"].gini,
        "zipf_users": requests["user"].fit.exponent,
        "zipf_users_tokens": tokens["user"].fit.exponent,
        "median_models_per_user": _median(used["pairs"]),
        "single_model_users_ratio": _mean(used["pairs"] == 1),
        "top1_model_share": requests["model"].top(1),
        "top10_model_share": requests["model"].top(10),
        "models_for_90": requests["model"].needed(_PERCENT),
        "gini_models": requests["model"].gini,
        "gini_models_tokens": tokens["model"].gini,
        "zipf_models": requests["model"].fit.exponent,
        "zipf_models_tokens": tokens["model"].fit.exponent,
        "median_users_per_model": _median(models.filter(pl.col("pairs") > 0)["pairs"]),
        "one_user_models_ratio": _mean(busy["most"] > _HALF * busy["met"]),
    }


def _median(counts: pl.Series) -> float | None:
    found = counts.median()
    return float(found) if isinstance(found, (int, float)) else None


def _mean(flags: pl.Series) -> float | None:
    return float(flags.sum() / flags.len()) if flags.len() else None
