"""Habits: in which periods users are active, and which model each turns to most.

Within a period every user's requests are tallied by model. Only the first and the last period of some requests can go on beyond
them; of the others each user's requests and main model are kept. The main model is the one with most requests; of several with as
many, the one whose name comes first. Requests of an unknown user count nowhere. Tables of a state:

    open_users   period by period, for the first and the last with known users: time (its start), key (ascending), models (the
                 tallies of the models that the user turns to; a model's cell is its place among those of the period)
    habits       the periods between: time, user (ascending), model (its main one; `UNKNOWN` if none is known), requests

Which models a period has is for the caller to know: all that requests in it turn to, ascending, an unknown one included.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.cells import frozen, list_of, list_parts
from llmtrace.summaries.frames import frame_of, moments
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.tallies import COUNT_BITS, MOST_CELLS, MOST_COUNT, Tallies, TallyStore, renumbered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.summaries.interning import Ids, Integers, Keys
    from llmtrace.summaries.tallies import Flat, Rows

    Tables = Mapping[str, pl.DataFrame]

__all__ = ["SCHEMAS", "HabitStore", "Models", "Period", "over", "tables"]

SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "open_users": {"time": pl.Datetime("us"), "key": pl.UInt64(), "models": pl.List(pl.UInt32())},
    "habits": {"time": pl.Datetime("us"), "user": pl.UInt64(), "model": pl.UInt64(), "requests": pl.Int64()},
}
"""The columns of each table of a state."""

NO_NAME = -1
WEIGHT = MOST_CELLS
"""A score is requests times this, and below it what makes the name that comes first the best of several with as many."""
LAST, NEVER = MOST_CELLS - 1, -(1 << 62)
_SHIFT, _MOST = np.uint32(COUNT_BITS), np.uint32(MOST_COUNT)


@dataclass(frozen=True)
class Models:
    """The models of a period.

    Attributes:
        keys: ascending; `UNKNOWN` among them where it occurs.
        names: the name behind each; null behind `UNKNOWN`.
    """

    keys: Keys
    names: pl.Series


@dataclass(frozen=True)
class Period:
    """The users of one period.

    Attributes:
        start_us: when it begins, in microseconds since 1970.
        users: keys of the users, ascending.
        met: per user how often it turns to which model of the period.
    """

    start_us: int
    users: Keys
    met: Tallies


class HabitStore:
    """The habits of users, taken part by part in order of time."""

    def __init__(self, users: Interner) -> None:
        """Know no period.

        Args:
            users: what numbers users; it may number others too.
        """
        self._users, self._models = users, Interner()
        self._names: list[str | None] = []
        self._open: dict[int, TallyStore] = {}
        self._used: dict[int, list[Ids]] = {}
        self._closed: list[pl.DataFrame] = []

    def add(self, state: Tables, models: Mapping[int, Models], users: Ids) -> None:
        """Take the state of the next part.

        Args:
            state: its tables.
            models: the models of its open periods, by when these begin.
            users: the numbers of all its users, in ascending order of their keys.
        """
        for period in _open(state, models):
            is_all = period.users.size == users.size
            self._take(period, users if is_all else self._users.add(period.users), models[period.start_us])
        self._closed.append(state["habits"])
        for start_us in sorted(self._open)[1:-1]:
            self._closed.append(self._done(start_us))
            del self._open[start_us], self._used[start_us]

    def total(self) -> dict[str, pl.DataFrame]:
        """The state of all parts."""
        return tables([self._whole(start_us)[0] for start_us in sorted(self._open)], self._closed)

    def _take(self, period: Period, users: Ids, models: Models) -> None:
        places = self._models.add(models.keys)
        self._names += models.names.filter(pl.Series(places >= len(self._names))).to_list()
        store = self._open.setdefault(period.start_us, TallyStore(self._users))
        store.add(users, renumbered(period.met, places, self._models.keys.size))
        self._used.setdefault(period.start_us, []).append(places)

    def _done(self, start_us: int) -> pl.DataFrame:
        """The table `habits` of a period of all parts."""
        order, rows, flat = self._open[start_us].by_key()
        known = Models(self._models.keys, pl.Series("name", self._names, dtype=pl.String))
        return _closed(start_us, self._users.keys[order], (rows, flat), known)

    def _whole(self, start_us: int) -> tuple[Period, Models]:
        """A period of all parts, and its models."""
        order, met = self._open[start_us].total()
        there = np.flatnonzero(met.sizes)
        used = np.unique(np.concatenate(self._used[start_us]))
        used = used[np.argsort(self._models.keys[used])]
        places = np.zeros(self._models.keys.size, np.uint32)
        places[used] = np.arange(used.size, dtype=np.uint32)
        own = renumbered(Tallies(met.sizes[there], met.flat, met.width), places, used.size)
        names = pl.Series("name", [self._names[one] for one in used], dtype=pl.String)
        return Period(start_us, self._users.keys[order[there]], own), Models(self._models.keys[used], names)


def tables(periods: Sequence[Period], closed: Sequence[pl.DataFrame] = ()) -> dict[str, pl.DataFrame]:
    """The state of the first and the last period, and of those between; a period without users leaves no trace."""
    users = [
        frame_of({"time": moments(one.start_us, one.users.size), "key": one.users}).insert_column(
            2, list_of("models", one.met.offsets(), one.met.flat)
        )
        for one in periods
        if one.users.size
    ]
    return {"open_users": pl.concat(users) if users else _empty("open_users"), "habits": _in_order(closed)}


def over(state: Tables, models: Mapping[int, Models]) -> pl.DataFrame:
    """The table `habits` over all periods, those that are still open included.

    Args:
        state: its tables.
        models: the models of its open periods, by when these begin.
    """
    return _in_order([state["habits"], *(_read(period, models[period.start_us]) for period in _open(state, models))])


def _open(state: Tables, models: Mapping[int, Models]) -> list[Period]:
    """The open periods of a state, in order of time."""
    users = state["open_users"]
    times_us, keys = users["time"].to_physical().to_numpy(), users["key"].to_numpy()
    offsets, flat = list_parts(users["models"])
    found = []
    borders = [0, *(np.flatnonzero(times_us[1:] != times_us[:-1]) + 1).tolist(), times_us.size]
    for low, high in pairwise(borders if times_us.size else []):
        start_us = int(times_us[low])
        sizes = np.diff(offsets[low : high + 1]).astype(np.uint32)
        met = Tallies(sizes, flat[offsets[low] : offsets[high]], models[start_us].keys.size)
        found.append(Period(start_us, keys[low:high], met))
    return found


def _empty(name: str) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(SCHEMAS[name]))


def _in_order(closed: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Tables of `habits`, none of which has periods between those of another, as one in order of time."""
    filled = sorted((table for table in closed if table.height), key=lambda table: table["time"][0])
    return pl.concat(filled) if filled else _empty("habits")


