"""LRU at every capacity at once, by stack distances.

The stack distance of a use is the size of everything used since the object's last use, the object included: the least capacity at
which LRU still has it. So one pass over the stream gives the hits at every capacity.

For blocks that is exact. For objects that grow it is too, at capacities not below the largest object: an object that is larger
than the cache is not let in by a replay, and here counts as used. Objects that shrink are counted with what they have shrunk to.

Mattson, Gecsei, Slutz, Traiger: "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970; the tree of sums
is that of Bennett, Kruskal: "LRU stack processing", IBM Journal of Research and Development 19(4), 1975.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from llmtrace.replay.cache.stream import NEVER

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.replay.cache.stream import Ids, Offsets, Ones, Sizes, Stream

    Integers = npt.NDArray[np.int64]

__all__ = ["distances", "hits_at", "of_prefixes"]


def distances(stream: Stream) -> Sizes | Integers:
    """The stack distance of every use as its request arrives, in the unit of the sizes; -1 at the first use of an object.

    For blocks in the order of `stream.ids`.

    >>> from llmtrace.replay.cache.stream import of_objects
    >>> distances(of_objects(np.array([0, 1, 0, 0], np.uint32), np.array([5, 3, 6, 9], np.int32)))
    array([-1, -1,  8,  6])
    """
    offsets = np.arange(stream.ids.size + 1) if stream.offsets is None else stream.offsets
    # Of blocks no sum is larger than the number of uses.
    sums: Any = np.zeros(stream.ids.size + 1, np.int64 if stream.offsets is None else np.int32)
    last = np.full(stream.objects, NEVER, np.int32)
    found: Sizes | Integers = np.empty_like(sums[1:])
    _measure(stream.ids, stream.sizes, offsets, last, sums, found)
    return found


def of_prefixes(distance: Sizes | Integers, stream: Stream) -> Sizes | Integers:
    """The stack distances of blocks made those of the prefix that each ends: a block counts only with all before it.

    -1 where a block before it was never used. Where ids are chained nothing changes.

    >>> from llmtrace.replay.cache.stream import of_blocks
    >>> of_prefixes(np.array([4, -1, 3]), of_blocks(np.array([0, 1, 2], np.uint32), np.array([0, 3])))
    array([-1, -1,  3])
    """
    return distance if stream.offsets is None else _of_prefixes(distance, stream.offsets)


def hits_at(distance: Sizes | Integers, weights: Sizes | Integers, capacities: Integers) -> Integers:
    """The weight of the uses that LRU hits at each capacity.

    >>> hits_at(np.array([-1, 8, 6]), np.array([5, 6, 9]), np.array([5, 6, 8]))
    array([ 0,  9, 15])
    """
    if capacities.size == 0:
        return np.zeros(0, np.int64)
    order = np.argsort(capacities, kind="stable")
    hits = np.empty(capacities.size, np.int64)
    hits[order] = np.cumsum(_weigh(distance, weights, capacities[order]))
    return hits


@njit(nogil=True, cache=True)
def _weigh(distance: Sizes | Integers, weights: Sizes | Integers, capacities: Integers) -> Integers:
    """The weight of the uses by the least capacity at which each hits, of ascending ones."""
    found = np.zeros(capacities.size, np.int64)
    for use in range(distance.size):
        if distance[use] == NEVER or distance[use] > capacities[-1]:
            continue
        low, high = 0, capacities.size - 1
        while low < high:
            middle = (low + high) // 2
            if capacities[middle] < distance[use]:
                low = middle + 1
            else:
                high = middle
        found[low] += weights[use]
    return found


@njit(nogil=True, cache=True)
def _of_prefixes(distance: Sizes | Integers, offsets: Offsets) -> Sizes | Integers:
    found = np.full(distance.size, NEVER, distance.dtype)
    for request in range(offsets.size - 1):
        longest = 0
        for now in range(offsets[request + 1] - 1, offsets[request] - 1, -1):
            if distance[now] == NEVER:
                break
            longest = max(longest, distance[now])
            found[now] = longest
    return found


@njit(nogil=True, cache=True)
def _measure(
    ids: Ids, sizes: Sizes | Ones, offsets: Offsets, last: Sizes, tree: Sizes | Integers, found: Sizes | Integers
) -> None:
    """A use adds its size at its position and takes that of the last use away, so that sums are over distinct objects."""
    total = 0
    for request in range(offsets.size - 1):
        for now in range(offsets[request], offsets[request + 1]):
            before = last[ids[now]]
            found[now] = NEVER if before == NEVER else total - _sum(tree, before)
        for now in range(offsets[request], offsets[request + 1]):
            before = last[ids[now]]
            if before != NEVER:
                _add(tree, before, -sizes[before])
                total -= sizes[before]
            _add(tree, now, sizes[now])
            total += sizes[now]
            last[ids[now]] = now


@njit(nogil=True, cache=True)
def _sum(tree: Sizes | Integers, stop: int) -> int:
    """The sum of all positions before `stop`, in a tree of Fenwick, 1994."""
    total = 0
    while stop > 0:
        total += tree[stop]
        stop &= stop - 1
    return total


@njit(nogil=True, cache=True)
def _add(tree: Sizes | Integers, place: int, amount: int) -> None:
    node = place + 1
    while node < tree.size:
        tree[node] += amount
        node += node & -node
