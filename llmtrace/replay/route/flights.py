"""When requests leave: places for those in flight, given back as they are complete, slab by slab."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    import numpy.typing as npt

    Times = npt.NDArray[np.int64]
    Places = npt.NDArray[np.int32]
    Ids = npt.NDArray[np.uint32]

__all__ = ["NOWHERE", "Flights", "Flown"]

NOWHERE = -1
"""The place of a request that is never in flight."""
_WAITING, _TAKEN, _GONE, _NEXT = range(4)


class Flown(NamedTuple):
    """The flights of a slab.

    Attributes:
        flight: the place of each request while it is in flight, `NOWHERE` if it never is.
        done: the places that are given back before the slab's last request, in order of completion.
        done_before: how many of them are when each request arrives.
    """

    flight: Places
    done: Places
    done_before: Ids


class _Board(NamedTuple):
    """All requests that are in flight or arrive now, the former first.

    Attributes:
        ends: when each is complete.
        order: sorts them by that.
        places: the place of each, `NOWHERE` if it has none or not yet.
        free: places given back, with room for all.
        counts: see `_WAITING`.
    """

    ends: Times
    order: Times
    places: Places
    free: Places
    counts: Times


class Flights:
    """Gives places to requests in flight.

    >>> flights = Flights()
    >>> flights.add(np.array([0, 5]), np.array([7, 8]))
    Flown(flight=array([0, 1], dtype=int32), done=array([], dtype=int32), done_before=array([0, 0], dtype=uint32))
    >>> flights.add(np.array([8]), np.array([9]))
    Flown(flight=array([1], dtype=int32), done=array([0, 1], dtype=int32), done_before=array([2], dtype=uint32))
    """

    def __init__(self) -> None:
        """Nothing is in flight."""
        self._ends, self._places = np.empty(0, np.int64), np.empty(0, np.int32)
        self._free, self.most = np.empty(0, np.int32), 0

    def add(self, arrival_us: Times, complete_us: Times) -> Flown:
        """Let the next requests fly; they are in order of arrival, and `most` is how many places there are then."""
        before, rows = self._ends.size, arrival_us.size
        ends = np.concatenate([self._ends, complete_us])
        places = np.concatenate([self._places, np.full(rows, NOWHERE, np.int32)])
        free = np.concatenate([self._free, np.empty(ends.size, np.int32)])
        order = np.argsort(ends, kind="stable")
        done, done_before = np.empty(ends.size, np.int32), np.empty(rows, np.uint32)
        counts = np.array([self._free.size, self.most, 0, 0])
        _fly(arrival_us, before, _Board(ends, order, places, free, counts), done, done_before)
        left = order[counts[_NEXT] :]
        left = left[places[left] != NOWHERE]
        self._ends, self._places = ends[left], places[left]
        self._free, self.most = free[: counts[_WAITING]].copy(), int(counts[_TAKEN])
        return Flown(places[before:], done[: counts[_GONE]].copy(), done_before)


@kernel
def _fly(arrival_us: Times, before: int, board: _Board, done: Places, done_before: Ids) -> None:
    """Give places to those that arrive, behind the first `before` on the board, and take them back as they are complete."""
    ends, order, places, free, counts = board
    for row in range(arrival_us.size):
        while counts[_NEXT] < order.size and ends[order[counts[_NEXT]]] <= arrival_us[row]:
            place = places[order[counts[_NEXT]]]
            counts[_NEXT] += 1
            if place != NOWHERE:
                done[counts[_GONE]] = place
                counts[_GONE] += 1
                free[counts[_WAITING]] = place
                counts[_WAITING] += 1
        done_before[row] = counts[_GONE]
        if ends[before + row] <= arrival_us[row]:
            continue
        if counts[_WAITING] > 0:
            counts[_WAITING] -= 1
            places[before + row] = free[counts[_WAITING]]
        else:
            places[before + row] = counts[_TAKEN]
            counts[_TAKEN] += 1
