"""One policy at one capacity over a stream, and the policies by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from llmtrace.errors import InputError, UsageError
from llmtrace.replay.cache.loops import replay_blocks, replay_leaves, replay_objects
from llmtrace.replay.cache.policies import (
    arc,
    belady,
    belady_size,
    clock,
    fifo,
    fifo_leaves,
    gdsf,
    gdsf_leaves,
    lfu,
    lhd,
    lru,
    s3fifo,
    sieve,
)
from llmtrace.replay.cache.policy import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from llmtrace.replay.cache.stream import Offsets, Sizes, Stream

__all__ = ["ORACLES", "POLICIES", "check_leaves", "play", "replay"]

POLICIES: dict[str, Callable[[Stream, int], Any]] = {
    "fifo": fifo.new,
    "lru": lru.new,
    "clock": clock.new,
    "sieve": sieve.new,
    "s3fifo": s3fifo.new,
    "arc": arc.new,
    "gdsf": gdsf.new,
    "lhd": lhd.new,
    "lfu": lfu.new,
    "belady": belady.new,
    "belady-size": belady_size.new,
}
"""What makes an empty cache of each policy."""

OF_LEAVES: dict[str, Callable[[Stream, int], Any]] = {"fifo": fifo_leaves.new, "gdsf": gdsf_leaves.new}
"""Those that have another form where only leaves may go."""

ORACLES = frozenset({"belady", "belady-size"})
"""Policies that know the stream."""


def replay(stream: Stream, policy: str, capacity: int, *, leaves_only: bool = False) -> Sizes:
    """What each request of a stream finds in a cache that is empty at first.

    Args:
        stream: uses of objects or of blocks.
        policy: one of `POLICIES`.
        capacity: what the cache may hold: tokens for objects, blocks for blocks.
        leaves_only: whether of blocks only those may go that no block in the cache continues.

    Returns:
        For objects the size in the cache at each use, -1 at a miss. For blocks the number of leading blocks in the cache at each
        request.

    Raises:
        UsageError: if there is no such policy, or it cannot replay such a stream.
        InputError: if only leaves may go, and blocks do not stand for the prefixes before them.

    >>> from llmtrace.replay.cache.stream import of_objects
    >>> stream = of_objects(np.array([0, 1, 0, 0], np.uint32), np.array([5, 3, 6, 9], np.int32))
    >>> replay(stream, "lru", 8)
    array([-1, -1,  5,  6], dtype=int32)
    """
    if policy not in POLICIES:
        raise UsageError(f"there is no eviction policy '{policy}'", f"The policies are {', '.join(POLICIES)}.")
    if stream.offsets is not None and policy == "belady-size":
        raise UsageError("belady-size is for objects of different sizes; blocks are all of one", "Take belady for blocks.")
    check_leaves(stream, leaves_only=leaves_only)
    makers = POLICIES | OF_LEAVES if leaves_only else POLICIES
    state = makers[policy](stream, capacity)
    return play(stream, state, capacity, leaves_only=leaves_only)


def check_leaves(stream: Stream, *, leaves_only: bool) -> None:
    """Check that a stream has leaves, if only those may go.

    Raises:
        InputError: if blocks do not stand for the prefixes before them.
    """
    if leaves_only and not stream.is_chained:
        raise InputError(
            "Blocks stand behind different ones in different prompts: their hashes are not of whole prefixes, which leaves need",
            "Leave it out: a block then counts only if all before it are there.",
        )


def play(
    stream: Stream, state: Any, capacity: int, *, leaves_only: bool = False, pause: Callable[[], None] = lambda: None
) -> Sizes:
    """What each request of a stream finds, as `replay`, in a cache whose policy has the state `state`.

    Args:
        stream: uses of objects or of blocks.
        state: that of an empty cache; changed.
        capacity: what the cache may hold.
        leaves_only: whether of blocks only those may go that no block in the cache continues.
        pause: called whenever the policy asks for a pause.
    """
    requests = stream.ids.size if stream.offsets is None else stream.offsets.size - 1
    held: Any = np.full(stream.objects, ABSENT, np.int32 if stream.offsets is None else np.int8)
    found, progress = np.zeros(requests, np.int32), np.array([0, 0, capacity, 0])
    advance = _loop(stream, state, capacity, held, found, progress, leaves_only=leaves_only)
    while capacity > 0 or stream.offsets is None:
        advance()
        if progress[0] == requests:
            break
        pause()
    return found


def _loop(
    stream: Stream, state: Any, capacity: int, held: Any, found: Sizes, progress: Offsets, *, leaves_only: bool
) -> Callable[[], None]:
    """What goes on with the replay until its end or a pause."""
    sizes: Any = stream.sizes
    if stream.offsets is None:
        return partial(replay_objects, state, stream.ids, sizes, capacity, held, found, progress)
    if leaves_only:
        pinned = np.zeros(stream.objects, np.int32)
        return partial(replay_leaves, state, stream.ids, stream.offsets, stream.parents, held, pinned, progress, found)
    is_missing = np.empty(np.diff(stream.offsets).max(initial=0), np.bool_)
    return partial(replay_blocks, state, stream.ids, stream.offsets, capacity, held, found, is_missing, progress)
