"""LRU: the object whose last use is longest ago goes.

The stream itself is the order of uses. `last` has the position of each object's last use; a hand moves along the stream, and
where it stands at the last use of an object, that object is the least recently used one. So a hit is one write, and no list is
kept. A block may come in behind the hand, where blocks of its own prompt that stand further on had to go for the one before it:
then the hand comes back.

Mattson, Gecsei, Slutz, Traiger: "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.policy import implement
from llmtrace.replay.cache.queues import NONE

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["LRU", "new"]


class LRU(NamedTuple):
    """The stream, the position of each object's last use, and where the hand is."""

    ids: Any
    last: Any
    hand: Any


def new(stream: Stream, capacity: int) -> LRU:
    """An empty LRU cache."""
    return LRU(stream.ids, np.full(stream.objects, NONE, np.int32), np.zeros(1, np.int64))


def _hit(policy: LRU, now: int, one: int, was: int, size: int) -> None:
    policy.last[one] = now


def _miss(policy: LRU, now: int, one: int, size: int) -> bool:
    return True


def _evict(policy: LRU, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    hand = policy.hand[0]
    while policy.last[policy.ids[hand]] != hand:
        hand += 1
    victim: Any = np.int64(policy.ids[hand])
    if pinned is not None and pinned[victim] > 0:
        # A prefix is used whenever what follows it is, and later in the stream: none of them is least recently used before its
        # leaves.
        victim = NONE
    else:
        # The hand may come back here.
        policy.last[victim] = NONE
        hand += 1
    policy.hand[0] = hand
    return victim


def _insert(policy: LRU, now: int, one: int, size: int) -> None:
    policy.last[one] = now
    policy.hand[0] = min(policy.hand[0], now)


implement(LRU, hit=_hit, miss=_miss, evict=_evict, insert=_insert)
