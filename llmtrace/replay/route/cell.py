"""One cell of the experiment: a policy on so many instances with caches of such a capacity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from llmtrace.replay.route import blocks, expiring, ruled, sessions
from llmtrace.replay.route.eviction import LRU, ORDERS
from llmtrace.replay.route.fleets import MAKERS
from llmtrace.replay.route.loop import feed, new_books, replay
from llmtrace.replay.route.memory import held_bytes
from llmtrace.replay.route.view import UNLIMITED, new_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from llmtrace.replay.route.loop import Books
    from llmtrace.replay.route.rules import Rule
    from llmtrace.replay.route.stream import Extent, Stream

__all__ = ["CACHE_POLICIES", "INTERVALS", "SEED", "TTL", "UNLIMITED", "Cell", "Key", "Outcome", "Running", "run"]

SEED = 10
"""The paper's."""
INTERVALS = 96
"""Of how many intervals of time the load is kept at most."""

AT_ONCE = 1 << 18
"""Requests that are replayed before anybody is told: a tenth of a second."""

TTL = "ttl"
CACHE_POLICIES = (*ORDERS, *MAKERS, TTL)
"""How an instance may evict, by the names that `cache` has: in an order, by a policy with a state of its own, and by age."""

Key: TypeAlias = Literal["user", "session"]


@dataclass(frozen=True)
class Cell:
    """What is replayed.

    Attributes:
        rule: the policy and its parameters.
        instances: how many there are.
        capacity_tokens: what each one's cache may hold; `UNLIMITED` for all.
        cache_policy: how it evicts, one of `CACHE_POLICIES`.
        key: by what users are kept on an instance: the user, or the session.
        seed: of what is drawn at random.
        ttl_us: after how long without a use the cache policy `ttl` forgets.
    """

    rule: Rule
    instances: int
    capacity_tokens: int
    cache_policy: str = "lru"
    key: Key = "user"
    seed: int = SEED
    ttl_us: int = 0


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


class Running:
    """A replay of a cell, slab by slab. The same cell gives the same outcome, wherever slabs are cut.

    Memory: 32 bytes for each session, or block, on each instance that held it, as long as it is in a cache or will be asked for
    again; 16 bytes for each session that will be; 12 for each request in flight; a bit per user and instance.

    Args:
        cell: what to replay.
        extent: of all slabs.
        block_tokens: tokens of a block, for caches of blocks; without it caches hold sessions.
    """

    def __init__(self, cell: Cell, extent: Extent, block_tokens: int | None = None) -> None:
        """Begin with idle instances and empty caches."""
        self.cell, self._extent = cell, extent
        self._policy = cell.rule.new(cell.instances, extent.users)
        self._store = _empty(cell, extent, block_tokens)
        self._view = new_view(cell.instances, cell.capacity_tokens, cell.seed)
        self._books = new_books(extent, cell.instances, INTERVALS)

    def advance(self, stream: Stream, told: Callable[[int], None] | None = None) -> None:
        """Replay the next slab.

        Args:
            stream: the slab.
            told: called with how many requests more were replayed, now and then; what it raises ends the replay.
        """
        asked, now = stream.requests, 0
        arrays = feed(stream, asked.user if self.cell.key == "user" else asked.session)
        self._books, self._store = self._books.fed(stream), self._store.fed(stream)
        while now < len(asked):
            before, stop = now, min(now + AT_ONCE, len(asked))
            now = replay(self._policy, self._store, self._view, self._books, arrays, now, stop)
            self._store = self._store if now == stop else self._store.more(now)
            if told is not None:
                told(now - before)

    @property
    def held_bytes(self) -> int:
        """What it takes of memory."""
        return held_bytes((self._policy, self._store, self._view, self._books))

    def outcome(self) -> Outcome:
        """What the replay gave, after the last slab."""
        return Outcome(self.cell, self._books.closed(), *(int(count) for count in self._store.closed()))


def _empty(cell: Cell, extent: Extent, block_tokens: int | None) -> Any:
    """Empty caches. Without a limit nothing is evicted, and all ways to evict are one, but for what gets too old."""
    if cell.cache_policy == TTL and block_tokens is None:
        return expiring.new_sessions(cell.instances, cell.ttl_us)
    if cell.cache_policy == TTL and block_tokens is not None:
        return expiring.new_blocks(block_tokens, cell.instances, cell.ttl_us)
    is_bounded = cell.capacity_tokens != UNLIMITED
    if is_bounded and cell.cache_policy in MAKERS:
        return _ruled(cell, extent.objects, block_tokens)
    order = ORDERS[cell.cache_policy] if is_bounded else LRU
    if block_tokens is None:
        return sessions.new(cell.instances, order, is_bounded=is_bounded)
    return blocks.new(block_tokens, cell.instances, order, is_bounded=is_bounded)


def _ruled(cell: Cell, objects: int, block_tokens: int | None) -> Any:
    policy, instances, capacity = cell.cache_policy, cell.instances, cell.capacity_tokens
    if block_tokens is None:
        return ruled.new_sessions(policy, instances, capacity=capacity, objects=objects)
    return ruled.new_blocks(policy, instances, block_tokens, capacity=capacity, objects=objects)


def run(stream: Stream, cell: Cell) -> Outcome:
    """Replay a cell on a trace that is one slab."""
    running = Running(cell, stream.extent, None if stream.prompts is None else stream.prompts.block_tokens)
    running.advance(stream)
    return running.outcome()
