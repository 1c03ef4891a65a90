"""Memory: what there is, and what replays need of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from llmtrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.replay.cache.requests import Requests

__all__ = ["FEWER", "GIB", "at_once", "memory_bytes", "state_bytes"]

GIB = 2**30
FEWER = "Replay a part of the trace, with --since and --until or with --model"
_STATE = {"lrb": (64, 24, 3 << 23), "belady-size": (8, 28, 0)}
_ANY_STATE = (48, 5, 1 << 21)
"""What the state of a policy takes at most: bytes per object, per use, and in any case: of those that take much, of others."""
_OF_OBJECT, _OF_REQUEST = 8, 24
"""What every replay takes besides: sizes in the cache, and what is found and reused."""
_SHARED_OF_USE, _SHARED_OF_OBJECT = 8, 4
"""What replays share that know the stream, or its leaves: next uses, the stream forwards; parents."""


def memory_bytes() -> int | None:
    """Bytes of memory of this machine; None where that is not told."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None


def state_bytes(policy: str, objects: int, uses: int) -> int:
    """Bytes that the state of a policy takes at most.

    >>> state_bytes("lrb", 1_000_000, 5_000_000) / 1e6
    209.165824
    """
    of_object, of_use, always = _STATE.get(policy, _ANY_STATE)
    return of_object * objects + of_use * uses + always


def at_once(requests: Requests, policies: Sequence[str], threads: int) -> int:
    """How many replays memory has room for at once, up to a number of threads.

    Args:
        requests: what is replayed.
        policies: that of each replay.
        threads: more are not wanted.

    Raises:
        InputError: if there is no room for one.
    """
    stream, memory = requests.stream, memory_bytes()
    objects, uses, number = stream.objects, stream.ids.size, requests.times_us.size
    states = sorted((state_bytes(policy, objects, uses) for policy in policies), reverse=True)[:threads]
    needed, fitting = requests.held_bytes + _SHARED_OF_USE * uses + _SHARED_OF_OBJECT * objects, 0
    for state in states:
        needed += state + _OF_OBJECT * objects + _OF_REQUEST * number
        if memory is not None and needed > memory:
            break
        fitting += 1
    if states and memory is not None and not fitting:
        raise InputError(
            f"The replay needs up to {needed / GIB:.1f} GiB of memory, and there are {memory / GIB:.1f} GiB", f"{FEWER}."
        )
    return max(fitting, 1)
