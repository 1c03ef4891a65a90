"""Distributions of integers: exact count, sum, minimum and maximum, and a log-linear histogram, per group and value column.

The layout is that of HdrHistogram. With `bits` significant bits, values below 2^(bits+1) have a bucket each; above, each
power of two is cut into 2^bits buckets of equal width, so that the middle of a bucket is within a relative 2^-(bits+1) of every
value in it. Values reach to 2^63 - 1. Buckets are numbered upwards from 0.

Columns of a summary, one row per value column and group, ascending:

    column      the value column
    time, key   the group, where grouped by them
    known       rows with a value
    sum         of the values, Int128
    min, max    exact; null where nothing is known
    buckets     the buckets that hold values, ascending (a list)
    counts      how many values each holds (a list of the same length)
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import cells
from llmtrace.summaries.groups import group, needs
from llmtrace.summaries.summary import Summary
from llmtrace.summaries.sums import wide

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.groups import Groups, Integers, Keys
    from llmtrace.summaries.intervals import Interval

    Buckets = npt.NDArray[np.uint16 | np.uint32]
    Counts = npt.NDArray[np.uint32 | np.uint64]

__all__ = [
    "bucket_indices",
    "bucket_middle",
    "bucket_of",
    "bucket_starts",
    "combine",
    "exact_below",
    "lists",
    "relative_error",
    "summary",
]

_LABELS = {"column": pl.String(), "time": pl.Datetime("us"), "key": pl.UInt64()}
_TOTALS = {"known": pl.Int64(), "sum": pl.Int128(), "min": pl.Int64(), "max": pl.Int64()}
_FEW = 64
_LARGEST = (1 << 63) - 1


def exact_below(bits: int) -> int:
    """The value below which a histogram is exact: 2^(bits+1)."""
    return 1 << (bits + 1)


def relative_error(bits: int) -> float:
    """How far a value read from a histogram may be off, relative to the true one: 2^-(bits+1)."""
    return 1 / (1 << (bits + 1))


@njit(nogil=True, cache=True)
def bucket_of(value: int, bits: int) -> int:
    """The bucket of a value (not negative), for kernels.

    >>> [bucket_of(value, 2) for value in (7, 8, 9, 2**63 - 1)]
    [7, 8, 8, 247]
    """
    # A float has its exponent above 52 bits of mantissa; one that is rounded up to a power of two leads to the same bucket.
    exponent = max(int(np.float64(value).view(np.int64) >> 52) - 1023 - bits, 0)
    return (exponent << bits) + (value >> exponent)


def bucket_indices(values: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.int64]:
    """The bucket of each value (not negative).

    >>> bucket_indices(np.array([0, 7, 8, 9, 10, 2**63 - 1]), bits=2)
    array([  0,   7,   8,   8,   9, 247])
    """
    indices: npt.NDArray[np.int64] = _bucket_indices(values, bits)
    return indices


def bucket_starts(buckets: npt.NDArray[np.integer], bits: int) -> npt.NDArray[np.int64]:
    """The lowest value of each bucket.

    >>> bucket_starts(np.array([7, 8, 9, 247]), bits=2)
    array([                  7,                   8,                  10,
           8070450532247928832])
    """
    exponents = np.maximum((buckets.astype(np.int64) >> bits) - 1, 0)
    starts: npt.NDArray[np.int64] = (buckets.astype(np.int64) - (exponents << bits)) << exponents
    return starts


@njit(nogil=True, cache=True)
def bucket_middle(bucket: int, bits: int) -> float:
    """The middle of a bucket's lowest and highest value: what a value read from the histogram is taken to be.

    >>> [bucket_middle(bucket, 2) for bucket in (7, 8, 9)]
    [7.0, 8.5, 10.5]
    """
    exponent = 0 if bucket >> bits == 0 else (bucket >> bits) - 1
    return float((bucket - (exponent << bits)) << exponent) + ((1 << exponent) - 1) / 2


def summary(columns: Sequence[str], *, bits: int, by: str | None = None, interval: Interval | None = None) -> Summary:
    """Describe the distribution of value columns, per group.

    Args:
        columns: value columns: Int64, not negative, null where not known.
        bits: significant bits, 1 to 15.
        by: a column of keys to group by.
        interval: the intervals to group by; the part is sorted by `timestamp` then.
    """
    labels = [name for name, given in (("column", columns), ("time", interval), ("key", by)) if given is not None]
    held = {"buckets": pl.List(_bucket_dtype(bits)), "counts": pl.List(pl.UInt32)}
    return Summary(
        needs(by, interval, columns),
        {**{label: _LABELS[label] for label in labels}, **_TOTALS, **held},
        partial(_summarise, columns=sorted(columns), bits=bits, by=by, interval=interval),
    )


def combine(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The summary of all parts, of the same `bits`."""
    return reduce(_merge, frames)


