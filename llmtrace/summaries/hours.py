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

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import by_key, cells, marked, moments
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.histogram import bucket_indices
from llmtrace.summaries.intervals import HOUR, end_of_run
from llmtrace.summaries.kernels import inner
from llmtrace.summaries.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.groups import Integers

    Wide = npt.NDArray[np.uint64]
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
_FIELDS = ("hour_us", "requests", "first_us", "last_us", "positive")
_HOUR_US = HOUR.width_us
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
_JOIN: Mapping[str, np.ufunc] = {
    **dict.fromkeys(_ADDED, np.add),
    **dict.fromkeys(_LEAST, np.minimum),
    **dict.fromkeys(_MOST, np.maximum),
}
"""How totals of several parts are joined."""


def summaries() -> dict[str, Summary]:
    """Both tables of a part in the form of `by_key`."""
    needs = {"key": pl.col("key"), "arrivals": pl.col("arrivals")}
    return {"open_hours": Summary(needs, _OPEN, _open), "hours": Summary(needs, _CLOSED, _closed)}


def combine(states: Sequence[Tables]) -> dict[str, pl.DataFrame]:
    """Both tables of all parts, which are neighbours in order of time: hours that are now between others are closed."""
    rows = _united(pl.concat([state["open_hours"] for state in states]))
    is_edge = pl.col("hour_us").is_in([rows["hour_us"].min(), rows["hour_us"].max()])
    return {
        "open_hours": rows.filter(is_edge),
        "hours": _joined([*(state["hours"] for state in states), _folded(rows.filter(~is_edge))]),
    }


def closed(state: Tables) -> pl.DataFrame:
    """The table of closed hours with those that are still open added."""
    return _joined([state["hours"], _folded(state["open_hours"])])


def _open(frame: pl.DataFrame) -> pl.DataFrame:
    return _by_hour(frame, between=False, least=1).sort("hour_us", "key")


def _closed(frame: pl.DataFrame) -> pl.DataFrame:
    return _folded(_by_hour(frame, between=True, least=BUSY_REQUESTS))


def _by_hour(frame: pl.DataFrame, *, between: bool, least: int) -> pl.DataFrame:
    """The rows of `_OPEN` for every hour of every key with at least so many requests, in order of key and hour.

    Args:
        frame: the arrivals of each key.
        between: only the hours between the first and the last; else only those two.
        least: requests.
    """
    if frame.is_empty():
        return pl.DataFrame(schema=_OPEN)
    keys, times, offsets = by_key.read(frame)
    first, last = HOUR.floor_us(times[offsets[:-1]].min()), HOUR.floor_us(times[offsets[1:] - 1].max())
    times, offsets = frozen(times, offsets)
    places, *fields, squares = _walk(times, offsets, (first + HOUR.width_us, last), least, int(between)).T
    columns = [pl.Series("key", keys[places]), *map(pl.Series, _FIELDS, fields), pl.Series("squares", squares.view(np.uint64))]
    return pl.DataFrame(columns).select(*_OPEN)


