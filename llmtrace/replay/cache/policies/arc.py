"""ARC: a queue of what was used once and one of what was used again, whose shares follow the hits on what they let go.

T1 has objects used once, T2 those used again, both from most to least recently used; B1 and B2 have the names of what T1 and T2
evicted. A hit moves the object to the head of T2. A miss on a name in B1 raises the target size of T1, one on a name in B2 lowers
it, each by the ratio of the two ghost queues, by 1 at least; the object comes into T2. Any other miss comes into T1. T1 evicts
while it is over its target, else T2 does. T1 with B1 stays within the capacity, all four within twice of it: else the oldest name
goes first.

As in libCacheSim, with which hit counts are equal, the target is a fraction, and T1 that fills the cache alone evicts without a
name.

Megiddo, Modha: "ARC: a self-tuning, low overhead replacement cache", FAST 2003.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.fetch import fetch
from llmtrace.replay.cache.policy import implement
from llmtrace.replay.cache.queues import FRONT, NONE, TAIL, new_queues, push, unlink
from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["ARC", "new"]

_OUT, _T1, _T2, _B1, _B2 = 0, 1, 2, 3, 4
"""No queue, and the queues."""
_WHERE, _SIZE = 2, 3
"""The columns of an object's queue and of its size there."""


class ARC(NamedTuple):
    """Queues and their totals, T1's target, and where the missed object was."""

    links: Any
    ends: Any
    totals: Any
    target: Any
    found: Any
    capacity: int


def new(stream: Stream, capacity: int) -> ARC:
    """An empty ARC cache."""
    return ARC(*new_queues(stream.objects, 5, more=2), np.zeros(5, np.int64), np.zeros(1), np.full(1, _OUT, np.int8), capacity)


@kernel
def _leave(policy: ARC, one: int) -> None:
    queue = policy.links[one, _WHERE]
    unlink(policy.links, policy.ends, queue, one)
    policy.totals[queue] -= policy.links[one, _SIZE]
    policy.links[one, _WHERE] = _OUT


@kernel
def _enter(policy: ARC, queue: int, one: int, size: int) -> None:
    push(policy.links, policy.ends, queue, one)
    policy.totals[queue] += size
    policy.links[one, _WHERE], policy.links[one, _SIZE] = queue, size


def _hit(policy: ARC, now: int, one: int, was: int, size: int) -> None:
    _leave(policy, one)
    _enter(policy, _T2, one, size)
    policy.found[0] = _OUT


def _miss(policy: ARC, now: int, one: int, size: int) -> bool:
    queue = policy.links[one, _WHERE]
    policy.found[0] = queue
    if queue == _OUT:
        return True
    ghosts, others = policy.totals[queue], policy.totals[_B1 + _B2 - queue]
    step = max(others / ghosts, 1.0)
    target = policy.target[0]
    policy.target[0] = min(target + step, policy.capacity) if queue == _B1 else max(target - step, 0.0)
    _leave(policy, one)
    return True


@kernel
def _oldest(policy: ARC, queue: int, pinned: Any) -> Any:
    one = policy.ends[queue, TAIL]
    if pinned is not None:
        while one != NONE and pinned[one] > 0:
            one = policy.links[one, FRONT]
    return one


def _evict(policy: ARC, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    totals, target = policy.totals, policy.target[0]
    leaves_name = True
    if policy.found[0] == _OUT:
        if totals[_T1] + totals[_B1] + incoming > policy.capacity:
            leaves_name = totals[_B1] > 0
            if leaves_name:
                _leave(policy, policy.ends[_B1, TAIL])
        elif totals[_T1] + totals[_T2] + totals[_B1] + totals[_B2] >= 2 * policy.capacity and totals[_B2] > 0:
            _leave(policy, policy.ends[_B2, TAIL])
    is_over = totals[_T1] > target or (totals[_T1] == target and policy.found[0] == _B2)
    queue = _T1 if (totals[_T1] > 0 and is_over) or totals[_T2] == 0 or not leaves_name else _T2
    one = _oldest(policy, queue, pinned)
    if one == NONE:
        queue = _T1 + _T2 - queue
        one = _oldest(policy, queue, pinned)
    _leave(policy, one)
    if leaves_name:
        _enter(policy, _B1 if queue == _T1 else _B2, one, held[one])
    return one


def _insert(policy: ARC, now: int, one: int, size: int) -> None:
    _enter(policy, _T1 if policy.found[0] == _OUT else _T2, one, size)


def _expect(policy: ARC, one: int) -> None:
    fetch(policy.links, one)


def _remembers(policy: ARC, one: int) -> Any:
    return policy.links[one, _WHERE] != _OUT


implement(ARC, hit=_hit, miss=_miss, evict=_evict, insert=_insert, expect=_expect, remembers=_remembers)
