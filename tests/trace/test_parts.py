"""Cutting: disjoint intervals that cover the window and hold about as many rows as asked, whatever the files look like."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmtrace.trace.parts import Interval, Slice, cut

START = datetime(2025, 4, 11)


def slices(*bounds: tuple[float, float], rows: int = 1000) -> list[Slice]:
    """Slices that reach from hour to hour."""
    return [
        Slice(0, index * rows, rows, START + timedelta(hours=first), START + timedelta(hours=last), surveyed=True)
        for index, (first, last) in enumerate(bounds)
    ]


def window(hours: float) -> Interval:
    return Interval(START, START + timedelta(hours=hours, microseconds=1))


def assert_covers(intervals: list[Interval], whole: Interval) -> None:
    assert intervals[0].start == whole.start
    assert intervals[-1].end == whole.end
    assert all(a.end == b.start for a, b in pairwise(intervals))
    assert all(interval.start < interval.end for interval in intervals)


def test_small_trace_is_one_part() -> None:
    assert cut(slices((0, 1), (1, 2)), window(2), rows=5000) == [window(2)]


def test_sorted_row_groups_are_cut_where_they_begin() -> None:
    groups = slices(*((hour, hour + 0.99) for hour in range(12)))
    intervals = cut(groups, window(12), rows=3000)
    starts = {piece.first for piece in groups}
    assert len(intervals) == 4
    assert all(interval.start in starts for interval in intervals)
    assert all(piece.within(interval) or not piece.overlaps(interval) for piece in groups for interval in intervals)


def test_unsorted_row_groups_that_all_span_the_trace_are_still_cut_evenly() -> None:
    intervals = cut(slices(*[(0, 10)] * 8), window(10), rows=2000)
    assert_covers(intervals, window(10))
    assert [round((i.end - i.start) / timedelta(hours=1), 2) for i in intervals] == [2.5] * 4


def test_one_huge_row_group_is_cut_inside() -> None:
    assert len(cut(slices((0, 10), rows=50_000), window(10), rows=5000)) == 10


def test_all_rows_in_one_instant_cannot_be_cut() -> None:
    assert len(cut(slices((0, 0), rows=50_000), window(0), rows=5000)) == 1


def test_slices_outside_the_window_do_not_count() -> None:
    day = slices(*((hour, hour + 1) for hour in range(24)))
    assert len(cut(day, Interval(START, START + timedelta(hours=2)), rows=5000)) == 1


def test_empty_slices_are_ignored() -> None:
    nothing = Slice(0, 0, 10, None, None, surveyed=True)
    assert not nothing.overlaps(window(1))
    assert cut([nothing, *slices((0, 1))], window(1), rows=5000) == [window(1)]


@example(groups=[(0, 300, 1000), (10, 0, 9000)], rows=500)
@given(
    groups=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 300), st.integers(1, 9000)), min_size=1, max_size=30),
    rows=st.integers(200, 20_000),
)
def test_intervals_are_disjoint_cover_the_window_and_are_near_the_size(groups: list[tuple[int, int, int]], rows: int) -> None:
    pieces = [
        Slice(0, 0, count, START + timedelta(minutes=first), START + timedelta(minutes=first + length), surveyed=True)
        for first, length, count in groups
    ]
    firsts, lasts = [p.first for p in pieces if p.first], [p.last for p in pieces if p.last]
    whole = Interval(min(firsts), max(lasts) + timedelta(microseconds=1))
    intervals = cut(pieces, whole, rows)
    assert_covers(intervals, whole)
    assert all(expected_rows(pieces, interval) <= 1.6 * rows + heaviest_instant(pieces) for interval in intervals)


def heaviest_instant(pieces: list[Slice]) -> float:
    """The most rows that one microsecond has, which no cut divides."""
    firsts = {piece.first for piece in pieces if piece.first}
    instants = [Interval(first, first + timedelta(microseconds=1)) for first in firsts]
    return max(expected_rows(pieces, instant) for instant in instants)


def expected_rows(pieces: list[Slice], interval: Interval) -> float:
    """Rows in the interval if each slice were evenly spread, a loop."""
    total = 0.0
    for piece in pieces:
        assert piece.first is not None
        assert piece.last is not None
        end = piece.last + timedelta(microseconds=1)
        shared = min(end, interval.end) - max(piece.first, interval.start)
        total += max(shared / (end - piece.first), 0) * (piece.rows or 0)
    return total


@pytest.mark.parametrize("rows", [900, 1100, 2500])
def test_part_sizes_are_even_on_even_data(rows: int) -> None:
    groups = slices(*((hour, hour + 1) for hour in range(10)))
    sizes = [expected_rows(groups, interval) for interval in cut(groups, window(10), rows)]
    assert sum(sizes) == pytest.approx(10_000)
    assert max(sizes) <= 1.5 * rows


def test_what_is_indivisible_is_never_cut() -> None:
    text = [replace(piece, divisible=False) for piece in slices((0, 3.9), (4, 9), (9.5, 10), rows=10_000)]
    intervals = cut(text, window(10), rows=5000)
    assert all(piece.within(interval) or not piece.overlaps(interval) for piece in text for interval in intervals)
    assert len(intervals) == 3
