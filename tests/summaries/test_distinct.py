from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import distinct
from llmtrace.summaries.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECOND = Interval.parse("1s")
SCHEMA = {"timestamp": pl.Int64, "user": pl.UInt64}
ROWS = st.lists(st.tuples(st.integers(0, 5_000_000), st.integers(0, 4)), max_size=40)
CUTS = st.lists(st.integers(0, 40), max_size=5)


def frame_of(rows: list[tuple[int, int]]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, SCHEMA, orient="row").sort("timestamp")
    return frame.with_columns(pl.col("timestamp").cast(pl.Datetime("us")))


def naive(frame: pl.DataFrame) -> dict[datetime, set[int]]:
    seen: dict[datetime, set[int]] = defaultdict(set)
    for time, user in frame.iter_rows():
        seen[time.replace(microsecond=0)] |= {user} - {0}
    return dict(seen)


@given(ROWS, CUTS)
def test_counts_are_those_of_naive_sets_however_the_rows_are_cut(
    of_parts: Callable[..., list[pl.DataFrame]], rows: list[tuple[int, int]], cuts: list[int]
) -> None:
    frame = frame_of(rows)
    expected = naive(frame)
    found, *regrouped = of_parts(distinct.summary("user", SECOND), distinct.combine, frame, cuts)
    assert dict(distinct.per_interval(found).iter_rows()) == {time: len(users) for time, users in expected.items()}
    assert distinct.per_interval(found)["time"].is_sorted()
    assert distinct.overall(found) == (len(set().union(*expected.values())) or None)
    for other in regrouped:
        assert_frame_equal(other, found)


@given(ROWS, CUTS)
def test_only_the_first_and_the_last_interval_keep_their_keys(
    of_parts: Callable[..., list[pl.DataFrame]], rows: list[tuple[int, int]], cuts: list[int]
) -> None:
    frame = frame_of(rows)
    expected = naive(frame)
    edges = {*sorted(expected)[:1], *sorted(expected)[-1:]}
    for found in of_parts(distinct.summary("user", SECOND), distinct.combine, frame, cuts):
        kept = {time: keys for time, _, keys in found.iter_rows() if keys is not None and time is not None}
        assert kept == {time: sorted(expected[time]) for time in edges}
        assert found["keys"][0].to_list() == sorted(set().union(*expected.values()))


@given(ROWS, CUTS)
def test_without_an_interval_only_the_overall_set_is_kept(
    of_parts: Callable[..., list[pl.DataFrame]], rows: list[tuple[int, int]], cuts: list[int]
) -> None:
    users = {user for _, user in rows} - {0}
    for found in of_parts(distinct.summary("user"), distinct.combine, frame_of(rows), cuts):
        assert found.rows() == [(None, len(users), sorted(users))]


def test_intervals_that_were_edges_of_parts_are_closed_between_others(of_parts: Callable[..., list[pl.DataFrame]]) -> None:
    frame = frame_of([(100, 1), (1_000_100, 1), (1_500_000, 2), (2_000_100, 3), (3_000_100, 1)])
    for found in of_parts(distinct.summary("user", SECOND), distinct.combine, frame, [2, 3, 4]):
        assert found["keys"].to_list() == [[1, 2, 3], [1], None, None, [1]]
        assert found["distinct"].to_list() == [3, 1, 2, 1, 1]


def test_an_interval_that_spans_many_parts_is_counted_once(of_parts: Callable[..., list[pl.DataFrame]]) -> None:
    frame = frame_of([(time, user) for time, user in zip(range(0, 900_000, 100_000), [1, 2, 1, 3, 2, 1, 4, 0, 1], strict=True)])
    for found in of_parts(distinct.summary("user", SECOND), distinct.combine, frame, list(range(1, 9))):
        assert distinct.per_interval(found).rows() == [(datetime(1970, 1, 1), 4)]
        assert distinct.overall(found) == 4


def test_inputs_are_not_changed_and_summaries_survive_parquet(of_whole: Callable[..., pl.DataFrame], tmp_path: Path) -> None:
    parts = [frame_of([(0, 1), (2_500_000, 2)]), frame_of([]), frame_of([(2_600_000, 3), (4_000_000, 1)])]
    frames = [of_whole(distinct.summary("user", SECOND), part) for part in parts]
    before = [frame.rows() for frame in frames]
    combined = distinct.combine(frames)
    assert [frame.rows() for frame in frames] == before
    for number, frame in enumerate(frames):
        frame.write_parquet(tmp_path / f"{number}.parquet")
    assert_frame_equal(distinct.combine([pl.read_parquet(tmp_path / f"{number}.parquet") for number in range(3)]), combined)
