"""SIEVE: a queue that nothing moves in, and a hand that goes from its oldest object to its newest.

A hit marks the object. To evict, the hand takes the mark off objects that have one and evicts the first that has none; behind the
newest it goes on at the oldest. New objects come in unmarked, as newest.

The queue is an array in which the hand leaves no holes: what it passes, it moves up against what it has passed before.

Zhang, Yang, Yue, Vigfusson, Rashmi: "SIEVE is simpler than LRU", NSDI 2024.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.policy import implement

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["SIEVE", "new"]

_PASSED, _HAND, _END = 0, 1, 2
"""How many the hand has passed in this round, at the start of the array; where it is; where the array ends."""


class SIEVE(NamedTuple):
    """The queue from oldest to newest, the three places in it, and the marks."""

    queue: Any
    places: Any
    marked: Any


def new(stream: Stream, capacity: int) -> SIEVE:
    """An empty SIEVE cache."""
    # Twice the room, so that the end is reached only after as many insertions as there are objects.
    return SIEVE(np.empty(2 * stream.objects, np.uint32), np.zeros(3, np.int64), np.zeros(stream.objects, np.bool_))


def _hit(policy: SIEVE, now: int, one: int, was: int, size: int) -> None:
    policy.marked[one] = True


def _miss(policy: SIEVE, now: int, one: int, size: int) -> bool:
    return True


def _evict(policy: SIEVE, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    queue, marked = policy.queue, policy.marked
    passed, hand, end = policy.places
    while True:
        one = np.int64(queue[hand])
        hand += 1
        stays = marked[one] or (pinned is not None and pinned[one] > 0)
        # Without a branch: which objects are marked cannot be foreseen.
        marked[one] = False
        queue[passed] = one
        passed += stays
        if hand == end:
            end, passed, hand = passed, 0, 0
        if not stays:
            break
    policy.places[_PASSED], policy.places[_HAND], policy.places[_END] = passed, hand, end
    return one


def _insert(policy: SIEVE, now: int, one: int, size: int) -> None:
    queue, places = policy.queue, policy.places
    if places[_END] == queue.size:
        passed, waiting = places[_PASSED], places[_END] - places[_HAND]
        for row in range(waiting):
            queue[passed + row] = queue[places[_HAND] + row]
        places[_HAND], places[_END] = passed, passed + waiting
    queue[places[_END]] = one
    places[_END] += 1
    policy.marked[one] = False


implement(SIEVE, hit=_hit, miss=_miss, evict=_evict, insert=_insert)
