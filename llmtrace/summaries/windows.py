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

from collections import defaultdict
from functools import partial, reduce
from typing import TYPE_CHECKING, TypeAlias

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

CountRow: TypeAlias = tuple[int, int | None, int, int | None]

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
        widths: ascending, each a multiple of the first; none of whole weeks.
    """
    return Summary(_TIME, _COUNTS, partial(_count, widths=widths))


def gaps(width: Interval) -> Summary:
    """Describe the gaps within each window of a part that is sorted by time.

    Args:
        width: at most 45 minutes, so that squares fit into 63 bits.
    """
    return Summary(_TIME, _GAPS, partial(_describe, width=width))


def combine_counts(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The counts of all parts: windows that meet are united, and those that are now between others are closed.

    In Python's own numbers, since there are three rows to a width.
    """
    counted: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    closed: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for width, start, requests, squares in (row for frame in frames for row in frame.iter_rows()):
        if start is None:
            closed[width] = closed[width][0] + requests, closed[width][1] + squares
        else:
            counted[width][start] += requests
    rows = [row for width, windows in counted.items() for row in _closed_between(width, windows, *closed[width])]
    return pl.DataFrame(rows, schema=_COUNTS, orient="row")


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
    found = found.sort("width_us")
    windows, requests = found["windows"], found["requests"]
    mean = (requests / windows).set(windows < 1, None)
    variance = moments.deviation(windows, requests, found["squares"]).pow(2)
    return found.select(
        (pl.col("width_us") / 1e6).alias("window_s"),
        "windows",
        mean.alias("mean_requests"),
        (variance / mean).set((requests < 1).fill_null(value=True), None).alias("index_of_dispersion"),
    )


def _count(frame: pl.DataFrame, *, widths: Sequence[Interval]) -> pl.DataFrame:
    """Count in the narrowest windows, and from there in each wider one through the widest that divides it."""
    (times,) = frozen(frame["timestamp"].to_numpy())
    borders, starts = widths[0].runs(times)
    counted = {widths[0].width_us: (starts, np.diff(borders))}
    for width in widths[1:]:
        starts, requests = counted[max(one for one in counted if width.width_us % one == 0)]
        borders, wider = width.runs(*frozen(starts))
        counted[width.width_us] = wider, np.add.reduceat(requests, borders[:-1]) if requests.size else requests
    rows = [row for width, (starts, requests) in counted.items() for row in _open_and_closed(width, starts, requests)]
    return pl.DataFrame(rows, schema=_COUNTS, orient="row")


def _open_and_closed(width: int, starts: Integers, requests: Integers) -> list[CountRow]:
    if not starts.size:
        return []
    inner = requests[1:-1]  # of one part: below 2^31 in total, so that their squares add up to less than 2^62
    edges = {int(starts[place]): int(requests[place]) for place in (0, -1)}
    return _closed_between(width, edges, int(inner.sum()), int((inner**2).sum()))


def _closed_between(width: int, windows: Mapping[int, int], requests: int, squares: int) -> list[CountRow]:
    """The rows of a width: one for all closed windows, those between the first and the last now among them; and these two."""
    first, last = min(windows), max(windows)
    inner = [count for start, count in windows.items() if first < start < last]
    closed = (width, None, requests + sum(inner), squares + sum(count**2 for count in inner))
    return [closed, *((width, start, windows[start], None) for start in sorted({first, last}))]


def _describe(frame: pl.DataFrame, *, width: Interval) -> pl.DataFrame:
    (times,) = frozen(frame["timestamp"].to_numpy())
    borders, starts = width.runs(times)
    first, last = times[borders[:-1]], times[borders[1:] - 1]
    columns = starts, np.diff(borders), first, last, _squares(times, borders)
    return pl.DataFrame(dict(zip(_GAPS, columns, strict=True)), schema=_GAPS)


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
def _squares(times: Integers, borders: Integers) -> Integers:
    """Σ gap² of the gaps between rows of the same run."""
    found = np.empty(borders.size - 1, np.int64)
    for run in range(found.size):
        inside = times[borders[run] : borders[run + 1]]
        found[run] = 0
        for row in range(1, inside.size):
            gap = inside[row] - inside[row - 1]
            found[run] += gap * gap
    return found
