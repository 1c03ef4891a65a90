"""A heap of objects by rank, for kernels: any object can be found, moved and taken out.

Objects of equal rank leave in the order of `since`. Every node has four children, which stand in one cache line.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.kernels import kernel

__all__ = ["Heap", "lowest", "new_heap", "put", "remove"]

_OUT = -1
_CHILDREN = 4


class Heap(NamedTuple):
    """Rank, since and object of each node; the node of each object or -1; how many nodes there are; room to search."""

    ranks: Any
    sinces: Any
    objects: Any
    places: Any
    size: Any
    stack: Any


def new_heap(objects: int) -> Heap:
    """An empty heap for objects numbered from 0."""
    return Heap(
        np.empty(objects),
        np.empty(objects, np.int64),
        np.empty(objects, np.int32),
        np.full(objects, _OUT, np.int32),
        np.zeros(1, np.int64),
        np.empty(objects, np.int32),
    )


@kernel
def put(heap: Heap, one: int, rank: float, since: int) -> None:
    """Give an object a rank, whether it is in the heap or not."""
    place = heap.places[one]
    if place == _OUT:
        place = heap.size[0]
        heap.size[0] += 1
    elif _is_before(heap.ranks[place], heap.sinces[place], rank, since):
        _sink(heap, place, one, rank, since)
        return
    _rise(heap, place, one, rank, since)


@kernel
def lowest(heap: Heap, pinned: Any) -> tuple[Any, Any]:
    """The object of lowest rank and its rank; of those that are not pinned, where `pinned` is not None."""
    place = 0
    if pinned is not None and pinned[heap.objects[0]] > 0:
        place = _lowest_free(heap, pinned)
    return np.int64(heap.objects[place]), heap.ranks[place]


@kernel
def _lowest_free(heap: Heap, pinned: Any) -> int:
    """The node of lowest rank among those that are not pinned; below a node of higher rank there is none."""
    stack, best, depth = heap.stack, _OUT, 1
    stack[0] = 0
    while depth > 0:
        depth -= 1
        place = stack[depth]
        if best != _OUT and _is_before(heap.ranks[best], heap.sinces[best], heap.ranks[place], heap.sinces[place]):
            continue
        if pinned[heap.objects[place]] <= 0:
            best = place
            continue
        first = _CHILDREN * place + 1
        for child in range(first, min(first + _CHILDREN, heap.size[0])):
            stack[depth] = child
            depth += 1
    return best


@kernel
def remove(heap: Heap, one: int) -> None:
    """Take out an object that is in the heap."""
    place = heap.places[one]
    heap.places[one] = _OUT
    heap.size[0] -= 1
    last = heap.size[0]
    if place == last:
        return
    moved, rank, since = heap.objects[last], heap.ranks[last], heap.sinces[last]
    if _is_before(heap.ranks[place], heap.sinces[place], rank, since):
        _sink(heap, place, moved, rank, since)
    else:
        _rise(heap, place, moved, rank, since)


@kernel
def _is_before(rank: float, since: int, other: float, other_since: int) -> bool:
    return rank < other or (rank == other and since < other_since)


@kernel
def _set(heap: Heap, place: int, one: int, rank: float, since: int) -> None:
    heap.ranks[place], heap.sinces[place], heap.objects[place] = rank, since, one
    heap.places[one] = place


@kernel
def _rise(heap: Heap, place: int, one: int, rank: float, since: int) -> None:
    while place > 0:
        parent = (place - 1) // _CHILDREN
        if not _is_before(rank, since, heap.ranks[parent], heap.sinces[parent]):
            break
        _set(heap, place, heap.objects[parent], heap.ranks[parent], heap.sinces[parent])
        place = parent
    _set(heap, place, one, rank, since)


@kernel
def _sink(heap: Heap, place: int, one: int, rank: float, since: int) -> None:
    size = heap.size[0]
    while True:
        first = _CHILDREN * place + 1
        if first >= size:
            break
        least = first
        for child in range(first + 1, min(first + _CHILDREN, size)):
            if _is_before(heap.ranks[child], heap.sinces[child], heap.ranks[least], heap.sinces[least]):
                least = child
        if not _is_before(heap.ranks[least], heap.sinces[least], rank, since):
            break
        _set(heap, place, heap.objects[least], heap.ranks[least], heap.sinces[least])
        place = least
    _set(heap, place, one, rank, since)
