"""The positive gaps of many keys: few of a key as they came, many as a histogram.

A *trail* is what is kept of one key's positive gaps. As long as there are fewer than `limit` of them, it holds their cells (see
`ttl`) in order of time; from then on it is a histogram (see `profiles`), or nothing if none is wanted. Most keys have few gaps,
and joining their trails is copying.

A key becomes *eligible* with `threshold` positive gaps. Then all its gaps are released into a distribution common to all keys,
and so is every later one: whoever makes or joins trails is told which cells that released.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import cells, profiles, ttl
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
    Tallies = np.ndarray[tuple[int, int], np.dtype[np.uint32]]

__all__ = ["Limits", "Side", "Trails", "gather", "join", "percentiles"]

NEVER_ELIGIBLE = 1 << 32


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


def gather(found: CellArray, key_of: CellArray, positive: CellArray, limits: Limits, tallies: Tallies | None = None) -> Trails:
    """The trails of the keys of a part.

    Args:
        found: per visit the cell of the gap before it, `ttl.NO_CELL` where there is none.
        key_of: per visit the place of its key.
        positive: per key how many of its visits come after a positive gap.
        limits: how trails are kept.
        tallies: a row and a column per cell; how often each was found is added to the first, how often released to the second.
    """
    is_held = positive < limits.limit
    counts = positive.astype(np.int64)
    ends = np.cumsum(counts[~is_held] if limits.profiled else np.zeros((~is_held).sum(), np.int64))
    held, values = np.empty(counts[is_held].sum(), np.uint32), np.empty(ends[-1] if ends.size else 0, np.uint32)
    if tallies is not None:
        _tally(found, key_of, positive, limits.threshold, tallies)
    _sort_out(found, key_of, positive, limits.limit, (held, values))
    histograms = profiles.tally(values, np.append(0, ends)[:-1], ends)
    return Trails(np.minimum(positive, limits.limit).astype(np.uint16), held, histograms)


def join(sides: Sequence[Side], count: int, limits: Limits, tallies: Tallies | None = None) -> Trails:
    """The trails of the keys of neighbouring parts.

    Args:
        sides: of each part, in order of time, the trails, and per key its place among all and the cell of the gap across the
            border before the part, 0 where there is none.
        count: how many keys there are in all.
        limits: how trails are kept.
        tallies: a row and a column per cell; how often each was released by joining is added to the second.
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
    released = np.zeros((2, 1), np.uint32) if tallies is None else tallies
    eligible_from = NEVER_ELIGIBLE if tallies is None else limits.threshold
    for own, held, places, border in frozen_sides:
        _spread((own, held, places, border), (positive, cursors), (limits.limit, eligible_from), moved, released)
    if not limits.profiled:
        ends[:] = 0
    found = moved[kept : kept + (int(ends[-1]) if ends.size else 0)]
    joined = profiles.join([trails.profiles for trails, _, _ in sides], rows, found, ends)
    return Trails(np.minimum(positive, limits.limit).astype(np.uint16), moved[:kept], joined)


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
    is_held = trails.positive < limit
    ends = np.cumsum(np.where(is_held, trails.positive, 0), dtype=np.int64)
    few = is_held & wanted
    counted = profiles.tally(trails.held, ends[few] - trails.positive[few], ends[few])
    histograms = pl.DataFrame(cells.lists(trails.profiles, "buckets")).filter(pl.Series(wanted[~is_held]))
    found = np.empty((int(wanted.sum()), len(percents)))
    found[is_held[wanted]] = profiles.percentiles(pl.DataFrame(cells.lists(counted, "buckets")), percents)
    found[~is_held[wanted]] = profiles.percentiles(histograms, percents)
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
def _tally(found: CellArray, key_of: CellArray, positive: CellArray, threshold: int, tallies: Tallies) -> None:
    for visit in range(found.size):
        cell = found[visit]
        if cell != ttl.NO_CELL:
            tallies[0, cell] += 1
            tallies[1, cell] += (cell > 0) & (positive[key_of[visit]] >= threshold)


@njit(nogil=True, cache=True)
def _sort_out(found: CellArray, key_of: CellArray, positive: CellArray, limit: int, targets: tuple[CellArray, CellArray]) -> None:
    """Put the cell of each positive gap where its key's stand: among those held, or among the values of histograms, if any."""
    held, values = targets
    places = np.empty(positive.size, np.int64)
    kept, counted = 0, 0
    for key in range(positive.size):
        is_held = positive[key] < limit
        places[key] = kept if is_held else counted
        kept += positive[key] if is_held else 0
        counted += 0 if is_held else positive[key]
    for visit in range(found.size):
        if found[visit] == ttl.NO_CELL or found[visit] == 0:
            continue
        key = key_of[visit]
        if positive[key] < limit:
            held[places[key]] = found[visit]
        elif values.size:
            values[places[key]] = found[visit]
        places[key] += 1


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
def _spread(
    side: tuple[Positive, CellArray, CellArray, CellArray],
    keys: tuple[CellArray, CellArray],
    limits: tuple[int, int],
    moved: CellArray,
    tallies: Tallies,
) -> None:
    """Put the cells of a part's keys where those of all stand, and count those that this releases.

    `side` has per key of the part its positive gaps, the held cells, and per key its place and the cell of the gap before the
    part; `keys` has per key of all its positive gaps and where its next cell goes.
    """
    (own, held, places, border), (positive, cursors), (limit, threshold) = side, keys, limits
    start = 0
    for row in range(own.size):
        count, cell = own[row], border[row]
        if count == 0 and cell == 0:
            continue
        place = places[row]
        end, is_eligible = cursors[place], positive[place] >= threshold
        if cell > 0:
            moved[end] = cell
            end += 1
            tallies[1, cell if is_eligible else 0] += is_eligible
        if count >= limit:
            cursors[place] = end
            continue
        is_new = is_eligible and count < threshold
        for one in range(start, start + count):
            moved[end] = held[one]
            end += 1
            tallies[1, held[one] if is_new else 0] += is_new
        cursors[place] = end
        start += count
