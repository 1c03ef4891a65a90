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
    from llmtrace.summaries.groups import Groups, Ids, Integers, Keys
    from llmtrace.summaries.intervals import Interval

    Buckets = npt.NDArray[np.uint16 | np.uint32]
    Counts = npt.NDArray[np.uint32 | np.uint64]

__all__ = [
    "bucket_count",
    "bucket_indices",
    "bucket_middle",
    "bucket_of",
    "bucket_starts",
    "combine",
    "exact_below",
    "lists",
    "relative_error",
    "summary",
    "tallied",
]

_LABELS = {"column": pl.String(), "time": pl.Datetime("us"), "key": pl.UInt64()}
_TOTALS = {"known": pl.Int64(), "sum": pl.Int128(), "min": pl.Int64(), "max": pl.Int64()}


def exact_below(bits: int) -> int:
    """The value below which a histogram is exact: 2^(bits+1)."""
    return 1 << (bits + 1)


def relative_error(bits: int) -> float:
    """How far a value read from a histogram may be off, relative to the true one: 2^-(bits+1)."""
    return 1 / (1 << (bits + 1))


def bucket_count(bits: int) -> int:
    """How many buckets there are."""
    return (64 - bits) << bits


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


def tallied(groups: Groups, offsets: Integers, values: Integers, bits: int) -> Cells:
    """How many values of each group are in each bucket, groups in ascending order.

    Args:
        groups: of rows.
        offsets: theirs.
        values: per row, -1 where not known.
        bits: significant bits.
    """
    # One group is counted in place, several group by group.
    dense = np.zeros(bucket_count(bits), np.uint32)
    if groups.order.size == 1:
        _tally(values, bits, dense)
        occurring = np.flatnonzero(dense)
        return np.array([0, occurring.size]), occurring.astype(_bucket_numpy(bits)), dense[occurring]
    members: Buckets = np.empty(values.size, _bucket_numpy(bits))
    ends = _spread(groups.ids, offsets, values, bits, members)
    found, buckets, counts = _tally_groups(members, offsets, ends, groups.order, dense)
    return found, buckets[: found[-1]].copy(), counts[: found[-1]].copy()


def _summarise(
    frame: pl.DataFrame, *, columns: Sequence[str], bits: int, by: str | None, interval: Interval | None
) -> pl.DataFrame:
    groups = group(frame, by, interval)
    offsets = groups.offsets()
    return pl.concat(_one_column(groups, offsets, frame[column], bits) for column in columns)


def _one_column(groups: Groups, offsets: Integers, values: pl.Series, bits: int) -> pl.DataFrame:
    """The rows of one value column."""
    numbers, order = values.to_numpy(), groups.order
    known, low, high, least, most = _totals(groups.ids, numbers, order.size)
    found = {"known": known[order], "sum": wide(high[order], low[order]), "min": least[order], "max": most[order]}
    totals = pl.DataFrame({**groups.labels, **found})
    something = pl.when(pl.col("known") > 0)
    return totals.select(
        pl.lit(values.name).alias("column"),
        *groups.labels,
        "known",
        "sum",
        something.then("min"),
        something.then("max"),
        *cells.lists(tallied(groups, offsets, numbers, bits), "buckets"),
    )


