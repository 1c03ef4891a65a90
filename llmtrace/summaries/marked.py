"""Counts in an array over all cells that there can be, with marks by which those that occur are found again.

A bit stands for each cell that occurs, and another for each 64 bits that are not zero. So counting takes three looks into memory
and no branch, and to move a few counts out of an array of millions takes a few steps. Counts of many keys are made one
after the other in the same room, which is zero before and after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numba import njit

from llmtrace.summaries.cells import frozen
from llmtrace.summaries.kernels import inner

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells, Counts, Integers, Places

    Bits = npt.NDArray[np.uint64]

__all__ = ["Room", "added_up", "count", "drain", "room"]

Room: TypeAlias = "tuple[Counts, Bits, Bits]"
"""Counts, a bit for each of them, and a bit for each 64 of these bits."""

_SHIFT, _MASK, _ONE = np.uint64(6), np.uint64(63), np.uint64(1)


def room(cells: int, most: int = 0) -> Room:
    """Room for so many cells, and for counts up to `most`: in 32 bits where that suffices, else in 64."""
    words = (cells >> 6) + 1
    counts: Counts = np.zeros(cells, np.uint64 if most >> 32 else np.uint32)
    return counts, np.zeros(words, np.uint64), np.zeros((words >> 6) + 1, np.uint64)


@inner
def count(within: Room, cell: np.unsignedinteger[Any], number: np.unsignedinteger[Any]) -> None:
    """Count a cell so many times, for kernels; the cell is unsigned, and the number of the type of the counts."""
    counts, bits, words = within
    counts[cell] += number
    word = np.uint64(cell) >> _SHIFT
    bits[word] |= _ONE << (np.uint64(cell) & _MASK)
    words[word >> _SHIFT] |= _ONE << (word & _MASK)


@inner
def drain(within: Room, places: Places, numbers: Counts, size: int) -> int:
    """Move the cells that occur, ascending, and their counts to two arrays from `size` on, for kernels; where they end there."""
    counts, bits, words = within
    for group in range(words.size):
        while words[group]:
            word = (group << 6) + _lowest(words[group])
            words[group] &= words[group] - _ONE
            size = _drain_word(word, counts, bits, places, numbers, size)
    return size


def added_up(found: Cells, order: Integers, starts: Integers) -> Cells:
    """The counts of groups of rows together.

    Args:
        found: the cells of each row, in any order, and some of them several times if need be.
        order: the rows, group by group.
        starts: where each group begins in `order`, and its length.

    Returns:
        The cells of each group, ascending; counts in 32 bits where all of them fit, else in 64.

    >>> found = np.array([0, 2, 3, 4]), np.array([5, 9, 5, 1], np.uint32), np.array([1, 1, 2, 7], np.uint32)
    >>> added_up(found, np.array([0, 1, 2]), np.array([0, 2, 3]))
    (array([0, 2, 3]), array([5, 9, 1], dtype=uint32), array([3, 1, 7], dtype=uint32))
    """
    offsets, places, numbers = found
    within = room(int(places.max(initial=0)) + 1, int(numbers.sum(dtype=np.uint64)))
    numbers = numbers.astype(within[0].dtype, copy=False)
    offsets, places, numbers, order, starts = frozen(offsets, places, numbers, order, starts)
    ends, cells, counts = _added_up(offsets, places, numbers, order, starts, within)
    return ends, cells, counts if counts.max(initial=0) >> 32 else counts.astype(np.uint32, copy=False)


@inner
def _lowest(bits: np.uint64) -> int:
    """The number of the lowest bit that is set: the exponent of the float that has it alone."""
    return int(np.float64(bits & (~bits + _ONE)).view(np.int64) >> 52) - 1023


@inner
def _drain_word(word: int, counts: Counts, bits: Bits, places: Places, numbers: Counts, size: int) -> int:
    rest = bits[word]
    while rest:
        cell = (word << 6) + _lowest(rest)
        rest &= rest - _ONE
        places[size], numbers[size] = cell, counts[cell]
        counts[cell] = 0
        size += 1
    bits[word] = 0
    return size


@njit(nogil=True, cache=True)
def _added_up(
    offsets: Integers, places: Places, numbers: Counts, order: Integers, starts: Integers, within: Room
) -> tuple[Integers, Places, Counts]:
    ends = np.zeros(starts.size, np.int64)
    cells, counts = np.empty(places.size, places.dtype), np.empty(places.size, numbers.dtype)
    for group in range(starts.size - 1):
        for row in order[starts[group] : starts[group + 1]]:
            for cell in range(offsets[row], offsets[row + 1]):
                count(within, places[cell], numbers[cell])
        ends[group + 1] = drain(within, cells, counts, ends[group])
    return ends, cells[: ends[-1]].copy(), counts[: ends[-1]].copy()
