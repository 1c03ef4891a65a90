"""The gaps of a key hour by hour: those between requests of one and the same clock hour, as the paper's Figure 9 counts them.

A gap counts in the hour that holds both its requests; one that reaches over the end of an hour counts nowhere. Hours are those of
UTC. An hour of a key is busy with at least 10 requests, and valid if there are at least 5 positive gaps among them; its
coefficient of variation is that of its positive gaps.

Parts are disjoint in time, so only the first and the last hour of a part can go on beyond it. Two tables hold a part:

    open_hours    a row per hour and key of those two hours: `hour_us` (its start), `key`, `requests`, `first_us`, `last_us`,
                  `positive` (gaps), `squares` (of gaps, in microseconds squared; an hour's fit into 64 bits)
    hours         the hours between, closed: per key a histogram (see `histogram`) of each of `VALUES`
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import groups, histogram, moments
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.intervals import HOUR
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Integers

    Tables = Mapping[str, pl.DataFrame]

__all__ = ["BITS", "BUSY_REQUESTS", "CV_UNIT", "VALID_GAPS", "VALUES", "closed", "combine", "summaries"]

BUSY_REQUESTS = 10
VALID_GAPS = 5
CV_UNIT = 1e-9
"""Coefficients of variation are counted in billionths."""
BITS = 7
LIMITS = (1, 2)
VALUES = ("above_1", "above_2", "cv", "requests", "requests_squared", "valid_requests")
"""Of busy hours their requests and the square of these; of valid ones their requests, their coefficient of variation, and whether
it exceeds 1 and 2."""

_OPEN: Mapping[str, pl.DataType] = {
    "hour_us": pl.Int64(),
    "key": pl.UInt64(),
    "requests": pl.Int64(),
    "first_us": pl.Int64(),
    "last_us": pl.Int64(),
    "positive": pl.Int64(),
    "squares": pl.UInt64(),
}
_HISTOGRAM = histogram.summary(VALUES, bits=BITS, by="key")


def summaries(by: str) -> dict[str, Summary]:
    """Both tables of a part that is sorted by time.

    Args:
        by: a column of keys.
    """
    needs = {"timestamp": pl.col("timestamp").to_physical(), by: pl.col(by)}
    return {
        "open_hours": Summary(needs, _OPEN, partial(_open, by=by)),
        "hours": Summary(needs, _HISTOGRAM.schema, partial(_closed, by=by)),
    }


def combine(states: Sequence[Tables]) -> dict[str, pl.DataFrame]:
    """Both tables of all parts, which are neighbours in order of time."""
    return reduce(_joined, [{name: state[name] for name in ("open_hours", "hours")} for state in states])


def closed(state: Tables) -> pl.DataFrame:
    """The histograms over all hours, those that are still open included."""
    return histogram.combine([state["hours"], _scored(state["open_hours"])])


def _open(frame: pl.DataFrame, *, by: str) -> pl.DataFrame:
    inner = _between(frame["timestamp"].to_numpy())
    return _by_hour(pl.concat([frame[: inner.start], frame[inner.stop :]]), by, least=1).sort("hour_us", "key")


def _closed(frame: pl.DataFrame, *, by: str) -> pl.DataFrame:
    inner = _between(frame["timestamp"].to_numpy())
    return _scored(_by_hour(frame[inner.start : inner.stop], by, least=BUSY_REQUESTS))


def _between(times_us: Integers) -> slice:
    """The rows of the hours after the first and before the last."""
    if not times_us.size:
        return slice(0, 0)
    start, end = np.searchsorted(times_us, [HOUR.floor_us(times_us[0]) + HOUR.width_us, HOUR.floor_us(times_us[-1])])
    return slice(start, max(start, end))


def _by_hour(frame: pl.DataFrame, by: str, *, least: int) -> pl.DataFrame:
    """The rows of `_OPEN` for every hour and known key with at least so many requests, in order of key and hour."""
    found = groups.group(frame, by)
    offsets, [times] = found.arranged(frame["timestamp"].to_numpy())
    known = (found.labels["key"] != UNKNOWN).to_numpy()
    times, offsets, order = frozen(times, offsets, found.order[known])
    places, *columns = _walk(times, offsets, order, HOUR.width_us, least)
    keys = found.labels["key"].filter(known).to_numpy()[places]
    return pl.DataFrame(dict(zip(_OPEN, [columns[0], keys, *columns[1:]], strict=True)), schema=_OPEN)


def _joined(left: dict[str, pl.DataFrame], right: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Hours that meet at the border are united; those that are now between others are closed."""
    rows = pl.concat([left["open_hours"], right["open_hours"]]).sort("hour_us", "key", maintain_order=True)
    gap = pl.col("first_us").last() - pl.col("last_us").first()
    across = pl.when(pl.len() > 1).then(gap).otherwise(0)
    united = rows.group_by("hour_us", "key", maintain_order=True).agg(
        pl.col("requests").sum(),
        pl.col("first_us").first(),
        pl.col("last_us").last(),
        pl.col("positive").sum() + (across > 0).cast(pl.Int64),
        pl.col("squares").sum() + (across * across).cast(pl.UInt64),
    )
    is_open = pl.col("hour_us").is_in([united["hour_us"].min(), united["hour_us"].max()])
    between = united.filter(~is_open & (pl.col("requests") >= BUSY_REQUESTS))
    histograms = [left["hours"], right["hours"], _scored(between)]
    return {"open_hours": united.filter(is_open), "hours": histogram.combine(histograms)}


