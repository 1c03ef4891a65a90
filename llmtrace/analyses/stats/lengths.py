"""The tables of `stats` over requests: how long they are, overall and per model (F2 a-c of the paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries.described import described
from llmtrace.summaries.quantiles import quantiles
from llmtrace.summaries.ratios import MILLION

if TYPE_CHECKING:
    from llmtrace.analyses.base import State

__all__ = ["BITS", "BITS_BY_MODEL", "COLUMNS", "RATIO", "TOP_MODELS", "medians", "tables"]

RATIO = "output_to_input_ratio"
COLUMNS = ("input_tokens", "output_tokens", "cached_tokens", RATIO)
"""What is summarised: tokens, and the ratio in millionths."""
COLUMNS_BY_MODEL = ("input_tokens", "output_tokens", RATIO)
"""The same per model, where cached tokens are left to the analysis of hits."""
BITS, BITS_BY_MODEL = 11, 8
TOP_MODELS = 3

_PERCENTS = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_DESCRIBED = ("mean", "min", *(f"p{percent}" for percent in _PERCENTS), "max")
_STEPS = tuple(step / 100 for step in range(101))
_UNIT = pl.when(pl.col("column") == RATIO).then(float(MILLION)).otherwise(1.0)
_PLACE = pl.col("column").replace_strict({column: place for place, column in enumerate(COLUMNS)}, return_dtype=pl.Int8)


def tables(state: State) -> dict[str, pl.DataFrame]:
    """`lengths`, `lengths_by_model` and `length_cdf`."""
    models = _models(state)
    return {
        "lengths": _described(state["lengths"], BITS).sort(_PLACE).select("column", "requests", *_DESCRIBED),
        "lengths_by_model": _by_model(state["lengths_by_model"], models),
        "length_cdf": _cdf(state["lengths"], state["lengths_by_model"], models),
    }


def medians(state: State) -> dict[str, float | None]:
    """The median of each column."""
    return dict(_described(state["lengths"], BITS).select("column", "p50").iter_rows())


def _models(state: State) -> pl.DataFrame:
    """`key`, `model` and `total` requests of each model; null is the unknown model, no rows where all are."""
    models = state["models"].join(state["model_names"], on="key", how="left")
    found = models.select("key", pl.col("name").alias("model"), pl.col("requests").alias("total"))
    return found if state["model_names"].height else found.clear()


def _described(summary: pl.DataFrame, bits: int) -> pl.DataFrame:
    """The rows of a histogram summary as numbers, in tokens, or of the ratio as a ratio."""
    return described(summary, _PERCENTS, bits=bits).with_columns(pl.col(_DESCRIBED) / _UNIT)


def _by_model(summary: pl.DataFrame, models: pl.DataFrame) -> pl.DataFrame:
    """One row per model and column that it has values of; models with most requests first."""
    return (
        _described(summary, BITS_BY_MODEL)
        .filter(pl.col("requests") > 0)
        .join(models, on="key")
        .sort(pl.col("total"), pl.col("model"), _PLACE, descending=[True, False, False], nulls_last=True)
        .select("model", "requests", "column", *_DESCRIBED)
    )


def _cdf(overall: pl.DataFrame, by_model: pl.DataFrame, models: pl.DataFrame) -> pl.DataFrame:
    """Values at 0, 1, ... 100 % of the requests with a positive value: of all, and of the models with most requests."""
    top = models.drop_nulls("model").sort("total", "model", descending=[True, False]).head(TOP_MODELS)
    curves = [_curves(overall, None, BITS)]
    curves += [_curves(by_model.filter(pl.col("key") == key), model, BITS_BY_MODEL) for key, model, _ in top.iter_rows()]
    return pl.concat(curves)


def _curves(summary: pl.DataFrame, model: str | None, bits: int) -> pl.DataFrame:
    drawn = summary.filter(pl.col("column").is_in(COLUMNS_BY_MODEL)).sort(_PLACE)
    values = quantiles(drawn, _STEPS, bits=bits, positive=True)
    steps = {
        "model": pl.Series([model], dtype=pl.String).new_from_index(0, values.size),
        "column": np.repeat(drawn["column"].to_numpy(), len(_STEPS)),
        "cumulative_ratio": np.tile(_STEPS, drawn.height),
        "value": values.ravel(),
    }
    return pl.DataFrame(steps).filter(pl.col("value").is_not_nan()).with_columns(pl.col("value") / _UNIT)
