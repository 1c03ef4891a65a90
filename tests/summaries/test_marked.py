from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from llmtrace.summaries import marked

CELLS = st.integers(0, 3) | st.integers(60, 66) | st.integers(0, 9_999)
ROWS = st.lists(st.lists(st.tuples(CELLS, st.integers(1, 9)), max_size=6), max_size=6)


@given(ROWS, st.data())
def test_groups_of_rows_are_counted_together(rows: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(rows))))
    starts = [0, *sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3))), len(rows)]
    cells, counts = (np.array([pair[side] for row in rows for pair in row], np.uint32) for side in (0, 1))
    offsets = np.cumsum([0, *map(len, rows)])
    ends, places, numbers = marked.added_up((offsets, cells, counts), np.array(order, np.int64), np.array(starts))
    for group in range(len(starts) - 1):
        expected: Counter[int] = Counter()
        for row in order[starts[group] : starts[group + 1]]:
            for cell, count in rows[row]:
                expected[cell] += count
        found = zip(places[ends[group] : ends[group + 1]].tolist(), numbers[ends[group] : ends[group + 1]].tolist(), strict=True)
        assert list(found) == sorted(expected.items())


def test_counts_that_outgrow_32_bits_are_widened() -> None:
    many = np.array([0, 1, 2]), np.array([7, 7], np.uint32), np.array([3_000_000_000] * 2, np.uint32)
    both = marked.added_up(many, np.array([0, 1]), np.array([0, 2]))
    assert (both[2].tolist(), both[2].dtype) == ([6_000_000_000], np.uint64)
    few = marked.added_up(many, np.array([0, 1]), np.array([0, 1, 2]))
    assert (few[2].tolist(), few[2].dtype) == ([3_000_000_000] * 2, np.uint32)


@njit
def _counted_and_drained(within: marked.Room, cells: np.ndarray, places: np.ndarray, numbers: np.ndarray) -> int:
    for cell in cells:
        marked.count(within, cell, np.uint32(1))
    size: int = marked.drain(within, places, numbers, 0)
    return size


@given(st.lists(CELLS, max_size=20))
def test_a_room_is_left_as_it_was_found(cells: list[int]) -> None:
    within = marked.room(10_000)
    places, numbers = np.empty(20, np.uint32), np.empty(20, np.uint32)
    size = _counted_and_drained(within, np.array(cells, np.uint32), places, numbers)
    assert dict(zip(places[:size].tolist(), numbers[:size].tolist(), strict=True)) == Counter(cells)
    assert not any(array.any() for array in within)
