"""Users from period to period: who is new, who stays, and who turns to another model (Figure 12 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.analyses.evolution.lengths import PERCENTS
from llmtrace.analyses.evolution.mix import OTHERS
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.keys import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from llmtrace.analyses.evolution.grid import Grid
    from llmtrace.summaries.interning import Keys

    Integers = npt.NDArray[np.int64]

__all__ = ["ENOUGH_REQUESTS", "People", "active", "cohorts", "retention", "switching", "transitions"]

ENOUGH_REQUESTS = 11
"""What a user of a cohort's bands needs: more than 10 requests, whatever their tokens."""
LEAST_MEDIAN = 1
"""Both medians of such a user are above it."""

_BANDS = [f"p{percent}_{side}_tokens" for side in ("input", "output") for percent in PERCENTS]


@dataclass(frozen=True)
class People:
    """Who is active when.

    Attributes:
        grid: the periods.
        requests: per user how many requests it has in all.
        cohorts: when the periods begin in which users came first, ascending, in microseconds since 1970.
        cohort: per user the place of its cohort among these.
        period: per activity, a user in a period, the place of the period; ascending.
        user: per activity the place of the user.
        model: per activity the key of the user's main model.
        load: per activity how many requests it is.
    """

    grid: Grid
    requests: Integers
    cohorts: Integers
    cohort: Integers
    period: Integers
    user: Integers
    model: Keys
    load: Integers

    @classmethod
    def of(cls, users: pl.DataFrame, habits: pl.DataFrame, starts_us: Integers, grid: Grid) -> People:
        """Put the state of a trace together.

        Args:
            users: `key` (ascending) and `requests` of each.
            habits: see `summaries.habits`.
            starts_us: when the period begins in which each user came first.
            grid: the periods.
        """
        starts, cohort = _numbered(starts_us)
        user = _places(users["key"].to_numpy(), habits["user"].to_numpy())
        model, load = habits["model"].to_numpy(), habits["requests"].to_numpy()
        return cls(grid, users["requests"].to_numpy(), starts, cohort, grid.places(habits["time"]), user, model, load)

    @cached_property
    def matrix(self) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], ...]:
        """How many users of each cohort (row) are active in each period (column), and how many requests they are."""
        shape = self.cohorts.size, self.grid.size
        flat = self.cohort[self.user] * self.grid.size + self.period
        users = np.bincount(flat, minlength=shape[0] * shape[1])
        load = np.zeros(users.size, np.int64)
        np.add.at(load, flat, self.load)
        return users.reshape(shape), load.reshape(shape)

    @cached_property
    def home(self) -> Integers:
        """Per cohort the place of its own period; -1 where that is not in the trace."""
        places = np.searchsorted(self.grid.edges[:-1], self.cohorts)
        inside = np.isin(self.cohorts, self.grid.edges[:-1])
        return np.where(inside, places, -1)


def active(people: People) -> pl.DataFrame:
    """A row per period: how many users are active, and how many of them came first in it."""
    users, _ = people.matrix
    own = people.home >= 0
    fresh = np.zeros(people.grid.size, np.int64)
    fresh[people.home[own]] = users[own, people.home[own]]
    return people.grid.frame().with_columns(users=pl.Series(users.sum(axis=0)), new_users=pl.Series(fresh)).drop("partial")


def cohorts(people: People, medians: Sequence[npt.NDArray[np.float64]]) -> pl.DataFrame:
    """A row per cohort: bands of the medians of its users' input and output tokens.

    Args:
        people: who is active when.
        medians: per column the median of each user; NaN without lengths.
    """
    enough = people.requests >= ENOUGH_REQUESTS
    eligible = np.logical_and.reduce([enough, *(one > LEAST_MEDIAN for one in medians)])
    partial = np.append(people.grid.partial, False)[people.home]
    rows = []
    for cohort in range(people.cohorts.size):
        chosen = eligible & (people.cohort == cohort)
        bands = [np.percentile(one[chosen], PERCENTS).tolist() if chosen.any() else [None] * len(PERCENTS) for one in medians]
        rows.append((int((people.cohort == cohort).sum()), int(chosen.sum()), *(value for band in bands for value in band)))
    schema = {"users": pl.Int64, "eligible_users": pl.Int64, **dict.fromkeys(_BANDS, pl.Float64)}
    table = pl.DataFrame(rows, schema, orient="row")
    return table.select(_times("time", people.cohorts), pl.all(), pl.Series("partial", partial, dtype=pl.Boolean))


