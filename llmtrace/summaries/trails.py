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
Border: TypeAlias = "tuple[Integers, CellArray]"
"""The keys that are in both parts, ascending, and the cell of the gap between the parts."""


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


def gather(found: CellArray, key_of: CellArray, positive: CellArray, limits: Limits) -> tuple[Trails, Tallies]:
    """The trails of the keys of a part.

    Args:
        found: per visit the cell of the gap before it, `ttl.NO_CELL` where there is none.
        key_of: per visit the place of its key.
        positive: per key how many of its visits come after a positive gap.
        limits: how trails are kept.

    Returns:
        The trails; per cell how often it was found and how often released.
    """
    is_held = positive < limits.limit
    counts = positive.astype(np.int64)
    ends = np.cumsum(counts[~is_held] if limits.profiled else np.zeros((~is_held).sum(), np.int64))
    held, values = np.empty(counts[is_held].sum(), np.uint32), np.empty(ends[-1] if ends.size else 0, np.uint32)
    tallies = np.zeros((2, ttl.CELLS), np.uint32)
    _sort_out(found, key_of, positive, (limits.threshold, limits.limit), (held, values), tallies)
    histograms = profiles.tally(ttl.cell_starts(values), np.append(0, ends)[:-1], ends)
    return Trails(np.minimum(positive, limits.limit).astype(np.uint16), held, histograms), tallies


def join(
    sides: tuple[Trails, Trails], rows: tuple[Rows, Rows], both: Integers, border: CellArray, limits: Limits
) -> tuple[Trails, CellArray]:
    """The trails of the keys of two neighbouring parts.

    Args:
        sides: those of the earlier and of the later part.
        rows: per key its place in each of them, -1 where it is not there.
        both: the keys that are in both, ascending.
        border: the cell of the gap between the parts of each of these.
        limits: how trails are kept.

    Returns:
        The trails; the cells that were released by joining them.
    """
    left, right = (_side(side, where, limits.limit) for side, where in zip(sides, rows, strict=True))
    borders = frozen(both, border)
    positive = np.empty(rows[0].size, np.uint16)
    kept, histograms = _count(left, right, borders, limits.limit, positive)
    # One more than room for all, as a cell is written before it is clear that it counts.
    room = sides[0].held.size + sides[1].held.size + both.size + 1
    held, values, released = np.empty(kept + 1, np.uint32), np.empty(room - kept, np.uint32), np.empty(room, np.uint32)
    ends, places = np.empty(histograms, np.int64), np.full((histograms, 2), NOWHERE, np.int64)
    size = _join((left, right), borders, (limits.threshold, limits.limit), positive, (held, values, released), (ends, places))
    if not limits.profiled:
        ends[:] = 0
    values = values[: ends[-1] if histograms else 0]
    joined = profiles.join(sides[0].profiles, sides[1].profiles, places, ttl.cell_starts(values), ends)
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
    counted = profiles.tally(ttl.cell_starts(trails.held), ends[few] - trails.positive[few], ends[few])
    histograms = pl.DataFrame(cells.lists(trails.profiles, "buckets")).filter(pl.Series(wanted[~is_held]))
    found = np.empty((int(wanted.sum()), len(percents)))
    found[is_held[wanted]] = profiles.percentiles(pl.DataFrame(cells.lists(counted, "buckets")), percents)
    found[~is_held[wanted]] = profiles.percentiles(histograms, percents)
    return found


def _side(trails: Trails, rows: Rows, limit: int) -> Side:
    [positive] = frozen(trails.positive)
    rows, held, starts = frozen(rows, trails.held, _starts(positive, limit))
    return rows, positive, held, starts


