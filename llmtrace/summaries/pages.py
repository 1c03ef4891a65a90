"""Counts of cells in many rows that are added to in place, again and again.

64 neighbouring cells of a row share a page, which is opened when one of them first occurs. So counting a cell takes two looks
into memory and no search, whatever is there already, and memory soon stops growing: what occurs later occurs mostly beside what
has occurred. It suits rows that fill up; few cells that lie far apart are better kept as lists (see `cells`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from llmtrace.summaries.cells import Cells, Counts, Integers, Places
    from llmtrace.summaries.groups import Ids

__all__ = ["Pages", "listed"]

_SHIFT, _MASK = np.uint64(6), np.uint64(63)
_PAGE = 64
_LEAST = 1 << 14
"""Pages for which there is room from the beginning; it takes no memory until it is written to."""


class Pages:
    """Rows of counts, numbered from 0.

    Attributes:
        dtype: of cells; 16 bits where they are enough.

    >>> pages = Pages(1000)
    >>> for _ in range(2):
    ...     pages.add(np.array([3], np.uint32), (np.array([0, 2]), np.array([7, 500], np.uint16), np.array([1, 4], np.uint32)))
    >>> listed([(pages, np.array([0, 3], np.uint32))])
    (array([0, 0, 2]), array([  7, 500], dtype=uint16), array([2, 8], dtype=uint32))
    """

    def __init__(self, cells: int) -> None:
        """Rows of so many cells, without counts."""
        # The page of each 64 cells of each row; 0, which is never opened, where there is none.
        self._directory = np.zeros((0, -(-cells // _PAGE)), np.uint32)
        self._counts: Counts = np.zeros(_LEAST * _PAGE, np.uint32)
        self._opened, self._largest = 0, 0
        self.dtype = np.uint16 if cells <= 1 << 16 else np.uint32

    def add(self, rows: Ids, cells: Cells) -> None:
        """Add counts to those that are there.

        Args:
            rows: the row of each list of cells.
            cells: the cells and their counts.
        """
        height = int(rows.max(initial=0)) + 1
        if height > len(self._directory):
            self._directory.resize((height, self._directory.shape[1]), refcheck=False)
        self._widen(int(cells[2].max(initial=0)))
        done = 0
        while True:
            done, self._opened = _add(*cells, rows, done, self._directory, self._counts, self._opened)
            if done == rows.size:
                return
            self._counts.resize(self._counts.size // _PAGE * 5 // 4 * _PAGE, refcheck=False)

    @property
    def room(self) -> int:
        """The most cells that can have occurred."""
        return self._opened * _PAGE

    @property
    def count_dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        """Unsigned integers of 32 bits, or of 64 where counts may need them."""
        return self._counts.dtype

    def write(self, rows: Ids, places: Places, numbers: Counts, size: int) -> Integers:
        """Write the cells of some rows that occur, and their counts, to two arrays from `size` on: where there each row ends."""
        ends: Integers = _list(rows, self._directory, self._counts, places, numbers, size)
        return ends

    def _widen(self, largest: int) -> None:
        """Go over to 64 bits before a count can reach 2^32."""
        self._largest += largest
        if self._largest >> 32:
            self._counts = self._counts.astype(np.uint64, copy=False)


def listed(books: list[tuple[Pages, Ids]]) -> Cells:
    """The cells of some rows of each, end to end, with counts in 32 bits where all of them fit, else in 64.

    The pages are taken off the list one by one, so that memory holds little twice.
    """
    room = sum(pages.room for pages, _ in books)
    # Memory that is not written to takes none.
    places: Places = np.empty(room, books[0][0].dtype)
    numbers: Counts = np.empty(room, np.result_type(*(pages.count_dtype for pages, _ in books)))
    offsets = np.zeros(1, np.int64)
    while books:
        pages, rows = books.pop(0)
        offsets = np.append(offsets, pages.write(rows, places, numbers, offsets[-1]))
    places, numbers = places[: offsets[-1]], numbers[: offsets[-1]]
    return offsets, places, numbers if numbers.max(initial=0) >> 32 else numbers.astype(np.uint32, copy=False)


@njit(nogil=True, cache=True)
def _add(
    offsets: Integers, places: Places, numbers: Counts, rows: Ids, done: int, directory: Ids, counts: Counts, opened: int
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
def _list(rows: Ids, directory: Ids, counts: Counts, places: Places, numbers: Counts, size: int) -> Integers:
    """Write down what occurs, from `size` on; where each row ends."""
    ends = np.empty(rows.size, np.int64)
    for row in range(rows.size):
        for group, page in enumerate(directory[rows[row]]):
            # What does not occur is written too, and then over.
            for place in range(_PAGE if page > 0 else 0):
                places[size], numbers[size] = _PAGE * group + place, counts[_PAGE * page + place]
                size += numbers[size] > 0
        ends[row] = size
    return ends
