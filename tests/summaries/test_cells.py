from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries import cells

PLACES = st.integers(0, 6) | st.sampled_from([300, 70_000, 2**32 - 1])
ROWS = st.dictionaries(st.integers(0, 4), st.lists(PLACES, max_size=8), max_size=5)


def flat(rows: dict[int, list[int]]) -> tuple[cells.Cells, list[int]]:
    counted = [sorted(Counter(rows[key]).items()) for key in sorted(rows)]
    places = np.array([place for row in counted for place, _ in row], np.uint32)
    numbers = np.array([number for row in counted for _, number in row], np.uint32)
    return (np.cumsum([0, *map(len, counted)]), places, numbers), sorted(rows)


@given(ROWS, ROWS)
def test_merged_cells_are_counted_as_those_of_both(left: dict[int, list[int]], right: dict[int, list[int]]) -> None:
    (ours, our_keys), (theirs, their_keys) = flat(left), flat(right)
    keys = sorted(left.keys() | right.keys())
    rows = [np.array([known.index(key) if key in known else -1 for key in keys], np.int32) for known in (our_keys, their_keys)]
    found = cells.merge(ours, rows[0], theirs, rows[1])
    expected, _ = flat({key: left.get(key, []) + right.get(key, []) for key in keys})
    assert [array.tolist() for array in found] == [array.tolist() for array in expected]


@given(ROWS)
def test_cells_survive_a_frame(rows: dict[int, list[int]]) -> None:
    counted, _ = flat(rows)
    frame = pl.DataFrame(cells.lists(counted, "places"))
    assert [array.tolist() for array in cells.read(frame, "places")] == [array.tolist() for array in counted]
    half = frame.height // 2
    offsets, places, _ = cells.read(frame[half:], "places")
    assert places[offsets[0] : offsets[-1]].tolist() == [place for row in frame["places"][half:].to_list() for place in row]


def test_counts_that_outgrow_32_bits_are_widened() -> None:
    many = (np.array([0, 1]), np.array([7], np.uint32), np.array([3_000_000_000], np.uint32))
    rows = np.zeros(1, np.int32)
    both = cells.merge(many, rows, many, rows)
    assert both[2].tolist() == [6_000_000_000]
    assert cells.merge(both, rows, many, rows)[2].tolist() == [9_000_000_000]
