"""One cell of the experiment: a policy on so many instances with caches of such a capacity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from llmtrace.replay.route import sessions
from llmtrace.replay.route.eviction import ORDERS
from llmtrace.replay.route.loop import feed, new_books, replay
from llmtrace.replay.route.view import new_view

if TYPE_CHECKING:
    from llmtrace.replay.route.loop import Books
    from llmtrace.replay.route.rules import Rule
    from llmtrace.replay.route.stream import Stream

__all__ = ["INTERVALS", "SEED", "UNLIMITED", "Cell", "Key", "Outcome", "run"]

UNLIMITED = 1 << 62
"""A capacity that no trace reaches."""
SEED = 10
"""The paper's."""
INTERVALS = 500
"""Of how many intervals of time the load is kept at most."""

Key: TypeAlias = Literal["user", "session"]


@dataclass(frozen=True)
class Cell:
    """What is replayed.

    Attributes:
        rule: the policy and its parameters.
        instances: how many there are.
        capacity_tokens: what each one's cache may hold; `UNLIMITED` for all.
        cache_policy: the order in which it evicts, one of `eviction.ORDERS`.
        key: by what users are kept on an instance: the user, or the session.
        seed: of what is drawn at random.
    """

    rule: Rule
    instances: int
    capacity_tokens: int
    cache_policy: str = "lru"
    key: Key = "user"
    seed: int = SEED


@dataclass(frozen=True)
class Outcome:
    """What a replay of a cell gave: its books, and how sessions were spread."""

    cell: Cell
    books: Books
    physical_tokens: int
    logical_tokens: int
    copies: int
    objects: int


def run(stream: Stream, cell: Cell) -> Outcome:
    """Replay a cell. The same cell gives the same outcome.

    Memory: a row of 32 bytes for each session, once for each instance that holds it, as long as it is in a cache or will be asked
    for again; 14 bytes for each session that will be; a bit per user and instance.
    """
    asked = stream.requests
    key = asked.user if cell.key == "user" else asked.session
    policy = cell.rule.new(cell.instances, stream.users)
    store = sessions.new(stream, cell.instances, ORDERS[cell.cache_policy])
    view = new_view(cell.instances, cell.capacity_tokens, cell.seed)
    books = new_books(stream, cell.instances, stream.users, INTERVALS)
    arrays, now = feed(stream, key), 0
    while True:
        now = replay(policy, store, view, books, arrays, now)
        if now == len(asked):
            return Outcome(cell, books, *(int(count) for count in store.spread))
        store = sessions.more(store, now)
