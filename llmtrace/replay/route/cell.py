"""One cell of the experiment: a policy on so many instances with caches of such a capacity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from llmtrace.replay.route import blocks, sessions
from llmtrace.replay.route.eviction import ORDERS
from llmtrace.replay.route.loop import feed, new_books, replay
from llmtrace.replay.route.view import new_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from llmtrace.replay.route.blocks import Prompts
    from llmtrace.replay.route.loop import Books
    from llmtrace.replay.route.rules import Rule
    from llmtrace.replay.route.stream import Stream

__all__ = ["INTERVALS", "SEED", "UNLIMITED", "Cell", "Key", "Outcome", "run"]

UNLIMITED = 1 << 62
"""A capacity that no trace reaches."""
SEED = 10
"""The paper's."""
INTERVALS = 96
"""Of how many intervals of time the load is kept at most."""

AT_ONCE = 1 << 18
"""Requests that are replayed before anybody is told: a tenth of a second."""

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
    """What a replay of a cell gave.

    Attributes:
        cell: what was replayed.
        books: what was counted, closed.
        physical_tokens: over all sessions, or blocks, and all instances, the most that an instance ever held.
        logical_tokens: the same, of each session or block the most that any one instance held.
        copies: sessions, or blocks, and instances that held them once.
        objects: sessions, or blocks.
    """

    cell: Cell
    books: Books
    physical_tokens: int
    logical_tokens: int
    copies: int
    objects: int


def run(stream: Stream, cell: Cell, prompts: Prompts | None = None, told: Callable[[int], None] | None = None) -> Outcome:
    """Replay a cell. The same cell gives the same outcome.

    Memory: 32 bytes for each session on each instance that held it, as long as it is in a cache or will be asked for again; 16
        bytes
    for each session that will be; a bit per user and instance. Blocks are remembered to the end.

    Args:
        stream: the requests.
        cell: what to replay.
        prompts: the blocks of each prompt, for caches of blocks; without them caches hold sessions.
        told: called with how many requests more were replayed, now and then; what it raises ends the replay.
    """
    asked = stream.requests
    key = asked.user if cell.key == "user" else asked.session
    policy = cell.rule.new(cell.instances, stream.users)
    order = ORDERS[cell.cache_policy]
    store: Any = sessions.new(stream, cell.instances, order)
    more: Callable[[Any, int], Any] = sessions.more
    if prompts is not None:
        store, more = blocks.new(stream, prompts, cell.instances, order), blocks.more
    view = new_view(cell.instances, cell.capacity_tokens, cell.seed)
    books = new_books(stream, cell.instances, stream.users, INTERVALS)
    arrays, now = feed(stream, key), 0
    while now < len(asked):
        before, stop = now, min(now + AT_ONCE, len(asked))
        now = replay(policy, store, view, books, arrays, now, stop)
        store = store if now == stop else more(store, now)
        if told is not None:
            told(now - before)
    return Outcome(cell, books.closed(), *(int(count) for count in store.spread))
