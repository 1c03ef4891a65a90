"""Sparse counts: per row of a summary the cells that occur, ascending, and how often each does, as two columns of lists.

Flat, they are three arrays: row r has the cells from offsets[r] up to offsets[r + 1].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
from numba import njit

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Places = npt.NDArray[np.integer[Any]]
    Counts = npt.NDArray[np.uint32 | np.uint64]

Cells: TypeAlias = "tuple[Integers, Any, Any]"
"""Offsets, cells and counts."""

__all__ = ["Cells", "frozen", "insert", "lists", "merge", "read"]


def frozen(*arrays: Places) -> tuple[Any, ...]:
    """The same arrays, to be read only, as those that Arrow owns are: a kernel is compiled anew for each mixture of the two."""
    views = tuple(array.view() for array in arrays)
    for view in views:
        view.flags.writeable = False
    return views


def read(frame: pl.DataFrame, cells: str, counts: str = "counts") -> Cells:
    """The cells of a frame; views into it where it is one chunk."""
    (offsets, places), (_, numbers) = (_flat(frame[name]) for name in (cells, counts))
    return offsets, places, numbers


def lists(cells: Cells, name: str, counts: str = "counts") -> list[pl.Series]:
    """The two columns that hold the cells."""
    offsets, places, numbers = cells
    return [pl.Series(one, pa.LargeListArray.from_arrays(offsets, values)) for one, values in ((name, places), (counts, numbers))]


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
    room = left[1].size + right[1].size
    places = np.empty(room, left[1].dtype)
    numbers = np.empty(room, np.uint64 if _largest(left) + _largest(right) >> 32 else np.uint32)
    sides = [frozen(side[0], side[1], side[2].astype(numbers.dtype, copy=False)) for side in (left, right)]
    rows = frozen(left_rows, right_rows)
    offsets = _merge_rows(sides[0], rows[0], sides[1], rows[1], places, numbers)
    merged = offsets, places[: offsets[-1]], numbers[: offsets[-1]]
    return merged if _largest(merged) >> 32 else (*merged[:2], merged[2].astype(np.uint32, copy=False))


@njit(nogil=True, cache=True)
def insert(place: int, places: Places, numbers: Counts, first: int, size: int) -> int:
    """Count one more of a cell among the ascending ones from `first` up to `size`, for kernels with few cells; the new size."""
    row = size
    while row > first and places[row - 1] > place:
        row -= 1
    if row > first and places[row - 1] == place:
        numbers[row - 1] += 1
        return size
    for moved in range(size, row, -1):
        places[moved], numbers[moved] = places[moved - 1], numbers[moved - 1]
    places[row], numbers[row] = place, 1
    return size + 1


def _largest(cells: Cells) -> int:
    return int(cells[2].max(initial=0))


def _flat(series: pl.Series) -> tuple[Integers, Any]:
    found = series.rechunk().to_arrow()
    offsets = found.offsets.to_numpy() if len(found) else np.zeros(1, np.int64)
    return offsets - offsets[0], found.flatten().to_numpy()


@njit(nogil=True, cache=True)
def _merge_rows(left: Cells, left_rows: Places, right: Cells, right_rows: Places, places: Places, numbers: Counts) -> Integers:
    offsets = np.zeros(left_rows.size + 1, np.int64)
    size = 0
    for row in range(left_rows.size):
        a, a_end = _reach(left[0], left_rows[row])
        b, b_end = _reach(right[0], right_rows[row])
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
        offsets[row + 1] = size
    return offsets


@njit(nogil=True, cache=True)
def _reach(offsets: Integers, row: int) -> tuple[int, int]:
    return (offsets[row], offsets[row + 1]) if row >= 0 else (0, 0)
