"""Histograms of positive gaps per row, as sparse cells (see `cells`): counted from values, joined, and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numba import njit

from llmtrace.summaries.cells import frozen, insert
from llmtrace.summaries.histogram import bucket_of, bucket_starts
from llmtrace.summaries.quantiles import quantiles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy.typing as npt
    import polars as pl

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.groups import Integers

    Floats = npt.NDArray[np.float64]
    Buckets = npt.NDArray[np.uint16]
    Counts = npt.NDArray[np.uint32 | np.uint64]
    Rows = np.ndarray[tuple[int, int], np.dtype[np.int64]]

Target: TypeAlias = "tuple[Buckets, Counts]"

__all__ = ["BITS", "join", "percentiles", "tally"]

BITS = 6
"""Significant bits: what is read from a profile is off by at most a relative 2^-7."""

_BUCKETS = (64 - BITS) << BITS
_MANY = 64
"""From so many values on, counting in an array over all buckets is quicker than keeping cells in order."""


def tally(values: Integers, starts: Integers, ends: Integers) -> Cells:
    """Count the values of each row.

    Args:
        values: not negative; those of row r stand from starts[r] up to ends[r].
        starts: where rows begin.
        ends: where they end.
    """
    room = int((ends - starts).sum())
    buckets, counts = np.empty(room, np.uint16), np.empty(room, np.uint32)
    values, starts, ends = frozen(values, starts, ends)
    offsets = _tally(values, starts, ends, (buckets, counts))
    return offsets, buckets[: offsets[-1]].copy(), counts[: offsets[-1]].copy()


def join(left: Cells, right: Cells, rows: Rows, values: Integers, ends: Integers) -> Cells:
    """The counts of matching rows, and further values, together.

    Args:
        left: the cells of one summary.
        right: the cells of another.
        rows: per row of the answer its row on the left and its row on the right; -1 where it is not there.
        values: further values, row by row.
        ends: where those of each row of the answer end.

    Returns:
        Counts in 32 bits where all of them fit, else in 64.
    """
    dtype = np.uint64 if _largest(left) + _largest(right) + values.size >> 32 else np.uint32
    room = left[1].size + right[1].size + values.size
    buckets, counts = np.empty(room, np.uint16), np.empty(room, dtype)
    ours, theirs = (frozen(side[0], side[1], side[2].astype(dtype, copy=False)) for side in (left, right))
    rows, values, ends = frozen(rows, values, ends)
    offsets = _join(ours, theirs, rows, values, ends, (buckets, counts))
    joined = offsets, buckets[: offsets[-1]], counts[: offsets[-1]]
    return joined if _largest(joined) >> 32 else (*joined[:2], joined[2].astype(np.uint32, copy=False))


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


def _largest(cells: Cells) -> int:
    return int(cells[2].max(initial=0))


@njit(nogil=True, cache=True)
def _tally(values: Integers, starts: Integers, ends: Integers, target: Target) -> Integers:
    dense = np.zeros(_BUCKETS, np.uint32)
    offsets = np.zeros(starts.size + 1, np.int64)
    for row in range(starts.size):
        members = values[starts[row] : ends[row]]
        offsets[row + 1] = _count(members, dense, target, offsets[row], offsets[row])
    return offsets


@njit(nogil=True, cache=True)
def _count(values: Integers, dense: Counts, target: Target, first: int, size: int) -> int:
    """Count values among the cells from `first` up to `size`; how far these reach then.

    `dense` is zero for every bucket, before and after.
    """
    buckets, counts = target
    if first < size or values.size < _MANY:
        for value in values:
            size = insert(bucket_of(value, BITS), buckets, counts, first, size)
        return size
    least, most = dense.size, -1
    for value in values:
        bucket = bucket_of(value, BITS)
        dense[bucket] += 1
        least, most = min(least, bucket), max(most, bucket)
    for bucket in range(least, most + 1):
        if dense[bucket]:
            buckets[size], counts[size] = bucket, dense[bucket]
            dense[bucket] = 0
            size += 1
    return size


@njit(nogil=True, cache=True)
def _join(left: Cells, right: Cells, rows: Rows, values: Integers, ends: Integers, target: Target) -> Integers:
    dense = np.zeros(_BUCKETS, np.uint32)
    offsets = np.zeros(ends.size + 1, np.int64)
    start = 0
    for row in range(ends.size):
        first = offsets[row]
        size = _merge(left, rows[row, 0], right, rows[row, 1], target, first)
        offsets[row + 1] = _count(values[start : ends[row]], dense, target, first, size)
        start = ends[row]
    return offsets


@njit(nogil=True, cache=True)
def _merge(left: Cells, a: int, right: Cells, b: int, target: Target, size: int) -> int:
    """Merge two rows (-1: none) into the cells from `size` on; how far these reach then."""
    (a_offsets, a_buckets, a_counts), (b_offsets, b_buckets, b_counts), (buckets, counts) = left, right, target
    here, a_end = (a_offsets[a], a_offsets[a + 1]) if a >= 0 else (0, 0)
    there, b_end = (b_offsets[b], b_offsets[b + 1]) if b >= 0 else (0, 0)
    while here < a_end and there < b_end:
        from_a, from_b = a_buckets[here] <= b_buckets[there], b_buckets[there] <= a_buckets[here]
        buckets[size] = min(a_buckets[here], b_buckets[there])
        counts[size] = from_a * a_counts[here] + from_b * b_counts[there]
        here, there, size = here + from_a, there + from_b, size + 1
    for rest in range(here, a_end):
        buckets[size], counts[size] = a_buckets[rest], a_counts[rest]
        size += 1
    for rest in range(there, b_end):
        buckets[size], counts[size] = b_buckets[rest], b_counts[rest]
        size += 1
    return size
