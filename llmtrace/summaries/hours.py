"""The gaps of a key hour by hour: those between requests of one and the same clock hour, as the paper's Figure 9 counts them.

A gap counts in the hour that holds both its requests; one that reaches over the end of an hour counts nowhere. Hours are those of
UTC. An hour of a key is busy with at least 10 requests, and valid if there are at least 5 positive gaps among them; its
coefficient of variation is that of its positive gaps, in billionths.

Parts are disjoint in time, so only the first and the last hour of a part can go on beyond it. Two tables hold a part:

    open_hours    a row per hour and key of those two hours: `hour_us` (its start), `key`, `requests`, `first_us`, `last_us`,
                  `positive` (gaps), `squares` (Σ gap², in microseconds squared; below 2^64 in an hour)
    hours         the hours between, closed, a row per key with a busy one:
        key
        busy, requests, squares, least_requests, most_requests
                                        busy hours; the sum of their requests, and of the squares (Float64: a whole number, exact
                                        below 2^53); the fewest and the most
        valid, valid_requests, cv_sum, least_cv, most_cv, above_1, above_2
                                        valid hours; their requests; the sum, the lowest and the highest of their coefficients of
                                        variation (2^63 - 1 and -1 without a valid hour), and how many of these exceed 1 and 2
        load_buckets, load_counts       histogram of the requests of busy hours (see `histogram`)
        cv_buckets, cv_counts           histogram of the coefficients of variation of valid hours
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import by_key, cells, moments
from llmtrace.summaries.cells import frozen, insert
from llmtrace.summaries.gaps import NOWHERE, align
from llmtrace.summaries.histogram import bucket_of
from llmtrace.summaries.intervals import HOUR
from llmtrace.summaries.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.groups import Integers

    Wide = npt.NDArray[np.uint64]
    Buckets = npt.NDArray[np.uint32]
    Tables = Mapping[str, pl.DataFrame]

__all__ = ["BITS", "BUSY_REQUESTS", "CV_UNIT", "LIMITS", "VALID_GAPS", "closed", "combine", "summaries"]

BUSY_REQUESTS = 10
VALID_GAPS = 5
CV_UNIT = 1e-9
"""Coefficients of variation are counted in billionths."""
BITS = 7
"""Significant bits of the histograms."""

_OPEN: Mapping[str, pl.DataType] = {
    "hour_us": pl.Int64(),
    "key": pl.UInt64(),
    "requests": pl.Int64(),
    "first_us": pl.Int64(),
    "last_us": pl.Int64(),
    "positive": pl.Int64(),
    "squares": pl.UInt64(),
}
_FIELDS = ("requests", "first_us", "last_us", "positive", "squares")
LIMITS = (1, 2)
_ADDED = ("busy", "requests", "squares", "valid", "valid_requests", "cv_sum", "above_1", "above_2")
_LEAST, _MOST = ("least_requests", "least_cv"), ("most_requests", "most_cv")
_TOTALS: Mapping[str, pl.DataType] = {**dict.fromkeys((*_ADDED, *_LEAST, *_MOST), pl.Int64()), "squares": pl.Float64()}
_LISTS = {"load_buckets": "load_counts", "cv_buckets": "cv_counts"}
_CLOSED: Mapping[str, pl.DataType] = {
    "key": pl.UInt64(),
    **_TOTALS,
    **{name: pl.List(pl.UInt32()) for pair in _LISTS.items() for name in pair},
}
_FARTHEST = np.iinfo(np.int64).max
_JOIN: Mapping[str, tuple[np.ufunc, int]] = {
    **dict.fromkeys(_ADDED, (np.add, 0)),
    **dict.fromkeys(_LEAST, (np.minimum, _FARTHEST)),
    **dict.fromkeys(_MOST, (np.maximum, -1)),
}
"""How totals of two parts are joined, and what stands for a key that one of them does not have."""


def summaries() -> dict[str, Summary]:
    """Both tables of a part in the form of `by_key`."""
    needs = {"key": pl.col("key"), "arrivals": pl.col("arrivals")}
    return {"open_hours": Summary(needs, _OPEN, _open), "hours": Summary(needs, _CLOSED, _closed)}


def combine(states: Sequence[Tables]) -> dict[str, pl.DataFrame]:
    """Both tables of all parts, which are neighbours in order of time."""
    return reduce(_joined, [{name: state[name] for name in ("open_hours", "hours")} for state in states])


def closed(state: Tables) -> pl.DataFrame:
    """The table of closed hours with those that are still open added."""
    return _merge(state["hours"], _folded(state["open_hours"]))


def _open(frame: pl.DataFrame) -> pl.DataFrame:
    return _by_hour(frame, inner=False, least=1).sort("hour_us", "key")


def _closed(frame: pl.DataFrame) -> pl.DataFrame:
    return _folded(_by_hour(frame, inner=True, least=BUSY_REQUESTS))


def _by_hour(frame: pl.DataFrame, *, inner: bool, least: int) -> pl.DataFrame:
    """The rows of `_OPEN` for every hour of every key with at least so many requests, in order of key and hour.

    Args:
        frame: the arrivals of each key.
        inner: only the hours between the first and the last; else only those two.
        least: requests.
    """
    if frame.is_empty():
        return pl.DataFrame(schema=_OPEN)
    keys, times, offsets = by_key.read(frame)
    edges = np.array([HOUR.floor_us(times.min()), HOUR.floor_us(times.max())])
    times, offsets, edges = frozen(times, offsets, edges)
    places, start, *columns = _walk(times, offsets, edges, HOUR.width_us, least, int(inner))
    return pl.DataFrame(dict(zip(_OPEN, [start, keys[places], *columns], strict=True)), schema=_OPEN)


def _joined(left: dict[str, pl.DataFrame], right: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Hours that meet at the border are united; those that are now between others are closed."""
    ours, theirs = left["open_hours"], right["open_hours"]
    if ours.is_empty() or theirs.is_empty():
        return left if theirs.is_empty() else right
    rows = _united(ours, theirs) if ours["hour_us"][-1] == theirs["hour_us"][0] else pl.concat([ours, theirs])
    starts = rows["hour_us"].to_numpy()
    first, last = np.searchsorted(starts, starts[0], "right"), np.searchsorted(starts, starts[-1], "left")
    between, edges = rows[first : max(first, last)], pl.concat([rows[:first], rows[max(first, last) :]])
    return {"open_hours": edges, "hours": reduce(_merge, [left["hours"], right["hours"], _folded(between)])}


