"""Counts of cells in many rows that are added to in place, again and again.

64 neighbouring cells of a row share a page, which is opened when one of them first occurs. So counting a cell takes two looks
into memory and no search, whatever is there already, and memory soon stops growing: what occurs later occurs mostly beside what
has occurred. It suits rows that fill up; few cells that lie far apart are better kept as lists (see `cells`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from llmtrace.summaries.cells import Cells, Counts, Integers, Places
    from llmtrace.summaries.groups import Ids

__all__ = ["Pages"]

_SHIFT, _MASK = np.uint64(6), np.uint64(63)
_PAGE = 64
_STEP = 1 << 14
"""Pages by which the room for them grows."""


class Pages:
    """Rows of counts, numbered from 0.

    >>> pages = Pages(1000)
    >>> for _ in range(2):
    ...     pages.add(np.array([3]), (np.array([0, 2]), np.array([7, 500], np.uint16), np.array([1, 4], np.uint32)))
    >>> pages.cells(np.array([0, 3]))
    (array([0, 0, 2]), array([  7, 500], dtype=uint16), array([2, 8], dtype=uint32))
    """

    def __init__(self, cells: int) -> None:
        """Rows of so many cells, without counts."""
        # The page of each 64 cells of each row; 0, which is never opened, where there is none.
        self._directory = np.zeros((0, -(-cells // _PAGE)), np.uint32)
        self._counts: Counts = np.zeros(_PAGE, np.uint32)
        self._opened, self._largest = 0, 0
        self._places = np.uint16 if cells <= 1 << 16 else np.uint32

    def add(self, rows: Places, cells: Cells) -> None:
        """Add counts to those that are there.

        Args:
            rows: the row of each list of cells.
            cells: the cells and their counts.
        """
        if rows.max(initial=-1) >= len(self._directory):
            self._directory.resize((2 * int(rows.max()) + 1, self._directory.shape[1]), refcheck=False)
        self._widen(int(cells[2].max(initial=0)))
        done = 0
        while True:
            done, self._opened = _add(*cells, rows, done, self._directory, self._counts, self._opened)
            if done == rows.size:
                return
            self._counts.resize(self._counts.size + _STEP * _PAGE, refcheck=False)

    def cells(self, rows: Places) -> Cells:
        """The cells of some rows that occur, and their counts, in 32 bits where all of them fit, else in 64."""
        room = (self._opened + 1) * _PAGE
        places: Places = np.empty(room, self._places)
        numbers: Counts = np.empty(room, self._counts.dtype)
        offsets = _list(rows, self._directory, self._counts, places, numbers)
        places, numbers = places[: offsets[-1]], numbers[: offsets[-1]]
        return offsets, places, numbers if numbers.max(initial=0) >> 32 else numbers.astype(np.uint32, copy=False)

    def _widen(self, largest: int) -> None:
        """Go over to 64 bits before a count can reach 2^32."""
        self._largest += largest
        if self._largest >> 32:
            self._counts = self._counts.astype(np.uint64, copy=False)


@njit(nogil=True, cache=True)
def _add(
    offsets: Integers, places: Places, numbers: Counts, rows: Places, done: int, directory: Ids, counts: Counts, opened: int
) -> tuple[int, int]:
    """Add rows from `done` on, as long as there is room for the pages that each may open: rows done and pages opened then."""
    while done < rows.size and opened + min(offsets[done + 1] - offsets[done], directory.shape[1]) < counts.size // _PAGE:
        first, end = offsets[done], offsets[done + 1]
        opened = _add_row(places[first:end], numbers[first:end], directory[rows[done]], counts, opened)
        done += 1
    return done, opened


@njit(nogil=True, cache=True)
def _add_row(places: Places, numbers: Counts, pages: Ids, counts: Counts, opened: int) -> int:
    """Add the cells of a row, which has these pages; how many pages are opened then."""
    for cell in range(places.size):
        place = np.uint64(places[cell])
        page = pages[place >> _SHIFT]
        if page == 0:
            opened += 1
            page = np.uint32(opened)
            pages[place >> _SHIFT] = page
        counts[(np.uint64(page) << _SHIFT) + (place & _MASK)] += numbers[cell]
    return opened


@njit(nogil=True, cache=True)
def _list(rows: Places, directory: Ids, counts: Counts, places: Places, numbers: Counts) -> Integers:
    """Write down what occurs; where each row ends."""
    offsets = np.zeros(rows.size + 1, np.int64)
    size = 0
    for row in range(rows.size):
        for group, page in enumerate(directory[rows[row]]):
            # What does not occur is written too, and then over.
            for place in range(_PAGE if page > 0 else 0):
                places[size], numbers[size] = _PAGE * group + place, counts[_PAGE * page + place]
                size += numbers[size] > 0
        offsets[row + 1] = size
    return offsets