def _read(period: Period, models: Models) -> pl.DataFrame:
    """The table `habits` of one period."""
    offsets, rows = period.met.offsets(), np.arange(period.users.size + 1)
    return _closed(period.start_us, period.users, ((rows, offsets[:-1], period.met.sizes), period.met.flat), models)


def _closed(start_us: int, users: Keys, met: tuple[Rows, Flat], models: Models) -> pl.DataFrame:
    """The table `habits` of one period.

    Args:
        start_us: when it begins.
        users: keys of users, ascending.
        met: where the tallies of each stand, and all tallies; a user without any is left out.
        models: what the cells of tallies are the places of.
    """
    ranks = (models.names.rank("ordinal").cast(pl.Int64) - 1).fill_null(NO_NAME).to_numpy()
    (ends, starts, sizes), flat = met
    best, totals = _main(ends, starts, sizes, *frozen(flat, np.where(ranks == NO_NAME, NEVER, LAST - ranks)))
    if (there := np.flatnonzero(ends[1:] > ends[:-1])).size < users.size:
        users, best, totals = users[there], best[there], totals[there]
    by_rank = np.full(ranks.size + 1, np.uint64(UNKNOWN))
    by_rank[ranks] = models.keys
    model = by_rank[np.where(best < 0, NO_NAME, LAST - (best & LAST))]
    return frame_of({"time": moments(start_us, totals.size), "user": users, "model": model, "requests": totals})


@njit(nogil=True, cache=True)
def _main(ends: Integers, starts: Integers, sizes: Ids, flat: Flat, scores: Integers) -> tuple[Integers, Integers]:
    """Per user the best score, and all requests.

    Args:
        ends: where the rows of each user begin, and how many there are.
        starts: where the tallies of each row begin.
        sizes: how many these are.
        flat: the tallies.
        scores: per model its score without requests, each of which adds `WEIGHT`; `NEVER` where it is not to be the best.
    """
    best, totals = np.empty(ends.size - 1, np.int64), np.zeros(ends.size - 1, np.int64)
    reached = scores.copy()
    for user in range(best.size):
        highest = np.int64(NEVER)
        for row in range(ends[user], ends[user + 1]):
            total, highest = _count(flat, starts[row], starts[row] + sizes[row], reached, highest)
            totals[user] += total
        for row in range(ends[user], ends[user + 1]):
            _forget(flat, starts[row], starts[row] + sizes[row], reached, scores)
        best[user] = highest
    return best, totals


@njit(nogil=True, cache=True)
def _count(flat: Flat, start: int, end: int, reached: Integers, highest: np.int64) -> tuple[np.int64, np.int64]:
    """Count the requests of some tallies: how many there are, and the highest score that a model has reached."""
    total = np.int64(0)
    for one in range(np.uint64(start), np.uint64(end)):
        requests, place = np.int64(flat[one] & _MOST), flat[one] >> _SHIFT
        score = reached[place] + requests * WEIGHT
        reached[place] = score
        # Without a branch, which could not be foreseen.
        highest = max(highest, score)
        total += requests
    return total, highest


@njit(nogil=True, cache=True)
def _forget(flat: Flat, start: int, end: int, reached: Integers, scores: Integers) -> None:
    """Set the scores of the models of some tallies back."""
    for one in range(np.uint64(start), np.uint64(end)):
        place = flat[one] >> _SHIFT
        reached[place] = scores[place]
