"""Gaps of keys month by month, as the paper's Figure 14a counts them: those between requests of one and the same calendar month.

A gap counts in the month (of UTC) that holds both its requests; one that reaches over the end of a month counts nowhere. Only the
first and the last month of a part can go on beyond it. The others are over, and of them only percentiles per key are kept. Tables
of a state:

    visitors        key (ascending), requests: all known keys, counted up to `MOST_REQUESTS`
    open_months     month by month, for the first and the last with known keys: month (its start), key (ascending), first_us,
                    last_us, positive (its positive gaps; the limit of trails stands for more, too)
    open_held       key by key and in order of time: cell of each positive gap, for keys with fewer than the limit
    open_profiles   key by key: histogram of the positive gaps (buckets, counts) of the others
    months          the months between: month, key and percentiles of its positive gaps in microseconds, for keys with at
                    least `threshold` of them, ascending
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import cells, trails, ttl
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.return_kernels import NEVER
from llmtrace.summaries.trails import Trails
from llmtrace.summaries.united import Unions
from llmtrace.summaries.visits import put

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.summaries.groups import Integers, Keys
    from llmtrace.summaries.trails import Limits
    from llmtrace.summaries.ttl import CellArray

    Tables = dict[str, pl.DataFrame]

__all__ = [
    "MOST_REQUESTS",
    "PERCENTS",
    "SCHEMAS",
    "Month",
    "around",
    "beside",
    "combine",
    "nothing",
    "over",
    "scored",
    "state_of",
    "visitors",
]

PERCENTS = (10, 25, 50, 75, 90)
MOST_REQUESTS = 11
"""Requests of a key are counted up to here: more than the ten that the paper asks for."""

SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "visitors": {"key": pl.UInt64(), "requests": pl.UInt8()},
    "open_months": {
        "month": pl.Datetime("us"),
        "key": pl.UInt64(),
        "first_us": pl.Int64(),
        "last_us": pl.Int64(),
        "positive": pl.UInt16(),
    },
    "open_held": {"cell": pl.UInt32()},
    "open_profiles": {"buckets": pl.List(pl.UInt16()), "counts": pl.List(pl.UInt32())},
    "months": {"month": pl.Datetime("us"), "key": pl.UInt64(), **{f"p{percent}": pl.Float64() for percent in PERCENTS}},
}
"""The columns of each table of a state."""


@dataclass(frozen=True)
class Month:
    """One month of the keys that have requests in it.

    Attributes:
        start_us: when it begins.
        keys: ascending.
        first_us: per key its first arrival in the month.
        last_us: per key its last.
        trails: per key its positive gaps.
    """

    start_us: int
    keys: Keys
    first_us: Integers
    last_us: Integers
    trails: Trails


def nothing() -> Tables:
    """The tables of a state without requests."""
    return {name: pl.DataFrame(schema=dict(schema)) for name, schema in SCHEMAS.items()}


def combine(states: Sequence[Tables], limits: Limits) -> Tables:
    """The state of neighbouring parts, in order of time, from states that have followed their keys.

    Args:
        states: theirs.
        limits: those that they were made with.
    """
    unions = Unions()
    keys, places = unions.of([state["visitors"]["key"].to_numpy() for state in states])
    requests = np.zeros(keys.size, np.int64)
    for state, where in zip(states, places, strict=True):
        requests[where] += state["visitors"]["requests"].to_numpy()
    months = [month for state in states for month in _open(state, limits)]
    same = [list(some) for _, some in groupby(months, lambda month: month.start_us)]
    joined = [_united(some, limits, unions) if len(some) > 1 else some[0] for some in same]
    return state_of(visitors(keys, requests), joined, [state["months"] for state in states], limits)


def over(state: Tables, limits: Limits) -> pl.DataFrame:
    """The table `months` over all months, those that are still open included."""
    open_months = [scored(month, limits) for month in _open(state, limits)]
    return pl.concat([state["months"], *open_months]).sort("month", "key")


def around(time_us: int) -> tuple[int, int]:
    """Start of the month that has a time, and of the one after it, in microseconds since 1970.

    >>> around(0)
    (0, 2678400000000)
    """
    month = np.datetime64(time_us, "us").astype("M8[M]")
    start_us, end_us = (int(one.astype("M8[us]").astype(np.int64)) for one in (month, month + 1))
    return start_us, end_us


def beside(given: Sequence[Month]) -> list[Month]:
    """Months in order of time, each of which has the keys, in their order, of all those given that begin with it."""
    starts = sorted({month.start_us for month in given})
    return [_beside([month for month in given if month.start_us == start_us]) for start_us in starts]


def _beside(some: Sequence[Month]) -> Month:
    keys, first_us, last_us = (np.concatenate([getattr(one, name) for one in some]) for name in ("keys", "first_us", "last_us"))
    return Month(some[0].start_us, keys, first_us, last_us, trails.beside([one.trails for one in some]))


def _united(months: Sequence[Month], limits: Limits, unions: Unions) -> Month:
    """One month of neighbouring parts, with the gaps across their borders."""
    keys, places = unions.of([month.keys for month in months])
    first_us, last_us = np.empty(keys.size, np.int64), np.full(keys.size, NEVER)
    sides = []
    for month, where in zip(months, places, strict=True):
        firsts, lasts, own = frozen(month.first_us, month.last_us, where)
        sides.append((month.trails, where, _advance(firsts, lasts, own, last_us)))
    for month, where in reversed(list(zip(months, places, strict=True))):
        firsts, own = frozen(month.first_us, where)
        put(firsts, own, first_us)
    return Month(months[0].start_us, keys, first_us, last_us, trails.join(sides, keys.size, limits))


def _open(state: Tables, limits: Limits) -> list[Month]:
    """The open months of a state, in order of time."""
    months, held, histograms = (state[name] for name in ("open_months", "open_held", "open_profiles"))
    found, start, kept, heavy = [], 0, 0, 0
    for count in months["month"].rle().struct.field("len"):
        month = months[start : start + count]
        positive = month["positive"].to_numpy()
        is_held = positive < limits.limit
        kept_end, heavy_end = kept + int(positive[is_held].sum()), heavy + int((~is_held).sum())
        own = Trails(positive, held["cell"].to_numpy()[kept:kept_end], cells.read(histograms[heavy:heavy_end], "buckets"))
        keys, first_us, last_us = (month[name].to_numpy() for name in ("key", "first_us", "last_us"))
        found.append(Month(int(month["month"].to_physical()[0]), keys, first_us, last_us, own))
        start, kept, heavy = start + count, kept_end, heavy_end
    return found


def state_of(
    visitors: pl.DataFrame, months: Sequence[Month], over_before: Sequence[pl.DataFrame], limits: Limits
) -> dict[str, pl.DataFrame]:
    """The state whose months these are, in order of time: those between others are over."""
    empty = nothing()
    edges = [months[0], *months[1:][-1:]] if months else []
    over_now = [scored(month, limits) for month in months[1:-1]]
    return {
        **empty,
        "visitors": visitors,
        "open_months": pl.concat([_table(month) for month in edges] or [empty["open_months"]]),
        "open_held": pl.concat([pl.DataFrame({"cell": month.trails.held}) for month in edges] or [empty["open_held"]]),
        "open_profiles": pl.concat([_histograms(month) for month in edges] or [empty["open_profiles"]]),
        "months": pl.concat([empty["months"], *over_before, *over_now]).sort("month", "key"),
    }


def _table(month: Month) -> pl.DataFrame:
    starts = pl.repeat(month.start_us, month.keys.size, dtype=pl.Int64, eager=True).cast(pl.Datetime("us"))
    columns = {"key": month.keys, "first_us": month.first_us, "last_us": month.last_us, "positive": month.trails.positive}
    return pl.DataFrame({"month": starts, **columns})


def _histograms(month: Month) -> pl.DataFrame:
    return pl.DataFrame(cells.lists(month.trails.profiles, "buckets"))


def visitors(keys: Keys, requests: Integers) -> pl.DataFrame:
    """The table of that name."""
    return pl.DataFrame({"key": keys, "requests": np.minimum(requests, MOST_REQUESTS).astype(np.uint8)})


def scored(month: Month, limits: Limits) -> pl.DataFrame:
    """The percentiles of the keys with enough gaps."""
    enough = month.trails.positive >= limits.threshold
    values = trails.percentiles(month.trails, enough, PERCENTS, limits.limit)
    percentiles = {f"p{percent}": values[:, place] for place, percent in enumerate(PERCENTS)}
    return _table(month).select("month", "key").filter(pl.Series(enough)).with_columns(**percentiles)


@njit(nogil=True, cache=True)
def _advance(firsts: Integers, lasts: Integers, places: CellArray, latest: Integers) -> CellArray:
    """Follow keys into the next part: per key of it the cell of the gap before its first arrival, 0 without one.

    `latest` has the last arrival of every key before, and is changed.
    """
    cells_of_gaps = np.zeros(places.size, np.uint32)
    for row in range(places.size):
        before = latest[places[row]]
        if before != NEVER:
            cells_of_gaps[row] = ttl.cell_of(firsts[row] - before)
        latest[places[row]] = lasts[row]
    return cells_of_gaps
