"""The replay loops: one for objects, one for blocks. What is evicted is up to a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from llmtrace.replay.cache.fetch import fetch
from llmtrace.replay.cache.policy import ABSENT, evict, expect, free, hit, insert, miss, pauses
from llmtrace.replay.cache.queues import NONE
from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.uint32]
    Sizes = npt.NDArray[np.int32]
    Offsets = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

_NEXT, _USED, _CAPACITY, _LEAVES = range(4)
"""How far a replay is: the next use or request, and what the cache holds; of leaves also what it may hold, and their number."""
_AHEAD = 16
"""Uses ahead for which what is known of an object is brought near: memory answers in the time of about so many."""

__all__ = ["replay_blocks", "replay_leaves", "replay_objects"]


@kernel
def replay_objects(policy: Any, ids: Ids, sizes: Sizes, capacity: int, held: Sizes, found: Sizes, progress: Offsets) -> None:
    """Use objects one after the other, evicting whenever the cache is over its capacity.

    Args:
        policy: the state of a policy, changed.
        ids: the object of each use.
        sizes: its size at that use.
        capacity: how much the cache may hold.
        held: the size of every object in the cache, `ABSENT` at first; changed.
        found: filled with the size that was in the cache at each use, `ABSENT` at a miss.
        progress: the next use and how much the cache holds, both 0 at first; changed. A policy may pause before the end.
    """
    used = progress[_USED]
    for now in range(progress[_NEXT], ids.size):
        if pauses(policy):
            progress[_NEXT], progress[_USED] = now, used
            return
        if now + _AHEAD < ids.size:
            fetch(held, ids[now + _AHEAD])
            expect(policy, ids[now + _AHEAD])
        one, size = ids[now], sizes[now]
        was = held[one]
        found[now] = was
        incoming = 0
        if was != ABSENT:
            hit(policy, now, one, was, size)
            held[one] = size
            used += size - was
        elif size <= capacity and miss(policy, now, one, size):
            incoming = size
        else:
            continue
        victim = 0
        while used + incoming > capacity and victim != NONE:
            victim = evict(policy, now, incoming, held, None)
            if victim != NONE:
                used -= held[victim]
                held[victim] = ABSENT
        if was == ABSENT and victim != NONE:
            insert(policy, now, one, size)
            held[one] = size
            used += size
    progress[_NEXT], progress[_USED] = ids.size, used


@kernel
def replay_blocks(
    policy: Any, ids: Ids, offsets: Offsets, capacity: int, held: Sizes, found: Sizes, is_missing: Flags, progress: Offsets
) -> None:
    """Use the blocks of one request after the other.

    A request is looked up as it arrives: `found` is how many of its blocks are there before the first that is not. Then those
    that are there are used, then those that are not come in; both from the last block of the prompt to the first, so that the end
    of a prompt is older than its beginning. A block that goes while others of its request come in does not come back with it.

    Args:
        policy: the state of a policy, changed.
        ids: the blocks of all requests, those of each from the last of the prompt to the first.
        offsets: where those of each request begin, and where the last end.
        capacity: how many blocks the cache may hold.
        held: 1 for every block in the cache, `ABSENT` at first for all; changed.
        found: filled with the number of leading blocks that each request finds.
        is_missing: room for the blocks of the longest request.
        progress: the next request and how much the cache holds, both 0 at first; changed. A policy may pause before the end.
    """
    used = progress[_USED]
    for request in range(progress[_NEXT], offsets.size - 1):
        if pauses(policy):
            progress[_NEXT], progress[_USED] = request, used
            return
        start, stop = offsets[request], offsets[request + 1]
        found[request] = _leading(ids, start, stop, held)
        for now in range(start, stop):
            is_missing[now - start] = held[ids[now]] == ABSENT
            if not is_missing[now - start]:
                hit(policy, now, ids[now], 1, 1)
        for now in range(start, stop):
            # Twice the same block in a prompt is one block.
            if is_missing[now - start] and held[ids[now]] == ABSENT:
                used += _let_in(policy, now, ids[now], capacity - used, held)
    progress[_NEXT], progress[_USED] = offsets.size - 1, used


@kernel
def replay_leaves(
    policy: Any,
    ids: Ids,
    offsets: Offsets,
    parents: Sizes,
    held: Sizes,
    pinned: Sizes,
    totals: Offsets,
    found: Sizes,
) -> None:
    """Use the blocks of one request after the other, evicting only blocks that no block in the cache continues.

    As `replay_blocks`, but blocks come in from the first of the prompt to the last, each after the one it continues; the blocks
    of the request stay while it is served. A block that the policy does not let in, or for which none may go, ends the request.

    Args:
        policy: the state of a policy, changed.
        ids: the blocks of all requests, those of each from the last of the prompt to the first.
        offsets: where those of each request begin, and where the last end.
        parents: the block that each block continues, or -1.
        held: 1 for every block in the cache, `ABSENT` at first for all; changed.
        pinned: 0 for every block at first; then how many blocks in the cache continue it, and 1 more for the last block of the
            request
            that is there so far.
        totals: the next request and how many blocks the cache holds, both 0 at first; how many it may hold; and how many it holds
            that are not pinned, 0 at first. A policy may pause before the end.
        found: filled with the number of leading blocks that each request finds.
    """
    for request in range(totals[_NEXT], offsets.size - 1):
        if pauses(policy):
            totals[_NEXT] = request
            return
        start, stop = offsets[request], offsets[request + 1]
        found[request] = _leading(ids, start, stop, held)
        missing = stop - 1 - found[request]
        for now in range(missing + 1, stop):
            hit(policy, now, ids[now], 1, 1)
        last: Any = np.int64(ids[missing + 1]) if found[request] > 0 else np.int64(NONE)
        _pin(policy, held, pinned, totals, last, 1)
        for now in range(missing, start - 1, -1):
            if not _continue(policy, now, ids[now], parents, held, pinned, totals):
                break
            last = np.int64(ids[now])
        _pin(policy, held, pinned, totals, last, -1)
    totals[_NEXT] = offsets.size - 1


@kernel
def _continue(policy: Any, now: int, one: int, parents: Sizes, held: Sizes, pinned: Sizes, totals: Offsets) -> bool:
    """Let in the next block of a request, which is pinned in place of the one before it; whether it is in."""
    is_full = totals[_USED] == totals[_CAPACITY]
    if (is_full and totals[_LEAVES] == 0) or not miss(policy, now, one, 1):
        return False
    if is_full:
        victim = evict(policy, now, 1, held, pinned)
        if victim == NONE:
            return False
        held[victim] = ABSENT
        totals[_USED] -= 1
        totals[_LEAVES] -= 1
        _pin(policy, held, pinned, totals, parents[victim], -1)
    insert(policy, now, one, 1)
    held[one] = 1
    totals[_USED] += 1
    pinned[one] = 1
    return True


@kernel
def _pin(policy: Any, held: Sizes, pinned: Sizes, totals: Offsets, one: int, more: int) -> None:
    """Count one thing more or less that holds a block, if there is a block."""
    if one == NONE:
        return
    totals[_LEAVES] -= pinned[one] == 0
    pinned[one] += more
    if pinned[one] == 0:
        totals[_LEAVES] += 1
        if held[one] != ABSENT:
            free(policy, one)


@kernel
def _leading(ids: Ids, start: int, stop: int, held: Sizes) -> int:
    """How many blocks are there from the first of the prompt to before the first that is not."""
    for now in range(stop - 1, start - 1, -1):
        if held[ids[now]] == ABSENT:
            return stop - 1 - now
    return stop - start


@kernel
def _let_in(policy: Any, now: int, one: int, room: int, held: Sizes) -> int:
    """Let a block in, if the policy wants: by how many blocks the cache is fuller."""
    if not miss(policy, now, one, 1):
        return 0
    if room == 0:
        victim = evict(policy, now, 1, held, None)
        if victim == NONE:
            return 0
        held[victim] = ABSENT
    insert(policy, now, one, 1)
    held[one] = 1
    return min(room, 1)
