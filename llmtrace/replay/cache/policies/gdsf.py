"""GDSF, greedy dual size frequency: what was used seldom for its size goes first, and long ago a bit sooner.

The rank of an object is `floor + uses * 1e6 / size`, set anew at each use, where `floor` is the rank of what was evicted last.
The object of lowest rank goes, of equals the one used longest ago. An object that comes in is ranked before room is made for it,
and may be the one that goes. An object that was evicted starts again with one use.

Cherkasova: "Improving WWW proxies performance with greedy-dual-size-frequency caching policy", HP Labs HPL-98-69R1, 1998.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.heap import lowest, new_heap, put, put_back, remove
from llmtrace.replay.cache.policy import implement
from llmtrace.replay.cache.queues import NONE

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["GDSF", "new"]

_FLOOR, _COMING = 0, 1
_SCALE = 1e6
"""libCacheSim's: ranks, which are rounded, are then equal to the last bit."""


class GDSF(NamedTuple):
    """The objects by rank, the uses of each, the floor, and rank and number of the object that room is being made for."""

    heap: Any
    uses: Any
    ranks: Any
    coming: Any


def new(stream: Stream, capacity: int) -> GDSF:
    """An empty GDSF cache."""
    return GDSF(new_heap(stream.objects), np.zeros(stream.objects, np.int32), np.zeros(2), np.full(1, NONE, np.int64))


def _hit(policy: GDSF, now: int, one: int, was: int, size: int) -> None:
    policy.uses[one] += 1
    put(policy.heap, one, policy.ranks[_FLOOR] + policy.uses[one] * _SCALE / max(size, 1), now)


def _miss(policy: GDSF, now: int, one: int, size: int) -> bool:
    policy.coming[0] = one
    policy.ranks[_COMING] = policy.ranks[_FLOOR] + _SCALE / max(size, 1)
    return True


def _evict(policy: GDSF, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    one, rank = lowest(policy.heap, pinned)
    if policy.coming[0] != NONE and policy.ranks[_COMING] < rank:
        one, rank = np.int64(NONE), policy.ranks[_COMING]
        policy.coming[0] = NONE
    else:
        remove(policy.heap, one)
    policy.ranks[_FLOOR] = rank
    return one


def _insert(policy: GDSF, now: int, one: int, size: int) -> None:
    policy.uses[one] = 1
    policy.coming[0] = NONE
    put(policy.heap, one, policy.ranks[_COMING], now)


def _free(policy: GDSF, one: int) -> None:
    put_back(policy.heap, one)


implement(GDSF, hit=_hit, miss=_miss, evict=_evict, insert=_insert, free=_free)
