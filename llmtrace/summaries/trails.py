"""The positive gaps of many keys: few of a key as they came, many as a histogram.

A *trail* is what is kept of one key's positive gaps. As long as there are fewer than `limit` of them, it holds their cells (see
`ttl`) in order of time; from then on it is a histogram (see `profiles`), or nothing if none is wanted. Most keys have few gaps,
and joining their trails is copying.

A key becomes *eligible* with `threshold` positive gaps. Then all its gaps are released into a distribution common to all keys,
and so is every later one: whoever makes or joins trails is told which cells that released.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

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
    from llmtrace.summaries.gaps import Rows
    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.profiles import Floats
    from llmtrace.summaries.ttl import CellArray

    Flags = npt.NDArray[np.bool_]
    Positive = npt.NDArray[np.uint16]
    Tallies = np.ndarray[tuple[int, int], np.dtype[np.uint32]]

__all__ = ["Limits", "Trails", "gather", "join", "percentiles"]

Side: TypeAlias = "tuple[Rows, Positive, CellArray, CellArray]"
"""Per key of the answer its place in a part; the part's positive gaps, held cells, and where those of each key begin."""


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


def join(
    sides: tuple[Trails, Trails], rows: tuple[Rows, Rows], both: Integers, border: CellArray, limits: Limits
) -> tuple[Trails, CellArray]:
    """The trails of the keys of two neighbouring parts.

    Args:
        sides: those of the earlier and of the later part.
        rows: per key its place in each of them, -1 where it is not there.
        both: the keys that are in both.
        border: the cell of the gap between the parts of each of these.
        limits: how trails are kept.

    Returns:
        The trails; the cells that were released by joining them.
    """
    left, right = (_side(side, where, limits.limit) for side, where in zip(sides, rows, strict=True))
    cells_between = np.zeros(rows[0].size, np.uint32)
    cells_between[both] = border
    positive, active = np.empty(rows[0].size, np.uint16), np.empty(rows[0].size, np.uint32)
    kept, histograms, count = _count(left, right, cells_between, limits.limit, positive, active)
    # One more than room for all, as a cell is written before it is clear that it counts.
    room = sides[0].held.size + sides[1].held.size + both.size + 1
    held, values, released = np.empty(kept + 1, np.uint32), np.empty(room - kept, np.uint32), np.empty(room, np.uint32)
    ends, places = np.empty(histograms, np.int64), np.full((histograms, 2), NOWHERE, np.int64)
    keys, targets = (active[:count], positive, cells_between), (held, values, released)
    size = _join((left, right), keys, (limits.threshold, limits.limit), targets, (ends, places))
    if not limits.profiled:
        ends[:] = 0
    values = values[: ends[-1] if histograms else 0]
    joined = profiles.join(sides[0].profiles, sides[1].profiles, places, values, ends)
    return Trails(positive, held[:kept], joined), released[:size]


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


def _side(trails: Trails, rows: Rows, limit: int) -> Side:
    # Kernels read the first key where a part does not have the wanted one.
    [positive] = frozen(trails.positive if trails.positive.size else np.zeros(1, np.uint16))
    rows, held, starts = frozen(rows, trails.held, _starts(positive, limit))
    return rows, positive, held, starts


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
def _starts(positive: Positive, limit: int) -> CellArray:
    """Per key where its cells begin among those held or, if it has a histogram, which one that is."""
    starts = np.empty(positive.size, np.uint32)
    held, histograms = 0, 0
    for key in range(positive.size):
        is_held = positive[key] < limit
        starts[key] = held if is_held else histograms
        held += positive[key] if is_held else 0
        histograms += not is_held
    return starts


@njit(nogil=True, cache=True)
def _count(
    left: Side, right: Side, between: CellArray, limit: int, positive: Positive, active: CellArray
) -> tuple[int, int, int]:
    """Fill in the positive gaps of each key, up to `limit`, and the keys that have any.

    Returns:
        How many cells are held, how many histograms there are, how many keys have positive gaps.
    """
    held, histograms, size = 0, 0, 0
    for key in range(positive.size):
        total = _of(left, key) + _of(right, key) + int(between[key] > 0)
        positive[key] = min(total, limit)
        held += total if total < limit else 0
        histograms += total >= limit
        active[size] = key
        size += total > 0
    return held, histograms, size


@njit(nogil=True, cache=True, inline="always")
def _of(side: Side, key: int) -> int:
    """The positive gaps of a key in one part."""
    row = side[0][key]
    return int(side[1][max(row, 0)]) if row >= 0 else 0


@njit(nogil=True, cache=True)
def _join(
    sides: tuple[Side, Side],
    keys: tuple[CellArray, Positive, CellArray],
    limits: tuple[int, int],
    targets: tuple[CellArray, CellArray, CellArray],
    histograms: tuple[Integers, profiles.Rows],
) -> int:
    """Put the cells of each key where they stand now, and those of newly eligible keys among the released; how many these are.

    `keys` has those with positive gaps, and of all keys the positive gaps and the cell of the gap between the parts, 0 without
    one. The histogram of a key is made of those at its `places` in both parts and of the values up to its `ends`.
    """
    (left, right), (active, positive, between), (threshold, limit) = sides, keys, limits
    (held, values, released), (ends, places) = targets, histograms
    kept, counted, size, many = 0, 0, 0, 0
    for key in active:
        before, after = _of(left, key), _of(right, key)
        ours, theirs = _start(left, key, before), _start(right, key, after)
        if positive[key] >= threshold:
            size = _copy(left[2], ours, before if before < threshold else 0, released, size)
            size = _append(between[key], released, size)
            size = _copy(right[2], theirs, after if after < threshold else 0, released, size)
        if positive[key] < limit:
            kept = _append(between[key], held, _copy(left[2], ours, before, held, kept))
            kept = _copy(right[2], theirs, after, held, kept)
            continue
        counted = _copy(left[2], ours, before if before < limit else 0, values, counted)
        counted = _append(between[key], values, counted)
        counted = _copy(right[2], theirs, after if after < limit else 0, values, counted)
        places[many, 0] = ours if before == limit else NOWHERE
        places[many, 1] = theirs if after == limit else NOWHERE
        ends[many] = counted
        many += 1
    return size


# These are put into their callers' code, as handing over arrays costs more than what they do.
@njit(nogil=True, cache=True, inline="always")
def _start(side: Side, key: int, count: int) -> int:
    """Where the cells of a key with so many positive gaps begin in one part, or which histogram is its."""
    return int(side[3][side[0][key]]) if count > 0 else 0


@njit(nogil=True, cache=True, inline="always")
def _append(cell: np.uint32, target: CellArray, end: int) -> int:
    """Append a cell unless it is that of a zero gap; where the cells end then."""
    target[end] = cell
    return end + int(cell > 0)


@njit(nogil=True, cache=True, inline="always")
def _copy(source: CellArray, start: int, count: int, target: CellArray, end: int) -> int:
    """Append cells; where they end then."""
    for place in range(count):
        target[end + place] = source[start + place]
    return end + count
