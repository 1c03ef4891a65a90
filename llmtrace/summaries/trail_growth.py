"""Trails to which the gaps of further requests are added (see `trails`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from llmtrace.summaries.gaps import NOWHERE
from llmtrace.summaries.profiles import BUCKET_OF_CELL, DENSE, drain, largest, pour
from llmtrace.summaries.room import Room
from llmtrace.summaries.trails import Trails

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.profiles import Dense
    from llmtrace.summaries.trails import Limits, Positive
    from llmtrace.summaries.ttl import CellArray

    Histograms = tuple[Integers, npt.NDArray[np.uint16], npt.NDArray[np.uint32 | np.uint64]]

__all__ = ["grown", "none"]

_ONE = np.uint64(1)
_ROOM = Room()


def none(keys: int = 0) -> Trails:
    """The trails of keys without gaps."""
    return Trails(
        np.zeros(keys, np.uint16), np.empty(0, np.uint32), (np.zeros(1, np.int64), np.empty(0, np.uint16), np.empty(0, np.uint32))
    )


def grown(trails: Trails, before: Integers, further: tuple[Integers, CellArray], limits: Limits) -> Trails:
    """The trails of keys after further requests.

    Args:
        trails: those of the keys that had requests before, in their order.
        before: per key its place among those, ascending, or -1.
        further: the cells of further positive gaps, key by key and in order of time, behind where those of each key end.
        limits: how trails are kept.
    """
    ends, cells = further
    many = largest(trails.profiles) + cells.size >> 32
    offsets, buckets, counts = trails.profiles
    histograms = offsets, buckets, counts.astype(np.uint64 if many else np.uint32, copy=False)
    room = trails.held.size + cells.size
    positive, held = np.empty(before.size, np.uint16), _ROOM.array("held", room, np.uint32)
    most = buckets.size + room if limits.profiled else 0
    wide = "wide" if many else "counts"
    target = (
        np.zeros(before.size + 1, np.int64),
        _ROOM.array("buckets", most, np.uint16),
        _ROOM.array(wide, most, histograms[2].dtype),
    )
    sides = (trails.positive, trails.held, histograms), (before, ends, cells)
    work = np.zeros(DENSE, np.uint64), np.zeros(DENSE // 64, np.uint64)
    kept, rows = _grow(*sides, (limits.limit, limits.profiled), (positive, held), target, work)
    size = int(target[0][rows])
    joined: Cells = target[0][: rows + 1].copy(), target[1][:size].copy(), target[2][:size].copy()
    if many and not largest(joined) >> 32:
        joined = *joined[:2], joined[2].astype(np.uint32)
    return Trails(positive, held[:kept].copy(), joined)


@njit(nogil=True, cache=True)
def _grow(
    trails: tuple[Positive, CellArray, Histograms],
    further: tuple[Integers, Integers, CellArray],
    limits: tuple[int, bool],
    few: tuple[Positive, CellArray],
    many: Histograms,
    work: tuple[Dense, Dense],
) -> tuple[int, int]:
    """Write trails that have grown: how many cells are held, and how many histograms there are.

    `limits` has the limit of trails, and whether there are histograms.
    """
    (own, held, histograms), (before, ends, cells) = trails, further
    limit, (positive, moved) = limits[0], few
    # Where the cells, the histogram and the further cells of the next key begin, and where the next of either is written.
    cell, row, start, size, rows = 0, 0, 0, 0, 0
    for key in range(before.size):
        count = int(own[before[key]]) if before[key] >= 0 else 0
        end, total = cell + (count if count < limit else 0), count + ends[key] - start
        positive[key] = min(total, limit)
        if total < limit:
            for one in range(cell, end):
                moved[size] = held[one]
                size += 1
            for one in range(start, ends[key]):
                moved[size] = cells[one]
                size += 1
        elif limits[1]:
            whose = row if count >= limit else NOWHERE
            _pour((histograms, whose), held[cell:end], cells[start : ends[key]], work, (many, np.int64(rows)))
        row += count >= limit
        rows += total >= limit
        cell, start = end, ends[key]
    return size, rows


@njit(nogil=True, cache=True)
def _pour(
    histogram: tuple[Histograms, int],
    held: CellArray,
    cells: CellArray,
    work: tuple[Dense, Dense],
    target: tuple[Histograms, np.int64],
) -> None:
    """Write the histogram of a key: that which it has, if any, with the cells that it held and further ones."""
    ((starts, buckets, counts), row), (dense, marks), ((offsets, buckets_to, counts_to), place) = histogram, work, target
    if row >= 0:
        for one in range(starts[row], starts[row + 1]):
            pour(int(buckets[one]), np.uint64(counts[one]), dense, marks)
    for cell in held:
        pour(int(BUCKET_OF_CELL[cell]), _ONE, dense, marks)
    for cell in cells:
        pour(int(BUCKET_OF_CELL[cell]), _ONE, dense, marks)
    offsets[place + 1] = drain(dense, marks, (buckets_to, counts_to), offsets[place])
