"""FIFO among leaves: of the blocks that no block in the cache continues, the one that came in first goes.

A queue would have the beginnings of prompts in front, pinned by what follows them, and every eviction would go past all of
them. So the leaves alone are kept, as a set of bits by when each came in; what got a child since then is left out as it is met,
and comes back when its last child goes.

Belady: "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.bits import add, discard, greatest, is_empty, new_bits
from llmtrace.replay.cache.policy import implement
from llmtrace.replay.cache.queues import NONE

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["FIFOLeaves", "new"]


class FIFOLeaves(NamedTuple):
    """The leaves by the key of each block, which falls from one that comes in to the next; each key's block; the next key."""

    bits: Any
    keys: Any
    blocks: Any
    next_key: Any


def new(stream: Stream, capacity: int) -> FIFOLeaves:
    """An empty FIFO cache of blocks."""
    uses = stream.ids.size
    keys, blocks = np.zeros(stream.objects, np.int32), np.zeros(uses, np.uint32)
    return FIFOLeaves(new_bits(uses), keys, blocks, np.full(1, uses - 1, np.int64))


def _hit(policy: FIFOLeaves, now: int, one: int, was: int, size: int) -> None:
    pass


def _miss(policy: FIFOLeaves, now: int, one: int, size: int) -> bool:
    return True


def _evict(policy: FIFOLeaves, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    while not is_empty(policy.bits):
        key = greatest(policy.bits)
        discard(policy.bits, key)
        one = np.int64(policy.blocks[key])
        if pinned[one] <= 0:
            return one
    return np.int64(NONE)


def _insert(policy: FIFOLeaves, now: int, one: int, size: int) -> None:
    # It is pinned as it comes in.
    policy.keys[one] = policy.next_key[0]
    policy.blocks[policy.next_key[0]] = one
    policy.next_key[0] -= 1


def _free(policy: FIFOLeaves, one: int) -> None:
    add(policy.bits, policy.keys[one])


implement(FIFOLeaves, hit=_hit, miss=_miss, evict=_evict, insert=_insert, free=_free)