def _united(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the same hour and key as one, with the gaps between them, in order of hour and key.

    Args:
        rows: in order of time for each key.
    """
    hour, key = pl.col("hour_us"), pl.col("key")
    goes_on = (hour == hour.shift()) & (key == key.shift())
    gap = pl.when(goes_on).then(pl.col("first_us") - pl.col("last_us").shift())
    positive = pl.col("positive") + (pl.col("gap") > 0).fill_null(value=False)
    squares = pl.col("squares") + pl.col("gap").fill_null(0).cast(pl.UInt64).pow(2)
    return (
        rows.sort("hour_us", "key", maintain_order=True)
        .with_columns(gap=gap)
        .group_by("hour_us", "key", maintain_order=True)
        .agg(pl.col("requests").sum(), pl.col("first_us").first(), pl.col("last_us").last(), positive.sum(), squares.sum())
    )


def _folded(hours: pl.DataFrame) -> pl.DataFrame:
    """The rows of `_CLOSED` for hours that are over."""
    busy = hours.filter(pl.col("requests") >= BUSY_REQUESTS).sort("key")
    if busy.is_empty():
        return pl.DataFrame(schema=_CLOSED)
    keys, starts = np.unique(busy["key"].to_numpy(), return_index=True)
    requests, cvs = busy["requests"].to_numpy(), _cvs(busy)
    offsets = np.append(starts, busy.height)
    lists = cells.lists(_histogram(offsets, requests), "load_buckets", "load_counts")
    lists += cells.lists(_histogram(offsets, cvs), "cv_buckets", "cv_counts")
    totals = _totals(starts, requests, cvs)
    return pl.DataFrame([pl.Series("key", keys), *(pl.Series(name, totals[name]) for name in _TOTALS), *lists])


def _histogram(offsets: Integers, values: Integers) -> Cells:
    """The buckets of each key's values; negative ones are none."""
    known = values >= 0
    buckets = bucket_indices(values[known], BITS).astype(np.uint32)
    each = np.append(0, known.cumsum()), buckets, np.ones(buckets.size, np.uint32)
    return marked.added_up(each, np.arange(values.size), offsets)


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


def _joined(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of several tables, those of the same key as one."""
    rows = pl.concat(tables, how="vertical_relaxed")
    keys, order, starts = by_key.grouped(rows["key"].to_numpy())
    columns = [pl.Series("key", keys)]
    columns += [pl.Series(name, _JOIN[name].reduceat(rows[name].to_numpy()[order], starts[:-1])) for name in _TOTALS]
    for name, counts in _LISTS.items():
        columns += cells.lists(marked.added_up(cells.read(rows, name, counts), order, starts), name, counts)
    return pl.DataFrame(columns)


@njit(nogil=True, cache=True)
def _walk(times: Integers, offsets: Integers, edges: tuple[int, int], least: int, between: int) -> Integers:
    """A row for each hour that has enough requests: the place of its key, `_FIELDS`, and the squares by their bits.

    Args:
        times: ascending for each key.
        offsets: where the times of each key begin, and the number of all.
        edges: the end of the first hour, and the start of the last.
        least: requests.
        between: 1 for the hours between these edges, 0 for those two.
    """
    rows, found = np.empty((times.size // least, len(_FIELDS) + 2), np.int64), 0
    for key in range(offsets.size - 1):
        arrivals = times[offsets[key] : offsets[key + 1]]
        begin = _first_from(arrivals, edges[0])
        end = max(begin, _first_from(arrivals, edges[1]))
        if between:
            found = _list_hours(arrivals[begin:end], key, least, rows, found)
        else:
            found = _list_hours(arrivals[:begin], key, least, rows, found)
            found = _list_hours(arrivals[end:], key, least, rows, found)
    return rows[:found]


@inner
def _first_from(times: Integers, time: int) -> int:
    """The first row that is not earlier."""
    return 0 if times[0] >= time else end_of_run(times, 0, time)


@inner
def _list_hours(times: Integers, key: int, least: int, rows: Integers, found: int) -> int:
    row = 0
    while row < times.size:
        hour = times[row] - times[row] % _HOUR_US
        beyond = end_of_run(times, row, hour + _HOUR_US)
        if beyond - row >= least:
            gaps, squares = _gaps_within(times[row:beyond])
            rows[found, 0], rows[found, 1], rows[found, 2] = key, hour, beyond - row
            rows[found, 3], rows[found, 4], rows[found, 5] = times[row], times[beyond - 1], gaps
            rows[found, 6] = np.int64(squares)
            found += 1
        row = beyond
    return found


@inner
def _gaps_within(times: Integers) -> tuple[int, np.uint64]:
    """The positive gaps between times of an hour, and the sum of their squares, which is below 2^64."""
    gaps, squares = 0, np.uint64(0)
    for row in range(1, times.size):
        gap = times[row] - times[row - 1]
        gaps += gap > 0
        squares += np.uint64(gap) * np.uint64(gap)
    return gaps, squares
