"""How the hit ratios of each key are distributed, coarser than the cells of `hits`: STEPS of them, and sparse (see `cells`).

Columns of a summary, one row per key in order of first appearance: `key`, `cells` (a list, ascending: cell 2k holds the ratio
k/STEPS alone, cell 2k + 1 what lies between it and (k + 1)/STEPS) and `counts` (a list of the same length: how many requests).
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import cells, hits
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.gaps import NOWHERE
from llmtrace.summaries.interning import Interner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Ids, Integers, Keys
    from llmtrace.summaries.hits import Cells

    Counts = np.ndarray[tuple[int, int], np.dtype[np.uint32]]
    Wide = np.ndarray[tuple[int, int], np.dtype[np.int64]]

__all__ = ["CELLS", "SCHEMA", "STEPS", "combine", "dense", "summarise"]

STEPS = 100
CELLS = 2 * STEPS + 1
SCHEMA: Mapping[str, pl.DataType] = {"key": pl.UInt64(), "cells": pl.List(pl.UInt8()), "counts": pl.List(pl.UInt32())}
"""The columns of a summary; counts are UInt64 where one needs it."""

KEYS_AT_ONCE = 1 << 14
"""So many keys are counted in an array over all cells, of 13 MB."""


def coarsened(fine: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    """The cell here that holds a cell of `hits`.

    >>> coarsened(np.array([0, 1, 19, 20, 21, 1_999, 2_000])).tolist()
    [0, 1, 1, 2, 3, 199, 200]
    """
    scale = hits.STEPS // STEPS
    step, is_between = np.divmod(fine, 2)
    return (2 * (step // scale) + ((step % scale > 0) | (is_between > 0))).astype(np.uint8)


_COARSE = coarsened(np.arange(hits.CELLS))


def summarise(ids: Ids, keys: Keys, fine: Cells) -> pl.DataFrame:
    """The summary of a part.

    Args:
        ids: the key of each request, as a place in `keys`.
        keys: each once.
        fine: the cell of each request's ratio, as `hits.measure` has them.
    """
    counted: Counts = np.zeros((min(KEYS_AT_ONCE, keys.size), CELLS), np.uint32)
    places, counts = np.empty(ids.size, np.uint8), np.empty(ids.size, np.uint32)
    offsets = np.zeros(keys.size + 1, np.int64)
    ids, fine, coarse = frozen(ids, fine, _COARSE)
    for first in range(0, keys.size, KEYS_AT_ONCE):
        _count(ids, fine, coarse, first, counted)
        _drain(counted, first, offsets, places, counts)
    size = offsets[-1]
    return _frame(pl.Series("key", keys, pl.UInt64), (offsets, places[:size].copy(), counts[:size].copy()))


def combine(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The summary of several parts."""
    return reduce(_merge, frames)


def dense(frame: pl.DataFrame) -> Wide:
    """The counts of each row in all cells, for so many rows as memory is for."""
    offsets, places, counts = cells.read(frame, "cells")
    found: Wide = np.zeros((frame.height, CELLS), np.int64)
    found[np.repeat(np.arange(frame.height), np.diff(offsets)), places] = counts
    return found


def _merge(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    interner = Interner()
    rows = [interner.add(frame["key"].to_numpy()) for frame in (left, right)]
    ours, theirs = np.full((2, interner.keys.size), NOWHERE, np.int64)
    for places, side in zip((ours, theirs), rows, strict=True):
        places[side] = np.arange(side.size)
    merged = cells.merge(cells.read(left, "cells"), ours, cells.read(right, "cells"), theirs)
    return _frame(pl.Series("key", interner.keys, pl.UInt64), merged)


def _frame(keys: pl.Series, sparse: cells.Cells) -> pl.DataFrame:
    return pl.DataFrame([keys, *cells.lists(sparse, "cells")])


@njit(nogil=True, cache=True)
def _count(ids: Ids, fine: Cells, coarse: npt.NDArray[np.uint8], first: int, counted: Counts) -> None:
    """Count the cells of the keys from `first` on, as many as the array has rows."""
    for row in range(ids.size):
        place = np.uint64(np.int64(ids[row]) - first)
        if fine[row] < coarse.size and place < np.uint64(counted.shape[0]):
            counted[place, coarse[fine[row]]] += 1


@njit(nogil=True, cache=True)
def _drain(counted: Counts, first: int, offsets: Integers, places: npt.NDArray[np.uint8], counts: npt.NDArray[np.uint32]) -> None:
    """Move what was counted to the end of the sparse arrays, key by key, and leave zeros."""
    for key in range(first, min(first + counted.shape[0], offsets.size - 1)):
        size = offsets[key]
        for cell in range(CELLS):
            if counted[key - first, cell]:
                places[size], counts[size] = cell, counted[key - first, cell]
                counted[key - first, cell] = 0
                size += 1
        offsets[key + 1] = size
