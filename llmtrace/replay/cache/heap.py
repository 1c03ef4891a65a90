"""A heap of objects by rank, for kernels: any object can be found, moved and taken out.

Objects of equal rank leave in the order of `since`. Every node has four children, which stand in one cache line.

Ranks rise more often than they fall, so a higher one is only noted: a node sinks to where it belongs when it is on top. Until
then it stands too high, which no other node minds. What is taken off the top leaves a hole there, which the next object that
comes in fills: most often it has a low rank and stays near.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from llmtrace.replay.kernels import kernel

__all__ = ["Heap", "lowest", "new_heap", "put", "put_back", "remove"]

_OUT = -1
_NODES, _HOLE = 0, 1
"""Counts: nodes, and 1 if the top one of them is a hole."""
_CHILDREN = 4


class Heap(NamedTuple):
    """Rank, since and object of each node; the node, rank and since of each object; number of nodes and hole."""

    ranks: Any
    sinces: Any
    objects: Any
    places: Any
    wanted: Any
    wanted_since: Any
    size: Any


def new_heap(objects: int) -> Heap:
    """An empty heap for objects numbered from 0."""
    return Heap(
        np.empty(objects),
        np.empty(objects, np.int64),
        np.empty(objects, np.int32),
        np.full(objects, _OUT, np.int32),
        np.empty(objects),
        np.empty(objects, np.int64),
        np.zeros(2, np.int64),
    )


@kernel
def put(heap: Heap, one: int, rank: float, since: int) -> None:
    """Give an object a rank, whether it is in the heap or not."""
    heap.wanted[one], heap.wanted_since[one] = rank, since
    place = heap.places[one]
    if place == _OUT and heap.size[_HOLE]:
        heap.size[_HOLE] = 0
        _sink(heap, 0, one, rank, since)
        return
    if place == _OUT:
        place = heap.size[_NODES]
        heap.size[_NODES] += 1
    elif _is_before(heap.ranks[place], heap.sinces[place], rank, since):
        return
    elif heap.size[_HOLE]:
        _fill(heap)
        place = heap.places[one]
    _rise(heap, place, one, rank, since)


@kernel
def lowest(heap: Heap, pinned: Any) -> tuple[Any, Any]:
    """The object of lowest rank and its rank; -1 if there is none.

    Where `pinned` is not None, objects that are pinned are taken out until one is not; `put_back` is for when they no longer are.
    """
    top = _settle(heap)
    if pinned is not None:
        while top != _OUT and pinned[top] > 0:
            remove(heap, top)
            top = _settle(heap)
        if top == _OUT:
            return np.int64(_OUT), np.inf
    return top, heap.wanted[top]


@kernel
def _settle(heap: Heap) -> Any:
    """Let nodes sink until the top one stands where it belongs, and give its object; -1 if there is no node."""
    if heap.size[_HOLE]:
        _fill(heap)
    if heap.size[_NODES] == 0:
        return np.int64(_OUT)
    top = heap.objects[0]
    while heap.ranks[0] != heap.wanted[top] or heap.sinces[0] != heap.wanted_since[top]:
        _sink(heap, 0, top, heap.wanted[top], heap.wanted_since[top])
        top = heap.objects[0]
    return np.int64(top)


@kernel
def put_back(heap: Heap, one: int) -> None:
    """Give an object that is not in the heap the rank that it had."""
    if heap.places[one] == _OUT:
        put(heap, one, heap.wanted[one], heap.wanted_since[one])


@kernel
def remove(heap: Heap, one: int) -> None:
    """Take out an object that `lowest` has just given."""
    place = heap.places[one]
    heap.places[one] = _OUT
    if place == 0:
        heap.size[_HOLE] = 1
    else:
        _move_last(heap, place)


@kernel
def _fill(heap: Heap) -> None:
    heap.size[_HOLE] = 0
    _move_last(heap, 0)


@kernel
def _move_last(heap: Heap, place: int) -> None:
    """Put the last node where one is gone."""
    heap.size[_NODES] -= 1
    last = heap.size[_NODES]
    if place == last:
        return
    moved, rank, since = heap.objects[last], heap.ranks[last], heap.sinces[last]
    if place > 0 and _is_before(rank, since, heap.ranks[place], heap.sinces[place]):
        _rise(heap, place, moved, rank, since)
    else:
        _sink(heap, place, moved, rank, since)


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
    size = heap.size[_NODES]
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
