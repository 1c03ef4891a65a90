"""Profiles: a `Counter` per row is the oracle of counting and joining, NumPy on the values that of percentiles."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries import cells, profiles, ttl
from llmtrace.summaries.histogram import bucket_indices

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells

VALUES = st.lists(st.integers(1, 40) | st.integers(1, 10**12), max_size=20) | st.lists(
    st.integers(1, 10**4), min_size=60, max_size=90
)
ROWS = st.lists(VALUES, max_size=6)


def flat(rows: list[list[int]]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """The cells of gaps row by row, and where each row ends."""
    gaps = np.array([value for row in rows for value in row], np.int64)
    nothing = np.zeros_like(gaps)
    return ttl.weigh(gaps, nothing, nothing, ttl.no_sums()), np.cumsum([len(row) for row in rows], dtype=np.int64)


def tally(rows: list[list[int]]) -> Cells:
    values, ends = flat(rows)
    return profiles.tally(values, np.append(0, ends)[: len(rows)], ends)


def as_counters(found: Cells) -> list[dict[int, int]]:
    offsets, buckets, counts = (array.tolist() for array in found)
    rows = [(buckets[start:end], counts[start:end]) for start, end in pairwise(offsets)]
    assert all(row == sorted(set(row)) for row, _ in rows)
    return [dict(zip(*row, strict=True)) for row in rows]


def counter(values: list[int]) -> Counter[int]:
    return Counter(bucket_indices(np.array(values, np.int64), profiles.BITS).tolist())


@given(ROWS)
def test_values_are_counted_row_by_row(rows: list[list[int]]) -> None:
    assert as_counters(tally(rows)) == [counter(row) for row in rows]


@given(st.lists(st.tuples(st.none() | VALUES, st.none() | VALUES, VALUES), max_size=6))
def test_joined_rows_have_the_counts_of_both_and_the_further_values(
    rows: list[tuple[list[int] | None, list[int] | None, list[int]]],
) -> None:
    sides = [[row[side] for row in rows if row[side] is not None] for side in (0, 1)]
    places = np.full((len(rows), 2), -1, np.int64)
    for side, base in ((0, 0), (1, len(sides[0]))):
        there = [place for place, row in enumerate(rows) if row[side] is not None]
        places[there, side] = range(base, base + len(there))
    found = profiles.join([tally(sides[0]), tally(sides[1])], places, *flat([more for _, _, more in rows]))  # type: ignore[arg-type]
    assert as_counters(found) == [counter([*(left or []), *(right or []), *more]) for left, right, more in rows]


def test_counts_beyond_32_bits_do_not_wrap() -> None:
    large = (np.array([0, 1]), np.array([5], np.uint16), np.array([2**32 - 1], np.uint32))
    rows, nothing = np.array([[0, 1]]), np.zeros(1, np.int64)
    assert as_counters(profiles.join([large, large], rows, np.empty(0, np.uint32), nothing)) == [{5: 2**33 - 2}]


@given(st.lists(VALUES.filter(bool), max_size=5))
def test_percentiles_are_numpys_within_the_bound(rows: list[list[int]]) -> None:
    frame = pl.DataFrame(cells.lists(tally(rows), "buckets"))
    percents = (0, 10, 50, 90, 100)
    found = profiles.percentiles(frame, percents)
    for values, row in zip(rows, found.tolist(), strict=True):
        assert row == pytest.approx(np.percentile(values, percents).tolist(), rel=2**-7)
