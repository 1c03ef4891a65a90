"""The scalars of `latency`, and its tables over requests: overall, per model, per interval, and as distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.analyses.latency.measures import IN_TIME, MEASURES
from llmtrace.summaries.described import described
from llmtrace.summaries.quantiles import percentile_columns, quantiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.analyses.base import State
    from llmtrace.result import Scalar

__all__ = [
    "BITS",
    "BITS_BY_MODEL",
    "PERCENTS",
    "TOP_MODELS",
    "by_model",
    "cdf",
    "chosen",
    "latencies",
    "models",
    "over_time",
    "scalars",
]

BITS, BITS_BY_MODEL = 11, 7
"""Significant bits of the histograms: of all requests, and of a model or an interval."""
TOP_MODELS = 3
"""How many models stand out, as in the paper."""
PERCENTS = (5, 25, 50, 75, 90, 95, 99)

_DESCRIBED = ("mean", *(f"p{percent}" for percent in PERCENTS), "max", "min")
"""The tail first: it is what a narrow screen must not cut off."""
_STEPS = tuple(step / 100 for step in range(101))
_TAIL = (50, 90, 99)
_COLUMN = pl.col("column")
_PLACE = _COLUMN.replace_strict({measure.column: place for place, measure in enumerate(MEASURES.values())}, return_dtype=pl.Int8)
_MEASURE = _COLUMN.replace_strict({measure.column: name for name, measure in MEASURES.items()}, return_dtype=pl.String)
_UNIT = _COLUMN.replace_strict({measure.column: measure.steps for measure in MEASURES.values()}, return_dtype=pl.Float64)


def scalars(state: State, overall: pl.DataFrame) -> dict[str, Scalar]:
    """Counts and percentiles over requests, in reading order; None is "not known".

    Args:
        state: that of the whole trace.
        overall: the table `latencies`.
    """
    counted = state["requests"].row(0, named=True)
    rows = {row["measure"]: row for row in overall.iter_rows(named=True)}
    totals = dict(state["overall"].select("column", "sum").iter_rows())
    timed, decode = totals["timed_duration_us"], totals["decode_us"]
    return {
        "requests": counted["requests"],
        "failed_requests": counted["failed"] if counted["known_status"] else None,
        "ttft_requests": rows["ttft_s"]["requests"],
        "duration_requests": rows["duration_s"]["requests"],
        "timed_requests": rows["timed_duration_s"]["requests"],
        **{
            f"{name.removesuffix('_s')}_p{percent}_s": rows[name][f"p{percent}"]
            for name in MEASURES
            if name.endswith("_s")
            for percent in _TAIL
        },
        "prefill_share_p50": rows["prefill_share"]["p50"],
        "prefill_time_ratio": (timed - decode) / timed if timed else None,
    }


def latencies(state: State) -> pl.DataFrame:
    """One row per measure."""
    return _described(state["overall"], BITS).sort(_PLACE).select(_MEASURE.alias("measure"), "requests", *_DESCRIBED)


def models(state: State) -> pl.DataFrame:
    """`key`, `model` and `total` requests of each model, most requests first; null is the unknown one, no rows where all are."""
    names = state["model_names"].rename({"name": "model"})
    found = state["models"].join(names, on="key", how="left").select("key", "model", pl.col("requests").alias("total"))
    return (found if names.height else found.clear()).sort("total", "model", descending=[True, False], nulls_last=True)


def chosen(of: pl.DataFrame, highlight: Sequence[str]) -> pl.DataFrame:
    """The models that stand out: those named, else the busiest; a name that is not in the trace has no key."""
    if not highlight:
        return of.drop_nulls("model").head(TOP_MODELS)
    named = pl.DataFrame({"model": highlight}, {"model": pl.String()}).unique(maintain_order=True)
    return named.join(of, on="model", how="left", maintain_order="left").select(of.columns)


def by_model(state: State, of: pl.DataFrame) -> pl.DataFrame:
    """One row per model and measure that it has values of; models with most requests first."""
    return (
        _described(state["by_model"], BITS_BY_MODEL)
        .filter(pl.col("requests") > 0)
        .join(of, on="key")
        .sort(pl.col("total"), pl.col("model"), _PLACE, descending=[True, False, False], nulls_last=True)
        .select("model", _MEASURE.alias("measure"), "requests", *_DESCRIBED)
    )


def cdf(state: State, of: pl.DataFrame) -> pl.DataFrame:
    """Values at 0, 1, ... 100 % of the requests that have one: of all, and of the models `of` (Figure 3)."""
    curves = [_curves(state["overall"], None, BITS)]
    for key, model in of.drop_nulls("key").select("key", "model").iter_rows():
        curves.append(_curves(state["by_model"].filter(pl.col("key") == key), model, BITS_BY_MODEL))
    return pl.concat(curves)


def over_time(state: State) -> pl.DataFrame:
    """One row per interval with requests: how many have each measure, and its percentiles."""
    frames = []
    for name in IN_TIME:
        measure, stem = MEASURES[name], name.removesuffix("_s")
        rows = state["intervals"].filter(column=measure.column).sort("time")
        percentiles = percentile_columns(rows, _TAIL, bits=BITS_BY_MODEL, unit=measure.steps)
        frames.append(
            rows.select(
                "time",
                pl.col("known").alias(f"{stem}_requests"),
                *(column.alias(f"{stem}_{column.name}_s") for column in percentiles),
            )
        )
    return pl.concat([frames[0], *(frame.drop("time") for frame in frames[1:])], how="horizontal")


def _described(summary: pl.DataFrame, bits: int) -> pl.DataFrame:
    return described(summary, PERCENTS, bits=bits).with_columns(pl.col(_DESCRIBED) / _UNIT)


def _curves(summary: pl.DataFrame, model: str | None, bits: int) -> pl.DataFrame:
    """101 points of each measure that has values."""
    drawn = summary.filter(pl.col("known") > 0).sort(_PLACE).select(_MEASURE.alias("measure"), _UNIT.alias("unit"), pl.all())
    values = quantiles(drawn, _STEPS, bits=bits) / drawn["unit"].to_numpy()[:, np.newaxis]
    points = {
        "model": pl.Series([model], dtype=pl.String).new_from_index(0, values.size),
        "measure": pl.Series(np.repeat(drawn["measure"].to_numpy(), len(_STEPS)), dtype=pl.String),
        "cumulative_ratio": np.tile(_STEPS, drawn.height),
        "value": values.ravel(),
    }
    return pl.DataFrame(points)
