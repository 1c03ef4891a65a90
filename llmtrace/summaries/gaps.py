"""Gaps between consecutive requests of a key: inside a part by a kernel, across borders from the edges of its keys.

A part is sorted by time, so one pass that remembers the latest arrival of each key finds every gap inside it, and no gap is
negative. What a neighbour needs to know is in the part's edges, one row per key:

    key         ascending; never unknown: requests without a known key form no gaps
    requests    how many; UInt32, or UInt64 from 2^32 on
    first_us    the earliest arrival, in microseconds since 1970
    last_us     the latest

`border` gives the gaps between two neighbours, `combine` the edges of both together. Both walk sorted arrays once, so that states
of tens of millions of keys merge in the time it takes to copy them, at 28 bytes a key.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.interning import intern
from llmtrace.summaries.keys import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Ids, Integers, Keys

    Rows = npt.NDArray[np.int32]
    Counts = npt.NDArray[np.uint32 | np.uint64]

__all__ = ["NOWHERE", "NO_GAP", "align", "border", "combine", "edges", "gaps", "plan"]

NO_GAP = -1
"""The gap of a request without an earlier one of its key."""
NOWHERE = -1
"""The row of a key that a frame does not have."""

_NEVER = np.iinfo(np.int64).min
_SCHEMA = {"key": pl.UInt64, "requests": pl.UInt32, "first_us": pl.Int64, "last_us": pl.Int64}


def gaps(times_us: Integers, ids: Ids, count: int) -> Integers:
    """The gap from the previous row of the same id to each row, in microseconds; `NO_GAP` at an id's first row.

    Leave out rows of an unknown key (`pl.col(by) != UNKNOWN`) before: they are not requests of one and the same key.

    Args:
        times_us: arrivals, ascending.
        ids: the key of each row, as `groups.intern` or `groups.group` number them.
        count: how many different ids there are.

    >>> gaps(np.array([10, 10, 12, 15]), np.array([0, 1, 1, 0], np.uint32), 2)
    array([-1, -1,  2,  5])
    """
    return _gaps(times_us, ids, count)


def edges(times_us: Integers, ids: Ids, keys: Keys) -> pl.DataFrame:
    """The edges of rows whose keys are interned already.

    Args:
        times_us: arrivals, ascending.
        ids: the key of each row, as a place in `keys`.
        keys: known keys, each once.
    """
    order = np.argsort(keys)
    requests, first_us, last_us = (column[order] for column in _edges(times_us, ids, keys.size))
    return pl.DataFrame({"key": keys[order], "requests": requests, "first_us": first_us, "last_us": last_us}, schema=_SCHEMA)


def plan(frame: pl.LazyFrame, by: str) -> pl.LazyFrame:
    """The edges of a part.

    Args:
        frame: requests, sorted by `timestamp`.
        by: a column of keys.
    """
    known = frame.select(pl.col("timestamp").to_physical(), pl.col(by)).filter(pl.col(by) != UNKNOWN)
    return known.map_batches(partial(_summarise, by=by), schema=_SCHEMA)


def combine(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The edges of all parts, which are neighbours in order of time."""
    return reduce(_merge, frames)


