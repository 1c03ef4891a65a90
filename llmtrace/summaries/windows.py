"""Requests in windows of many widths, and the gaps within windows of one: how counts and gaps vary over time.

Windows of a width begin at its multiples since 1970-01-01T00:00 and hold their start. Those between the first and the last of a
part are closed: nothing outside the part can add to them. Two summaries:

`counts` has, per width, a row for the first window with requests, one for the last (if another), and one for all between:

    width_us    the width
    start_us    start of the window; null for the closed ones together
    requests    requests in it, or in them
    squares     Σ requests² of the closed ones, Int128; null where a window is open

`gaps` has a row per window with requests: `start_us`, `requests`, `first_us`, `last_us`, and `squares`, Σ gap² in microseconds
squared of the gaps between requests of the window.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import moments
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.intervals import Interval

__all__ = ["combine_counts", "combine_gaps", "counts", "dispersion", "gaps"]

_COUNTS: Mapping[str, pl.DataType] = {
    "width_us": pl.Int64(),
    "start_us": pl.Int64(),
    "requests": pl.Int64(),
    "squares": pl.Int128(),
}
_GAPS: Mapping[str, pl.DataType] = dict.fromkeys(("start_us", "requests", "first_us", "last_us", "squares"), pl.Int64())
_TIME = {"timestamp": pl.col("timestamp").to_physical()}


def counts(widths: Sequence[Interval]) -> Summary:
    """Count requests in windows of each width of a part that is sorted by time.

    Args:
        widths: ascending; none of whole weeks.
    """
    return Summary(_TIME, _COUNTS, partial(_count, widths_us=[width.width_us for width in widths]))


def gaps(width: Interval) -> Summary:
    """Describe the gaps within each window of a part that is sorted by time.

    Args:
        width: at most 45 minutes, so that squares fit into 63 bits.
    """
    return Summary(_TIME, _GAPS, partial(_describe, width_us=width.width_us))


def combine_counts(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The counts of all parts: windows that meet are united, and those that are now between others are closed."""
    united = pl.concat(frames).group_by("width_us", "start_us").agg(pl.col("requests").sum(), pl.col("squares").sum())
    start = pl.col("start_us")
    is_open = start.is_null() | (start == start.min().over("width_us")) | (start == start.max().over("width_us"))
    square = pl.col("requests").cast(pl.Int128).pow(2)
    rows = united.select(
        "width_us",
        pl.when(is_open).then(start).alias("start_us"),
        "requests",
        pl.when(start.is_null()).then("squares").otherwise(pl.when(~is_open).then(square)).alias("squares"),
    )
    closed = rows.filter(start.is_null()).group_by("width_us", "start_us").agg(pl.col("requests").sum(), pl.col("squares").sum())
    return pl.concat([rows.filter(start.is_not_null()), closed]).sort("width_us", "start_us", nulls_last=False)


