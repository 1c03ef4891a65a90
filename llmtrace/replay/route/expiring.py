"""Instances whose caches forget what was not used for longer than a time to live; LRU evicts the rest.

Before a request is looked up, what is too old by then leaves every cache. It stands last in LRU's order, so that what is left is
what LRU would hold, less what is too old, as `cache` has it (`llmtrace.replay.cache.policies.ttl`). What was used exactly that
long ago is still there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.kernels import kernel
from llmtrace.replay.route import blocks, sessions
from llmtrace.replay.route.copies import ABSENT, HEAD, NONE, SIZE, TAIL, drop
from llmtrace.replay.route.eviction import LRU
from llmtrace.replay.route.memory import at_least
from llmtrace.replay.route.store import has_room, implement, look_up, serve
from llmtrace.replay.route.view import CAPACITY

if TYPE_CHECKING:
    from llmtrace.replay.route.blocks import Blocks
    from llmtrace.replay.route.sessions import Sessions
    from llmtrace.replay.route.stream import Stream
    from llmtrace.replay.route.view import View

__all__ = ["ExpiringBlocks", "ExpiringSessions", "new_blocks", "new_sessions"]


class ExpiringSessions(NamedTuple):
    """Sessions on instances.

    Attributes:
        base: where they are.
        used_us: int64, when each copy in a cache was used last.
        arrival_us: int64, when each request of the slab arrives.
        ttl_us: the time to live.
    """

    base: Sessions
    used_us: Any
    arrival_us: Any
    ttl_us: int

    def fed(self, stream: Stream) -> ExpiringSessions:
        """The same caches before the next slab."""
        return self._replace(base=self.base.fed(stream), arrival_us=stream.requests.arrival_us)

    def more(self, now: int) -> ExpiringSessions:
        """The same caches with room for request `now`."""
        base = self.base.more(now)
        return self._replace(base=base, used_us=at_least(self.used_us, base.copies.rows.shape[0]))

    def closed(self) -> Any:
        """What `spread` is when all sessions have ended."""
        return self.base.closed()


class ExpiringBlocks(NamedTuple):
    """Blocks on instances; the attributes are those of `ExpiringSessions`."""

    base: Blocks
    used_us: Any
    arrival_us: Any
    ttl_us: int

    def fed(self, stream: Stream) -> ExpiringBlocks:
        """The same caches before the next slab."""
        return self._replace(base=self.base.fed(stream), arrival_us=stream.requests.arrival_us)

    def more(self, now: int) -> ExpiringBlocks:
        """The same caches with room for request `now`."""
        base = self.base.more(now)
        return self._replace(base=base, used_us=at_least(self.used_us, base.copies.rows.shape[0]))

    def closed(self) -> Any:
        """What `spread` is in the end."""
        return self.base.closed()


def new_sessions(instances: int, ttl_us: int) -> ExpiringSessions:
    """Empty caches of sessions."""
    base, times = sessions.new(instances, LRU), np.zeros(0, np.int64)
    return ExpiringSessions(base, at_least(times, base.copies.rows.shape[0]), times, ttl_us)


def new_blocks(block_tokens: int, instances: int, ttl_us: int) -> ExpiringBlocks:
    """Empty caches of blocks."""
    base, times = blocks.new(block_tokens, instances, LRU), np.zeros(0, np.int64)
    return ExpiringBlocks(base, at_least(times, base.copies.rows.shape[0]), times, ttl_us)


def _has_room(store: Any, now: int) -> Any:
    return has_room(store.base, now)


def _look_up(store: Any, view: View, now: int) -> Any:
    _expire(store, view, now)
    look_up(store.base, view, now)


@kernel
def _expire(store: Any, view: View, now: int) -> None:
    """Let everything go that is too old now."""
    copies, since_us = store.base.copies, store.arrival_us[now] - store.ttl_us
    for instance in range(copies.ends.shape[0]):
        row = copies.ends[instance, TAIL]
        while row != NONE and store.used_us[row] < since_us:
            view.used[instance] -= drop(copies, row)
            row = copies.ends[instance, TAIL]


def _serve(store: ExpiringSessions, view: View, now: int, instance: int) -> Any:
    serve(store.base, view, now, instance)
    # What was used last is first.
    store.used_us[store.base.copies.ends[instance, HEAD]] = store.arrival_us[now]


def _serve_blocks(store: ExpiringBlocks, view: View, now: int, instance: int) -> Any:
    base = store.base
    serve(base, view, now, instance)
    if base.block_tokens <= view.facts[CAPACITY]:
        for place in range(base.offsets[now + 1] - base.offsets[now]):
            row = base.rows[place]
            if base.copies.rows[row, SIZE] != ABSENT:
                store.used_us[row] = store.arrival_us[now]


implement(ExpiringSessions, has_room=_has_room, look_up=_look_up, serve=_serve)
implement(ExpiringBlocks, has_room=_has_room, look_up=_look_up, serve=_serve_blocks)
