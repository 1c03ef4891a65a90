"""LFU: the object used least often since it came in goes; of equals, the one that has had that number of uses longest.

Uses of an object that was evicted are forgotten. Aho, Denning, Ullman: "Principles of optimal page replacement", JACM 18(1),
1971.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.heap import lowest, new_heap, put, put_back, remove
from llmtrace.replay.cache.policy import implement
from llmtrace.replay.cache.queues import NONE

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["LFU", "new"]


class LFU(NamedTuple):
    """The objects by uses, and the uses of each."""

    heap: Any
    uses: Any


def new(stream: Stream, capacity: int) -> LFU:
    """An empty LFU cache."""
    return LFU(new_heap(stream.objects), np.zeros(stream.objects, np.int32))


def _hit(policy: LFU, now: int, one: int, was: int, size: int) -> None:
    policy.uses[one] += 1
    put(policy.heap, one, policy.uses[one], now)


def _miss(policy: LFU, now: int, one: int, size: int) -> bool:
    return True


def _evict(policy: LFU, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    one, _ = lowest(policy.heap, pinned)
    if one != NONE:
        remove(policy.heap, one)
    return one


def _insert(policy: LFU, now: int, one: int, size: int) -> None:
    policy.uses[one] = 1
    put(policy.heap, one, 1, now)


def _free(policy: LFU, one: int) -> None:
    put_back(policy.heap, one)


implement(LFU, hit=_hit, miss=_miss, evict=_evict, insert=_insert, free=_free)
