"""How many distinct keys there are, overall and per interval, exactly and whatever the cut.

A part is sorted by time, so one pass that remembers the interval in which it last saw each key counts every interval of the
part. Those between the part's first and last interval are closed: nothing outside the part can add to them, and their number is
enough. The first and the last stay open and keep their keys, until neighbours close them.

Columns of a summary:

    time        start of the interval; null in the one row (the first) for all intervals together
    distinct    how many known keys it has
    keys        those keys, ascending (a list); null where the interval is closed
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.groups import needs
from llmtrace.summaries.interning import intern
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Ids, Integers, Keys
    from llmtrace.summaries.intervals import Interval

__all__ = ["combine", "overall", "per_interval", "summary"]

_SCHEMA: Mapping[str, pl.DataType] = {"time": pl.Datetime("us"), "distinct": pl.Int64(), "keys": pl.List(pl.UInt64)}


def summary(by: str, interval: Interval | None = None) -> Summary:
    """Count distinct known keys.

    Args:
        by: a column of keys.
        interval: the intervals to count in, the part being sorted by `timestamp` then; only overall if None.
    """
    return Summary(needs(by, interval), _SCHEMA, partial(_summarise, by=by, interval=interval))


def combine(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The summary of all parts: rows of one time are united, and intervals that are no longer first or last are closed."""
    rows = pl.concat(frames)
    times = rows["time"].drop_nulls()
    is_open = pl.col("time").is_in([times.min(), times.max(), None], nulls_equal=True)
    once = rows.filter(~pl.col("time").is_duplicated())
    united = [_row(time, _united(same["keys"])) for (time,), same in rows.filter(pl.col("time").is_duplicated()).group_by("time")]
    return pl.concat([once, *united]).with_columns(pl.when(is_open).then("keys")).sort("time", nulls_last=False)


def overall(frame: pl.DataFrame) -> int | None:
    """The number of distinct keys; None where no row has a known key."""
    return frame["distinct"][0] or None


def per_interval(frame: pl.DataFrame) -> pl.DataFrame:
    """`time` and `distinct` for every interval with requests, ascending."""
    return frame.select("time", "distinct").filter(pl.col("time").is_not_null())


def _summarise(frame: pl.DataFrame, *, by: str, interval: Interval | None) -> pl.DataFrame:
    ids, keys = intern(frame[by].to_numpy())
    rows = [_row(None, np.sort(keys[keys != UNKNOWN]))]
    if interval is None or frame.is_empty():
        return pl.concat(rows)
    borders, starts = interval.runs(frame["timestamp"].to_numpy())
    counts = _count_runs(ids, borders, keys == UNKNOWN)
    times = pl.Series(starts).cast(pl.Datetime("us"))
    edges = sorted({0, starts.size - 1})
    open_rows = [_row(times[edge], _seen(ids[borders[edge] : borders[edge + 1]], keys)) for edge in edges]
    closed = pl.DataFrame({"time": times, "distinct": counts}).slice(1, max(starts.size - 2, 0))
    return pl.concat([*rows, open_rows[0], closed.with_columns(keys=pl.lit(None, _SCHEMA["keys"])), *open_rows[1:]])


def _row(time: object, keys: Keys) -> pl.DataFrame:
    held = pl.Series(keys, dtype=pl.UInt64).implode()
    return pl.DataFrame({"time": [time], "distinct": [keys.size], "keys": held}, schema=_SCHEMA)


def _seen(ids: Ids, keys: Keys) -> Keys:
    seen = _flags(ids, keys.size) & (keys != UNKNOWN)
    return np.sort(keys[seen])


def _united(sets: Iterable[pl.Series]) -> Keys:
    return reduce(_union, (keys.to_numpy() for keys in sets))


@njit(nogil=True, cache=True)
def _flags(ids: Ids, distinct: int) -> npt.NDArray[np.bool_]:
    seen = np.zeros(distinct, np.bool_)
    for one in ids:
        seen[one] = True
    return seen


@njit(nogil=True, cache=True)
def _count_runs(ids: Ids, borders: Integers, unknown: npt.NDArray[np.bool_]) -> Integers:
    """The number of distinct known keys in each run of rows."""
    counts = np.zeros(borders.size - 1, np.int64)
    runs_seen = np.zeros(unknown.size, np.int64)
    for run in range(counts.size):
        for row in range(borders[run], borders[run + 1]):
            one = ids[row]
            counts[run] += (runs_seen[one] <= run) & (not unknown[one])
            runs_seen[one] = run + 1
    return counts


@njit(nogil=True, cache=True)
def _union(left: Keys, right: Keys) -> Keys:
    """The union of two ascending sets, ascending."""
    union = np.empty(left.size + right.size, np.uint64)
    a, b, size = 0, 0, 0
    while a < left.size and b < right.size:
        from_left, from_right = left[a] <= right[b], right[b] <= left[a]
        union[size] = left[a] if from_left else right[b]
        a, b, size = a + from_left, b + from_right, size + 1
    for rest in range(a, left.size):
        union[size] = left[rest]
        size += 1
    for rest in range(b, right.size):
        union[size] = right[rest]
        size += 1
    return union[:size]
