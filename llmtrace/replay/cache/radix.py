"""A heap of objects by rank, for kernels, in which no rank is below one that was taken off: a radix heap.

Objects of equal rank leave in the order in which they came in.

The heap is 65 lists. The floor is a rank that none is below, and the highest bit in which the rank of an object differs from it
says in which list the object is; the first list is for those that do not differ. The bits of positive floating-point numbers are
in the same order as the numbers, so all of a list come before all of the next, and the lowest rank is in the first that is not
empty. When that is not the first of all, its lowest rank becomes the floor: its objects then share one more bit with the floor
and move to lists before it, while for all others nothing changes. So an object moves towards the front at most once for every
bit, in practice a few times, and to come in or to leave costs the change of a list.

Objects of equal rank are in one list at any time, and keep their order when they move.

Ahuja, Mehlhorn, Orlin, Tarjan: "Faster algorithms for the shortest path problem", JACM 37(2), 1990.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.bits import highest
from llmtrace.replay.cache.fetch import fetch
from llmtrace.replay.cache.queues import FRONT, NONE, TAIL, new_queues, push, unlink
from llmtrace.replay.kernels import kernel

__all__ = ["RadixHeap", "bring_near", "new_radix_heap", "put", "take_lowest", "take_out"]

_LISTS = 65


class RadixHeap(NamedTuple):
    """The rank of each object and its bits, the lists, each from newest to oldest, and the bits of the floor."""

    ranks: Any
    bits: Any
    links: Any
    ends: Any
    floor: Any


def new_radix_heap(objects: int) -> RadixHeap:
    """An empty heap for objects numbered from 0, with ranks from 0 on."""
    ranks = np.zeros(objects)
    return RadixHeap(ranks, ranks.view(np.uint64), *new_queues(objects, _LISTS), np.zeros(1, np.uint64))


@kernel
def put(heap: RadixHeap, one: int, rank: float) -> None:
    """Let in an object that is not in the heap."""
    heap.ranks[one] = rank
    push(heap.links, heap.ends, _list_of(heap, one), one)


@kernel
def take_out(heap: RadixHeap, one: int) -> None:
    """Take out an object that is in the heap, whatever its rank."""
    unlink(heap.links, heap.ends, _list_of(heap, one), one)


@kernel
def take_lowest(heap: RadixHeap) -> Any:
    """Take the object of lowest rank out of a heap that is not empty."""
    if heap.ends[0, TAIL] == NONE:
        _raise_floor(heap)
    one: Any = np.int64(heap.ends[0, TAIL])
    unlink(heap.links, heap.ends, 0, one)
    return one


@kernel
def bring_near(heap: RadixHeap, one: int) -> None:
    """Have what is known of an object brought near."""
    fetch(heap.ranks, one)
    fetch(heap.links, one)


@kernel
def _list_of(heap: RadixHeap, one: int) -> int:
    differing = heap.bits[one] ^ heap.floor[0]
    return 0 if differing == 0 else 1 + highest(differing)


@kernel
def _raise_floor(heap: RadixHeap) -> None:
    """Make the lowest rank the floor, of a heap with nothing at the floor."""
    links, ends, bits = heap.links, heap.ends, heap.bits
    first = 1
    while ends[first, TAIL] == NONE:
        first += 1
    oldest: Any = np.int64(ends[first, TAIL])
    one, lowest = oldest, bits[oldest]
    while one != NONE:
        lowest = min(lowest, bits[one])
        one = np.int64(links[one, FRONT])
    heap.floor[0] = lowest
    ends[first] = NONE
    one = oldest
    while one != NONE:
        newer = np.int64(links[one, FRONT])
        push(links, ends, _list_of(heap, one), one)
        one = newer
