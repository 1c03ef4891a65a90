"""Histograms of gaps per row, coarser than cells of `ttl`: counted from such cells, joined, and read; sparse (see `cells`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numba import njit

from llmtrace.summaries import ttl
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.histogram import bucket_starts
from llmtrace.summaries.kernels import inner
from llmtrace.summaries.quantiles import quantiles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy.typing as npt
    import polars as pl

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.ttl import CellArray

    Floats = npt.NDArray[np.float64]
    Buckets = npt.NDArray[np.uint16]
    Counts = npt.NDArray[np.uint32 | np.uint64]
    Dense = npt.NDArray[np.uint64]
    Rows = np.ndarray[tuple[int, int], np.dtype[np.int64]]

Target: TypeAlias = "tuple[Buckets, Counts]"

__all__ = ["BITS", "BUCKET_OF_CELL", "DENSE", "drain", "join", "largest", "percentiles", "pour", "tally"]

BITS = 6
"""Significant bits: what is read from a profile is off by at most a relative 2^-7."""

DENSE = (64 - BITS) << BITS
_CELL_STARTS = ttl.cell_starts(np.arange(ttl.CELLS))
BUCKET_OF_CELL = (np.searchsorted(bucket_starts(np.arange(DENSE), BITS), _CELL_STARTS, "right") - 1).astype(np.uint16)
_ONE = np.uint64(1)


def tally(found: CellArray, starts: Integers, ends: Integers) -> Cells:
    """Count the gaps of each row.

    Args:
        found: cells of gaps (see `ttl`); those of row r stand from starts[r] up to ends[r].
        starts: where rows begin.
        ends: where they end.
    """
    room = int((ends - starts).sum())
    buckets, counts = np.empty(room, np.uint16), np.empty(room, np.uint32)
    found, starts, ends = frozen(found, starts, ends)
    offsets = _tally(found, starts, ends, (buckets, counts))
    return offsets, buckets[: offsets[-1]].copy(), counts[: offsets[-1]].copy()


def join(sides: Sequence[Cells], rows: Rows, found: CellArray, ends: Integers) -> Cells:
    """The counts of matching rows, and further gaps, together.

    Args:
        sides: summaries.
        rows: per row of the answer its row in each summary, counted on from one summary to the next; -1 where it is not there.
        found: cells of further gaps, row by row.
        ends: where those of each row of the answer end.

    Returns:
        Counts in 32 bits where all of them fit, else in 64.
    """
    dtype = np.uint64 if sum(map(largest, sides)) + found.size >> 32 else np.uint32
    bases = np.cumsum([0, *(buckets.size for _, buckets, _ in sides)])
    starts = np.concatenate([offsets[:-1] + base for (offsets, _, _), base in zip(sides, bases, strict=False)])
    buckets = np.concatenate([buckets for _, buckets, _ in sides])
    counts = np.concatenate([counts.astype(dtype, copy=False) for _, _, counts in sides])
    target: Target = np.empty(buckets.size + found.size, np.uint16), np.empty(buckets.size + found.size, dtype)
    together = frozen(np.append(starts, bases[-1]), buckets, counts)
    rows, found, ends = frozen(rows, found, ends)
    offsets = _join(together, rows, found, ends, target)
    joined = offsets, target[0][: offsets[-1]], target[1][: offsets[-1]]
    return joined if largest(joined) >> 32 else (*joined[:2], joined[2].astype(np.uint32, copy=False))


def percentiles(frame: pl.DataFrame, percents: Sequence[int]) -> Floats:
    """The percentiles of each row, every one of which has values.

    Args:
        frame: the lists `buckets` and `counts`.
        percents: ascending.

    Returns:
        One row per row of the frame, one column per percentile; interpolated linearly between the middles of buckets.
    """
    ends = {name: _middles(frame["buckets"].list.get(at).to_numpy()) for name, at in (("min", 0), ("max", -1))}
    return quantiles(frame.with_columns(**ends), [percent / 100 for percent in percents], bits=BITS)


def _middles(buckets: npt.NDArray[np.integer[Any]]) -> Floats:
    places = buckets.astype(np.int64)
    middles: Floats = (bucket_starts(places, BITS) + bucket_starts(places + 1, BITS) - 1) / 2
    return middles


def largest(cells: Cells) -> int:
    """The largest of some counts."""
    return int(cells[2].max(initial=0))


@njit(nogil=True, cache=True)
def _tally(found: CellArray, starts: Integers, ends: Integers, target: Target) -> Integers:
    dense, marks = np.zeros(DENSE, np.uint64), np.zeros(DENSE // 64, np.uint64)
    offsets = np.zeros(starts.size + 1, np.int64)
    for row in range(starts.size):
        for place in range(starts[row], ends[row]):
            pour(int(BUCKET_OF_CELL[found[place]]), _ONE, dense, marks)
        offsets[row + 1] = drain(dense, marks, target, offsets[row])
    return offsets


@njit(nogil=True, cache=True)
def _join(sides: Cells, rows: Rows, found: CellArray, ends: Integers, target: Target) -> Integers:
    dense, marks = np.zeros(DENSE, np.uint64), np.zeros(DENSE // 64, np.uint64)
    offsets = np.zeros(ends.size + 1, np.int64)
    starts, buckets, counts = sides
    start = 0
    for row in range(ends.size):
        for own in rows[row]:
            for cell in range(starts[own], starts[own + 1]) if own >= 0 else range(0):
                pour(int(buckets[cell]), np.uint64(counts[cell]), dense, marks)
        for place in range(start, ends[row]):
            pour(int(BUCKET_OF_CELL[found[place]]), _ONE, dense, marks)
        start = ends[row]
        offsets[row + 1] = drain(dense, marks, target, offsets[row])
    return offsets


@njit(nogil=True, cache=True, inline="always")
def pour(bucket: int, count: np.uint64, dense: Dense, marks: Dense) -> None:
    """Count in an array over all buckets, and set a bit for the bucket."""
    dense[bucket] += count
    marks[bucket >> 6] |= _ONE << np.uint64(bucket & 63)


@inner
def drain(dense: Dense, marks: Dense, target: Target, size: int) -> int:
    """Move all counts out of the array into the cells from `size` on, lowest bucket first; how far these reach then."""
    return drain_into(target, (0, 0), dense, marks, target, size)


@inner
def drain_into(known: Target, reach: tuple[int, int], dense: Dense, marks: Dense, target: Target, size: int) -> int:
    """Move all counts out of the array likewise, added to those of known cells, which stand from one place up to another."""
    (places, numbers), (one, end), (buckets, counts) = known, reach, target
    for word in range(marks.size):
        rest = marks[word]
        while rest:
            lowest = rest & (~rest + _ONE)
            # A power of two, whose exponent a float holds above 52 bits of mantissa.
            bucket = (word << 6) + (np.float64(lowest).view(np.int64) >> 52) - 1023
            while one < end and places[one] < bucket:
                buckets[size], counts[size] = places[one], numbers[one]
                one, size = one + 1, size + 1
            buckets[size], counts[size] = bucket, dense[bucket]
            if one < end and places[one] == bucket:
                counts[size] += numbers[one]
                one += 1
            dense[bucket] = 0
            rest ^= lowest
            size += 1
        marks[word] = 0
    while one < end:
        buckets[size], counts[size] = places[one], numbers[one]
        one, size = one + 1, size + 1
    return size
