"""The paper's hourly protocol, against a loop over hours, wherever the requests are cut."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import hours
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.summary import plans

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR_US = 3_600_000_000
TIMES = st.integers(0, 3).flatmap(lambda hour: st.integers(0, 30).map(lambda step: hour * HOUR_US + step * 120_000_001 % HOUR_US))
ROWS = st.lists(st.tuples(TIMES, st.integers(0, 2)), max_size=120)


def frame_of(rows: Sequence[tuple[int, int]]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, {"timestamp": pl.Int64, "model_key": pl.UInt64}, orient="row")
    return frame.with_columns(pl.col("timestamp").cast(pl.Datetime("us"))).sort("timestamp", maintain_order=True)


def state_of(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    found = plans(frame.lazy(), hours.summaries("model_key"))
    return dict(zip(found, pl.collect_all(list(found.values())), strict=True))


def naive(frame: pl.DataFrame) -> dict[str, dict[int, list[float]]]:
    arrivals = defaultdict(list)
    for time, key in frame.select(pl.col("timestamp").to_physical(), "model_key").iter_rows():
        if key != UNKNOWN:
            arrivals[key, time // HOUR_US].append(time)
    found: dict[str, dict[int, list[float]]] = {name: defaultdict(list) for name in hours.VALUES}
    for (key, _), times in arrivals.items():
        if len(times) < 10:
            continue
        found["requests"][key].append(len(times))
        found["requests_squared"][key].append(len(times) ** 2)
        gaps = [after - before for before, after in pairwise(times) if after > before]
        if len(gaps) >= 5:
            cv = float(np.std(gaps, ddof=1) / np.mean(gaps))
            found["cv"][key].append(cv)
            found["valid_requests"][key].append(len(times))
            found["above_1"][key].append(cv > 1)
            found["above_2"][key].append(cv > 2)
    return found


@given(ROWS)
def test_hours_are_those_of_a_loop(rows: list[tuple[int, int]]) -> None:
    frame = frame_of(rows)
    closed, expected = hours.closed(state_of(frame)), naive(frame)
    assert set(closed.filter(pl.col("column") == "requests")["key"]) == set(expected["requests"])
    for row in closed.iter_rows(named=True):
        values = expected[row["column"]][row["key"]]
        unit = hours.CV_UNIT if row["column"] == "cv" else 1
        assert row["known"] == len(values)
        assert row["sum"] * unit == pytest.approx(sum(values), abs=len(values) * unit)
        if values:
            assert row["max"] * unit == pytest.approx(max(values), abs=unit)


@given(ROWS, st.lists(st.integers(0, 120), max_size=4).map(sorted))
def test_no_cut_changes_a_bit(rows: list[tuple[int, int]], cuts: list[int]) -> None:
    frame = frame_of(rows)
    whole = state_of(frame)
    parts = [state_of(frame[start:end]) for start, end in pairwise([0, *cuts, max(frame.height, *cuts, 0)])]
    from_left = reduce(lambda left, right: hours.combine([left, right]), parts)
    from_right = reduce(lambda right, left: hours.combine([left, right]), reversed(parts))
    for found in (from_left, from_right, hours.combine(parts)):
        assert_frame_equal(found["open_hours"], hours.combine([whole])["open_hours"])
        assert_frame_equal(hours.closed(found), hours.closed(whole))


def test_a_gap_over_the_end_of_an_hour_counts_nowhere() -> None:
    early, late = range(HOUR_US - 10, HOUR_US), range(HOUR_US, HOUR_US + 10)
    closed = hours.closed(state_of(frame_of([(time, 1) for time in (*early, *late)])))
    cv = closed.filter(pl.col("column") == "cv").row(0, named=True)
    assert (cv["known"], cv["sum"]) == (2, 0)


def test_a_busy_hour_of_ties_is_not_valid() -> None:
    closed = hours.closed(state_of(frame_of([(5, 1)] * 20)))
    known = dict(closed.select("column", "known").iter_rows())
    assert (known["requests"], known["valid_requests"], known["cv"]) == (1, 0, 0)
