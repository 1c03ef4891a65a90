"""GDSF, greedy dual size frequency: what was used seldom for its size goes first, and long ago a bit sooner.

The rank of an object is `floor + uses * 1e6 / size`, set anew at each use, where `floor` is the rank of what was evicted last.
The object of lowest rank goes, of equals the one used longest ago. An object that comes in is ranked before room is made for it,
and may be the one that goes. An object that was evicted starts again with one use.

Ranks are so never below the floor, and the floor never falls, which is what a radix heap wants.

Cherkasova: "Improving WWW proxies performance with greedy-dual-size-frequency caching policy", HP Labs HPL-98-69R1, 1998.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.fetch import fetch
from llmtrace.replay.cache.policy import ABSENT, implement
from llmtrace.replay.cache.queues import NONE
from llmtrace.replay.cache.radix import bring_near, new_radix_heap, put, take_lowest, take_out

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["GDSF", "SCALE", "new"]

SCALE = 1e6
"""libCacheSim's: ranks, which are rounded, are then equal to the last bit."""


class GDSF(NamedTuple):
    """The objects by rank, what comes in among them, the uses of each, and the floor."""

    heap: Any
    uses: Any
    floor: Any


def new(stream: Stream, capacity: int) -> GDSF:
    """An empty GDSF cache."""
    return GDSF(new_radix_heap(stream.objects), np.zeros(stream.objects, np.int32), np.zeros(1))


def _hit(policy: GDSF, now: int, one: int, was: int, size: int) -> None:
    take_out(policy.heap, one)
    policy.uses[one] += 1
    put(policy.heap, one, policy.floor[0] + policy.uses[one] * SCALE / max(size, 1))


def _miss(policy: GDSF, now: int, one: int, size: int) -> bool:
    policy.uses[one] = 1
    put(policy.heap, one, policy.floor[0] + SCALE / max(size, 1))
    return True


def _evict(policy: GDSF, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    one = take_lowest(policy.heap)
    policy.floor[0] = policy.heap.ranks[one]
    # What is not held is what room is being made for.
    return np.int64(NONE) if held[one] == ABSENT else one


def _insert(policy: GDSF, now: int, one: int, size: int) -> None:
    pass


def _expect(policy: GDSF, one: int) -> None:
    fetch(policy.uses, one)
    bring_near(policy.heap, one)


implement(GDSF, hit=_hit, miss=_miss, evict=_evict, insert=_insert, expect=_expect)
