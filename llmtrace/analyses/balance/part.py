"""What `balance` keeps of a part, and how parts are put together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.analyses.latency import by_load
from llmtrace.analyses.latency.grids import Grid
from llmtrace.analyses.latency.measures import NEEDS as LATENCY
from llmtrace.analyses.latency.measures import PANELS as LATENCY_PANELS
from llmtrace.analyses.latency.measures import measured
from llmtrace.analyses.latency.tables import BITS
from llmtrace.schema import failed, succeeded
from llmtrace.summaries import fleet, histogram, keys, loads, regimes, replicas, sums
from llmtrace.summaries.frames import frame_of, gathered
from llmtrace.summaries.interning import first_rows, intern
from llmtrace.summaries.keys import UNKNOWN, key
from llmtrace.summaries.summary import tables_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.analyses.balance.analysis import Balance
    from llmtrace.analyses.base import State
    from llmtrace.summaries.groups import Integers

__all__ = ["NEEDED", "PANELS", "PARTS", "combine", "counts", "empty", "plans", "summed"]

PARTS: Mapping[str, frozenset[str]] = {
    "replication": frozenset(),
    "regimes": frozenset({"user", "cached_tokens"}),
    "latency": frozenset({"stream", "ttft_s", "duration_s"}),
}
"""What can be left out, and the columns that only it reads (`replication` that of the key)."""
NEEDED = frozenset({"timestamp", "input_tokens", "output_tokens", "model", "instance", "status"})
"""The columns that are read whatever is left out."""
PANELS = tuple(LATENCY_PANELS[name] for name in by_load.HEXAGONS)
"""What is counted by the load of the instance; their places are those that `by_load` expects."""

_DESCRIBED = ("ttft_us", "decode_us")
_OVERALL = histogram.summary(_DESCRIBED, bits=BITS)
_INSTANCES = sums.summary(["tokens"], by="instance_key")
_NAMES: Mapping[str, pl.DataType] = {"key": pl.UInt64(), "name": pl.String()}
_SCHEMAS: Mapping[str, Mapping[str, Mapping[str, pl.DataType]]] = {
    "": {"instances": _INSTANCES.schema, "instance_names": _NAMES, "model_names": _NAMES, **fleet.SCHEMAS},
    "replication": replicas.SCHEMAS,
    "regimes": {"user_names": _NAMES, **regimes.SCHEMAS},
    "latency": {"overall": _OVERALL.schema, **loads.SCHEMAS},
}
"""The tables of a state by the part that they are of."""


def counts(part: pl.LazyFrame, by: str, uses: frozenset[str]) -> pl.LazyFrame:
    """One row: how many requests there are, and of how many what is known; 0 of columns that are not read."""
    placed = pl.col("instance").is_not_null()
    measured_input = succeeded() & (pl.col("input_tokens") > 0)
    flags = {
        "known_status": ("status", pl.col("status").is_not_null()),
        "failed": ("status", failed()),
        "placed": ("instance", placed),
        "placed_with_key": (by, placed & pl.col(by).is_not_null()),
        "placed_with_user": ("user", placed & pl.col("user").is_not_null()),
        "logged": ("cached_tokens", placed & measured_input & pl.col("cached_tokens").is_not_null()),
        "timed": ("ttft_s", placed & succeeded() & (pl.col("ttft_s") > 0)),
        "huge": ("instance", placed & succeeded() & _is_huge()),
    }
    found = {name: flag.sum().cast(pl.Int64) if column in uses else pl.lit(0, pl.Int64) for name, (column, flag) in flags.items()}
    return part.select(pl.len().cast(pl.Int64).alias("requests"), **found)


def plans(part: pl.LazyFrame, analysis: Balance) -> dict[str, pl.LazyFrame]:
    """The plans that summarise a part, but for parameters and counts."""
    schemas = {name: schema for some in ("", *analysis.kept) for name, schema in _SCHEMAS[some].items()}
    return tables_of(part.select(**_needs(analysis)), schemas, partial(_summarise, analysis=analysis))


def combine(states: Sequence[State], analysis: Balance) -> State:
    """What `plans` give, of all parts."""
    found = {
        "instances": sums.combine([state["instances"] for state in states]),
        **{name: keys.combine_names([state[name] for state in states]) for name in ("instance_names", "model_names")},
        **fleet.combine(states),
    }
    if "replication" in analysis.kept:
        found |= replicas.combine(states, analysis.width)
    if "regimes" in analysis.kept:
        found |= regimes.combine(states, analysis.min_requests)
        found["user_names"] = _still_there(keys.combine_names([state["user_names"] for state in states]), found)
    if "latency" in analysis.kept:
        found |= loads.combine(states, PANELS)
        found["overall"] = histogram.combine([state["overall"] for state in states])
    return found


def summed(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The counts of all parts."""
    return pl.concat(frames).sum()