def border(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """The gaps across the border between two neighbours: `key` (ascending) and `gap_us` of each key that both have.

    Args:
        left: edges of the earlier requests.
        right: edges of the later ones.
    """
    keys, gaps_us = _border(
        left["key"].to_numpy(), left["last_us"].to_numpy(), right["key"].to_numpy(), right["first_us"].to_numpy()
    )
    return pl.DataFrame({"key": keys, "gap_us": gaps_us}, schema={"key": pl.UInt64, "gap_us": pl.Int64})


def align(left: Keys, right: Keys) -> tuple[Keys, Rows, Rows]:
    """The union of two ascending sets of keys, and where each key is on the left and on the right.

    >>> align(np.array([3, 5], np.uint64), np.array([5, 9], np.uint64))
    (array([3, 5, 9], dtype=uint64), array([ 0,  1, -1], dtype=int32), array([-1,  0,  1], dtype=int32))
    """
    return _align(left, right)


def _summarise(frame: pl.DataFrame, *, by: str) -> pl.DataFrame:
    ids, keys = intern(frame[by].to_numpy())
    return edges(frame["timestamp"].to_numpy(), ids, keys)


def _merge(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    if left.is_empty() or right.is_empty():
        return left if right.is_empty() else right
    dtype = _count_dtype(left["requests"], right["requests"])
    sides = [_columns(side, dtype) for side in (left, right)]
    size = _union_size(sides[0][0], sides[1][0])
    union = np.empty(size, np.uint64), np.empty(size, dtype), np.empty(size, np.int64), np.empty(size, np.int64)
    _merge_edges(sides[0], sides[1], union)
    return pl.DataFrame(dict(zip(_SCHEMA, union, strict=True)))


def _count_dtype(left: pl.Series, right: pl.Series) -> type[np.unsignedinteger]:
    """Wide enough for the sum of any two counts."""
    largest = int(left.max() or 0) + int(right.max() or 0)  # type: ignore[arg-type]
    return np.uint32 if largest < 1 << 32 else np.uint64


def _columns(frame: pl.DataFrame, dtype: type[np.unsignedinteger]) -> tuple[Keys, Counts, Integers, Integers]:
    key, requests, first_us, last_us = (frame[name].to_numpy() for name in _SCHEMA)
    return key, requests.astype(dtype, copy=False), first_us, last_us


@njit(nogil=True, cache=True)
def _gaps(times: Integers, ids: Ids, count: int) -> Integers:
    latest = np.full(count, _NEVER)
    found = np.empty(times.size, np.int64)
    for row in range(times.size):
        before = latest[ids[row]]
        found[row] = times[row] - before if before != _NEVER else NO_GAP
        latest[ids[row]] = times[row]
    return found


@njit(nogil=True, cache=True)
def _edges(times: Integers, ids: Ids, count: int) -> tuple[Counts, Integers, Integers]:
    requests = np.zeros(count, np.uint32)
    first = np.empty(count, np.int64)
    last = np.empty(count, np.int64)
    for row in range(times.size):
        one = ids[row]
        if requests[one] == 0:
            first[one] = times[row]
        requests[one] += 1
        last[one] = times[row]
    return requests, first, last


@njit(nogil=True, cache=True)
def _union_size(left: Keys, right: Keys) -> int:
    a, b, size = 0, 0, 0
    while a < left.size and b < right.size:
        from_left, from_right = left[a] <= right[b], right[b] <= left[a]
        a, b, size = a + from_left, b + from_right, size + 1
    return size + left.size - a + right.size - b


@njit(nogil=True, cache=True)
def _merge_edges(
    left: tuple[Keys, Counts, Integers, Integers],
    right: tuple[Keys, Counts, Integers, Integers],
    union: tuple[Keys, Counts, Integers, Integers],
) -> None:
    (left_key, left_requests, left_first, left_last), (right_key, right_requests, right_first, right_last) = left, right
    key, requests, first, last = union
    a, b = 0, 0
    for row in range(key.size):
        from_left = b == right_key.size or (a < left_key.size and left_key[a] <= right_key[b])
        from_right = a == left_key.size or (b < right_key.size and right_key[b] <= left_key[a])
        key[row] = left_key[a] if from_left else right_key[b]
        first[row] = left_first[a] if from_left else right_first[b]
        last[row] = right_last[b] if from_right else left_last[a]
        requests[row] = 0
        if from_left:
            requests[row] += left_requests[a]
            a += 1
        if from_right:
            requests[row] += right_requests[b]
            b += 1


@njit(nogil=True, cache=True)
def _border(left: Keys, left_last: Integers, right: Keys, right_first: Integers) -> tuple[Keys, Integers]:
    size = left.size + right.size - _union_size(left, right)
    keys = np.empty(size, np.uint64)
    found = np.empty(size, np.int64)
    a, b, shared = 0, 0, 0
    while shared < size:
        if left[a] == right[b]:
            keys[shared], found[shared] = left[a], right_first[b] - left_last[a]
            shared += 1
        from_left, from_right = left[a] <= right[b], right[b] <= left[a]
        a, b = a + from_left, b + from_right
    return keys, found


@njit(nogil=True, cache=True)
def _align(left: Keys, right: Keys) -> tuple[Keys, Rows, Rows]:
    size = _union_size(left, right)
    keys = np.empty(size, np.uint64)
    left_rows = np.full(size, np.int32(NOWHERE))
    right_rows = np.full(size, np.int32(NOWHERE))
    a, b = 0, 0
    for row in range(size):
        from_left = b == right.size or (a < left.size and left[a] <= right[b])
        from_right = a == left.size or (b < right.size and right[b] <= left[a])
        keys[row] = left[a] if from_left else right[b]
        if from_left:
            left_rows[row] = a
            a += 1
        if from_right:
            right_rows[row] = b
            b += 1
    return keys, left_rows, right_rows
