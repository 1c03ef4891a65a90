"""Rings of the last requests: the words of the paper, request by request, are the oracle, wherever the trace is cut."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.replay.sessions import rings
from llmtrace.replay.sessions.requests import NO_MARKS, Requests, Turns
from llmtrace.replay.sessions.rings import LONGEST_RING, NO_LIMIT_US, Rings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Row = tuple[int | None, int, int, int, int]
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 3)), st.integers(0, 1), st.integers(0, 200), st.integers(0, 40), st.integers(0, 9)
    ),
    max_size=120,
).map(lambda rows: sorted(rows, key=lambda row: row[2]))


def arrays(rows: Sequence[Row], first: int = 0, *, marked: bool = True) -> Requests:
    """Rows as a linker takes them; the mark of a row is its number plus 1."""
    key, endpoint, time_us, input_tokens, output_tokens = (
        np.array([[*row] for row in rows], dtype=object).T if rows else np.zeros((5, 0), object)
    )
    known = np.array([one is not None for one in key], np.bool_)
    total = np.where(known, input_tokens.astype(np.int64) + output_tokens.astype(np.int64), -1)
    return Requests(
        np.where(known, key, 0).astype(np.uint32),
        endpoint.astype(np.uint32),
        time_us.astype(np.int64),
        input_tokens.astype(np.int64),
        total,
        marks=np.arange(first, first + len(rows)).astype(np.uint64) + np.uint64(1) if marked else NO_MARKS,
    )


def linked(linker: Rings, rows: Sequence[Row], cuts: Sequence[int]) -> Turns:
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    lots = [linker.add(arrays(rows[first:end], first), keys=4) for first, end in itertools.pairwise(borders)]
    return Turns(*(np.concatenate(columns) for columns in zip(*lots, strict=True)))


@given(rows=ROWS, cuts=st.lists(st.integers(0, 120), max_size=3), k=st.integers(1, 12), gap=st.sampled_from([None, 3, 40, 150]))
@pytest.mark.parametrize("room", [1, 1 << 12])
def test_requests_continue_what_the_paper_says(
    reconstruct: Callable[..., list[Any]], room: int, rows: list[Row], cuts: list[int], k: int, gap: int | None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rings, "_SMALLEST", room)
        linker = Rings(k, NO_LIMIT_US if gap is None else gap)
    turns = linked(linker, rows, cuts)
    expected = reconstruct([(*row, name) for name, row in enumerate(rows)], k, gap)
    found = list(zip(*(column.tolist() for column in turns[:4]), strict=True))
    assert found == [(-1, -1, 0, -1) if turn is None else turn.found for turn in expected]
    marks = [0 if turn is None or turn.parent is None else turn.parent.name + 1 for turn in expected]
    assert turns.parent_marks.tolist() == marks
    assert linker.sessions == 1 + max((turn.session for turn in expected if turn), default=-1)


def test_a_continued_request_keeps_its_place_among_the_last_k() -> None:
    # The second continues the first, yet both stand among the last two when the fourth comes: what the third left is gone then.
    rows: list[Row] = [(0, 0, 0, 1, 1), (0, 0, 1, 3, 1), (0, 0, 2, 100, 1), (0, 0, 3, 50, 1)]
    assert Rings(2).add(arrays(rows), 1).session.tolist() == [0, 0, 0, 1]
    other: list[Row] = [(0, 0, 0, 10, 1), (0, 0, 1, 5, 1), (0, 0, 2, 7, 1), (0, 0, 3, 20, 1)]
    assert Rings(2).add(arrays(other), 1).session.tolist() == [0, 1, 1, 1]
    assert Rings(3).add(arrays(other), 1).session.tolist() == [0, 1, 1, 0]


def test_nesting_is_strict_and_the_oldest_of_equals_is_continued() -> None:
    rows: list[Row] = [(0, 0, 0, 5, 5), (0, 0, 1, 4, 6), (0, 0, 2, 10, 0), (0, 0, 3, 11, 0)]
    assert Rings(10).add(arrays(rows), 1).parent_marks.tolist() == [0, 0, 0, 1]


def test_the_longest_ring_and_large_numbers() -> None:
    largest = (1 << 63) - 1
    rows: list[Row] = [(0, 0, 0, largest - 1, 0), *((0, 0, 1, 3, 1) for _ in range(LONGEST_RING - 1)), (0, 0, 2, largest, 0)]
    for shorter, parent in ((0, 1), (1, 2)):
        turns = Rings(LONGEST_RING - shorter).add(arrays(rows), 1)
        assert turns.parent_marks[-1] == parent


def test_rings_that_were_idle_for_too_long_are_given_back() -> None:
    linker, rows = Rings(10, 100), 1 << 12
    for lot in range(20):
        keys = np.arange(rows, dtype=np.uint32) + np.uint32(rows * lot)
        zeros = np.zeros(rows, np.uint32)
        linker.add(Requests(keys, zeros, *np.broadcast_to([[1_000 * lot], [5], [9]], (3, rows)).copy()), rows * (lot + 1))
    assert linker.records < 4 * rows
    assert linker.sessions == 20 * rows
