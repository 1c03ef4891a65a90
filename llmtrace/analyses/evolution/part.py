"""What `evolution` keeps of a part, and how parts are put together.

Tables of a state, besides those of `habits`:

    models    per period and model: time, key (`UNKNOWN` among them), name (null behind `UNKNOWN`), requests, and of input and
              output tokens how many are known, and the upper and the lower part of their sum, upper · 2^32 + lower
    lengths   per period and column (input or output tokens): the histogram of `usage.BITS` significant bits
    users     the known users: key (ascending), requests, first_us, last_us, lengths (tallies, see `usage`)
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.analyses.chunks import chunk_sizes, cut, cut_keys, with_known
from llmtrace.analyses.evolution.naming import merged
from llmtrace.analyses.evolution.totals import Lengths, Models, runs
from llmtrace.summaries import cells, habits, keys, usage
from llmtrace.summaries.accumulator import Accumulator, Tables
from llmtrace.summaries.frames import frame_of, gathered, moments
from llmtrace.summaries.habits import HabitStore, Period
from llmtrace.summaries.interning import Interner, first_rows
from llmtrace.summaries.tallies import Tallies, TallyStore
from llmtrace.summaries.usage import Chunk, survey, with_room

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from llmtrace.analyses.base import State
    from llmtrace.summaries.interning import Ids, Integers
    from llmtrace.summaries.periods import Periods
    from llmtrace.summaries.usage import Table

__all__ = ["COLUMNS", "SCHEMAS", "Store", "lengths_of", "models_of", "names_of", "summarise"]

COLUMNS = ("input_tokens", "output_tokens")

_EDGES = ("requests", "first_us", "last_us")
_SUMS = tuple(f"{side}_{part}" for side in ("input", "output") for part in ("known", "upper", "lower"))
SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "models": {
        "time": pl.Datetime("us"),
        "key": pl.UInt64(),
        "name": pl.String(),
        "requests": pl.Int64(),
        **dict.fromkeys(_SUMS, pl.Int64()),
    },
    "lengths": {
        "time": pl.Datetime("us"),
        "column": pl.String(),
        "buckets": pl.List(pl.UInt32()),
        "counts": pl.List(pl.Int64()),
    },
    "users": {"key": pl.UInt64(), **dict.fromkeys(_EDGES, pl.Int64()), "lengths": pl.List(pl.UInt32())},
    **habits.SCHEMAS,
}
"""The columns of each table of a state."""


def summarise(
    part: pl.DataFrame, periods: Periods, renamed: Sequence[tuple[str, str]], suffixes: Sequence[str]
) -> dict[str, pl.DataFrame]:
    """The state of a part.

    Args:
        part: its requests, in order of time: `timestamp`, `model`, both tokens, `status`, and `user` unless users do not matter.
        periods: how time is cut.
        renamed: see `naming.merged`.
        suffixes: see `naming.merged`.
    """
    if part.is_empty():
        return {name: pl.DataFrame(schema=dict(schema)) for name, schema in SCHEMAS.items()}
    if renamed or suffixes:
        part = part.with_columns(_renamed(part["model"], renamed, suffixes))
    states = [_of_period(run, start_us) for run, start_us in _runs(with_known(part, COLUMNS), periods)]
    if len(states) == 1:
        return states[0]
    return Store().together(states)


class Store(Accumulator["State"]):
    """The state of parts, taken one by one in order of time."""

    def __init__(self) -> None:
        """Know no part."""
        self._totals = Tables({"models": Models(SCHEMAS["models"]), "lengths": Lengths(SCHEMAS["lengths"])})
        self._keys, self._users = Interner(), np.zeros((0, len(_EDGES)), np.int64)
        self._lengths, self._habits = TallyStore(self._keys), HabitStore(self._keys)

    def add(self, state: State) -> None:
        """Take the state of the next part."""
        self._totals.add(state)
        users = state["users"]
        known, places = self._keys.keys.size, self._keys.add(users["key"].to_numpy())
        self._users = with_room(self._users, self._keys.keys.size)
        requests, first_us, last_us = cells.frozen(*(users[name].to_numpy() for name in _EDGES))
        _note(places, known, requests, first_us, last_us, self._users)
        self._lengths.add(places, lengths_of(users))
        self._habits.add(state, models_of(state), places)

    def total(self) -> State:
        """The state of all parts."""
        order, found = self._lengths.total()
        users = {"key": self._keys.keys[order], **{name: self._users[order, place] for place, name in enumerate(_EDGES)}}
        lengths = cells.list_of("lengths", found.offsets(), found.flat)
        return {**self._totals.total(), "users": frame_of(users).insert_column(4, lengths), **self._habits.total()}


def models_of(state: State) -> dict[int, habits.Models]:
    """The models of each period of a state, by when it begins, in microseconds since 1970."""
    return {start_us: habits.Models(rows["key"].to_numpy(), rows["name"]) for start_us, rows in runs(state["models"])}


def names_of(state: State) -> pl.DataFrame:
    """`key` and `name` of every known model of a state."""
    return state["models"].select("key", "name").drop_nulls().unique("key").sort("key")


def lengths_of(users: pl.DataFrame) -> Tallies:
    """The tallies of the lengths of users, from the table of a state."""
    offsets, flat = cells.list_parts(users["lengths"])
    return Tallies(np.diff(offsets).astype(np.uint32), flat, usage.CELLS)


def _renamed(models: pl.Series, renamed: Sequence[tuple[str, str]], suffixes: Sequence[str]) -> pl.Series:
    """The same column with one name for what means the same model."""
    numbers = Interner()
    ids = numbers.add(keys.of(models))
    return merged(gathered(models, first_rows(ids, numbers.keys.size)), renamed, suffixes)[ids]


def _runs(part: pl.DataFrame, periods: Periods) -> Iterator[tuple[pl.DataFrame, int]]:
    """The requests of each period that has any, and when it begins, in microseconds since 1970."""
    times_us = part["timestamp"].to_physical()
    borders, starts = np.array([0, part.height]), periods.runs(np.array([times_us[0], times_us[-1]]))[1]
    if starts.size > 1:
        borders, starts = periods.runs(times_us.to_numpy())
    for (begin, end), start_us in zip(pairwise(borders), starts, strict=True):
        yield part[int(begin) : int(end)], int(start_us)


def _of_period(part: pl.DataFrame, start_us: int) -> State:
    """The state of the requests of one period.

    Its tables are made of arrays alone: what Polars works out here would wait for its threads, which read other parts.
    """
    found = survey(_chunks(part), part.height)
    models = {"time": moments(start_us, found.models.size), "key": found.models, "requests": found.model_requests}
    names = gathered(part["model"], found.model_rows).alias("name")
    lengths = pl.DataFrame([pl.Series("column", COLUMNS), *cells.lists(found.lengths, "buckets")])
    users = {"key": found.users, "requests": found.requests, "first_us": found.first_us, "last_us": found.last_us}
    tallies = cells.list_of("lengths", found.user_lengths.offsets(), found.user_lengths.flat)
    return {
        "models": frame_of({**models, **dict(zip(_SUMS, found.model_tokens, strict=True))}).insert_column(2, names),
        "lengths": lengths.insert_column(0, frame_of({"time": moments(start_us, len(COLUMNS))})["time"]),
        "users": frame_of(users).insert_column(4, tallies),
        **habits.tables([Period(start_us, found.users, found.user_models)]),
    }


def _chunks(part: pl.DataFrame) -> Iterator[Chunk]:
    """The chunks that a part consists of."""
    sizes = chunk_sizes(part)
    columns = (cut(column, sizes) for column in (part["timestamp"].to_physical(), *(part[name] for name in COLUMNS)))
    named = cut_keys(part, [[name] for name in ("model", "user") if name in part.columns], sizes)
    for (time, inputs, outputs), (models, *users) in zip(zip(*columns, strict=True), named, strict=True):
        yield Chunk(next(iter(users), None), models, *cells.frozen(*(one.to_numpy() for one in (time, inputs, outputs))))


@njit(nogil=True, cache=True)
def _note(places: Ids, known: int, requests: Integers, first_us: Integers, last_us: Integers, users: Table) -> None:
    """Note what users do in the next part; those from `known` on are new."""
    for row in range(places.size):
        user = np.uint64(places[row])
        users[user, 0] += requests[row]
        if user >= known:
            users[user, 1] = first_us[row]
        users[user, 2] = last_us[row]
