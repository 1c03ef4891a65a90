"""CLOCK: FIFO with a second chance.

A hit marks the object. An object that would go and has a mark loses it and becomes the newest instead.

Corbato: "A paging experiment with the Multics system", MIT Project MAC, 1968.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.policy import implement
from llmtrace.replay.cache.rings import append, new_rings, take

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["CLOCK", "new"]


class CLOCK(NamedTuple):
    """A queue, and the marks."""

    ring: Any
    span: Any
    marked: Any


def new(stream: Stream, capacity: int) -> CLOCK:
    """An empty CLOCK cache."""
    return CLOCK(*new_rings(stream.objects), np.zeros(stream.objects, np.bool_))


def _hit(policy: CLOCK, now: int, one: int, was: int, size: int) -> None:
    policy.marked[one] = True


def _miss(policy: CLOCK, now: int, one: int, size: int) -> bool:
    return True


def _evict(policy: CLOCK, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    one = take(policy.ring, policy.span, 0)
    while policy.marked[one] or (pinned is not None and pinned[one] > 0):
        policy.marked[one] = False
        append(policy.ring, policy.span, 0, one)
        one = take(policy.ring, policy.span, 0)
    return one


def _insert(policy: CLOCK, now: int, one: int, size: int) -> None:
    policy.marked[one] = False
    append(policy.ring, policy.span, 0, one)


implement(CLOCK, hit=_hit, miss=_miss, evict=_evict, insert=_insert)
