"""How soon keys come back: the gaps of every key, and what they weigh in tokens.

A key has two levels, an outer and an inner one: a user and a model, say. A key of one level has the same inner one everywhere.
The distribution asked for is over the positive gaps of *eligible* keys, those with at least `threshold` of them, and which these
are shows only in the end. So all gaps are counted, and each key has a trail (see `trails`), from which those of keys that have
too few are taken out then.

Tables of a state; keys with a null in them are in none:

    outer       the outer keys: key (ascending), pairs (how many inner keys it has)
    pairs       the keys, outer key by outer key, in the order of their first requests: inner (place in `inner`), first_us,
                last_us, first_input_tokens, last_tokens, positive (its positive gaps; the limit of trails stands for more, too)
    excess      pair (row of `pairs`, ascending), first_input_tokens, last_tokens: those keys of which one is `EXCESS` or more; in
                `pairs`, which is large, tokens stop there
    held        key by key and in order of time: cell of each positive gap, for keys with fewer than the limit
    profiles    key by key: histogram of the positive gaps (buckets, counts) of the others; empty lists if not wanted
    cells       cell, gaps: all there are
    weights     see `ttl`; over all gaps

The state of a whole trace, which nothing comes before, can do without the columns of first requests.

`combine` walks once through all states: a key that several have gets the gaps across the borders between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from llmtrace.summaries import cells, return_kernels, trails, ttl
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.frames import frame_of
from llmtrace.summaries.trails import Trails
from llmtrace.summaries.united import Unions
from llmtrace.summaries.visits import put

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Integers, Keys
    from llmtrace.summaries.return_kernels import Small
    from llmtrace.summaries.trails import Limits
    from llmtrace.summaries.ttl import CellArray, Sums

    Tables = dict[str, pl.DataFrame]
    Values = npt.NDArray[np.integer[Any]]

__all__ = [
    "SCHEMAS",
    "TOKENS",
    "combine",
    "counted",
    "nothing",
    "pairs",
    "released",
    "slices",
    "tokens_of",
    "trails_of",
    "with_trails",
]

_PAIRS: Mapping[str, pl.DataType] = {
    "inner": pl.UInt32(),
    "first_us": pl.Int64(),
    "last_us": pl.Int64(),
    "first_input_tokens": pl.UInt32(),
    "last_tokens": pl.UInt32(),
    "positive": pl.UInt16(),
}
SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "outer": {"key": pl.UInt64(), "pairs": pl.UInt32()},
    "pairs": _PAIRS,
    "excess": {"pair": pl.UInt32(), "first_input_tokens": pl.Int64(), "last_tokens": pl.Int64()},
    "held": {"cell": pl.UInt32()},
    "profiles": {"buckets": pl.List(pl.UInt16()), "counts": pl.List(pl.UInt32())},
    "cells": {"cell": pl.UInt32(), "gaps": pl.Int64()},
    "weights": ttl.SCHEMA,
}
"""The columns of each table of a state."""
TOKENS = ("first_input_tokens", "last_tokens")
"""The columns of tokens."""
EXCESS = (1 << 32) - 1
"""Tokens of one request that are more than 32 bits hold, or all that they do."""


def nothing() -> Tables:
    """The tables of a state without requests."""
    return {name: pl.DataFrame(schema=dict(schema)) for name, schema in SCHEMAS.items()}


def combine(states: Sequence[Tables], limits: Limits) -> Tables:
    """The state of neighbouring parts, in order of time, from states that have followed their keys.

    Args:
        states: theirs.
        limits: those that they were made with.
    """
    keys = _Keys.of(states)
    sums, gaps = ttl.no_sums(), _added([state["cells"] for state in states])
    columns, tokens, borders = _followed(states, keys, sums, gaps)
    sides = [(trails_of(state), places, border) for state, places, border in zip(states, keys.places, borders, strict=True)]
    joined = trails.join(sides, columns["inner"].size, limits)
    return {
        "outer": pl.DataFrame({"key": keys.outer, "pairs": keys.counts}),
        **with_trails(pairs(columns, tokens), joined),
        "cells": counted(gaps),
        "weights": ttl.combine([*(state["weights"] for state in states), ttl.weights(sums)]),
    }


@dataclass(frozen=True)
class _Keys:
    """The keys of several states together.

    Attributes:
        outer: all outer keys, ascending.
        inner: all inner keys, ascending.
        counts: per outer key how many keys it has.
        numbers: per state the place of each of its inner keys.
        renumbered: per state the place of the inner key of each of its keys.
        places: per state the place of each of its keys.
    """

    outer: Keys
    inner: Keys
    counts: Small
    numbers: list[Small]
    renumbered: list[Small]
    places: list[Small]

    @classmethod
    def of(cls, states: Sequence[Tables]) -> Self:
        """The keys of states, in order of time."""
        unions = Unions()
        outer, groups = unions.of([state["outer"]["key"].to_numpy() for state in states])
        inner, numbers = unions.of([state["inner"]["key"].to_numpy() for state in states])
        borders = np.cumsum([0, *(state["pairs"].height for state in states)])
        together = np.empty(borders[-1], np.uint32)
        renumbered = [together[start:end] for start, end in pairwise(borders)]
        begins, ends = np.zeros((2, outer.size, len(states)), np.int64)
        for side, state in enumerate(states):
            offsets = borders[side] + _offsets(state["outer"]["pairs"])
            begins[groups[side], side], ends[groups[side], side] = offsets[:-1], offsets[1:]
            own, places_of = frozen(state["pairs"]["inner"].to_numpy(), numbers[side])
            return_kernels.renumber(own, places_of, renumbered[side])
        places, counts = return_kernels.match(together, begins, ends, inner.size)
        return cls(outer, inner, counts, numbers, renumbered, [places[start:end] for start, end in pairwise(borders)])


def slices(state: Tables, keys: int) -> Iterator[Tables]:
    """The tables `pairs` and `excess` of so many keys at a time."""
    row, excess = pl.col("pair"), state["excess"]
    for start in range(0, state["pairs"].height, keys):
        own = excess.filter(row >= start, row < start + keys).with_columns(row - start) if excess.height else excess
        yield {"pairs": state["pairs"][start : start + keys], "excess": own}


def tokens_of(state: Tables, name: str) -> Values:
    """The tokens of a request of each key, `first_input_tokens` or `last_tokens`: in 32 bits, or in 64 if there is an excess."""
    tokens, excess = state["pairs"][name].to_numpy(), state["excess"]
    if excess.height:
        tokens = tokens.astype(np.int64)
        tokens[excess["pair"].to_numpy()] = excess[name].to_numpy()
    return tokens


def trails_of(state: Tables) -> Trails:
    """The trails of the keys, in the order of `pairs`."""
    histograms = cells.read(state["profiles"], "buckets")
    return Trails(state["pairs"]["positive"].to_numpy(), state["held"]["cell"].to_numpy(), histograms)


def released(state: Tables, eligible: npt.NDArray[np.bool_], limit: int) -> pl.DataFrame:
    """The table `cells` with a further column `released`: the positive gaps of eligible keys.

    Args:
        state: its tables.
        eligible: per key whether it is one of those; all that have `limit` positive gaps are.
        limit: positive gaps from which on trails are histograms.
    """
    gaps = _added([state["cells"]])
    positive, held = frozen(state["pairs"]["positive"].to_numpy(), state["held"]["cell"].to_numpy())
    return_kernels.take_out(positive, held, eligible, limit, gaps)
    gaps[0] = 0
    return state["cells"].with_columns(pl.Series("released", gaps[state["cells"]["cell"].to_numpy()]))


def _followed(
    states: Sequence[Tables], keys: _Keys, sums: Sums, gaps: Integers
) -> tuple[dict[str, Values], dict[str, Values], list[CellArray]]:
    """Follow the keys from state to state: their columns and tokens, and per state the cells of the gaps before it."""
    count = int(keys.counts.sum())
    dtype: type[np.integer[Any]] = np.int64 if any(state["excess"].height for state in states) else np.uint32
    inner = _earliest(keys.renumbered, keys.places, count)
    earliest, latest = ((np.full(count, return_kernels.NEVER), np.zeros(count, dtype)) for _ in range(2))
    borders = []
    for state, places in zip(states, keys.places, strict=True):
        times = (state["pairs"][name].to_numpy() for name in ("first_us", "last_us"))
        tokens = (tokens_of(state, name).astype(dtype, copy=False) for name in TOKENS)
        first_us, last_us, first_input, last_tokens, where = frozen(*times, *tokens, places)
        starts, ends = (first_us, first_input), (last_us, last_tokens)
        borders.append(return_kernels.advance(starts, ends, where, earliest, latest, sums, gaps))
    columns = {"inner": inner, "first_us": earliest[0], "last_us": latest[0]}
    return columns, dict(zip(TOKENS, (earliest[1], latest[1]), strict=True)), borders


def _earliest(values: Sequence[Values], places: Sequence[Small], count: int) -> Values:
    """Per key the value of the first state that has it."""
    target = np.empty(count, values[0].dtype)
    for own, where in reversed(list(zip(values, places, strict=True))):
        column, rows = frozen(own, where)
        put(column, rows, target)
    return target


def with_trails(tables: Tables, gathered: Trails) -> Tables:
    """The tables with those of trails: `held`, `profiles`, and `positive` as the last column of `pairs`, which had not got it."""
    positive = frame_of({"positive": gathered.positive})["positive"]
    return {
        **tables,
        "pairs": pl.DataFrame([*tables["pairs"], positive]),
        "held": frame_of({"cell": gathered.held}),
        "profiles": pl.DataFrame(cells.lists(gathered.profiles, "buckets")),
    }


def pairs(columns: Mapping[str, Values], tokens: Mapping[str, Values]) -> Tables:
    """The tables `pairs`, but for its column `positive`, and `excess`, with these columns and those of tokens."""
    wide = [one >= EXCESS for one in tokens.values() if one.dtype == np.int64]
    excess = np.flatnonzero(np.logical_or.reduce(wide)) if wide else np.empty(0, np.intp)
    narrow = {name: one if one.dtype == np.uint32 else np.minimum(one, EXCESS).astype(np.uint32) for name, one in tokens.items()}
    rows = {"pair": excess, **{name: one[excess] for name, one in tokens.items()}}
    schema = {name: SCHEMAS["excess"][name] for name in rows}
    return {"pairs": frame_of({**columns, **narrow}), "excess": pl.DataFrame(rows, schema)}


def _offsets(counts: pl.Series) -> Integers:
    offsets = np.zeros(counts.len() + 1, np.int64)
    np.cumsum(counts.to_numpy(), out=offsets[1:])
    return offsets


def counted(gaps: Values) -> pl.DataFrame:
    """The table `cells` from the gaps of every cell."""
    there = np.flatnonzero(gaps)
    return pl.DataFrame({"cell": there, "gaps": gaps[there]}, dict(SCHEMAS["cells"]))


def _added(tables: Sequence[pl.DataFrame]) -> Integers:
    """The gaps of every cell in several tables `cells`."""
    gaps = np.zeros(ttl.CELLS, np.int64)
    for table in tables:
        gaps[table["cell"].to_numpy()] += table["gaps"].to_numpy()
    return gaps
