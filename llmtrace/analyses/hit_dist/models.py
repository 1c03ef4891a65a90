"""The tables of `hit-dist` by model (F13b and c of the paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.analyses.hit_dist.lengths import curves, described
from llmtrace.summaries import hit_cells, hits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.analyses.base import State

__all__ = ["TOP_MODELS", "by_model", "cdf"]

TOP_MODELS = 3
"""How many models stand out, as in the paper."""

_AT_ONCE = 1 << 13
"""Models whose cells are spread out at a time: 13 MB."""


def by_model(state: State) -> pl.DataFrame:
    """One row per model, those with most measured requests first; null is the unknown model, no rows where all are."""
    names = state["model_names"]
    models = state["models"] if names.height else state["models"].clear()
    spread = pl.concat(
        _shapes(state["model_cells"][first : first + _AT_ONCE])
        for first in range(0, max(state["model_cells"].height, 1), _AT_ONCE)
    )
    return (
        hits.described(models)
        .join(names, on="key", how="left")
        .join(spread, on="key", how="left")
        .select(pl.col("name").alias("model"), pl.exclude("key", "name"))
        .sort("measured_requests", "requests", "model", descending=[True, True, False], nulls_last=True)
    )


def cdf(state: State, models: pl.DataFrame, highlight: Sequence[str]) -> pl.DataFrame:
    """The share of requests up to each ratio of the highlighted models, or of those with most measured requests."""
    named = models.drop_nulls("model")
    chosen = list(dict.fromkeys(highlight)) or named.filter(pl.col("measured_requests") > 0)["model"].head(TOP_MODELS).to_list()
    keys = dict(state["model_names"].select("name", "key").iter_rows())
    none = curves("model", None, np.zeros((1, hit_cells.CELLS), np.int64), None)
    rows = [state["model_cells"].filter(pl.col("key") == keys.get(name, 0)) for name in chosen]
    return pl.concat([none, *(curves("model", name, hit_cells.dense(row), None) for name, row in zip(chosen, rows, strict=True))])


def _shapes(frame: pl.DataFrame) -> pl.DataFrame:
    return pl.DataFrame([frame["key"], *described(hit_cells.dense(frame))])