@njit(nogil=True, cache=True)
def _sort_out(
    found: CellArray,
    key_of: CellArray,
    positive: CellArray,
    limits: tuple[int, int],
    targets: tuple[CellArray, CellArray],
    tallies: Tallies,
) -> None:
    """Put each cell where its key's stand: among those held, or among the values of histograms if there are to be any."""
    (threshold, limit), (held, values) = limits, targets
    places = np.empty(positive.size, np.int64)
    kept, counted = 0, 0
    for key in range(positive.size):
        is_held = positive[key] < limit
        places[key] = kept if is_held else counted
        kept += positive[key] if is_held else 0
        counted += 0 if is_held else positive[key]
    for visit in range(found.size):
        cell = found[visit]
        if cell == ttl.NO_CELL:
            continue
        tallies[0, cell] += 1
        if cell == 0:
            continue
        key = key_of[visit]
        tallies[1, cell] += positive[key] >= threshold
        if positive[key] < limit:
            held[places[key]] = cell
        elif values.size:
            values[places[key]] = cell
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
def _count(left: Side, right: Side, border: Border, limit: int, positive: Positive) -> tuple[int, int]:
    """Fill in the positive gaps of each key, up to `limit`; how many cells are held, and how many histograms there are."""
    both, border_cells = border
    place, held, histograms = 0, 0, 0
    for key in range(positive.size):
        total = _of(left, key) + _of(right, key)
        if place < both.size and both[place] == key:
            total += border_cells[place] > 0
            place += 1
        positive[key] = min(total, limit)
        held += total if total < limit else 0
        histograms += total >= limit
    return held, histograms


@njit(nogil=True, cache=True)
def _of(side: Side, key: int) -> int:
    """The positive gaps of a key in one part."""
    row = side[0][key]
    return int(side[1][row]) if row >= 0 else 0


@njit(nogil=True, cache=True)
def _join(
    sides: tuple[Side, Side],
    border: Border,
    limits: tuple[int, int],
    positive: Positive,
    targets: tuple[CellArray, CellArray, CellArray],
    histograms: tuple[Integers, profiles.Rows],
) -> int:
    """Put the cells of each key where they stand now, and those of newly eligible keys among the released; how many these are.

    The histogram of a key is made of those at its `places` in both parts and of the values up to its `ends`.
    """
    (left, right), (both, border_cells), (threshold, limit) = sides, border, limits
    (held, values, released), (ends, places) = targets, histograms
    at, kept, counted, size, many = 0, 0, 0, 0, 0
    for key in range(positive.size):
        cell = np.uint32(0)
        if at < both.size and both[at] == key:
            cell = border_cells[at]
            at += 1
        if positive[key] == 0:
            continue
        before, after = _of(left, key), _of(right, key)
        if positive[key] >= threshold:
            size = _append(cell, released, _copy(left, key, before if before < threshold else 0, released, size))
            size = _copy(right, key, after if after < threshold else 0, released, size)
        if positive[key] < limit:
            kept = _append(cell, held, _copy(left, key, before, held, kept))
            kept = _copy(right, key, after, held, kept)
            continue
        counted = _append(cell, values, _copy(left, key, before if before < limit else 0, values, counted))
        counted = _copy(right, key, after if after < limit else 0, values, counted)
        places[many, 0] = _start(left, key) if before == limit else NOWHERE
        places[many, 1] = _start(right, key) if after == limit else NOWHERE
        ends[many] = counted
        many += 1
    return size


@njit(nogil=True, cache=True)
def _start(side: Side, key: int) -> int:
    """Where the cells of a key begin in one part, or which histogram is its."""
    row = side[0][key]
    return int(side[3][row]) if row >= 0 else 0


@njit(nogil=True, cache=True)
def _append(cell: np.uint32, target: CellArray, end: int) -> int:
    """Append a cell unless it is that of a zero gap; where the cells end then."""
    target[end] = cell
    return end + int(cell > 0)


@njit(nogil=True, cache=True)
def _copy(side: Side, key: int, count: int, target: CellArray, end: int) -> int:
    """Append so many held cells of a key; where the cells end then."""
    start = _start(side, key) if count else 0
    for place in range(count):
        target[end + place] = side[2][start + place]
    return end + count