def empty(part: str) -> dict[str, pl.DataFrame]:
    """The tables of a part that is left out."""
    return {name: pl.DataFrame(schema=schema) for name, schema in _SCHEMAS[part].items()}


def _is_huge() -> pl.Expr:
    """Whether a request has more tokens than are counted; no sum of the two halves can wrap."""
    halves = pl.sum_horizontal(pl.col("input_tokens", "output_tokens").fill_null(0) // 2)
    return halves > fleet.MOST_TOKENS // 2


def _needs(analysis: Balance) -> dict[str, pl.Expr]:
    needs = {name: LATENCY[name] for name in ("timestamp", "input_tokens", "output_tokens", "instance_key", "model_key", "model")}
    needs |= {"instance": pl.col("instance")}
    if "replication" in analysis.kept:
        needs |= {"party": key(analysis.by)}
    if "regimes" in analysis.kept:
        cached = pl.when(succeeded()).then("cached_tokens").fill_null(-1)
        needs |= {"user": pl.col("user"), "user_key": key("user"), "cached_tokens": cached}
    if "latency" in analysis.kept:
        needs |= {name: LATENCY[name] for name in ("ttft_s", "duration_s")}
    return needs


def _summarise(frame: pl.DataFrame, *, analysis: Balance) -> dict[str, pl.DataFrame]:
    """The tables of a part."""
    names = {name: frame.drop_in_place(name) for name in ("instance", "model", "user") if name in frame.columns}
    whole = frame.rechunk()
    placed = whole if (whole["instance_key"] != UNKNOWN).all() else whole.filter(pl.col("instance_key") != UNKNOWN)
    times, models, instances = (placed[name].to_numpy() for name in ("timestamp", "model_key", "instance_key"))
    tokens = _tokens(placed)
    found = {
        "instances": _INSTANCES.summarise(frame_of({"instance_key": instances, "tokens": tokens})),
        **{f"{name}_names": _named(whole[f"{name}_key"], names[name]) for name in ("instance", "model")},
        **fleet.summarise(times, models, instances, tokens),
    }
    if "replication" in analysis.kept:
        columns = {"party": placed["party"].to_numpy(), "model": models, "instance": instances}
        rows = frame_of({**columns, "requests": np.ones_like(tokens), "tokens": tokens, "largest": tokens})
        found |= replicas.summarise(times, rows, analysis.width)
    if "regimes" in analysis.kept:
        found |= _regimes(placed, analysis.min_requests)
        found["user_names"] = _still_there(_named(whole["user_key"], names["user"]), found)
    if "latency" in analysis.kept:
        taken, _ = measured(whole, Grid(2_000, 200))
        found |= {"overall": _OVERALL.summarise(taken), **loads.summarise(taken, PANELS, "instance_key", "tokens")}
    return found


def _regimes(placed: pl.DataFrame, least: int) -> dict[str, pl.DataFrame]:
    """The tables of `regimes`; tokens count where both input and cached ones are known, and there is input."""
    rows = placed.filter(pl.col("user_key") != UNKNOWN) if (placed["user_key"] == UNKNOWN).any() else placed
    inputs, cached = (rows[name].to_numpy() for name in ("input_tokens", "cached_tokens"))
    counts = (inputs > 0) & (cached >= 0)
    columns = {
        "user": rows["user_key"].to_numpy(),
        "instance": rows["instance_key"].to_numpy(),
        "requests": np.ones(rows.height, np.int64),
        "input_tokens": np.where(counts, np.minimum(inputs, regimes.MOST_TOKENS), 0),
        "cached_tokens": np.where(counts, np.minimum(cached, regimes.MOST_TOKENS), 0),
    }
    return regimes.summarise(rows["timestamp"].to_numpy(), frame_of(columns), least)


def _tokens(rows: pl.DataFrame) -> Integers:
    """Input and output tokens of each request together, 0 where neither is known, up to the most that count."""
    each = [np.clip(rows[name].to_numpy(), 0, fleet.MOST_TOKENS) for name in ("input_tokens", "output_tokens")]
    tokens: Integers = np.minimum(each[0] + each[1], fleet.MOST_TOKENS)
    return tokens


def _named(column: pl.Series, names: pl.Series) -> pl.DataFrame:
    """The name behind each known key."""
    ids, distinct = intern(column.to_numpy())
    named = pl.DataFrame({"key": distinct, "name": gathered(names, first_rows(ids, distinct.size))}, dict(_NAMES))
    return named.filter(pl.col("key") != UNKNOWN).sort("key")


def _still_there(names: pl.DataFrame, found: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The names of users of whom there is an hour."""
    users = pl.concat([found[name]["user"] for name in regimes.SCHEMAS])
    return names.filter(pl.col("key").is_in(users.unique().implode()))