def _united(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Rows of both sides in order of hour and key, those of the same hour and key as one."""
    hour = right["hour_us"][0]
    last = np.searchsorted(left["hour_us"].to_numpy(), hour, "left")
    first = np.searchsorted(right["hour_us"].to_numpy(), hour, "right")
    keys, ours, theirs = align(left["key"][last:].to_numpy(), right["key"][:first].to_numpy())
    joined = _join(*frozen(_fields(left[last:]), ours, _fields(right[:first]), theirs))
    *fields, squares = (joined[:, place] for place in range(len(_FIELDS)))
    shared = dict(zip(_OPEN, [np.full(keys.size, hour), keys, *fields, squares.view(np.uint64)], strict=True))
    return pl.concat([left[:last], pl.DataFrame(shared, schema=_OPEN), right[first:]])


def _fields(frame: pl.DataFrame) -> Integers:
    """A row of `_FIELDS` for each row, the squares by their bits."""
    rows = frame.select(pl.col(_FIELDS[:-1]), pl.col("squares").reinterpret(signed=True)).to_numpy()
    return np.ascontiguousarray(rows)


def _folded(hours: pl.DataFrame) -> pl.DataFrame:
    """The rows of `_CLOSED` for hours that are over."""
    busy = hours.filter(pl.col("requests") >= BUSY_REQUESTS).sort("key")
    if busy.is_empty():
        return pl.DataFrame(schema=_CLOSED)
    keys, starts = np.unique(busy["key"].to_numpy(), return_index=True)
    requests, cvs = busy["requests"].to_numpy(), _cvs(busy)
    offsets, loads, cvs = frozen(np.append(starts, busy.height), requests, cvs)
    lists = cells.lists(_histogram(offsets, loads, BITS), "load_buckets", "load_counts")
    lists += cells.lists(_histogram(offsets, cvs, BITS), "cv_buckets", "cv_counts")
    totals = _totals(starts, requests, cvs)
    return pl.DataFrame([pl.Series("key", keys), *(pl.Series(name, totals[name]) for name in _TOTALS), *lists])


def _cvs(hours: pl.DataFrame) -> Integers:
    """The coefficient of variation of each hour's positive gaps, whose sum is its span; -1 where the hour is not valid."""
    gaps, span = hours["positive"], hours["last_us"] - hours["first_us"]
    cv = moments.deviation(gaps, span, hours["squares"]) / (span / gaps)
    steps = (cv / CV_UNIT).set(gaps < VALID_GAPS, -1).round().cast(pl.Int64)
    return steps.to_numpy()


def _totals(starts: Integers, requests: Integers, cvs: Integers) -> dict[str, npt.NDArray[np.generic]]:
    """The sums and extremes of hours from each start on to the next."""
    valid = cvs >= 0
    counted = np.where(valid, cvs, 0)
    added = {
        "busy": np.ones_like(requests),
        "requests": requests,
        "squares": requests.astype(np.float64) ** 2,
        "valid": valid.astype(np.int64),
        "valid_requests": np.where(valid, requests, 0),
        "cv_sum": counted,
        **{f"above_{limit}": (counted > limit / CV_UNIT).astype(np.int64) for limit in LIMITS},
    }
    return {
        **{name: np.add.reduceat(values, starts) for name, values in added.items()},
        "least_requests": np.minimum.reduceat(requests, starts),
        "most_requests": np.maximum.reduceat(requests, starts),
        "least_cv": np.minimum.reduceat(np.where(valid, cvs, _FARTHEST), starts),
        "most_cv": np.maximum.reduceat(cvs, starts),
    }


def _merge(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    if left.is_empty() or right.is_empty():
        return left if right.is_empty() else right
    keys, ours, theirs = align(left["key"].to_numpy(), right["key"].to_numpy())
    columns = [pl.Series("key", keys)]
    for name in _TOTALS:
        join, nothing = _JOIN[name]
        sides = (
            np.where(rows == NOWHERE, nothing, side[name].to_numpy()[rows]) for side, rows in ((left, ours), (right, theirs))
        )
        columns.append(pl.Series(name, join(*sides)))
    for name, counts in _LISTS.items():
        merged = cells.merge(cells.read(left, name, counts), ours, cells.read(right, name, counts), theirs)
        columns += cells.lists(merged, name, counts)
    return pl.DataFrame(columns)


@njit(nogil=True, cache=True)
def _walk(
    times: Integers, offsets: Integers, edges: Integers, width: int, least: int, inner: int
) -> tuple[Integers, Integers, Integers, Integers, Integers, Integers, Wide]:
    """The hours between the edges (or at them) that have enough requests: place of the key, start, and what `_OPEN` has."""
    room = times.size // least
    at, start, requests = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    first, last, positive = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    squares = np.empty(room, np.uint64)
    found = 0
    for key in range(offsets.size - 1):
        row, end = offsets[key], offsets[key + 1]
        while row < end:
            hour = times[row] - times[row] % width
            beyond, gaps, square = _walk_hour(times, row, end, hour + width)
            is_inner = edges[0] < hour < edges[1]
            if beyond - row >= least and is_inner == inner:
                at[found], start[found], requests[found] = key, hour, beyond - row
                first[found], last[found], positive[found] = times[row], times[beyond - 1], gaps
                squares[found] = square
                found += 1
            row = beyond
    return at[:found], start[:found], requests[:found], first[:found], last[:found], positive[:found], squares[:found]


@njit(nogil=True, cache=True)
def _walk_hour(times: Integers, row: int, end: int, until: int) -> tuple[int, int, np.uint64]:
    """The first row after an hour that begins at `row`, its positive gaps, and the sum of their squares, which is below 2^64."""
    gaps, squares = 0, np.uint64(0)
    row += 1
    while row < end and times[row] < until:
        gap = times[row] - times[row - 1]
        gaps += gap > 0
        squares += np.uint64(gap) * np.uint64(gap)
        row += 1
    return row, gaps, squares


@njit(nogil=True, cache=True)
def _join(left: Integers, left_rows: Integers, right: Integers, right_rows: Integers) -> Integers:
    """The rows of `_FIELDS` of both sides together, with the gap between them."""
    joined = np.empty((left_rows.size, left.shape[1]), np.int64)
    for place in range(left_rows.size):
        if left_rows[place] < 0:
            joined[place] = right[right_rows[place]]
        elif right_rows[place] < 0:
            joined[place] = left[left_rows[place]]
        else:
            before, after = left[left_rows[place]], right[right_rows[place]]
            gap = after[1] - before[2]
            squares = np.uint64(before[4]) + np.uint64(after[4]) + np.uint64(gap) * np.uint64(gap)
            joined[place, 0], joined[place, 3] = before[0] + after[0], before[3] + after[3] + (gap > 0)
            joined[place, 1], joined[place, 2], joined[place, 4] = before[1], after[2], np.int64(squares)
    return joined


@njit(nogil=True, cache=True)
def _histogram(offsets: Integers, values: Integers, bits: int) -> Cells:
    """The buckets of each key's values; negative ones are none."""
    ends = np.zeros(offsets.size, np.int64)
    buckets, counts = np.empty(values.size + 1, np.uint32), np.empty(values.size + 1, np.uint32)
    for key in range(offsets.size - 1):
        size = ends[key]
        for value in values[offsets[key] : offsets[key + 1]]:
            if value >= 0:
                size = insert(bucket_of(value, bits), buckets, counts, ends[key], size)
        ends[key + 1] = size
    return ends, buckets[: ends[-1]].copy(), counts[: ends[-1]].copy()
