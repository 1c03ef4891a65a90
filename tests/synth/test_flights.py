from __future__ import annotations

import heapq

from hypothesis import given
from hypothesis import strategies as st

from llmtrace.synth.flights import AT, END, WEIGHT, depart, land, new_flights, with_room

ENDS = st.lists(st.integers(0, 50), min_size=1, max_size=60)


@given(ENDS, st.randoms(use_true_random=False))
def test_flights_land_in_the_order_of_their_ends(ends: list[int], chance) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    flights = new_flights()
    naive: list[int] = []
    landed = []
    for number, end in enumerate(ends):
        flights = with_room(flights, 1)
        depart(flights, end, number, 10 * number)
        heapq.heappush(naive, end)
        if chance.random() < 0.4:
            first = flights.heap[0].tolist()
            landed.append(first)
            land(flights)
            assert first[END] == heapq.heappop(naive)
    while flights.flying[0]:
        landed.append(flights.heap[0].tolist())
        land(flights)
        assert landed[-1][END] == heapq.heappop(naive)
    assert not naive
    assert sorted(flight[AT] for flight in landed) == list(range(len(ends)))
    assert all(flight[END] == ends[flight[AT]] and flight[WEIGHT] == 10 * flight[AT] for flight in landed)


def test_room_is_kept_until_it_is_needed() -> None:
    flights = with_room(new_flights(), 5)
    assert with_room(flights, 5) is flights
    depart(flights, 3, 1, 2)
    assert with_room(flights, len(flights.heap)).heap[0].tolist() == [3, 1, 2]
