"""Requests in flight on the instances of a model, by when they will be complete: a binary heap, for kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    from llmtrace.synth.draws import Ints

__all__ = ["AT", "END", "WEIGHT", "Flights", "depart", "land", "new_flights", "with_room"]

END, AT, WEIGHT = range(3)
"""Columns of `heap`: when a request is complete, its instance, and its weight."""


class Flights(NamedTuple):
    """What is in flight.

    Attributes:
        heap: int64 of shape (room, 3), of which the first `flying[0]` rows are in heap order by their end.
        flying: int64 of shape (1,), how many there are.
    """

    heap: Ints
    flying: Ints


def new_flights() -> Flights:
    """Nothing in flight, and no room."""
    return Flights(np.empty((0, 3), np.int64), np.zeros(1, np.int64))


def with_room(flights: Flights, more: int) -> Flights:
    """The same flights with room for so many more at least."""
    wanted = int(flights.flying[0]) + more
    if wanted <= len(flights.heap):
        return flights
    heap = np.empty((2 * wanted, 3), np.int64)
    heap[: len(flights.heap)] = flights.heap
    return flights._replace(heap=heap)


@kernel
def depart(flights: Flights, end_us: int, at: int, weight: int) -> None:
    """Put a request in flight; there must be room."""
    heap, place = flights.heap, flights.flying[0]
    flights.flying[0] += 1
    while place > 0 and heap[(place - 1) // 2, END] > end_us:
        _move(heap, (place - 1) // 2, place)
        place = (place - 1) // 2
    heap[place, END], heap[place, AT], heap[place, WEIGHT] = end_us, at, weight


@kernel
def land(flights: Flights) -> None:
    """Take out the request that is complete first."""
    flights.flying[0] -= 1
    heap, last, place = flights.heap, flights.flying[0], 0
    child = 1
    while child < last:
        if child + 1 < last and heap[child + 1, END] < heap[child, END]:
            child += 1
        if heap[child, END] >= heap[last, END]:
            break
        _move(heap, child, place)
        place, child = child, 2 * child + 1
    _move(heap, last, place)


@kernel
def _move(heap: Ints, source: int, target: int) -> None:
    for column in range(3):
        heap[target, column] = heap[source, column]
