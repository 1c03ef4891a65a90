"""Sparse counts: per row of a summary the cells that occur, ascending, and how often each does, as two columns of lists.

Flat, they are three arrays: row r has the cells from offsets[r] up to offsets[r + 1].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numba import njit

from llmtrace.summaries.frames import series_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars as pl

    Integers = npt.NDArray[np.int64]
    Places = npt.NDArray[np.integer[Any]]
    Counts = npt.NDArray[np.uint32 | np.uint64]
    Reach = tuple[int, int]

Cells: TypeAlias = "tuple[Integers, Any, Any]"
"""Offsets, cells and counts."""

_DENSE = 8
"""Rows that fill more than one in so many cells of their range are added up in an array over all of it."""
_LARGEST = np.iinfo(np.int64).max

__all__ = ["Cells", "frozen", "list_of", "list_parts", "lists", "merge", "read"]


def frozen(*arrays: Places) -> tuple[Any, ...]:
    """The same arrays, to be read only, as those that Arrow owns are: a kernel is compiled anew for each mixture of the two."""
    views = tuple(array.view() for array in arrays)
    for view in views:
        view.flags.writeable = False
    return views


def read(frame: pl.DataFrame, cells: str, counts: str = "counts") -> Cells:
    """The cells of a frame; views into it where it is one chunk."""
    (offsets, places), (_, numbers) = (list_parts(frame[name]) for name in (cells, counts))
    return offsets, places, numbers


def lists(cells: Cells, name: str, counts: str = "counts") -> list[pl.Series]:
    """The two columns that hold the cells."""
    offsets, places, numbers = cells
    return [list_of(name, offsets, places), list_of(counts, offsets, numbers)]


def list_of(name: str, offsets: Integers, values: npt.NDArray[np.generic]) -> pl.Series:
    """A column of lists: row r has the values from offsets[r] up to offsets[r + 1]."""
    return series_of(name, pa.LargeListArray.from_arrays(offsets, values))


def list_parts(series: pl.Series) -> tuple[Integers, Any]:
    """Offsets and values of a column of lists; views into it where it is one chunk."""
    found = series.rechunk().to_arrow()
    offsets = found.offsets.to_numpy() if len(found) else np.zeros(1, np.int64)
    return offsets - offsets[0], found.values[offsets[0] : offsets[-1]].to_numpy()


def merge(left: Cells, left_rows: Places, right: Cells, right_rows: Places) -> Cells:
    """The counts of matching rows together.

    Args:
        left: the cells of one summary.
        left_rows: for each row of the answer its row on the left; -1 if it is not there.
        right: the cells of another.
        right_rows: the same on the right.

    Returns:
        Counts in 32 bits where all of them fit, else in 64.
    """
    room = left[1].size + right[1].size + 1
    places = np.empty(room, left[1].dtype)
    numbers = np.empty(room, np.uint64 if _largest(left) + _largest(right) >> 32 else np.uint32)
    sides = [frozen(side[0], side[1], side[2].astype(numbers.dtype, copy=False)) for side in (left, right)]
    rows = frozen(left_rows, right_rows)
    offsets = _merge_rows(sides[0], rows[0], sides[1], rows[1], places, numbers)
    merged = offsets, places[: offsets[-1]], numbers[: offsets[-1]]
    return merged if _largest(merged) >> 32 else (*merged[:2], merged[2].astype(np.uint32, copy=False))


def _largest(cells: Cells) -> int:
    return int(cells[2].max(initial=0))


@njit(nogil=True, cache=True)
def _merge_rows(left: Cells, left_rows: Places, right: Cells, right_rows: Places, places: Places, numbers: Counts) -> Integers:
    offsets = np.zeros(left_rows.size + 1, np.int64)
    dense = np.zeros(_DENSE * _longest(left[0], left_rows, right[0], right_rows), numbers.dtype)
    size = 0
    for row in range(left_rows.size):
        ours, theirs = _reach(left[0], left_rows[row]), _reach(right[0], right_rows[row])
        span = _span(left[1], ours, right[1], theirs)
        if 0 <= span[1] - span[0] < _DENSE * (ours[1] - ours[0] + theirs[1] - theirs[0]):
            size = _merge_dense(left, ours, right, theirs, span, dense, (places, numbers), size)
        else:
            size = _merge_sparse(left, ours, right, theirs, (places, numbers), size)
        offsets[row + 1] = size
    return offsets


@njit(nogil=True, cache=True)
def _longest(left: Integers, left_rows: Places, right: Integers, right_rows: Places) -> int:
    """The most cells that both sides of a row have together."""
    longest = 0
    for row in range(left_rows.size):
        (a, a_end), (b, b_end) = _reach(left, left_rows[row]), _reach(right, right_rows[row])
        longest = max(longest, a_end - a + b_end - b)
    return longest


@njit(nogil=True, cache=True)
def _span(left: Places, ours: Reach, right: Places, theirs: Reach) -> Reach:
    """The lowest and the highest cell of a row; as far apart as can be where a side has none, so that the other is copied."""
    if ours[0] == ours[1] or theirs[0] == theirs[1]:
        return 0, _LARGEST
    return min(int(left[ours[0]]), int(right[theirs[0]])), max(int(left[ours[1] - 1]), int(right[theirs[1] - 1]))


@njit(nogil=True, cache=True)
def _merge_dense(
    left: Cells, ours: Reach, right: Cells, theirs: Reach, span: Reach, dense: Counts, merged: tuple[Any, Any], size: int
) -> int:
    """Add up in an array over all cells of a span, which is zero before and after; how far the merged cells reach then."""
    (low, high), (places, numbers) = span, merged
    for cell in range(ours[0], ours[1]):
        dense[left[1][cell] - low] = left[2][cell]
    for cell in range(theirs[0], theirs[1]):
        dense[right[1][cell] - low] += right[2][cell]
    for cell in range(high - low + 1):
        places[size], numbers[size] = low + cell, dense[cell]
        size += dense[cell] > 0
        dense[cell] = 0
    return size


@njit(nogil=True, cache=True)
def _merge_sparse(left: Cells, ours: Reach, right: Cells, theirs: Reach, merged: tuple[Any, Any], size: int) -> int:
    """Walk both sides at once, without a branch per cell; how far the merged cells reach then."""
    (a, a_end), (b, b_end), (places, numbers) = ours, theirs, merged
    while a < a_end and b < b_end:
        from_left, from_right = left[1][a] <= right[1][b], right[1][b] <= left[1][a]
        places[size] = min(left[1][a], right[1][b])
        numbers[size] = from_left * left[2][a] + from_right * right[2][b]
        a, b, size = a + from_left, b + from_right, size + 1
    for rest in range(a, a_end):
        places[size], numbers[size] = left[1][rest], left[2][rest]
        size += 1
    for rest in range(b, b_end):
        places[size], numbers[size] = right[1][rest], right[2][rest]
        size += 1
    return size


@njit(nogil=True, cache=True)
def _reach(offsets: Integers, row: int) -> Reach:
    return (offsets[row], offsets[row + 1]) if row >= 0 else (0, 0)
