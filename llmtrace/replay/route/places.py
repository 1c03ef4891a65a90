"""Places in memory for what lives: given at the first use of a number, taken back after the last.

Sessions and blocks are numbered as they come, without end. What is kept of one while it will be asked for again stands at its
place, and the places of those that ended are given to others: there are as many as ever lived at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.draws import mixed
from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.uint32]
    Integers = npt.NDArray[np.int64]
    Given = npt.NDArray[np.int32]
    Flags = npt.NDArray[np.bool_]

__all__ = ["Places"]

_LIVING, _WAITING, _TAKEN, _BEGUN = range(4)
"""Counts: numbers that have a place, places given back, places there ever were, numbers there ever were."""
_SMALLEST = 1 << 12


class _Table(NamedTuple):
    """The numbers that have a place: open addressing with linear probing.

    Attributes:
        numbers: a number and one in each slot that is taken, 0 in the others.
        places: its place.
        free: places given back, with room for all.
        counts: see `_LIVING`.
    """

    numbers: Integers
    places: Given
    free: Given
    counts: Integers


def _table(size: int, counts: Integers) -> _Table:
    return _Table(np.zeros(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int32), counts)


class Places:
    """The places of numbers, in lots.

    >>> places = Places()
    >>> places.give(np.array([7, 9, 7, 4], np.uint32), np.array([False, False, True, True])), places.most
    (array([0, 1, 0, 0], dtype=int32), 2)
    >>> places.give(np.array([9, 3], np.uint32), np.array([True, True])), places.most, places.begun
    (array([1, 1], dtype=int32), 2, 4)
    """

    def __init__(self) -> None:
        """Give no place yet."""
        self._table = _table(_SMALLEST, np.zeros(4, np.int64))

    @property
    def most(self) -> int:
        """How many places there are."""
        return int(self._table.counts[_TAKEN])

    @property
    def begun(self) -> int:
        """How many numbers were given a place, one that came back after its last use again."""
        return int(self._table.counts[_BEGUN])

    def give(self, numbers: Ids | Integers, is_last: Flags, offsets: Integers | None = None) -> Given:
        """The place of each number.

        Args:
            numbers: the next uses.
            is_last: whether each is the last use of its number.
            offsets: where the uses of each request begin, and where the last end: places are taken back when a request is
                served. Without it each use is a request.
        """
        bounds = np.arange(numbers.size + 1) if offsets is None else offsets
        given, request = np.empty(numbers.size, np.int32), 0
        while True:
            request = _give(request, numbers, is_last, bounds, given, self._table)
            if request == bounds.size - 1:
                return given
            self._grow(int(bounds[request + 1] - bounds[request]))

    def _grow(self, more: int) -> None:
        old = self._table
        size = 2 * old.numbers.size
        while size < 4 * more:
            size *= 2
        self._table = _table(size, old.counts)
        self._table.free[: old.free.size] = old.free
        _move(old, self._table)


@kernel
def _give(request: int, numbers: Ids | Integers, is_last: Flags, offsets: Integers, given: Given, table: _Table) -> int:
    """Give places to the uses of requests from `request` on, as long as the table has room; the request that it has none for."""
    while request < offsets.size - 1:
        start, stop = offsets[request], offsets[request + 1]
        if 2 * (table.counts[_LIVING] + stop - start) > table.numbers.size:
            break
        for place in range(start, stop):
            given[place] = _place(table, np.int64(numbers[place]) + 1)
        for place in range(start, stop):
            if is_last[place]:
                table.free[table.counts[_WAITING]] = given[place]
                table.counts[_WAITING] += 1
                table.counts[_LIVING] -= 1
                _clear(table, np.int64(numbers[place]) + 1)
        request += 1
    return request


@kernel
def _place(table: _Table, number: Any) -> Any:
    """The place of a number, a new one if it has none."""
    slot, counts = _slot(table, number), table.counts
    if table.numbers[slot] == 0:
        counts[_LIVING] += 1
        counts[_BEGUN] += 1
        if counts[_WAITING] > 0:
            counts[_WAITING] -= 1
            table.places[slot] = table.free[counts[_WAITING]]
        else:
            table.places[slot] = counts[_TAKEN]
            counts[_TAKEN] += 1
        table.numbers[slot] = number
    return table.places[slot]


@kernel
def _home(number: Any, size: int) -> Any:
    return np.int64(mixed(np.uint64(number)) & np.uint64(size - 1))


@kernel
def _slot(table: _Table, number: Any) -> Any:
    """Where a number stands, or would."""
    slot = _home(number, table.numbers.size)
    while table.numbers[slot] != 0 and table.numbers[slot] != number:
        slot = (slot + 1) & (table.numbers.size - 1)
    return slot


@kernel
def _clear(table: _Table, number: Any) -> None:
    """Take out a number, and move up what stands behind it only because its slot was taken."""
    numbers, slot = table.numbers, _slot(table, number)
    mask, after = numbers.size - 1, slot
    while True:
        after = (after + 1) & mask
        if numbers[after] == 0:
            break
        if ((after - _home(numbers[after], numbers.size)) & mask) >= ((after - slot) & mask):
            numbers[slot], table.places[slot] = numbers[after], table.places[after]
            slot = after
    numbers[slot] = 0


@kernel
def _move(old: _Table, new: _Table) -> None:
    """Put what stands in a table into a larger one."""
    for slot in range(old.numbers.size):
        if old.numbers[slot] != 0:
            to = _slot(new, old.numbers[slot])
            new.numbers[to], new.places[to] = old.numbers[slot], old.places[slot]
