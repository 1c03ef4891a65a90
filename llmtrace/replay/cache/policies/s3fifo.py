"""S3-FIFO: a small queue for what is new, a main queue for what is used again, and a ghost queue of what the small one let go.

An object comes into the small queue, or into the main one if the ghost queue knows it. From the small queue the oldest goes to
the main queue if it was used at least `THRESHOLD` times in it, else it is evicted and its name goes to the ghost queue. From the
main queue the oldest is evicted if it was not used, else it becomes the newest with one use less, of three that are counted at
most. The main queue evicts while it is over its share of the capacity or the small one is empty. Until the first eviction, what
comes in when the small queue is full goes to the main one. An object as large as the small queue is not let in, unless it is a
ghost.

The small queue has a tenth of the capacity, the main one the rest, and the ghost queue has names of nine tenths of it: the
settings of libCacheSim, with which hit counts are equal.

Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction", SOSP 2023.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.fetch import fetch
from llmtrace.replay.cache.policy import implement
from llmtrace.replay.cache.queues import NONE, TAIL, new_queues, push, unlink
from llmtrace.replay.cache.rings import QUEUED, append, new_rings, take
from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["S3FIFO", "THRESHOLD", "new"]

THRESHOLD = 2
"""Uses in the small queue that bring an object to the main one; the figures of the LLM serving paper have 1."""
_SMALL_SHARE, _GHOST_SHARE, _MOST_USES = 0.1, 0.9, 3
_OUT, _SMALL, _MAIN, _GHOST, _ASIDE = 0, 1, 2, 3, 4
"""Where an object is, and the place of the queue's total and limit; aside are those of the main queue that are pinned."""
_WHERE, _USES, _SIZE = 2, 3, 4
"""The columns of where an object is, of its uses there, and of its size as a ghost."""
_HAS_EVICTED, _IS_GHOST = 0, 1
"""Facts: whether anything was ever evicted, whether the object that is missed now was a ghost."""


class S3FIFO(NamedTuple):
    """The small and the main queue, the ghost queue, totals and limits by queue, and facts."""

    ring: Any
    span: Any
    links: Any
    ends: Any
    totals: Any
    limits: Any
    facts: Any
    threshold: int


def new(stream: Stream, capacity: int, threshold: int = THRESHOLD) -> S3FIFO:
    """An empty S3-FIFO cache."""
    small = int(capacity * _SMALL_SHARE)
    limits = np.array([0, small, capacity - small, int(capacity * _GHOST_SHARE)])
    rings, ghosts = new_rings(stream.objects, 2), new_queues(stream.objects, more=3)
    return S3FIFO(*rings, *ghosts, np.zeros(5, np.int64), limits, np.zeros(2, np.bool_), threshold)


def _hit(policy: S3FIFO, now: int, one: int, was: int, size: int) -> None:
    policy.links[one, _USES] += 1
    policy.totals[policy.links[one, _WHERE]] += size - was


def _miss(policy: S3FIFO, now: int, one: int, size: int) -> Any:
    is_ghost = policy.links[one, _WHERE] == _GHOST
    if is_ghost:
        _forget(policy, one)
    policy.facts[_IS_GHOST] = is_ghost
    small = policy.limits[_SMALL]
    return size < small or (is_ghost and size == small)


@kernel
def _evict_small(policy: S3FIFO, held: Any, pinned: Any) -> Any:
    """Move what was used, or is pinned, to the main queue until something goes; `NONE` if all was."""
    while policy.totals[_SMALL] > 0:
        one = take(policy.ring, policy.span, _SMALL - 1)
        policy.totals[_SMALL] -= held[one]
        is_pinned = pinned is not None and pinned[one] > 0
        if policy.links[one, _USES] < policy.threshold and not is_pinned:
            policy.links[one, _WHERE] = _OUT
            _leave_name(policy, one, held[one])
            return one
        policy.totals[_MAIN] += held[one]
        policy.links[one, _USES] = 0
        _keep(policy, one, is_pinned)
    return NONE


@kernel
def _evict_main(policy: S3FIFO, held: Any, pinned: Any) -> Any:
    """`NONE` if all of it is pinned."""
    while policy.span[_MAIN - 1, QUEUED] > 0:
        one = take(policy.ring, policy.span, _MAIN - 1)
        is_pinned = pinned is not None and pinned[one] > 0
        if policy.links[one, _USES] == 0 and not is_pinned:
            policy.totals[_MAIN] -= held[one]
            policy.links[one, _WHERE] = _OUT
            return one
        policy.links[one, _USES] = max(min(policy.links[one, _USES], _MOST_USES) - 1, 0)
        _keep(policy, one, is_pinned)
    return NONE


@kernel
def _keep(policy: S3FIFO, one: int, is_pinned: bool) -> None:  # noqa: FBT001
    """Make an object the newest of the main queue; once it is no longer pinned, if it is."""
    policy.links[one, _WHERE] = _ASIDE if is_pinned else _MAIN
    if not is_pinned:
        append(policy.ring, policy.span, _MAIN - 1, one)


@kernel
def _leave_name(policy: S3FIFO, one: int, size: int) -> None:
    if size > policy.limits[_GHOST]:
        return
    while policy.totals[_GHOST] + size > policy.limits[_GHOST]:
        _forget(policy, policy.ends[0, TAIL])
    push(policy.links, policy.ends, 0, one)
    policy.links[one, _WHERE], policy.links[one, _SIZE] = _GHOST, size
    policy.totals[_GHOST] += size


@kernel
def _forget(policy: S3FIFO, one: int) -> None:
    unlink(policy.links, policy.ends, 0, one)
    policy.totals[_GHOST] -= policy.links[one, _SIZE]
    policy.links[one, _WHERE] = _OUT


def _evict(policy: S3FIFO, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    policy.facts[_HAS_EVICTED] = True
    one = NONE
    if policy.totals[_MAIN] <= policy.limits[_MAIN]:
        one = _evict_small(policy, held, pinned)
    if one == NONE:
        one = _evict_main(policy, held, pinned)
    if pinned is not None and one == NONE:
        # All of the main queue is pinned. What goes is small, or was and is moved.
        one = _evict_small(policy, held, pinned)
        if one == NONE:
            one = _evict_main(policy, held, pinned)
    return one


def _free(policy: S3FIFO, one: int) -> None:
    if policy.links[one, _WHERE] == _ASIDE:
        _keep(policy, one, is_pinned=False)


def _insert(policy: S3FIFO, now: int, one: int, size: int) -> None:
    is_full = not policy.facts[_HAS_EVICTED] and policy.totals[_SMALL] >= policy.limits[_SMALL]
    queue = _MAIN if policy.facts[_IS_GHOST] or is_full else _SMALL
    append(policy.ring, policy.span, queue - 1, one)
    policy.links[one, _WHERE], policy.links[one, _USES] = queue, 0
    policy.totals[queue] += size


def _expect(policy: S3FIFO, one: int) -> None:
    fetch(policy.links, one)


def _remembers(policy: S3FIFO, one: int) -> Any:
    return policy.links[one, _WHERE] != _OUT


implement(S3FIFO, hit=_hit, miss=_miss, evict=_evict, insert=_insert, free=_free, expect=_expect, remembers=_remembers)
