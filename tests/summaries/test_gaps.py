"""Gaps per key: a dictionary of latest arrivals is the oracle, whatever the cut."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries import gaps
from llmtrace.summaries.interning import intern
from llmtrace.summaries.keys import UNKNOWN

ARRIVALS = st.lists(st.tuples(st.integers(-50, 50), st.sampled_from([UNKNOWN, 1, 2, 2**64 - 1])), max_size=40).map(sorted)


def requests(rows: list[tuple[int, int]]) -> pl.LazyFrame:
    times, keys = zip(*rows, strict=True) if rows else ((), ())
    frame = pl.LazyFrame({"timestamp": times, "model_key": keys}, {"timestamp": pl.Int64, "model_key": pl.UInt64})
    return frame.with_columns(pl.col("timestamp").cast(pl.Datetime("us")))


def edges(rows: list[tuple[int, int]]) -> pl.DataFrame:
    return gaps.plan(requests(rows), "model_key").collect()


def all_gaps(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    latest: dict[int, int] = {}
    found = []
    for time, key in rows:
        if key == UNKNOWN:
            continue
        if key in latest:
            found.append((key, time - latest[key]))
        latest[key] = time
    return sorted(found)


def gaps_within(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    known = [row for row in rows if row[1] != UNKNOWN]
    times, keys = np.array([row[0] for row in known], np.int64), np.array([row[1] for row in known], np.uint64)
    ids, distinct = intern(keys)
    found = gaps.gaps(times, ids, distinct.size)
    return sorted((int(key), int(gap)) for key, gap in zip(keys, found, strict=True) if gap != gaps.NO_GAP)


@given(rows=ARRIVALS)
def test_a_kernel_finds_every_gap_inside_a_part(rows: list[tuple[int, int]]) -> None:
    assert gaps_within(rows) == all_gaps(rows)


@given(rows=ARRIVALS, cuts=st.lists(st.integers(0, 40), max_size=3).map(sorted))
def test_borders_give_the_gaps_that_a_cut_takes(rows: list[tuple[int, int]], cuts: list[int]) -> None:
    bounds = [0, *cuts, len(rows)]
    parts = [rows[start:end] for start, end in pairwise(bounds)]
    found = [gap for part in parts for gap in gaps_within(part)]
    left = edges(parts[0])
    for part in parts[1:]:
        found += gaps.border(left, edges(part)).rows()
        left = gaps.combine([left, edges(part)])
    assert sorted(found) == all_gaps(rows)
    assert left.equals(edges(rows))
    assert gaps.combine([edges(part) for part in parts]).equals(edges(rows))


@given(rows=ARRIVALS)
def test_edges_are_counts_and_extremes_of_known_keys(rows: list[tuple[int, int]]) -> None:
    keys = sorted({key for _, key in rows if key != UNKNOWN})
    times = {key: [time for time, one in rows if one == key] for key in keys}
    expected = [(key, len(times[key]), min(times[key]), max(times[key])) for key in keys]
    assert edges(rows).rows() == expected


def test_counts_that_outgrow_32_bits_are_widened() -> None:
    many = edges([(0, 1), (1, 1)]).with_columns(pl.lit(3_000_000_000, pl.UInt32).alias("requests"))
    both = gaps.combine([many, many])
    assert both["requests"].to_list() == [6_000_000_000]
    assert gaps.combine([both, edges([(2, 1)])])["requests"].to_list() == [6_000_000_001]


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_aligned_keys_are_found_on_both_sides(size: int) -> None:
    generator = np.random.default_rng(size)
    left, right = (np.unique(generator.integers(0, 2000, size)).astype(np.uint64) for _ in range(2))
    keys, left_rows, right_rows = gaps.align(left, right)
    assert keys.tolist() == np.union1d(left, right).tolist()
    for side, rows in ((left, left_rows), (right, right_rows)):
        assert side[rows[rows != gaps.NOWHERE]].tolist() == side.tolist()
        assert keys[rows != gaps.NOWHERE].tolist() == side.tolist()
