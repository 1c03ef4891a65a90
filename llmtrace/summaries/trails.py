"""The positive gaps of many keys: few of a key as they came, many as a histogram.

A *trail* is what is kept of one key's positive gaps. As long as there are fewer than `limit` of them, it holds their cells (see
`ttl`) in order of time; from then on it is a histogram (see `profiles`), or nothing if none is wanted. Most keys have few gaps,
and joining their trails is copying.

A key is *eligible* with `threshold` positive gaps. That is no more than `limit`, so that all gaps of the others are held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import cells, profiles
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.gaps import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.profiles import Floats
    from llmtrace.summaries.ttl import CellArray

    Flags = npt.NDArray[np.bool_]
    Positive = npt.NDArray[np.uint16]

__all__ = ["Limits", "Side", "Trails", "beside", "join", "percentiles"]


@dataclass(frozen=True)
class Limits:
    """How trails are kept.

    Attributes:
        threshold: positive gaps that make a key eligible, at least 1.
        limit: positive gaps from which on a trail is a histogram, at least `threshold` and below 2^16.
        profiled: whether there are histograms.
    """

    threshold: int
    limit: int
    profiled: bool


@dataclass(frozen=True)
class Trails:
    """The trails of keys, in an order of the caller's.

    Attributes:
        positive: per key its positive gaps; `limit` stands for more, too.
        held: key by key and in order of time, the cells of those with fewer.
        profiles: key by key, the histograms of the others; empty rows if there are none.
    """

    positive: Positive
    held: CellArray
    profiles: Cells


Side: TypeAlias = "tuple[Trails, CellArray, CellArray]"


def join(sides: Sequence[Side], count: int, limits: Limits) -> Trails:
    """The trails of the keys of neighbouring parts.

    Args:
        sides: of each part, in order of time, the trails, and per key its place among all and the cell of the gap across the
            border before the part, 0 where there is none.
        count: how many keys there are in all.
        limits: how trails are kept.
    """
    positive = np.zeros(count, np.uint32)
    frozen_sides = [frozen(trails.positive, trails.held, places, border) for trails, places, border in sides]
    for own, _, places, border in frozen_sides:
        _add(own, places, border, positive)
    many = np.flatnonzero(positive >= limits.limit)
    rows = _histogram_rows(frozen_sides, many, limits.limit)
    counts = positive[many] - limits.limit * (rows >= 0).sum(axis=1)
    ends = np.cumsum(counts, dtype=np.int64)
    cursors, kept = _cursors(positive, limits.limit)
    cursors[many] = kept + ends - counts
    moved = np.empty(kept + int(counts.sum()), np.uint32)
    for side in frozen_sides:
        _spread(side, cursors, limits.limit, moved)
    if not limits.profiled:
        ends[:] = 0
    found = moved[kept : kept + (int(ends[-1]) if ends.size else 0)]
    joined = profiles.join([trails.profiles for trails, _, _ in sides], rows, found, ends)
    return Trails(np.minimum(positive, limits.limit).astype(np.uint16), moved[:kept], joined)


def beside(given: Sequence[Trails]) -> Trails:
    """The trails of keys that follow upon each other."""
    sizes = [np.diff(one.profiles[0]) for one in given]
    offsets = np.cumsum(np.concatenate([np.zeros(1, np.int64), *sizes]))
    dtype = np.result_type(*(one.profiles[2] for one in given))
    buckets, counts = (np.concatenate([one.profiles[place] for one in given]) for place in (1, 2))
    positive, held = np.concatenate([one.positive for one in given]), np.concatenate([one.held for one in given])
    return Trails(positive, held, (offsets, buckets, counts.astype(dtype, copy=False)))


def percentiles(trails: Trails, wanted: Flags, percents: Sequence[int], limit: int) -> Floats:
    """The percentiles of positive gaps, in microseconds, within a relative 2^-7.

    Args:
        trails: those of some keys.
        wanted: per key whether to give its percentiles; it has positive gaps then.
        percents: ascending.
        limit: positive gaps from which on a trail is a histogram.

    Returns:
        One row per key that is wanted, one column per percentile.
    """
    few, many = wanted & (trails.positive < limit), wanted[trails.positive >= limit]
    counts = trails.positive[few].astype(np.int64)
    ends = np.cumsum(counts)
    held = np.empty(int(counts.sum()), np.uint32)
    positive, cells_held = frozen(trails.positive, trails.held)
    _pick(positive, cells_held, few, limit, held)
    counted = profiles.tally(held, ends - counts, ends)
    histograms = pl.DataFrame(cells.lists(trails.profiles, "buckets")).filter(pl.Series(many))
    found = np.empty((int(wanted.sum()), len(percents)))
    is_few = few[wanted]
    found[is_few] = profiles.percentiles(pl.DataFrame(cells.lists(counted, "buckets")), percents)
    found[~is_few] = profiles.percentiles(histograms, percents)
    return found


def _histogram_rows(sides: Sequence[Sequence[Any]], many: Integers, limit: int) -> profiles.Rows:
    """Per key with a histogram its row among those of all sides, one column per side; -1 where a side has none of it."""
    rows, base = np.full((many.size, len(sides)), NOWHERE, np.int64), 0
    for column, (positive, _, places, _) in enumerate(sides):
        own = np.flatnonzero(positive == limit)
        rows[np.searchsorted(many, places[own]), column] = base + np.arange(own.size)
        base += own.size
    return rows


@njit(nogil=True, cache=True)
def _pick(positive: Positive, held: CellArray, wanted: Flags, limit: int, picked: CellArray) -> None:
    """Copy the cells of those trails that are wanted, all of which are held."""
    start, size = 0, 0
    for key in range(positive.size):
        if positive[key] < limit:
            for one in range(start, start + positive[key] if wanted[key] else start):
                picked[size] = held[one]
                size += 1
            start += positive[key]


@njit(nogil=True, cache=True)
def _add(own: Positive, places: CellArray, border: CellArray, positive: CellArray) -> None:
    """Add the positive gaps of a part, and those across the border before it, to those of all."""
    for row in range(own.size):
        positive[places[row]] += own[row] + (border[row] > 0)


@njit(nogil=True, cache=True)
def _cursors(positive: CellArray, limit: int) -> tuple[CellArray, int]:
    """Per key where its cells begin among those that are held, and how many are held in all."""
    cursors = np.empty(positive.size, np.uint32)
    kept = 0
    for key in range(positive.size):
        cursors[key] = kept
        kept += positive[key] if positive[key] < limit else 0
    return cursors, kept


@njit(nogil=True, cache=True)
def _spread(side: tuple[Positive, CellArray, CellArray, CellArray], cursors: CellArray, limit: int, moved: CellArray) -> None:
    """Put the cells of a part's keys where those of all stand.

    `side` has per key of the part its positive gaps, the held cells, and per key its place and the cell of the gap before the
    part; `cursors` has per key of all where its next cell goes.
    """
    own, held, places, border = side
    start = 0
    for row in range(own.size):
        count, cell = own[row], border[row]
        if count == 0 and cell == 0:
            continue
        end = cursors[places[row]]
        if cell > 0:
            moved[end] = cell
            end += 1
        if count < limit:
            for one in range(start, start + count):
                moved[end] = held[one]
                end += 1
            start += count
        cursors[places[row]] = end