def retention(people: People) -> pl.DataFrame:
    """A row per cohort and period from its own on: how many of its users are active, and what share of the requests they are."""
    users, load = people.matrix
    size = np.bincount(people.cohort, minlength=people.cohorts.size)
    rows, columns = np.nonzero(np.arange(people.grid.size) >= people.home[:, None])
    table = pl.DataFrame(
        {
            "age": np.where(people.home[rows] >= 0, columns - people.home[rows], -1),
            "cohort_users": size[rows],
            "users": users[rows, columns],
            "requests": load[rows, columns],
            "whole": load.sum(axis=0)[columns],
            "partial": people.grid.partial[columns],
        },
        {**dict.fromkeys(("age", "cohort_users", "users", "requests", "whole"), pl.Int64), "partial": pl.Boolean},
    )
    # A user is of no cohort that began after its first request, so that whoever a cohort has is active from its period on.
    known, filled = pl.col("age") >= 0, pl.col("whole") > 0
    return table.select(
        _times("cohort_time", people.cohorts[rows]),
        people.grid.times(columns),
        pl.when(known).then("age"),
        pl.when(known).then("cohort_users"),
        "users",
        pl.when(known).then(pl.col("users") / pl.col("cohort_users")).alias("retained_ratio"),
        "requests",
        pl.when(filled).then(pl.col("requests") / pl.col("whole")).alias("requests_ratio"),
        "partial",
    )


@dataclass(frozen=True)
class _Moves:
    """Users with a main model in a period and in the one before it.

    Attributes:
        period: the place of the later period.
        before: the key of the earlier main model.
        after: that of the later one.
    """

    period: Integers
    before: Keys
    after: Keys


def moves(people: People) -> _Moves:
    """Every user in two periods that follow each other, if the main model in both is known."""
    latest_period, latest_model = np.full(people.requests.size, -2), np.zeros(people.requests.size, np.uint64)
    borders = np.searchsorted(people.period, np.arange(people.grid.size + 1))
    found = []
    for place in range(people.grid.size):
        own = slice(borders[place], borders[place + 1])
        users, models = people.user[own], people.model[own]
        stayed = (latest_period[users] == place - 1) & (latest_model[users] != UNKNOWN) & (models != UNKNOWN)
        found.append((np.full(int(stayed.sum()), place), latest_model[users[stayed]], models[stayed]))
        latest_period[users], latest_model[users] = place, models
    if not found:
        return _Moves(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.uint64))
    return _Moves(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def switching(found: _Moves, grid: Grid) -> pl.DataFrame:
    """A row per period but the first: of the users also active in the period before, how many have another main model."""
    users = np.bincount(found.period, minlength=grid.size)[1:]
    switched = np.bincount(found.period[found.before != found.after], minlength=grid.size)[1:]
    either = grid.partial[1:] | grid.partial[:-1]
    ratio = pl.when(pl.col("users") > 0).then(pl.col("switched_users") / pl.col("users")).alias("switched_ratio")
    counted = {"users": users, "switched_users": switched, "partial": either}
    table = pl.DataFrame(counted, {"users": pl.Int64, "switched_users": pl.Int64, "partial": pl.Boolean})
    return table.select(grid.times(np.arange(1, max(grid.size, 1))), "users", "switched_users", ratio, "partial")


def transitions(found: _Moves, names: pl.DataFrame, top: Sequence[str]) -> pl.DataFrame:
    """A row per pair of models, the busiest by name and all others as one: how many users turn from one to the other.

    Args:
        found: users in two periods that follow each other.
        names: `key` and `name` of models.
        top: the busiest models, the busiest first.
    """
    size = len(top) + 1
    before, after = (_ranks(one, names, top) for one in (found.before, found.after))
    flat = before * size + after
    counts = np.bincount(flat, minlength=size * size).reshape(size, size)
    switched = np.bincount(flat[found.before != found.after], minlength=size * size).reshape(size, size)
    called = [*top, OTHERS]
    schema = {
        "from_model": pl.String,
        "to_model": pl.String,
        "users": pl.Int64,
        "switched_users": pl.Int64,
        "users_ratio": pl.Float64,
    }
    rows = [
        (called[one], called[other], int(counts[one, other]), int(switched[one, other]), counts[one, other] / counts[one].sum())
        for one, other in zip(*np.nonzero(counts), strict=True)
    ]
    return pl.DataFrame(rows, schema, orient="row")


def _ranks(models: Keys, names: pl.DataFrame, top: Sequence[str]) -> Integers:
    """The place of each model among the busiest; the number of them for any other."""
    numbers, key_of = Interner(), dict(names.select("name", "key").iter_rows())
    numbers.add(np.array([key_of[name] for name in top], np.uint64))
    return np.minimum(numbers.add(models), np.uint32(len(top))).astype(np.int64)


def _numbered(values: Integers) -> tuple[Integers, Integers]:
    """The different ones of many values of which few differ, ascending, and the place of each value among them."""
    numbers = Interner()
    ids = numbers.add(values.view(np.uint64))
    different = numbers.keys.view(np.int64)
    places = np.empty(different.size, np.int64)
    places[np.argsort(different)] = np.arange(different.size)
    return np.sort(different), places[ids]


@njit(nogil=True, cache=True)
def _places(keys: Keys, sought: Keys) -> Integers:
    """The place of each key among all, which ascend; those sought ascend for a while, time and again."""
    places, at = np.empty(sought.size, np.int64), 0
    for one in range(sought.size):
        if one > 0 and sought[one] < sought[one - 1]:
            at = 0
        while keys[at] < sought[one] and at < keys.size - 1:
            at += 1
        places[one] = at
    return places


def _times(name: str, us: Integers) -> pl.Series:
    return pl.Series(name, us, dtype=pl.Int64).cast(pl.Datetime("us"))
