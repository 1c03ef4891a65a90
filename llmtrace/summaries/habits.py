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
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.cells import list_of, list_parts
from llmtrace.summaries.frames import frame_of, moments
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.tallies import COUNT_BITS, MOST_COUNT, Tallies, TallyStore, renumbered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.summaries.interning import Ids, Integers, Keys

    Tables = Mapping[str, pl.DataFrame]

__all__ = ["SCHEMAS", "HabitStore", "Models", "Period", "over", "tables"]

SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "open_users": {"time": pl.Datetime("us"), "key": pl.UInt64(), "models": pl.List(pl.UInt32())},
    "habits": {"time": pl.Datetime("us"), "user": pl.UInt64(), "model": pl.UInt64(), "requests": pl.Int64()},
}
"""The columns of each table of a state."""

NO_NAME, NOWHERE = -1, -1


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
            period, own = self._whole(start_us)
            self._closed.append(_closed(period, own))
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
    return _in_order([state["habits"], *(_closed(period, models[period.start_us]) for period in _open(state, models))])


def _open(state: Tables, models: Mapping[int, Models]) -> list[Period]:
    """The open periods of a state, in order of time."""
    users = state["open_users"]
    times_us, keys = users["time"].to_physical().to_numpy(), users["key"].to_numpy()
    offsets, flat = list_parts(users["models"])
    found = []
    for start_us in np.unique(times_us).tolist():
        low, high = np.searchsorted(times_us, [start_us, start_us + 1])
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


def _closed(period: Period, models: Models) -> pl.DataFrame:
    """The table `habits` of one period."""
    ranks = models.names.rank("ordinal").cast(pl.Int64).fill_null(NO_NAME).to_numpy()
    places, totals = _main(period.met.offsets(), period.met.flat, ranks)
    model = np.where(places == NOWHERE, np.uint64(UNKNOWN), models.keys[places])
    return frame_of({"time": moments(period.start_us, totals.size), "user": period.users, "model": model, "requests": totals})


@njit(nogil=True, cache=True)
def _main(offsets: Integers, flat: Ids, ranks: Integers) -> tuple[Integers, Integers]:
    """Per user the place of the model with most requests, the lowest rank first, among those that have one; and all requests."""
    places, totals = np.full(offsets.size - 1, np.int64(NOWHERE)), np.zeros(offsets.size - 1, np.int64)
    counts = np.zeros(ranks.size, np.int64)
    for user in range(places.size):
        for one in range(offsets[user], offsets[user + 1]):
            counts[flat[one] >> COUNT_BITS] += flat[one] & MOST_COUNT
        most, rank, best, total = np.int64(0), np.int64(0), np.int64(NOWHERE), np.int64(0)
        for one in range(offsets[user], offsets[user + 1]):
            place = np.int64(flat[one] >> COUNT_BITS)
            count, counts[place] = counts[place], 0
            total += count
            if ranks[place] != NO_NAME and (count > most or (count == most and count > 0 and ranks[place] < rank)):
                most, rank, best = count, ranks[place], place
        places[user], totals[user] = best, total
    return places, totals