def lists(frame: pl.DataFrame) -> Cells:
    """The histograms of a summary as flat arrays: row r has the cells from offsets[r] up to offsets[r + 1].

    Returns:
        Offsets, and the buckets and counts of all rows end to end; views into the frame where it is one chunk.
    """
    return cells.read(frame, "buckets")


def _summarise(
    frame: pl.DataFrame, *, columns: Sequence[str], bits: int, by: str | None, interval: Interval | None
) -> pl.DataFrame:
    groups = group(frame, by, interval)
    offsets, arranged = groups.arranged(*(frame[column].to_numpy() for column in columns))
    return pl.concat(_one_column(groups, offsets, *pair, bits) for pair in zip(columns, arranged, strict=True))


def _one_column(groups: Groups, offsets: Integers, column: str, values: Integers, bits: int) -> pl.DataFrame:
    """The rows of one value column, whose values stand group by group."""
    dense = np.zeros(_bucket_count(bits), np.uint32)
    (known, low, high, least, most), ends, buckets, counts = _describe(values, offsets, groups.order, bits, dense)
    labels = {"column": np.repeat(column, known.size), **groups.labels}
    described = {**labels, "known": known, "sum": wide(high, low), "min": least, "max": most}
    nothing = pl.when(pl.col("known") > 0)
    return pl.DataFrame(described).with_columns(
        nothing.then("min"),
        nothing.then("max"),
        *cells.lists((ends, buckets[: ends[-1]].astype(_bucket_numpy(bits)), counts[: ends[-1]].copy()), "buckets"),
    )


