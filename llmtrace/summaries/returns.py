"""How soon keys come back: the gaps of every key, and what they weigh in tokens.

A key has two levels, an outer and an inner one: a user and a model, say. A key of one level has the same inner one everywhere.
The distribution asked for is over the positive gaps of *eligible* keys, those with at least `threshold` of them, and which these
are shows only in the end. So each key has a trail (see `trails`), from which its gaps are released once it is eligible.

Tables of a state; keys with a null in them are in none:

    outer       the outer keys: key (ascending), pairs (how many inner keys it has)
    inner       all inner keys: key (ascending), requests
    pairs       the keys, outer key by outer key, in the order of their first requests: inner (place in `inner`), first_us,
                last_us, first_input_tokens, last_tokens, positive (its positive gaps; the limit of trails stands for more, too)
    excess      pair (row of `pairs`, ascending), first_input_tokens, last_tokens: those keys of which one is `EXCESS` or more; in
                `pairs`, which is large, tokens stop there
    held        key by key and in order of time: cell of each positive gap, for keys with fewer than the limit
    profiles    key by key: histogram of the positive gaps (buckets, counts) of the others; empty lists if not wanted
    cells       cell, gaps (all there are), released (positive ones of eligible keys)
    weights     see `ttl`; over all gaps

`combine` walks once through two states: a key that both have gets the gap across the border.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from llmtrace.summaries import cells, return_kernels, trails, ttl
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.gaps import align
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.trails import Trails

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.gaps import Rows
    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.trails import Limits
    from llmtrace.summaries.visits import Visits

    Tables = Mapping[str, pl.DataFrame]
    Values = npt.NDArray[np.integer[Any]]

__all__ = ["SCHEMAS", "combine", "release", "summarise", "tokens_of", "trails_of"]

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
    "inner": {"key": pl.UInt64(), "requests": pl.Int64()},
    "pairs": _PAIRS,
    "excess": {"pair": pl.UInt32(), "first_input_tokens": pl.Int64(), "last_tokens": pl.Int64()},
    "held": {"cell": pl.UInt32()},
    "profiles": {"buckets": pl.List(pl.UInt16()), "counts": pl.List(pl.UInt32())},
    "cells": {"cell": pl.UInt32(), "gaps": pl.Int64(), "released": pl.Int64()},
    "weights": ttl.SCHEMA,
}
"""The columns of each table of a state."""
EXCESS = (1 << 32) - 1
"""Tokens of one request that are more than 32 bits hold, or all that they do."""


@dataclass(frozen=True)
class _Side:
    """One of two states that are joined, as arrays; inner keys are numbered as they are in both together."""

    offsets: Integers
    inner: Any
    first_us: Any
    last_us: Any
    first_input_tokens: Any
    last_tokens: Any

    @classmethod
    def of(cls, state: Tables, places: Rows) -> Self:
        """A state as arrays.

        Args:
            state: its tables.
            places: per inner key of both states its place in this one, -1 where it has none.
        """
        there = np.flatnonzero(places >= 0)
        numbers = np.empty(state["inner"].height, np.uint32)
        numbers[places[there]] = there
        inner, first_us, last_us = (state["pairs"][name].to_numpy() for name in ("inner", "first_us", "last_us"))
        renumbered = return_kernels.renumbered(*frozen(inner, numbers))
        return cls(*frozen(_offsets(state["outer"]["pairs"]), renumbered, first_us, last_us, *tokens_of(state)))


def summarise(visits: Visits, limits: Limits) -> dict[str, pl.DataFrame]:
    """The state of a part.

    Args:
        visits: its requests by key.
        limits: how trails are kept, and which keys are eligible.
    """
    unknown = 0 if visits.inner.size and visits.inner[0] == UNKNOWN else -1
    pair_of, counts = return_kernels.number(visits.table, visits.offsets, visits.inner.size, unknown)
    (inner, first_us, last_us, *tokens, positive), found, sums = return_kernels.follow(visits.table, pair_of, int(counts.sum()))
    tallies = np.zeros((2, ttl.CELLS), np.uint32)
    gathered = trails.gather(found, pair_of, positive, limits, tallies)
    columns: dict[str, Values] = {"inner": inner, "first_us": first_us, "last_us": last_us}
    return {
        "outer": pl.DataFrame({"key": visits.keys, "pairs": counts}),
        "inner": pl.DataFrame({"key": visits.inner, "requests": visits.requests}),
        **_pairs(columns, tokens, gathered),
        "held": pl.DataFrame({"cell": gathered.held}),
        "profiles": pl.DataFrame(cells.lists(gathered.profiles, "buckets")),
        "cells": _counted(*tallies),
        "weights": ttl.weights(sums),
    }


def combine(states: Sequence[Tables], limits: Limits) -> dict[str, pl.DataFrame]:
    """The state of neighbouring parts, in order of time.

    Args:
        states: theirs.
        limits: those that they were made with.
    """
    # From the last to the first, as the engine hands over ever smaller states: the largest is joined once only.
    return reduce(lambda right, left: _joined(left, right, limits), [dict(state) for state in reversed(states)])


def tokens_of(state: Tables) -> list[Values]:
    """Input tokens of the first and tokens of the last request of each key: in 32 bits, or in 64 if there is an excess."""
    names, excess = ("first_input_tokens", "last_tokens"), state["excess"]
    tokens = [state["pairs"][name].to_numpy() for name in names]
    if excess.height:
        tokens = [one.astype(np.int64) for one in tokens]
        for one, name in zip(tokens, names, strict=True):
            one[excess["pair"].to_numpy()] = excess[name].to_numpy()
    return tokens


def trails_of(state: Tables) -> Trails:
    """The trails of the keys, in the order of `pairs`."""
    histograms = cells.read(state["profiles"], "buckets")
    return Trails(state["pairs"]["positive"].to_numpy(), state["held"]["cell"].to_numpy(), histograms)


def release(state: Tables, eligible: npt.NDArray[np.bool_], limit: int) -> pl.DataFrame:
    """The table `cells` with the gaps of further keys released.

    Args:
        state: its tables.
        eligible: per key whether it is one of those; none of them was eligible before.
        limit: positive gaps from which on trails are histograms.
    """
    positive = state["pairs"]["positive"].to_numpy()
    is_held = positive < limit
    released = state["held"]["cell"].to_numpy()[np.repeat(eligible[is_held], positive[is_held])]
    return _together(state["cells"], _counted(*_tallies(released[:0], released)))


def _joined(left: Tables, right: Tables, limits: Limits) -> dict[str, pl.DataFrame]:
    outer, *groups = align(*frozen(*(side["outer"]["key"].to_numpy() for side in (left, right))))
    inner, *places = align(*frozen(*(side["inner"]["key"].to_numpy() for side in (left, right))))
    ours, theirs = (_Side.of(side, where) for side, where in zip((left, right), places, strict=True))
    *matched, counts = return_kernels.match(
        frozen(*groups), (ours.offsets, ours.inner), (theirs.offsets, theirs.inner), inner.size
    )
    rows = frozen(*matched)
    both = np.flatnonzero((rows[0] >= 0) & (rows[1] >= 0))
    ends, starts = (ours.last_us, ours.last_tokens), (theirs.first_us, theirs.first_input_tokens)
    border, sums = return_kernels.cross(rows, both, ends, starts)
    joined, released = trails.join((trails_of(left), trails_of(right)), rows, both, border, limits)
    picked = {name: _picked(name, ours, theirs, rows) for name in ("inner", "first_us", "last_us")}
    tokens = [_picked(name, ours, theirs, rows) for name in ("first_input_tokens", "last_tokens")]
    return {
        "outer": pl.DataFrame({"key": outer, "pairs": counts}),
        "inner": pl.DataFrame({"key": inner, "requests": _requests(left, places[0]) + _requests(right, places[1])}),
        **_pairs(picked, tokens, joined),
        "held": pl.DataFrame({"cell": joined.held}),
        "profiles": pl.DataFrame(cells.lists(joined.profiles, "buckets")),
        "cells": _together(left["cells"], right["cells"], _counted(*_tallies(border, released))),
        "weights": ttl.combine([left["weights"], right["weights"], ttl.weights(sums)]),
    }


def _picked(name: str, ours: _Side, theirs: _Side, rows: tuple[Rows, Rows]) -> Values:
    """A column of the keys of two states: what is first from the earlier one that has the key, what is last from the later."""
    sides = [(getattr(ours, name), rows[0]), (getattr(theirs, name), rows[1])]
    wanted, other = reversed(sides) if name.startswith("last") else sides
    dtype = np.result_type(wanted[0], other[0])
    return return_kernels.pick(wanted[0].astype(dtype, copy=False), wanted[1], other[0].astype(dtype, copy=False), other[1])


def _pairs(columns: Mapping[str, Values], tokens: Sequence[Values], gathered: Trails) -> dict[str, pl.DataFrame]:
    """The tables `pairs` and `excess`."""
    excess = (
        np.flatnonzero((tokens[0] >= EXCESS) | (tokens[1] >= EXCESS)) if tokens[0].dtype == np.int64 else np.empty(0, np.intp)
    )
    narrow = (one if one.dtype == np.uint32 else np.minimum(one, EXCESS).astype(np.uint32) for one in tokens)
    pairs = dict(zip(_PAIRS, (*columns.values(), *narrow, gathered.positive), strict=True))
    rows = dict(zip(SCHEMAS["excess"], (excess, *(one[excess] for one in tokens)), strict=True))
    return {"pairs": pl.DataFrame(pairs), "excess": pl.DataFrame(rows, dict(SCHEMAS["excess"]))}


def _offsets(counts: pl.Series) -> Integers:
    offsets = np.zeros(counts.len() + 1, np.int64)
    np.cumsum(counts.to_numpy(), out=offsets[1:])
    return offsets


def _requests(state: Tables, places: Rows) -> Integers:
    counts: Integers = np.append(state["inner"]["requests"].to_numpy(), 0)[places]
    return counts


def _tallies(*found: Values) -> list[Integers]:
    return [np.bincount(one, minlength=ttl.CELLS) for one in found]


def _counted(gaps: Values, released: Values) -> pl.DataFrame:
    """The table `cells` from counts of every cell."""
    there = np.flatnonzero(gaps | released)
    return pl.DataFrame({"cell": there, "gaps": gaps[there], "released": released[there]}, dict(SCHEMAS["cells"]))


def _together(*tables: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(tables).group_by("cell").sum().sort("cell")