def _scored(hours: pl.DataFrame) -> pl.DataFrame:
    """The histograms of hours that are over: a row per key and value."""
    busy = hours.filter(pl.col("requests") >= BUSY_REQUESTS).with_columns(_cv().alias("cv"))
    cv = pl.col("cv")
    found = {
        "key": pl.col("key"),
        "requests": pl.col("requests"),
        "requests_squared": pl.col("requests").pow(2),
        "valid_requests": pl.when(cv.is_not_null()).then("requests"),
        "cv": (cv / CV_UNIT).round().cast(pl.Int64),
        **{f"above_{limit}": (cv > limit).cast(pl.Int64) for limit in LIMITS},
    }
    return _HISTOGRAM.summarise(busy.select(**found).fill_null(-1))


def _cv() -> pl.Expr:
    """The coefficient of variation of a valid hour's positive gaps, whose sum is the time from its first request to its last."""
    gaps, total = pl.col("positive"), pl.col("last_us") - pl.col("first_us")
    return pl.when(gaps >= VALID_GAPS).then(moments.deviation(gaps, total, pl.col("squares")) / (total / gaps))


@njit(nogil=True, cache=True)
def _walk(
    times: Integers, offsets: Integers, order: Integers, width: int, least: int
) -> tuple[Integers, Integers, Integers, Integers, Integers, Integers, npt.NDArray[np.uint64]]:
    """The hours of each group that have at least so many requests: place of the group in `order`, start, and what `_OPEN` has."""
    room = times.size // least
    place, start, requests = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    first, last, positive = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    squares = np.empty(room, np.uint64)
    found = 0
    for group in range(order.size):
        row, end = offsets[order[group]], offsets[order[group] + 1]
        while row < end:
            hour = times[row] - times[row] % width
            beyond, gaps, square = _walk_hour(times, row, end, hour + width)
            if beyond - row >= least:
                place[found], start[found], requests[found] = group, hour, beyond - row
                first[found], last[found], positive[found] = times[row], times[beyond - 1], gaps
                squares[found] = square
                found += 1
            row = beyond
    return place[:found], start[:found], requests[:found], first[:found], last[:found], positive[:found], squares[:found]


@njit(nogil=True, cache=True)
def _walk_hour(times: Integers, row: int, end: int, until: int) -> tuple[int, int, np.uint64]:
    """The first row after an hour that begins at `row`, its positive gaps, and the sum of their squares."""
    gaps, squares = 0, np.uint64(0)
    row += 1
    while row < end and times[row] < until:
        gap = times[row] - times[row - 1]
        gaps += gap > 0
        squares += np.uint64(gap) * np.uint64(gap)
        row += 1
    return row, gaps, squares
