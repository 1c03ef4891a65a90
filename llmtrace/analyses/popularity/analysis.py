"""The analysis `popularity`: what it keeps of a part, how parts are put together, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl

from llmtrace.analyses.base import Analysis, State
from llmtrace.analyses.popularity import concentration, entities, notes, overview
from llmtrace.analyses.popularity.definitions import DEFINITIONS
from llmtrace.errors import UsageError
from llmtrace.result import Result
from llmtrace.schema import succeeded
from llmtrace.summaries import accounts, keys, parameters, user_tallies
from llmtrace.summaries.accumulator import Accumulator, Counter, Tables
from llmtrace.summaries.frames import frame_of
from llmtrace.summaries.pooled import Pool
from llmtrace.summaries.summary import tables_of
from llmtrace.summaries.tallies import Tallies, TallyStore, ranked, renumbered
from llmtrace.summaries.usage import USER_BITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["MOST_USERS", "Popularity"]

MOST_USERS = 1_000
"""How many users are listed unless more are asked for."""

PIECE = 1 << 16
"""Requests that are looked at together."""

_NAMED = ("user", "model")
_TOKENS = ("input_tokens", "output_tokens")
_SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "users": accounts.SCHEMA,
    "models": accounts.SCHEMA,
    "model_lengths": entities.MODEL_LENGTHS.schema,
    "sizes": {"met": pl.UInt32(), "lengths": pl.UInt32()},
    "met": {"tally": pl.UInt32()},
    "lengths": {"tally": pl.UInt32()},
}
"""Of `users`, `sizes` says how many tallies each has in `met` (models, by their rows in `models`) and in `lengths`."""


@dataclass(frozen=True)
class Popularity(Analysis):
    """How requests and tokens are spread over models and users, and what each of them is like.

    Attributes:
        most_users: how many users the table `users` lists, those with most requests first; None for all of them.

    Raises:
        UsageError: if `most_users` is less than 1.
    """

    name: ClassVar[str] = "popularity"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses: ClassVar[frozenset[str]] = frozenset({"timestamp", *_NAMED, *_TOKENS, "status"})

    most_users: int | None = MOST_USERS

    def __post_init__(self) -> None:
        """Check the number of users."""
        if self.most_users is not None and self.most_users < 1:
            raise UsageError(f"{self.most_users} users: there is nothing to list", "Give a number from 1 on, or None for all.")

    def partial(self, part: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        """The plan that summarises a part: a table per key of the state."""
        kept = parameters.plan(most_users=self.most_users, bits_by_model=entities.BITS_BY_MODEL, bits_by_user=USER_BITS)
        return {"parameters": kept, **tables_of(_prepared(part), _SCHEMAS, _tables)}

    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time.

        Raises:
            ValueError: if they were made with different parameters.
        """
        return self.accumulator().together(states)

    def accumulator(self) -> Accumulator[State]:
        """One that takes part after part, most of it in place."""
        return _Together()

    def finish(self, state: State) -> Result:
        """The result: shares and exponents as scalars, `models` as the primary table."""
        found = entities.read(state)
        spreads = [
            concentration.spread(frame, of, by)
            for of, frame in (("model", found.models), ("user", found.users))
            for by in ("requests", "tokens")
        ]
        tables = {
            "models": entities.models_table(found),
            "users": entities.users_table(found, self.most_users),
            "concentration": concentration.table(spreads),
            "zipf": concentration.zipf_table(spreads),
            "rank_frequency": concentration.rank_frequency(spreads),
            "user_breadth": entities.user_breadth(found),
            "user_lengths": entities.user_lengths(found),
        }
        return Result(
            command=self.name,
            parameters={"most_users": self.most_users},
            scalars=overview.scalars(found, spreads),
            tables=tables,
            primary="models",
            notes=notes.notes(found, spreads, tables),
            definitions=DEFINITIONS,
            shown=("concentration", "zipf"),
        )


class _Together(Accumulator["State"]):
    """Brings states together at the cost of what is in each."""

    def __init__(self) -> None:
        self._users, self._models = accounts.Accounts(), accounts.Accounts()
        self._met, self._lengths = TallyStore(self._users.numbers), TallyStore(self._users.numbers)
        lengths = Pool(tuple(entities.PAIRED.values()), entities.BITS_BY_MODEL)
        self._tables = Tables({"parameters": Counter(parameters.combine), "model_lengths": lengths})

    def add(self, state: State) -> None:
        self._tables.add(state)
        users, models = self._users.taken(state["users"]), self._models.taken(state["models"])
        met = entities.tallies(state, "met", models.size)
        self._met.add(users, renumbered(met, models, self._models.numbers.keys.size))
        self._lengths.add(users, entities.tallies(state, "lengths"))

    def total(self) -> State:
        _, ranks = ranked(self._models.numbers.keys)
        met, lengths = renumbered(self._met.total()[1], ranks, ranks.size), self._lengths.total()[1]
        return {
            **self._tables.total(),
            "users": self._users.total(),
            "models": self._models.total(),
            **_tallied(met, lengths),
        }


def _tallied(met: Tallies, lengths: Tallies) -> dict[str, pl.DataFrame]:
    return {
        "sizes": frame_of({"met": met.sizes, "lengths": lengths.sizes}),
        "met": frame_of({"tally": met.flat}),
        "lengths": frame_of({"tally": lengths.flat}),
    }


def _prepared(part: pl.LazyFrame) -> pl.LazyFrame:
    """Names and their keys, arrivals in microseconds, and tokens; -1 for those of failed requests and for unknown ones."""
    tokens = (pl.when(succeeded()).then(column).fill_null(-1).alias(column) for column in _TOKENS)
    keyed = (keys.key(column).alias(f"{column}_key") for column in _NAMED)
    return part.select(pl.col("timestamp").to_physical().alias("time_us"), *_NAMED, *keyed, *tokens)


def _tables(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The state of a part, which is read in pieces that stay in a processor's cache."""
    users, models = accounts.Accounts(), accounts.Accounts()
    user_ids, model_ids = np.empty((2, frame.height), np.uint32)
    paired = np.empty((2, frame.height), np.int64)
    for start in range(0, frame.height, PIECE):
        piece = frame[start : start + PIECE]
        times_us, *tokens = (piece[name].to_numpy() for name in ("time_us", *_TOKENS))
        for who, name, ids in ((users, "user", user_ids), (models, "model", model_ids)):
            ids[start : start + PIECE] = who.count(piece[f"{name}_key"].to_numpy(), piece[name], times_us, *tokens)
        positive = (tokens[0] > 0) & (tokens[1] > 0)
        for side, own in zip(paired, tokens, strict=True):
            side[start : start + PIECE] = np.where(positive, own, -1)
    by_user, by_model = users.groups(user_ids), models.groups(model_ids)
    return {
        "users": users.total(),
        "models": models.total(),
        "model_lengths": entities.model_lengths(by_model, *paired),
        **_tallied(*user_tallies.tally(by_user, by_model, *paired)),
    }
