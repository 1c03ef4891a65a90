"""Keys followed from request to request within each calendar month (see `months` for what is found of them)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import months, trail_growth, ttl
from llmtrace.summaries.months import Month
from llmtrace.summaries.room import Room
from llmtrace.summaries.trails import Trails

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.interning import Ids, Keys
    from llmtrace.summaries.months import Tables
    from llmtrace.summaries.trails import Limits, Positive
    from llmtrace.summaries.ttl import CellArray
    from llmtrace.summaries.visits import Visits

    Table = np.ndarray[tuple[int, int], np.dtype[np.int64]]

    Over = tuple[list[Month], list[pl.DataFrame]]
    """Months of shards that are over; their tables `months`."""
    Closed = tuple[pl.DataFrame, list[Month]]

_Number = TypeVar("_Number", bound=np.integer[Any])

__all__ = ["Months"]

_FIRST, _LAST = range(2)
_ROOM = Room()
_NEVER, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Months:
    """Follow outer keys within calendar months.

    Attributes:
        limits: how trails are kept, and which keys have enough gaps in a month.
    """

    limits: Limits

    def shard(self) -> _Shard:
        """A shard without keys."""
        return _Shard(self.limits)

    def counts(self) -> Over:
        """No month is over."""
        return [], []

    def added_up(self, counts: Sequence[Over]) -> Over:
        """What is kept of months that are over: their percentiles, of all shards together."""
        over = months.beside([month for own, _ in counts for month in own])
        return [], [*(table for _, tables in counts for table in tables), *(months.scored(month, self.limits) for month in over)]

    def closed(self, keys: Keys, shard: _Shard, ranks: Ids) -> Closed:  # noqa: ARG002
        """The table `visitors` of a shard; its first and its last month."""
        return shard.closed(keys)

    def tables(self, closed: Sequence[Closed], counts: Over) -> Tables:
        """The tables of all shards."""
        visitors = [months.nothing()["visitors"], *(one for one, _ in closed)]
        edges = months.beside([month for _, own in closed for month in own])
        return months.state_of(pl.concat(visitors), edges, counts[1], self.limits)

    def has_followed(self, state: Tables) -> bool:
        """Whether there are keys in the tables of a state."""
        return state["visitors"].height > 0

    def combine(self, states: Sequence[Tables]) -> Tables:
        """The tables of several states."""
        return months.combine(states, self.limits)


class _Shard:
    """The keys of a shard, ascending, and the latest month."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._requests = limits, np.empty(0, np.int64)
        self._first: Month | None = None
        self._start_us, self._end_us = _NEVER, _NEVER
        self._edges: Table = np.empty((0, 2), np.int64)
        self._trails = trail_growth.none()

    def follow(self, visits: Visits, inner: int, counts: Over) -> None:  # noqa: ARG002
        """Follow the keys through further requests."""
        before, starts, stops = visits.before, visits.offsets[:-1], visits.offsets[1:]
        self._requests = _moved(self._requests, before, 0) + np.diff(visits.offsets)
        self._edges = _moved(self._edges, before, _NEVER)
        positive = _moved(self._trails.positive, before, 0)
        while (first_us := _earliest(visits.times_us, starts, stops)) < _LATEST:
            if first_us >= self._end_us:
                self._end(visits.keys, positive, counts[0])
                self._begin(first_us, before.size)
                positive = self._trails.positive
            ends = _reached(visits.times_us, starts, stops, self._end_us)
            cells = _ROOM.array("cells", visits.times_us.size + 1, np.uint32)
            ends_of_cells, size = _follow(visits.times_us, starts, ends, self._edges, cells)
            self._trails = self._trails.grown(positive, (ends_of_cells, cells[:size]), self._limits)
            positive, starts = self._trails.positive, ends

    def closed(self, keys: Keys) -> Closed:
        """What the tables say of them, the keys being these."""
        edges = [month for month in (self._first, self._month(keys, self._trails.positive)) if month]
        return months.visitors(keys, self._requests), edges

    def _begin(self, time_us: int, keys: int) -> None:
        """Begin the month of a time, without requests."""
        self._start_us, self._end_us = months.around(time_us)
        self._edges, self._trails = np.full((keys, 2), _NEVER), trail_growth.none(keys)

    def _end(self, keys: Keys, positive: Positive, over: list[Month]) -> None:
        """Keep the first month, and put others among those that are over."""
        month = self._month(keys, positive)
        if self._first and month:
            over.append(month)
        self._first = self._first or month

    def _month(self, keys: Keys, positive: Positive) -> Month | None:
        """The latest month, if there are requests in it.

        Args:
            keys: all keys.
            positive: how many positive gaps each has in it.
        """
        here = self._edges[:, _LAST] != _NEVER
        if not here.any():
            return None
        first_us, last_us = (self._edges[here, field] for field in (_FIRST, _LAST))
        settled = self._trails.settled(self._limits)
        trails = Trails(positive[here], settled.held, settled.profiles)
        return Month(self._start_us, keys[here], first_us, last_us, trails)


def _moved(values: npt.NDArray[_Number], before: Integers, new: int) -> npt.NDArray[_Number]:
    """The values of keys, or rows of them, where these stand now.

    Args:
        values: those of the keys that were known before.
        before: per key its place among those, -1 for new ones.
        new: the value of these.

    >>> _moved(np.array([7, 9]), np.array([-1, 0, 1]), 0)
    array([0, 7, 9])
    """
    # The last of all is what stands at -1; rows are taken in less time than put.
    return np.append(values, np.full((1, *values.shape[1:]), new, values.dtype), axis=0).take(before, axis=0)


@njit(nogil=True, cache=True)
def _earliest(times_us: Integers, starts: Integers, stops: Integers) -> int:
    """The earliest of visits of which each key has those from starts[k] up to stops[k], `_LATEST` without any."""
    earliest = _LATEST
    for key in range(starts.size):
        if starts[key] < stops[key]:
            earliest = min(earliest, times_us[starts[key]])
    return earliest


@njit(nogil=True, cache=True)
def _reached(times_us: Integers, starts: Integers, stops: Integers, end_us: int) -> Integers:
    """Per key the first visit from starts[k] on that is not before a time."""
    reached = stops.copy()
    for key in range(starts.size):
        while reached[key] > starts[key] and times_us[reached[key] - 1] >= end_us:
            reached[key] -= 1
    return reached


@njit(nogil=True, cache=True)
def _follow(times_us: Integers, starts: Integers, ends: Integers, edges: Table, cells: CellArray) -> tuple[Integers, int]:
    """Follow each key through its visits, and write the cells of its positive gaps: where those of each end, and how many."""
    ends_of_cells, size = np.empty(starts.size, np.int64), 0
    for key in range(starts.size):
        last = edges[key, _LAST]
        if last == _NEVER and starts[key] < ends[key]:
            last = edges[key, _FIRST] = times_us[starts[key]]
        for row in range(starts[key], ends[key]):
            # Written for every visit, and kept where time has passed: without a branch.
            cells[size] = ttl.cell_of(times_us[row] - last)
            size += times_us[row] > last
            last = times_us[row]
        edges[key, _LAST], ends_of_cells[key] = last, size
    return ends_of_cells, size
