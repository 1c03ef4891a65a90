"""GDSF among leaves: of the blocks that no block in the cache continues, the one of lowest rank goes.

As `gdsf`, but a block that was pinned comes back with the rank that it had, and the floor may be above that by now. So ranks are
kept in a heap that does not mind.

Cherkasova: "Improving WWW proxies performance with greedy-dual-size-frequency caching policy", HP Labs HPL-98-69R1, 1998.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.heap import lowest, new_heap, put, put_back, remove
from llmtrace.replay.cache.policies.gdsf import SCALE
from llmtrace.replay.cache.policy import implement
from llmtrace.replay.cache.queues import NONE

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["GDSFLeaves", "new"]

_FLOOR, _COMING = 0, 1


class GDSFLeaves(NamedTuple):
    """The objects by rank, the uses of each, the floor, and rank and number of the object that room is being made for."""

    heap: Any
    uses: Any
    ranks: Any
    coming: Any


def new(stream: Stream, capacity: int) -> GDSFLeaves:
    """An empty GDSF cache."""
    return GDSFLeaves(new_heap(stream.objects), np.zeros(stream.objects, np.int32), np.zeros(2), np.full(1, NONE, np.int64))


def _hit(policy: GDSFLeaves, now: int, one: int, was: int, size: int) -> None:
    policy.uses[one] += 1
    put(policy.heap, one, policy.ranks[_FLOOR] + policy.uses[one] * SCALE / max(size, 1), now)


def _miss(policy: GDSFLeaves, now: int, one: int, size: int) -> bool:
    policy.coming[0] = one
    policy.ranks[_COMING] = policy.ranks[_FLOOR] + SCALE / max(size, 1)
    return True


def _evict(policy: GDSFLeaves, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    one, rank = lowest(policy.heap, pinned)
    if policy.coming[0] != NONE and policy.ranks[_COMING] < rank:
        one, rank = np.int64(NONE), policy.ranks[_COMING]
        policy.coming[0] = NONE
    else:
        remove(policy.heap, one)
    policy.ranks[_FLOOR] = rank
    return one


def _insert(policy: GDSFLeaves, now: int, one: int, size: int) -> None:
    policy.uses[one] = 1
    policy.coming[0] = NONE
    put(policy.heap, one, policy.ranks[_COMING], now)


def _free(policy: GDSFLeaves, one: int) -> None:
    put_back(policy.heap, one)


implement(GDSFLeaves, hit=_hit, miss=_miss, evict=_evict, insert=_insert, free=_free)
