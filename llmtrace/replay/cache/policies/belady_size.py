"""Greedy Belady for sizes that differ: the object goes for which `size * uses of the cache until its next use` is greatest.

It knows the stream. What is never used again is not let in, or goes first. Unlike simulators that look at a sample of the cache,
the greatest product is found exactly: the uses of the stream stand in a tree in order of size, a use is in it while its object is
in the cache since then, and a node knows the farthest next use below it. Where that times the greatest size below the node is
less than the best product so far, nothing below the node is looked at. Of equal products the larger object goes, of equal sizes
the one used later.

It is greedy, not optimal: neither it nor `belady` is always the better one, so that a bound is the better of both.

Waldspurger et al. state the product rule; size-aware optimal replacement itself is NP-hard: Berger, Beckmann, Harchol-Balter:
"Practical bounds on optimal caching with variable object sizes", SIGMETRICS 2018.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.policy import implement
from llmtrace.replay.cache.stream import NEVER
from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["BeladySize", "new"]

_DEAD, _TOP = 0, 1
"""Counts: how many objects will never be used again; how deep the stack of the search is."""


class BeladySize(NamedTuple):
    """The stream's objects and next uses, its uses in order of size, the tree over them, and objects that are not used again."""

    ids: Any
    nexts: Any
    places: Any
    uses: Any
    sizes: Any
    farthest: Any
    leaves: Any
    dead: Any
    counts: Any
    stack: Any


def new(stream: Stream, capacity: int) -> BeladySize:
    """An empty cache that knows the stream."""
    uses = np.argsort(stream.sizes, kind="stable").astype(np.int32)
    places = np.empty(uses.size, np.int32)
    places[uses] = np.arange(uses.size, dtype=np.int32)
    width = 1 << max(uses.size - 1, 0).bit_length()
    farthest = np.full(2 * width, NEVER, np.int32)
    leaves, dead = np.full(stream.objects, NEVER, np.int32), np.empty(stream.objects, np.int32)
    return BeladySize(
        stream.ids,
        stream.nexts,
        places,
        uses,
        stream.sizes[uses],
        farthest,
        leaves,
        dead,
        np.zeros(2, np.int64),
        np.empty(128, np.int64),
    )


@kernel
def _set(policy: BeladySize, place: int, after: int) -> None:
    """Give the use at a place in order of size its next use, or take it out."""
    farthest = policy.farthest
    node = farthest.size // 2 + place
    farthest[node] = after
    while node > 1:
        node //= 2
        most = max(farthest[2 * node], farthest[2 * node + 1])
        if farthest[node] == most:
            break
        farthest[node] = most


@kernel
def _note(policy: BeladySize, now: int, one: int) -> None:
    """Note that an object in the cache is used."""
    after = policy.nexts[now]
    if after == NEVER:
        policy.leaves[one] = NEVER
        policy.dead[policy.counts[_DEAD]] = one
        policy.counts[_DEAD] += 1
        return
    policy.leaves[one] = policy.places[now]
    _set(policy, policy.places[now], after)


@kernel
def _largest(policy: BeladySize, node: int) -> Any:
    """The largest size below a node."""
    width = policy.farthest.size // 2
    while node < width:
        node = 2 * node + 1
    return policy.sizes[min(node - width, policy.sizes.size - 1)]


@kernel
def _worst(policy: BeladySize, now: int) -> Any:
    """The place, in order of size, of the use whose object has the greatest product."""
    farthest, stack, width = policy.farthest, policy.stack, policy.farthest.size // 2
    best, best_place, depth = np.int64(-1), np.int64(-1), 1
    stack[0] = 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if farthest[node] == NEVER:
            continue
        bound = np.int64(_largest(policy, node)) * (farthest[node] - now)
        if bound < best:
            continue
        if node >= width:
            if bound > best or node - width > best_place:
                best, best_place = bound, node - width
            continue
        left, right = 2 * node, 2 * node + 1
        is_left_better = _largest(policy, left) * (farthest[left] - now) > _largest(policy, right) * (farthest[right] - now)
        # What is put on the stack last is looked at first.
        stack[depth] = right if is_left_better else left
        stack[depth + 1] = left if is_left_better else right
        depth += 2
    return best_place


def _hit(policy: BeladySize, now: int, one: int, was: int, size: int) -> None:
    _set(policy, policy.leaves[one], NEVER)
    _note(policy, now, one)


def _miss(policy: BeladySize, now: int, one: int, size: int) -> Any:
    return policy.nexts[now] != NEVER


def _evict(policy: BeladySize, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    if policy.counts[_DEAD] > 0:
        policy.counts[_DEAD] -= 1
        return np.int64(policy.dead[policy.counts[_DEAD]])
    place = _worst(policy, now)
    _set(policy, place, NEVER)
    return np.int64(policy.ids[policy.uses[place]])


def _insert(policy: BeladySize, now: int, one: int, size: int) -> None:
    _note(policy, now, one)


implement(BeladySize, hit=_hit, miss=_miss, evict=_evict, insert=_insert)
