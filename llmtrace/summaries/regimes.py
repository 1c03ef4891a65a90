"""The busiest clock hour of each user, instance by instance: what share of its requests each served, and how much from cache.

Only hours of at least so many requests count, and only those in which cached tokens are logged of some input. A user's busiest
hour is the one with most requests; of several, the earliest. Requests that do not tell their user or their instance count
nowhere. Only the first and the last hour of a part can go on beyond it. Two tables hold a part:

    busy_hours      a row per user, its busiest closed hour, and instance, ascending by user, then in order of first requests:
                    `hour_us`, `user`, `instance`, `requests`, `input_tokens` and `cached_tokens` (of the requests of which both
                    are known and input is not zero)
    open_hours      the same rows for the open hours, of all users, in order of first requests
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries.frames import frame_of
from llmtrace.summaries.intervals import HOUR
from llmtrace.summaries.within import added, mixed, runs_of, within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Integers

    Tables = Mapping[str, pl.DataFrame]

__all__ = ["MOST_TOKENS", "SCHEMAS", "busiest", "combine", "summarise"]

MOST_TOKENS = (1 << 32) - 1
"""Tokens of a request are taken as no more than this, so that no sum wraps."""

_SCHEMA: Mapping[str, pl.DataType] = {
    "hour_us": pl.Int64(),
    "user": pl.UInt64(),
    "instance": pl.UInt64(),
    "requests": pl.Int64(),
    "input_tokens": pl.Int64(),
    "cached_tokens": pl.Int64(),
}
SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {"busy_hours": _SCHEMA, "open_hours": _SCHEMA}
"""The columns of each table of a state."""
_ADDED = ("requests", "input_tokens", "cached_tokens")


def summarise(times_us: Integers, rows: pl.DataFrame, least: int) -> dict[str, pl.DataFrame]:
    """The two tables of a part.

    Args:
        times_us: arrivals, ascending, of requests of known users on known instances.
        rows: of each `user` and `instance` (keys), `requests` (1), `input_tokens` and `cached_tokens` (0 where they do not
            count).
        least: how many requests an hour needs.
    """
    borders, starts = HOUR.runs(times_us)
    if borders.size <= 3:  # noqa: PLR2004
        return {"busy_hours": pl.DataFrame(schema=_SCHEMA), "open_hours": _gathered(rows, borders, starts)}
    inner = slice(int(borders[1]), int(borders[-2]))
    busy, ends = _eligible(rows[inner], borders[1:-1] - inner.start, least)
    edges = pl.concat([rows[: inner.start], rows[inner.stop :]]).rechunk()
    return {
        "busy_hours": _busiest([_gathered(busy, ends, starts[1:-1])]),
        "open_hours": _gathered(edges, np.array([0, inner.start, edges.height]), starts[[0, -1]]),
    }


def combine(states: Sequence[Tables], least: int) -> dict[str, pl.DataFrame]:
    """The two tables of all parts: hours that meet at a border are united, and those now between others are closed."""
    together = pl.concat([state["open_hours"] for state in states]).rechunk()
    hours = together["hour_us"].to_numpy()
    meeting = runs_of(hours)
    rows = _gathered(together, meeting, hours[meeting[:-1]])
    borders = runs_of(rows["hour_us"].to_numpy())
    first, last = (int(borders[1]), int(borders[-2])) if borders.size > 3 else (rows.height, rows.height)  # noqa: PLR2004
    over, _ = _eligible(rows[first:last], borders[1:-1] - first, least) if first < last else (rows[:0], borders)
    return {
        "busy_hours": _busiest([*(state["busy_hours"] for state in states), over]),
        "open_hours": pl.concat([rows[:first], rows[last:]]),
    }


def busiest(state: Tables, least: int) -> pl.DataFrame:
    """`busy_hours` with the hours that are still open."""
    rows = state["open_hours"]
    over, _ = _eligible(rows, runs_of(rows["hour_us"].to_numpy()), least)
    return _busiest([state["busy_hours"], over])


def _eligible(rows: pl.DataFrame, borders: Integers, least: int) -> tuple[pl.DataFrame, Integers]:
    """The rows of users with enough requests and logged input in an hour, who are few, and where the hours begin among them."""
    found = within(rows["user"].to_numpy(), borders)
    requests, tokens = (added(found.ids, rows[name].to_numpy(), found.firsts.size) for name in ("requests", "input_tokens"))
    kept = np.flatnonzero(((requests >= least) & (tokens > 0))[found.ids])
    return rows[kept], np.searchsorted(kept, borders)


def _gathered(rows: pl.DataFrame, borders: Integers, starts: Integers) -> pl.DataFrame:
    """A row per hour, user and instance, in order of first requests, from rows in order of time."""
    user, instance = rows["user"].to_numpy(), rows["instance"].to_numpy()
    found = within(mixed(user, instance), borders)
    columns: dict[str, npt.NDArray[np.generic]] = {
        "hour_us": np.repeat(starts, np.diff(found.borders)),
        "user": user[found.firsts],
        "instance": instance[found.firsts],
    }
    return frame_of(columns | {name: added(found.ids, rows[name].to_numpy(), found.firsts.size) for name in _ADDED})


def _busiest(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of the busiest hour of each user, those of an hour in the order in which they come."""
    rows = pl.concat(tables)
    hours = rows.group_by("user", "hour_us").agg(pl.col("requests").sum())
    first = hours.sort("user", "requests", "hour_us", descending=[False, True, False]).unique("user", keep="first")
    kept = rows.join(first, on=["user", "hour_us"], how="semi", maintain_order="left")
    return kept.sort("user", maintain_order=True)