def combine_gaps(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The gaps of all parts, which are neighbours in order of time."""
    return reduce(_joined, frames)


def dispersion(frame: pl.DataFrame) -> pl.DataFrame:
    """The index of dispersion per width, from `counts`: the sample variance of the requests of a window over their mean.

    Only windows between the first and the last with requests count, empty ones included: those two are cut by where the trace
    begins and ends.

    Returns:
        `window_s`, `windows`, `mean_requests` (null without windows) and `index_of_dispersion` (null with fewer than two windows
        or where the mean is zero), ascending.
    """
    start, closed = pl.col("start_us"), pl.col("start_us").is_null()
    found = frame.group_by("width_us").agg(
        ((start.max() - start.min()) // pl.col("width_us").first() - 1).clip(0).fill_null(0).alias("windows"),
        pl.col("requests").filter(closed).sum(),
        pl.col("squares").filter(closed).sum(),
    )
    windows = pl.col("windows")
    mean = pl.when(windows > 0).then(pl.col("requests") / windows)
    variance = moments.deviation(windows, pl.col("requests"), pl.col("squares")).pow(2)
    return found.sort("width_us").select(
        (pl.col("width_us") / 1e6).alias("window_s"),
        "windows",
        mean.alias("mean_requests"),
        pl.when(mean > 0).then(variance / mean).alias("index_of_dispersion"),
    )


def _count(frame: pl.DataFrame, *, widths_us: Sequence[int]) -> pl.DataFrame:
    """Count in the narrowest windows, and from there in each wider one through the widest that divides it."""
    times = frame["timestamp"].to_numpy()
    counted = {1: (times, np.ones(0, np.int64))}
    rows: list[tuple[int, int | None, int, int | None]] = []
    for width in widths_us:
        within = max(narrower for narrower in counted if width % narrower == 0)
        starts, requests = frozen(*counted[within])
        counted[width] = _regrouped(starts, requests, width)
        rows += _open_and_closed(width, *counted[width])
    return pl.DataFrame(rows, schema=_COUNTS, orient="row")


def _open_and_closed(width: int, starts: Integers, requests: Integers) -> list[tuple[int, int | None, int, int | None]]:
    if not starts.size:
        return []
    inner = requests[1:-1]  # of one part: below 2^31 in total, so that their squares add up to less than 2^62
    ends = [(width, int(starts[place]), int(requests[place]), None) for place in sorted({0, starts.size - 1})]
    return [(width, None, int(inner.sum()), int((inner**2).sum())), *ends]


def _describe(frame: pl.DataFrame, *, width_us: int) -> pl.DataFrame:
    (times,) = frozen(frame["timestamp"].to_numpy())
    return pl.DataFrame(dict(zip(_GAPS, _gaps_within(times, width_us), strict=True)), schema=_GAPS)


def _joined(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Only the last window on the left and the first on the right can be one."""
    if left.is_empty() or right.is_empty() or left["start_us"][-1] != right["start_us"][0]:
        return pl.concat([left, right])
    ours, theirs = left[-1].row(0, named=True), right[0].row(0, named=True)
    gap = theirs["first_us"] - ours["last_us"]
    union = {
        "start_us": ours["start_us"],
        "requests": ours["requests"] + theirs["requests"],
        "first_us": ours["first_us"],
        "last_us": theirs["last_us"],
        "squares": ours["squares"] + theirs["squares"] + gap * gap,
    }
    return pl.concat([left[:-1], pl.DataFrame([union], schema=_GAPS), right[1:]])


@njit(nogil=True, cache=True)
def _regrouped(times: Integers, requests: Integers, width: int) -> tuple[Integers, Integers]:
    """Starts of the windows that hold these times, and their requests: per time as many as `requests` says, or one if empty."""
    starts, totals = np.empty(times.size, np.int64), np.zeros(times.size, np.int64)
    found, end = 0, 0
    for row in range(times.size):
        if row == 0 or times[row] >= end:
            starts[found] = times[row] - times[row] % width
            end = starts[found] + width
            found += 1
        totals[found - 1] += requests[row] if requests.size else 1
    return starts[:found].copy(), totals[:found].copy()


@njit(nogil=True, cache=True)
def _gaps_within(times: Integers, width: int) -> tuple[Integers, Integers, Integers, Integers, Integers]:
    """Start, requests, first and last arrival of the windows that hold these times, and the sum of squared gaps within each."""
    starts, requests = np.empty(times.size, np.int64), np.zeros(times.size, np.int64)
    first, last, squares = np.empty(times.size, np.int64), np.empty(times.size, np.int64), np.zeros(times.size, np.int64)
    found, end = 0, 0
    for row in range(times.size):
        if row == 0 or times[row] >= end:
            starts[found] = times[row] - times[row] % width
            end, first[found] = starts[found] + width, times[row]
            found += 1
        else:
            squares[found - 1] += (times[row] - times[row - 1]) ** 2
        requests[found - 1] += 1
        last[found - 1] = times[row]
    return starts[:found].copy(), requests[:found].copy(), first[:found].copy(), last[:found].copy(), squares[:found].copy()
