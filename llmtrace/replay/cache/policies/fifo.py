"""FIFO: the object that came in first goes; hits change nothing.

Belady: "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from llmtrace.replay.cache.policy import implement
from llmtrace.replay.cache.rings import append, new_rings, take

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["FIFO", "new"]


class FIFO(NamedTuple):
    """One queue."""

    ring: Any
    span: Any


def new(stream: Stream, capacity: int) -> FIFO:
    """An empty FIFO cache."""
    return FIFO(*new_rings(stream.objects))


def _hit(policy: FIFO, now: int, one: int, was: int, size: int) -> None:
    pass


def _miss(policy: FIFO, now: int, one: int, size: int) -> bool:
    return True


def _evict(policy: FIFO, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    return take(policy.ring, policy.span, 0)


def _insert(policy: FIFO, now: int, one: int, size: int) -> None:
    append(policy.ring, policy.span, 0, one)


implement(FIFO, hit=_hit, miss=_miss, evict=_evict, insert=_insert)
