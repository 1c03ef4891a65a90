"""Trails to which the gaps of further requests are added again and again (see `trails`).

To add to a histogram is to write all of it anew. So the last gaps of a key that has one are pending: held, as those of keys with
few gaps are, and counted once there are many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from llmtrace.summaries import kernels
from llmtrace.summaries.gaps import NOWHERE
from llmtrace.summaries.profiles import BUCKET_OF_CELL, DENSE, drain_into, largest, pour
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
    Work = tuple[Dense, Dense]
    Further = tuple[Integers, CellArray]

__all__ = ["Growing", "none"]

MOST_PENDING = 1 << 8
"""So many gaps of a key with a histogram are counted at once."""

_ONE = np.uint64(1)
_ROOM = Room()


@dataclass(frozen=True)
class Growing:
    """Trails that grow.

    Attributes:
        positive: per key its positive gaps; the limit of trails stands for more, too.
        pending: per key with a histogram, how many of its gaps are held and not yet counted in that.
        held: key by key and in order of time, the cells of gaps that are not in histograms.
        profiles: key by key, the histograms; empty rows if there are none.
    """

    positive: Positive
    pending: Positive
    held: CellArray
    profiles: Cells

    def grown(self, before: Positive, further: Further, limits: Limits) -> Growing:
        """The trails of keys after further requests.

        Args:
            before: per key how many positive gaps it had; between those that are known, in their order, may be others with none.
            further: key by key, where the cells of further positive gaps end, and these, in order of time.
            limits: how trails are kept.
        """
        return self._with(before, further, limits, MOST_PENDING)

    def settled(self, limits: Limits) -> Trails:
        """The trails as they are, with every gap where it belongs."""
        further = np.zeros(self.positive.size, np.int64), np.empty(0, np.uint32)
        whole = self._with(self.positive, further, limits, 1)
        return Trails(whole.positive, whole.held, whole.profiles)

    def _with(self, before: Positive, further: Further, limits: Limits, most_pending: int) -> Growing:
        """The trails after further requests; so many gaps of a key with a histogram are counted in it."""
        (offsets, buckets, counts), room = self.profiles, self.held.size + further[1].size
        is_wide = largest(self.profiles) + room >> 32
        histograms = offsets, buckets, counts.astype(np.uint64 if is_wide else np.uint32, copy=False)
        given = _Given(self.pending, self.held, histograms, before, *further)
        target = _target(before.size, room, buckets.size + room if limits.profiled else 0, histograms[2].dtype)
        work = np.zeros(DENSE, np.uint64), np.zeros(DENSE // 64, np.uint64)
        size, rows = _grow(given, _Bounds(limits.limit, most_pending, limits.profiled), target, work)
        ends, places, numbers = target.histograms
        profiles: Cells = ends[: rows + 1].copy(), places[: ends[rows]].copy(), numbers[: ends[rows]].copy()
        if is_wide and not largest(profiles) >> 32:
            profiles = *profiles[:2], profiles[2].astype(np.uint32)
        return Growing(target.positive, target.pending[:rows].copy(), target.held[:size].copy(), profiles)


class _Given(NamedTuple):
    """Trails, as `Growing` has them, and what is added to them, as `grown` takes it."""

    pending: Positive
    held: CellArray
    histograms: Histograms
    before: Positive
    ends: Integers
    cells: CellArray


class _Target(NamedTuple):
    """What takes trails, with room for as many cells as there can be."""

    positive: Positive
    pending: Positive
    held: CellArray
    histograms: Histograms


class _Bounds(NamedTuple):
    """The limit of trails, how many gaps of a key with a histogram are counted at once, and whether there are histograms."""

    limit: int
    most_pending: int
    is_profiled: bool


def none(keys: int = 0) -> Growing:
    """The trails of keys without gaps."""
    histograms = np.zeros(1, np.int64), np.empty(0, np.uint16), np.empty(0, np.uint32)
    return Growing(np.zeros(keys, np.uint16), np.empty(0, np.uint16), np.empty(0, np.uint32), histograms)


def _target(keys: int, held: int, counted: int, dtype: np.dtype[Any]) -> _Target:
    """Room for so many keys, cells and cells of histograms; the thread's own but for what is of each key."""
    buckets, counts = _ROOM.array("buckets", counted, np.uint16), _ROOM.array("counts", counted, dtype)
    histograms = np.zeros(keys + 1, np.int64), buckets, counts
    pending, cells = _ROOM.array("pending", keys, np.uint16), _ROOM.array("held", held, np.uint32)
    return _Target(np.empty(keys, np.uint16), pending, cells, histograms)


@njit(nogil=True, cache=True)
def _grow(given: _Given, bounds: _Bounds, target: _Target, work: Work) -> tuple[int, int]:
    """Write trails that have grown: how many cells are held, and how many histograms there are."""
    before, ends, held, moved, positive, limit = given.before, given.ends, given.held, target.held, target.positive, bounds.limit
    # Where the cells, the histogram and the further cells of the next key begin, from where on cells have not been moved yet, and
    # where the next of either is written. A bare 0 is a type of its own, for which all that is called is compiled once more.
    cell = row = start = kept = size = rows = int(np.int64(0))
    for key in range(before.size):
        count, end = int(before[key]), ends[key]
        own = int(given.pending[row]) if count >= limit else count
        now = min(count + end - start, limit)
        is_counted = now == limit and (own + end - start >= bounds.most_pending or not bounds.is_profiled)
        positive[key], cell = now, cell + own
        if is_counted:
            size, kept = _copy(held, kept, cell - own, moved, size), cell
        elif end > start:
            # All with nothing new are moved together with the next that has.
            size, kept = _copy(held, kept, cell, moved, size), cell
            size = _copy(given.cells, start, end, moved, size)
        if now == limit:
            begin, cut = (cell - own, start) if is_counted and bounds.is_profiled else (cell, end)
            cells = held[begin:cell], given.cells[cut:end]
            _count(given.histograms, row if count >= limit else NOWHERE, cells, work, target.histograms, rows)
            target.pending[rows] = 0 if is_counted else own + end - start
            rows += 1
        row += count >= limit
        start = end
    return _copy(held, kept, cell, moved, size), rows


@kernels.inner
def _copy(cells: CellArray, start: int, end: int, target: CellArray, size: int) -> int:
    """Write cells from `size` on: how far all reach then."""
    for one in range(end - start):
        target[np.uint64(size + one)] = cells[np.uint64(start + one)]
    return size + end - start


@kernels.inner
def _count(
    histograms: Histograms, row: int, cells: tuple[CellArray, CellArray], work: Work, target: Histograms, place: int
) -> None:
    """Write a histogram, the one that stands in a row, if any, with the counts of cells added."""
    for some in cells:
        for cell in some:
            pour(int(BUCKET_OF_CELL[cell]), _ONE, work[0], work[1])
    reach = (histograms[0][row], histograms[0][row + 1]) if row >= 0 else (0, 0)
    target[0][place + 1] = drain_into(histograms[1:], reach, work[0], work[1], target[1:], target[0][place])
