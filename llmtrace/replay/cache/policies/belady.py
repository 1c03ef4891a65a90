"""Belady's MIN: the object goes whose next use is farthest away; one that is never used again before all.

It knows the stream, so no real cache can do it. For objects of one size nothing has more hits; for sizes that differ
`belady_size` can have more. Next uses are positions, which no two objects share, so they are kept as a set of bits, and above
them the objects that are never used again.

Belady: "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.bits import add, discard, greatest, new_bits
from llmtrace.replay.cache.policy import implement
from llmtrace.replay.cache.queues import NONE
from llmtrace.replay.cache.stream import NEVER

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["Belady", "new"]


class Belady(NamedTuple):
    """The stream and its next uses, the key of each object in the cache, and the keys."""

    forward: Any
    nexts: Any
    keys: Any
    bits: Any


def new(stream: Stream, capacity: int) -> Belady:
    """An empty cache that knows the stream."""
    bound = stream.ids.size + stream.objects
    return Belady(stream.forward, stream.nexts, np.zeros(stream.objects, np.uint32), new_bits(bound))


def _hit(policy: Belady, now: int, one: int, was: int, size: int) -> None:
    discard(policy.bits, policy.keys[one])
    after = policy.nexts[now]
    key = policy.nexts.size + one if after == NEVER else after
    policy.keys[one] = key
    add(policy.bits, key)


def _miss(policy: Belady, now: int, one: int, size: int) -> bool:
    return True


def _evict(policy: Belady, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    uses, key = policy.nexts.size, greatest(policy.bits)
    if pinned is not None and (policy.nexts[now] == NEVER or key <= policy.nexts[now]):
        # What goes would be used sooner than what comes: the block is left out. What it is the prefix of is farther, so this is a
        # leaf.
        return NONE
    discard(policy.bits, key)
    return key - uses if key >= uses else np.int64(policy.forward[key])


def _insert(policy: Belady, now: int, one: int, size: int) -> None:
    after = policy.nexts[now]
    key = policy.nexts.size + one if after == NEVER else after
    policy.keys[one] = key
    add(policy.bits, key)


implement(Belady, hit=_hit, miss=_miss, evict=_evict, insert=_insert)
