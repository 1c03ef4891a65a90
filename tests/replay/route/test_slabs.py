"""What goes through a trace slab by slab against what sees all of it at once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.errors import InputError
from llmtrace.replay.route.blocks import Prompts
from llmtrace.replay.route.cell import UNLIMITED, Cell, Outcome, Running, run
from llmtrace.replay.route.disaggregate import HandOver
from llmtrace.replay.route.flights import NOWHERE, Flights
from llmtrace.replay.route.gather import Lot, Numbers
from llmtrace.replay.route.lasts import Lasts, Previous
from llmtrace.replay.route.places import Places
from llmtrace.replay.route.rules import Rule
from llmtrace.replay.route.stream import Extent, Preparer, Requests, Stream, lasts, prepare

cuts = st.lists(st.integers(0, 60), max_size=4)


def slabs(rows: int, cut: list[int]) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    bounds = sorted({0, rows, *(one for one in cut if one < rows)})
    return [np.arange(start, stop) for start, stop in pairwise(bounds)]


@st.composite
def requests(draw: st.DrawFn) -> Requests:
    """Requests in order, some at once and some of no duration, of a few sessions and users."""
    rows = draw(st.integers(1, 60))

    def column(most: int) -> list[int]:
        return draw(st.lists(st.integers(0, most), min_size=rows, max_size=rows))

    arrival = np.cumsum(column(3)) * 20_000_000
    dense = np.array(column(7), np.uint32)
    return Requests(
        arrival,
        arrival + np.array(column(9)) * 20_000_000,
        dense,
        dense % 3,
        np.array(column(40), np.int32),
        np.array(column(9), np.int32),
    )


def same(one: Outcome, other: Outcome) -> None:
    # The last count is of the last slab alone.
    assert one.books.counts[:-1].tolist() == other.books.counts[:-1].tolist()
    for name in ("rates", "queues", "requests", "users"):
        np.testing.assert_array_equal(getattr(one.books, name), getattr(other.books, name))
    assert replace(one, books=other.books) == other


def in_slabs(whole: Stream, cell: Cell, cut: list[int], *, seldom: int = 1, blocks: Prompts | None = None) -> Outcome:
    """A replay in slabs; only every so many-th last request of a session is said to be one."""
    preparer, running = Preparer(whole.extent), Running(cell, whole.extent, None if blocks is None else blocks.block_tokens)
    is_last = whole.is_last & (np.arange(len(whole.requests)) % seldom == 0)
    for rows in slabs(len(whole.requests), cut):
        part = None
        if blocks is not None:
            offsets = blocks.offsets[rows[0] : rows[-1] + 2]
            uses = slice(offsets[0], offsets[-1])
            part = Prompts(blocks.ids[uses], offsets - offsets[0], blocks.block_tokens, lasts(blocks.ids)[uses])
        running.advance(preparer.add(whole.requests.taken(rows), is_last[rows], part))
    return running.outcome()


@pytest.mark.parametrize("policy", ["cache-first", "round-robin"])
@pytest.mark.parametrize("cache", ["lru", "sieve"])
@given(requests(), cuts, st.integers(1, 3), st.sampled_from([0, 30, 90, UNLIMITED]), st.integers(1, 4))
def test_slabs_are_one_trace(
    policy: str, cache: str, asked: Requests, cut: list[int], instances: int, capacity: int, seldom: int
) -> None:
    whole, cell = prepare(asked), Cell(Rule(policy), instances, capacity, cache)
    same(in_slabs(whole, cell, cut, seldom=seldom), run(whole, cell))


@given(
    requests(),
    st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=6), min_size=60, max_size=60),
    cuts,
    st.sampled_from([0, 64, 160, UNLIMITED]),
)
def test_slabs_of_blocks_are_one_trace(asked: Requests, blocks: list[list[int]], cut: list[int], capacity: int) -> None:
    paths = blocks[: len(asked)]
    ids = np.array([one for path in paths for one in path], np.uint32)
    offsets = np.array([0, *np.cumsum([len(path) for path in paths])], np.int64)
    prompts = Prompts(ids, offsets, 16)
    whole, cell = prepare(asked, prompts=prompts), Cell(Rule("cache-first"), 2, capacity)
    same(in_slabs(whole, cell, cut, blocks=prompts), run(whole, cell))


@given(requests(), cuts, st.integers(1, 4))
def test_what_is_handed_over_is_in_order_of_first_tokens(asked: Requests, cut: list[int], instances: int) -> None:
    """The same replay of all requests, sorted by first token."""
    first_token = asked.arrival_us + (asked.complete_us - asked.arrival_us) // 2
    handed = replace(asked, arrival_us=first_token).taken(np.argsort(first_token, kind="stable"))
    whole, is_last = prepare(handed), lasts(asked.session)
    expected = run(whole, Cell(Rule("load-first"), instances, 0, seed=3))
    hand_over = HandOver(whole.extent, "tokens", instances, 3)
    nothing = np.zeros(0, np.int64)
    for rows in slabs(len(asked), cut):
        hand_over.add(Lot(asked.taken(rows), first_token[rows], nothing, None, nothing), is_last[rows])
    same(hand_over.outcome(), expected)


def test_nothing_is_handed_over() -> None:
    hand_over, nothing = HandOver(Extent(), "tokens", 2, 3), np.zeros(0, np.int64)
    none = Requests(nothing, nothing, *np.zeros((2, 0), np.uint32), *np.zeros((2, 0), np.int32))
    hand_over.add(Lot(none, nothing, nothing, None, nothing), np.zeros(0, np.bool_))
    assert hand_over.outcome().books.requests.tolist() == [0, 0]


@given(st.lists(st.integers(0, 30), max_size=60), cuts)
def test_places_are_shared_by_what_does_not_live_at_once(numbers: list[int], cut: list[int]) -> None:
    uses = np.array(numbers, np.uint32)
    is_last, places, homes = lasts(uses), Places(), dict[int, int]()
    living: dict[int, int] = {}
    most = 0
    for rows in slabs(uses.size, cut) if uses.size else []:
        for use, place in zip(rows, places.give(uses[rows], is_last[rows]).tolist(), strict=True):
            number = int(uses[use])
            assert homes.setdefault(number, place) == place
            assert living.setdefault(place, number) == number
            most = max(most, len(living))
            if is_last[use]:
                del living[place]
    assert (places.most, places.begun) == (most, len(homes))


def test_many_places() -> None:
    """More than the table has room for at first, of which every second one ends, and a request with many uses."""
    numbers = np.arange(20_000, dtype=np.uint32)
    places = Places()
    first = places.give(numbers, numbers % 2 == 0)
    assert np.unique(first[1::2]).size == 10_000
    again = places.give(numbers[1::2], np.ones(10_000, np.bool_), np.array([0, 10_000]))
    np.testing.assert_array_equal(again, first[1::2])
    assert (places.most, places.begun) == (10_000, 20_000)


@given(requests(), cuts)
def test_flights_end_when_requests_are_complete(asked: Requests, cut: list[int]) -> None:
    flights, flying = Flights(), dict[int, int]()
    for rows in slabs(len(asked), cut):
        flown = flights.add(asked.arrival_us[rows], asked.complete_us[rows])
        gone = 0
        for row, place, before in zip(rows, flown.flight.tolist(), flown.done_before.tolist(), strict=True):
            now = int(asked.arrival_us[row])
            left = sorted(one for one, until in flying.items() if until <= now)
            assert sorted(flown.done[gone:before].tolist()) == left
            gone = before
            for one in left:
                del flying[one]
            assert (place == NOWHERE) == (asked.complete_us[row] <= now)
            assert place not in flying
            if place != NOWHERE:
                flying[place] = int(asked.complete_us[row])
        assert gone == flown.done.size


@given(st.lists(st.integers(0, 9), max_size=60), cuts)
def test_the_last_uses_are_known_afterwards(numbers: list[int], cut: list[int]) -> None:
    uses, previous, known = np.array(numbers, np.uint32), Previous(), Lasts()
    parts = slabs(uses.size, cut) if uses.size else []
    for rows in parts:
        known.add(previous.add(uses[rows]))
    for rows in parts:
        np.testing.assert_array_equal(known.of(int(rows[0]), int(rows[-1]) + 1), lasts(uses)[rows])
    with pytest.raises(InputError, match="more requests than when it was first gone through"):
        known.of(0, uses.size + 1)


@given(st.lists(st.integers(0, 5), max_size=30), cuts)
def test_numbers_are_dense_and_unknown_keys_are_all_different(key: list[int], cut: list[int]) -> None:
    """Key 0 is unknown."""
    dense: dict[object, int] = {}
    expected = [dense.setdefault(one or object(), len(dense)) for one in key]
    numbers = Numbers()
    parts = slabs(len(key), cut) if key else []
    assert [one for rows in parts for one in numbers.add(np.array(key, np.uint64)[rows]).tolist()] == expected
