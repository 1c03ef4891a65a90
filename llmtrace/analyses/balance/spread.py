"""How far the requests of a key spread over instances, and how often its context is held, by window and by load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.summaries import replicas
from llmtrace.summaries.loads import BAND_EDGES
from llmtrace.summaries.sums import narrowed

if TYPE_CHECKING:
    from llmtrace.analyses.base import State
    from llmtrace.result import Scalar
    from llmtrace.summaries.intervals import Interval

__all__ = ["LEAST_KEYS", "Spread", "read"]

LEAST_KEYS = 30
"""A band of loads needs so many keys to be drawn: a mean over fewer says little."""

_STEPS = float(replicas.SCATTER_STEPS)


@dataclass(frozen=True)
class Spread:
    """What a state says about copies.

    Attributes:
        scalars: over all windows; None is "not known".
        by_load: a row per band of the load of a model, and of its mean instance.
        by_model: per key of a model.
        by_window: a row per window with a known key.
    """

    scalars: dict[str, Scalar]
    by_load: pl.DataFrame
    by_model: pl.DataFrame
    by_window: pl.DataFrame


def read(state: State, window: Interval) -> Spread:
    """What is known of windows of some width."""
    found = replicas.closed(state, window)
    windows, bands = found["windows"].filter(pl.col("parties") > 0), found["spread_bands"]
    per_second = (pl.col("tokens").cast(pl.Float64) / window.seconds).alias("tokens_per_s")
    axes = dict(enumerate(replicas.AXES))
    edges = pl.Series([*BAND_EDGES.tolist(), None], dtype=pl.Int64)
    places = bands["band"]
    labels = [
        bands["axis"].replace_strict(axes, return_dtype=pl.String).alias("load_of"),
        edges.gather(places).alias("load_from_tokens_per_s"),
        edges.gather(places + 1).alias("load_to_tokens_per_s"),
    ]
    total = windows.select(pl.lit(0).alias("axis"), pl.exclude("time")).group_by("axis").sum()
    summed = total.select(pl.col("parties").alias("keys"), *_ratios()).rows(named=True)
    empty = dict.fromkeys(("keys", *(column.meta.output_name() for column in _ratios())))
    return Spread(
        scalars={"windows": windows.height, **empty, "keys": 0} | (summed[0] if summed else {}),
        by_load=pl.DataFrame(labels).hstack(
            bands.select(pl.col("parties").alias("keys"), "requests", *_ratios(), "cells", "instances")
        ),
        by_model=found["spread_models"].select("model", pl.col("parties").alias("keys"), *_ratios()),
        by_window=narrowed(
            windows.select("time", "instances", pl.col("parties").alias("keys"), "requests", per_second, *_ratios()).sort("time")
        ),
    )


def _ratios() -> list[pl.Expr]:
    """Physical over logical tokens; copies per key, found and if scattered; the share of repeated requests that make one."""
    keys, copies, scattered = pl.col("parties"), pl.col("copies"), pl.col("scattered").cast(pl.Float64) / _STEPS
    physical, logical = (pl.col(name).cast(pl.Float64) for name in ("physical", "logical"))
    repeated = pl.when(pl.col("requests") > keys)
    again = pl.col("requests") - keys
    return [
        pl.when(logical > 0).then(physical / logical).alias("replication"),
        (copies / keys).alias("instances_per_key"),
        (scattered / keys).alias("scattered_instances_per_key"),
        repeated.then((copies - keys) / again).alias("new_instance_ratio"),
        repeated.then((scattered - keys) / again).alias("scattered_new_instance_ratio"),
    ]