def _merge(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    rows = _matched(left, right)
    merged = cells.merge(lists(left), rows["left"].to_numpy(), lists(right), rows["right"].to_numpy())
    return rows.drop("left", "right").with_columns(cells.lists(merged, "buckets"))


def _matched(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Labels and totals of the union of rows, and where each is on the left and on the right (-1: nowhere)."""
    labels = [name for name in left.columns if name in _LABELS]
    ours, theirs = (side.drop("buckets", "counts").with_columns(row=pl.int_range(pl.len())) for side in (left, right))
    both = ours.join(theirs, on=labels, how="full", suffix="_there", coalesce=True).sort(labels)
    return both.select(
        *labels,
        *(pl.col(name).fill_null(0) + pl.col(f"{name}_there").fill_null(0) for name in ("known", "sum")),
        pl.min_horizontal("min", "min_there"),
        pl.max_horizontal("max", "max_there"),
        pl.col("row").fill_null(-1).alias("left"),
        pl.col("row_there").fill_null(-1).alias("right"),
    )


def _bucket_dtype(bits: int) -> type[pl.DataType]:
    return pl.UInt16 if bucket_count(bits) <= 1 << 16 else pl.UInt32


def _bucket_numpy(bits: int) -> type:
    return np.uint16 if bucket_count(bits) <= 1 << 16 else np.uint32


@njit(nogil=True, cache=True)
def _bucket_indices(values: Integers, bits: int) -> Integers:
    buckets = np.empty(values.size, np.int64)
    for row in range(values.size):
        buckets[row] = bucket_of(values[row], bits)
    return buckets


@njit(nogil=True, cache=True)
def _totals(ids: Ids, values: Integers, groups: int) -> tuple[Integers, Keys, Integers, Integers, Integers]:
    """Number, sum (lower and upper 64 bits), minimum and maximum of the known values of each group."""
    known, low, high = np.zeros(groups, np.int64), np.zeros(groups, np.uint64), np.zeros(groups, np.int64)
    least, most = np.empty(groups, np.int64), np.zeros(groups, np.int64)
    for row in range(values.size):
        value = values[row]
        if value >= 0:
            one = ids[row]
            least[one] = value if known[one] == 0 else min(least[one], value)
            most[one] = max(most[one], value)
            known[one] += 1
            low[one] += np.uint64(value)
            high[one] += low[one] < np.uint64(value)
    return known, low, high, least, most


@njit(nogil=True, cache=True)
def _tally(values: Integers, bits: int, dense: Counts) -> None:
    """Count known values in an array over all buckets."""
    for value in values:
        if value >= 0:
            dense[bucket_of(value, bits)] += 1


@njit(nogil=True, cache=True)
def _spread(ids: Ids, offsets: Integers, values: Integers, bits: int, members: Buckets) -> Integers:
    """Put the buckets of known values group by group, those of group g from offsets[g] on; where each group's end."""
    ends = offsets[:-1].copy()
    for row in range(values.size):
        if values[row] >= 0:
            members[ends[ids[row]]] = bucket_of(values[row], bits)
            ends[ids[row]] += 1
    return ends


@njit(nogil=True, cache=True)
def _tally_groups(
    members: Buckets, offsets: Integers, ends: Integers, order: Integers, dense: Counts
) -> tuple[Integers, Buckets, Counts]:
    """Count equal buckets within each group, groups in the given order; `dense` is zero for every bucket, before and after."""
    found = np.zeros(order.size + 1, np.int64)
    buckets, counts = np.empty(members.size, members.dtype), np.empty(members.size, np.uint32)
    marks = np.zeros(dense.size // 64 + 1, np.uint64)
    for place in range(order.size):
        first, end = offsets[order[place]], ends[order[place]]
        low, high = _mark(members[first:end], dense, marks)
        found[place + 1] = _drain(low, high, dense, marks, buckets, counts, found[place])
    return found, buckets, counts


@njit(nogil=True, cache=True)
def _mark(members: Buckets, dense: Counts, marks: Keys) -> tuple[int, int]:
    """Count buckets in an array of all, and set a bit for each that occurs; the first and the last word of bits that is used."""
    low, high = np.uint64(marks.size), np.uint64(0)
    for member in members:
        # Whether the bucket occurs for the first time nobody could predict, so nothing depends on it.
        word = np.uint64(member) >> np.uint64(6)
        marks[word] |= np.uint64(1) << (np.uint64(member) & np.uint64(63))
        dense[np.uint64(member)] += 1
        low, high = min(low, word), max(high, word)
    return int(low), int(high)


@njit(nogil=True, cache=True)
def _drain(low: int, high: int, dense: Counts, marks: Keys, buckets: Buckets, counts: Counts, size: int) -> int:
    """Move the counts of the buckets of some words out of the array of all, ascending; how many there are in the list then."""
    for word in range(low, high + 1):
        rest, marks[word] = marks[word], 0
        while rest:
            lowest = rest & (~rest + np.uint64(1))
            bucket = (word << 6) + (np.float64(lowest).view(np.int64) >> 52) - 1023
            buckets[size], counts[size], dense[bucket] = bucket, dense[bucket], 0
            rest ^= lowest
            size += 1
    return size
