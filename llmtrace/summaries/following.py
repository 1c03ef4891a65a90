"""States that have requests as they came while these are few, and follow their keys once they are many.

To follow keys through a part, and then once more through what was found of several parts, takes longer than to do it once, and a
part is too short for its keys to come back often. So the state of a part has its requests as they came, dealt into shards (see
`visits`), and so has one of several parts up to `MOST_WAITING` requests; one of more has followed their keys.

A state has two tables for that: one of visits, empty once they are followed, and `inner`, all inner keys, `key` and `requests`:
in order of first appearance, and ascending once visits are followed. What is found of keys is in the tables of followers.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import polars as pl

from llmtrace.summaries import visits
from llmtrace.summaries.accumulator import Accumulator
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.tallies import ranked
from llmtrace.summaries.visits import SHARDS, arrange, pieces, together

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llmtrace.summaries.interning import Ids, Integers, Keys
    from llmtrace.summaries.visits import Piece, Rows, Visits

    Tables = dict[str, pl.DataFrame]

_Closed = TypeVar("_Closed")
_Counts = TypeVar("_Counts")
_Added_contra = TypeVar("_Added_contra", contravariant=True)
_Shard = TypeVar("_Shard")

__all__ = ["GROUP_REQUESTS", "INNER_SCHEMA", "MOST_WAITING", "NO_INNER", "Follower", "Following", "Shard"]

MOST_WAITING = 7 << 20
"""Requests of a state that has them as they came, at most."""
GROUP_REQUESTS = 1 << 15
"""So few requests are not worth a group of shards of their own."""
NO_INNER = (1 << 32) - 1
"""The number of an inner key that is not known."""
INNER_SCHEMA: Mapping[str, pl.DataType] = {"key": pl.UInt64(), "requests": pl.Int64()}
"""The columns of the table `inner`."""
_ONE_INNER = pl.DataFrame({"key": [UNKNOWN + 1], "requests": [0]}, dict(INNER_SCHEMA))
_MOST_THREADS = 8


class Shard(Protocol[_Added_contra]):
    """What is found of the keys of a shard."""

    def follow(self, visits: Visits, inner: int, counts: _Added_contra) -> None:
        """Follow the keys through further requests.

        Args:
            visits: these.
            inner: all numbers of inner keys are below it, except for `NO_INNER`.
            counts: what is found of all keys together is added to these.
        """


class Follower(Protocol[_Shard, _Counts, _Closed]):
    """What is to be found of keys."""

    def shard(self) -> _Shard:
        """A shard without keys."""

    def counts(self) -> _Counts:
        """Counts of nothing, for a thread to add to."""

    def added_up(self, counts: Sequence[_Counts]) -> _Counts:
        """Several counts as one."""

    def closed(self, keys: Keys, shard: _Shard, ranks: Ids) -> _Closed:
        """What the tables say of a shard with these outer keys, of whose inner keys `ranks` has the places; it ends with that."""

    def tables(self, closed: Sequence[_Closed], counts: _Counts) -> Tables:
        """The tables, from what they say of each shard, in order, and all counts."""

    def has_followed(self, state: Tables) -> bool:
        """Whether there is anything in the tables of a state."""

    def combine(self, states: Sequence[Tables]) -> Tables:
        """The tables of several states; there is one at least."""


class Following(Accumulator["Tables"]):
    """The tables of the state of parts, taken one by one in order of time."""

    def __init__(self, visits: str, followers: Sequence[Follower[Any, Any, Any]], *, has_inner: bool = True) -> None:
        """Know no part.

        Args:
            visits: the name of the table of visits.
            followers: what is to be found.
            has_inner: whether there is a table `inner`, without which the only inner key is that at place 0.
        """
        self._visits, self._followers, self._has_inner = visits, followers, has_inner
        self._done: list[Tables] = []
        self._waiting: list[Tables] = []
        self._keys: _Keys | None = None

    def add(self, state: Tables) -> None:
        """Take the state of the next part."""
        if any(follower.has_followed(state) for follower in self._followers):
            self._close()
            self._done = [self._combined([*self._done, self._own(state)])]
            return
        self._waiting.append(state)
        if sum(one[self._visits].height for one in self._waiting) > MOST_WAITING:
            self._follow()

    def total(self) -> Tables:
        """The tables of all parts."""
        return self.followed() if self._done or self._keys else self._as_they_came()

    def followed(self) -> Tables:
        """The same, with the keys of all requests followed."""
        self._close()
        return self._combined(self._done)

    def _follow(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._keys = self._keys or _Keys(self._followers, sum(one[self._visits].height for one in waiting))
        self._keys.follow([(state[self._visits], self._inner(state)) for state in waiting])

    def _close(self) -> None:
        """Be done with all requests so far."""
        if self._waiting:
            self._follow()
        if self._keys:
            keys, self._keys = self._keys, None
            inner, *found = keys.tables()
            self._done.append(self._whole(_no_visits(), inner, found))

    def _combined(self, states: Sequence[Tables]) -> Tables:
        """The tables of several states that have followed their keys."""
        if len(states) == 1:
            return states[0]
        inner = _united([self._inner(state) for state in states])
        return self._whole(_no_visits(), inner, [follower.combine(states) for follower in self._followers])

    def _as_they_came(self) -> Tables:
        found, requests = Interner(), np.zeros(0, np.int64)
        numbers = [found.add(self._inner(state)["key"].to_numpy()) for state in self._waiting]
        for state, own in zip(self._waiting, numbers, strict=True):
            requests = _counted(requests, own, self._inner(state), found.keys.size)
        visits = together([state[self._visits] for state in self._waiting], numbers)
        inner = pl.DataFrame({"key": found.keys, "requests": requests}, dict(INNER_SCHEMA))
        return self._whole(visits, inner, self._nothing())

    def _own(self, state: Tables) -> Tables:
        """Those of the tables of a state that are for it to bring together: another may have more to do with the others."""
        return {name: state[name] for name in self._whole(_no_visits(), _no_visits(), self._nothing())}

    def _nothing(self) -> list[Tables]:
        """The tables of each follower without requests."""
        return [follower.tables([], follower.counts()) for follower in self._followers]

    def _inner(self, state: Tables) -> pl.DataFrame:
        return state["inner"] if self._has_inner else _ONE_INNER

    def _whole(self, visits: pl.DataFrame, inner: pl.DataFrame, found: Sequence[Tables]) -> Tables:
        tables = {self._visits: visits, **({"inner": inner} if self._has_inner else {})}
        return {**tables, **{name: table for some in found for name, table in some.items()}}


class _Keys:
    """All keys, group by group of shards, and what is found of them.

    Where requests are few, a group of several shards is as good as one: as many as `SHARDS` are for millions.
    """

    def __init__(self, followers: Sequence[Follower[Any, Any, Any]], requests: int) -> None:
        self._followers = followers
        self._groups = 1 << min(max(requests // GROUP_REQUESTS, 1), SHARDS).bit_length() - 1
        self._outer: list[Keys] = [np.empty(0, np.uint64)] * self._groups
        self._shards = [[follower.shard() for follower in followers] for _ in range(self._groups)]
        self._counts = [follower.counts() for follower in followers]
        self._inner, self._requests = Interner(), np.zeros(0, np.int64)
        # Always the same threads, which keep what they work with (see `room`).
        self._threads = min(os.cpu_count() or 1, _MOST_THREADS, self._groups)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="llmtrace-keys")

    def follow(self, parts: Sequence[tuple[pl.DataFrame, pl.DataFrame]]) -> None:
        """Follow keys through the visits of parts, in order of time; each comes with its table `inner`."""
        numbered = [(visits, self._numbered(inner)) for visits, inner in parts]
        given = [(*piece, numbers) for visits, numbers in numbered for piece in pieces(visits)]

        def work(groups: Iterable[int]) -> list[Any]:
            counts = [follower.counts() for follower in self._followers]
            for group in groups:
                self._follow(group, [(self._piece(group, rows, edges), numbers) for rows, edges, numbers in given], counts)
            return counts

        # Whoever is done with one takes the next, the largest first: one busy key can have most of the requests.
        largest = iter(self._largest_first([edges for _, edges, _ in given]))
        counted = zip(self._counts, *self._pool.map(work, [largest] * self._threads), strict=True)
        self._counts = [follower.added_up(some) for follower, some in zip(self._followers, counted, strict=True)]

    def tables(self) -> list[Any]:
        """The table `inner` and the tables of each follower; with that it ends."""
        order, ranks = ranked(self._inner.keys)
        closed = list(self._pool.map(partial(self._closed, ranks=ranks), range(self._groups)))
        self._pool.shutdown()
        inner = pl.DataFrame({"key": self._inner.keys[order], "requests": self._requests[order]})
        found = zip(self._followers, zip(*closed, strict=True), self._counts, strict=True)
        return [inner, *(follower.tables(own, counts) for follower, own, counts in found)]

    def _largest_first(self, edges: Sequence[Integers]) -> list[int]:
        """The groups in the order of how many visits they get."""
        ends = sum((own[:: SHARDS // self._groups] for own in edges), np.zeros(self._groups + 1, np.int64))
        order: list[int] = np.argsort(-np.diff(ends), kind="stable").tolist()
        return order

    def _piece(self, group: int, rows: Rows, edges: Integers) -> Rows:
        """The part of a piece that belongs to a group."""
        shards = SHARDS // self._groups
        return rows.between(int(edges[group * shards]), int(edges[(group + 1) * shards]))

    def _follow(self, group: int, given: Sequence[Piece], counts: Sequence[Any]) -> None:
        given = [piece for piece in given if piece[0].keys.size]
        if given:
            visits = arrange(self._outer[group], given)
            self._outer[group] = visits.keys
            for own, some in zip(self._shards[group], counts, strict=True):
                own.follow(visits, self._inner.keys.size, some)

    def _closed(self, group: int, ranks: Ids) -> list[Any]:
        shards, self._shards[group] = self._shards[group], []
        return [follower.closed(self._outer[group], own, ranks) for follower, own in zip(self._followers, shards, strict=True)]

    def _numbered(self, inner: pl.DataFrame) -> Ids:
        """The numbers of inner keys."""
        keys = inner["key"].to_numpy()
        numbers = self._inner.add(keys)
        self._requests = _counted(self._requests, numbers, inner, self._inner.keys.size)
        return np.where(keys == UNKNOWN, np.uint32(NO_INNER), numbers)


def _no_visits() -> pl.DataFrame:
    return pl.DataFrame(schema=dict(visits.SCHEMA))


def _united(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Several tables `inner` of states that have followed their keys as one."""
    return pl.concat(tables).group_by("key").sum().sort("key")


def _counted(requests: Integers, numbers: Ids, inner: pl.DataFrame, size: int) -> Integers:
    """The requests of so many inner keys, with those of a table added, whose keys have these numbers."""
    counted = np.append(requests, np.zeros(size - requests.size, np.int64))
    counted[numbers] += inner["requests"].to_numpy()
    return counted