def _merge(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    rows = _matched(left, right)
    merged = cells.merge(lists(left), rows["left"].to_numpy(), lists(right), rows["right"].to_numpy())
    return rows.drop("left", "right").with_columns(cells.lists(merged, "buckets"))


def _matched(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Labels and totals of the union of rows, and where each is on the left and on the right (-1: nowhere)."""
    nowhere = pl.lit(-1, pl.Int64)
    row = pl.int_range(pl.len())
    sides = pl.concat(
        [
            left.select(pl.exclude("buckets", "counts"), row.alias("left"), nowhere.alias("right")),
            right.select(pl.exclude("buckets", "counts"), nowhere.alias("left"), row.alias("right")),
        ]
    )
    labels = [name for name in left.columns if name in _LABELS]
    totals = (pl.col("known", "sum").sum(), pl.col("min").min(), pl.col("max", "left", "right").max())
    return sides.group_by(labels).agg(*totals).sort(labels)


def _bucket_count(bits: int) -> int:
    return (64 - bits) << bits


def _bucket_dtype(bits: int) -> type[pl.DataType]:
    return pl.UInt16 if _bucket_count(bits) <= 1 << 16 else pl.UInt32


def _bucket_numpy(bits: int) -> type:
    return np.uint16 if _bucket_count(bits) <= 1 << 16 else np.uint32


@njit(nogil=True, cache=True)
def _bucket_indices(values: Integers, bits: int) -> Integers:
    buckets = np.empty(values.size, np.int64)
    for row in range(values.size):
        buckets[row] = bucket_of(values[row], bits)
    return buckets


@njit(nogil=True, cache=True)
def _describe(
    values: Integers, offsets: Integers, order: Integers, bits: int, dense: Counts
) -> tuple[tuple[Integers, Keys, Integers, Integers, Integers], Integers, Buckets, Counts]:
    """Totals and histogram of each group, in the given order; `dense` is zero for every bucket, before and after.

    Returns:
        Known values, their sum's lower and upper 64 bits, minimum and maximum; the ends of the groups' cells; buckets and counts.
    """
    known, low, high = np.zeros_like(order), np.zeros(order.size, np.uint64), np.zeros_like(order)
    least, most = np.zeros_like(order), np.zeros_like(order)
    ends = np.zeros(order.size + 1, np.int64)
    buckets, counts = np.empty(values.size + 1, np.uint32), np.empty(values.size + 1, np.uint32)
    cells = 0
    for place in range(order.size):
        members = values[offsets[order[place]] : offsets[order[place] + 1]]
        known[place], low[place], high[place], least[place], most[place] = _total(members)
        if known[place] < _FEW:
            cells = _tally_few(members, bits, buckets, counts, cells)
        else:
            _tally(members, bits, dense)
            cells = _drain(dense, bucket_of(least[place], bits), bucket_of(most[place], bits), buckets, counts, cells)
        ends[place + 1] = cells
    return (known, low, high, least, most), ends, buckets, counts


@njit(nogil=True, cache=True)
def _total(members: Integers) -> tuple[int, int, int, int, int]:
    """Number, sum (lower and upper 64 bits), minimum and maximum of the known values of a group."""
    known, high = 0, 0
    low, least, most = np.uint64(0), np.int64(_LARGEST), np.int64(-1)
    for value in members:
        if value >= 0:
            known += 1
            low += np.uint64(value)
            high += int(low < np.uint64(value))
            least, most = np.int64(min(least, value)), np.int64(max(most, value))
    return known, int(low), high, int(least), int(most)


@njit(nogil=True, cache=True)
def _tally_few(members: Integers, bits: int, buckets: Buckets, counts: Counts, cells: int) -> int:
    """Count known values by insertion, keeping the cells of this group sorted."""
    first = cells
    for value in members:
        if value < 0:
            continue
        bucket = bucket_of(value, bits)
        cell = cells
        while cell > first and buckets[cell - 1] > bucket:
            buckets[cell], counts[cell] = buckets[cell - 1], counts[cell - 1]
            cell -= 1
        if cell > first and buckets[cell - 1] == bucket:
            counts[cell - 1] += 1
            _close_gap(buckets, counts, cell, cells)
        else:
            buckets[cell], counts[cell] = bucket, 1
            cells += 1
    return cells


@njit(nogil=True, cache=True)
def _close_gap(buckets: Buckets, counts: Counts, cell: int, cells: int) -> None:
    """Move the cells above a hole at `cell` down by one."""
    for hole in range(cell, cells):
        buckets[hole], counts[hole] = buckets[hole + 1], counts[hole + 1]


@njit(nogil=True, cache=True)
def _tally(members: Integers, bits: int, dense: Counts) -> None:
    """Count known values in an array over all buckets."""
    for value in members:
        if value >= 0:
            dense[bucket_of(value, bits)] += 1


@njit(nogil=True, cache=True)
def _drain(dense: Counts, low: int, high: int, buckets: Buckets, counts: Counts, cells: int) -> int:
    """Move the counts of buckets from `low` to `high` out of the array that holds them all, without a branch per bucket."""
    for bucket in range(low, high + 1):
        buckets[cells], counts[cells] = bucket, dense[bucket]
        cells += dense[bucket] > 0
        dense[bucket] = 0
    return cells
