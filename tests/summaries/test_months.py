"""Months: the gaps of each (user, calendar month), listed one by one, are the oracle, whatever the cut."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import following, months
from llmtrace.summaries.following import Following
from llmtrace.summaries.intervals import microseconds
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.month_store import Months
from llmtrace.summaries.trails import Limits
from llmtrace.summaries.visits import Chunk, deal

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    Rows = Sequence[tuple[datetime, int]]

LIMITS = Limits(2, 4, profiled=True)
CUTS = st.lists(st.integers(0, 50), max_size=3)
WAITING = st.sampled_from([0, 5, 1 << 20])
EDGES = [datetime(2023, 12, 1), datetime(2024, 1, 1), datetime(2024, 2, 1), datetime(2024, 3, 1), datetime(1969, 12, 1)]
TIMES = st.sampled_from(EDGES).flatmap(lambda edge: st.integers(-3, 3).map(lambda us: edge + timedelta(microseconds=us)))
ROWS = st.lists(st.tuples(TIMES | st.datetimes(EDGES[0], EDGES[3]), st.sampled_from([UNKNOWN, 3, 7])), max_size=50).map(sorted)


def state_of(rows: Rows) -> dict[str, pl.DataFrame]:
    """The state of a part as it comes."""
    times_us = np.array([microseconds(time) for time, _ in rows], np.int64)
    nothing = np.zeros(times_us.size, np.int64)
    chunk = Chunk(np.array([key for _, key in rows], np.uint64), nothing.astype(np.uint32), times_us, nothing, nothing)
    return {"visits_of_users": deal([chunk]), **months.nothing()}


def followed(rows: Rows, cuts: list[int], waiting: int) -> dict[str, pl.DataFrame]:
    """The state of all parts, of whose requests so many may wait."""
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    keys = Following("visits_of_users", [Months(LIMITS)], has_inner=False)
    with patch.object(following, "MOST_WAITING", waiting), patch.object(following, "GROUP_REQUESTS", 1 + waiting):
        for start, end in pairwise(borders):
            keys.add(state_of(rows[start:end]))
        return keys.followed()


@given(rows=ROWS, cuts=CUTS, waiting=WAITING)
def test_percentiles_of_every_month_are_numpys_within_the_bound(rows: Rows, cuts: list[int], waiting: int) -> None:
    state = followed(rows, cuts, waiting)
    times = defaultdict(list)
    for time, key in rows:
        times[datetime(time.year, time.month, 1), key].append(microseconds(time))
    gaps = {place: np.diff(found) for place, found in sorted(times.items()) if place[1] != UNKNOWN}
    enough = {place: found[found > 0] for place, found in gaps.items() if (found > 0).sum() >= LIMITS.threshold}
    table = months.over(state, LIMITS)
    assert table.select("month", "key").rows() == list(enough)
    percentiles = table.select(f"p{percent}" for percent in months.PERCENTS).rows()
    expected = [np.percentile(found, months.PERCENTS).tolist() for found in enough.values()]
    assert [list(row) for row in percentiles] == [pytest.approx(row, rel=2**-7) for row in expected]


@given(rows=ROWS, cuts=CUTS, waiting=WAITING)
def test_states_of_months_do_not_depend_on_cuts_and_groups(rows: Rows, cuts: list[int], waiting: int) -> None:
    whole, borders = followed(rows, [], waiting), [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [followed(rows[start:end], [], waiting) for start, end in pairwise(borders)]
    for state in (followed(rows, cuts, waiting), months.combine(parts, LIMITS)):
        for name, schema in months.SCHEMAS.items():
            assert_frame_equal(state[name], whole[name])
            assert dict(state[name].schema) == dict(schema)


@given(rows=ROWS, cuts=CUTS, waiting=WAITING)
def test_only_the_first_and_the_last_month_stay_open(rows: Rows, cuts: list[int], waiting: int) -> None:
    state = followed(rows, cuts, waiting)
    known = sorted({datetime(time.year, time.month, 1) for time, key in rows if key != UNKNOWN})
    assert set(state["open_months"]["month"]) == {*known[:1], *known[-1:]}
    assert set(state["months"]["month"]) <= set(known[1:-1])


@given(rows=ROWS, cuts=CUTS, waiting=WAITING)
def test_requests_of_all_known_keys_are_counted_up_to_a_limit(rows: Rows, cuts: list[int], waiting: int) -> None:
    state = followed(rows, cuts, waiting)
    counts = {key: sum(found == key for _, found in rows) for key in sorted({key for _, key in rows} - {UNKNOWN})}
    assert dict(state["visitors"].iter_rows()) == {key: min(count, months.MOST_REQUESTS) for key, count in counts.items()}


@pytest.mark.parametrize("cuts", [[], [4, 8]])
def test_a_month_between_others_is_over(cuts: list[int]) -> None:
    rows = [(datetime(2024, month, 5, hour), 7) for month in (1, 2, 3) for hour in range(4)]
    state = followed(rows, cuts, 0)
    assert state["months"]["month"].to_list() == [datetime(2024, 2, 1)]
    assert state["open_months"]["month"].to_list() == [datetime(2024, 1, 1), datetime(2024, 3, 1)]


def test_gaps_across_a_border_count_from_the_last_arrival_before_it() -> None:
    start = datetime(2024, 1, 5)
    rows = [(start + timedelta(microseconds=us), 7) for us in (0, 100, 150, 300)]
    state = months.combine([followed(rows[:2], [], 0), followed(rows[2:], [], 0)], LIMITS)
    first_us, last_us = (microseconds(time) for time, _ in (rows[0], rows[-1]))
    assert state["open_months"].select("first_us", "last_us", "positive").rows() == [(first_us, last_us, 3)]
    [row] = months.over(state, LIMITS).select(f"p{percent}" for percent in months.PERCENTS).rows()
    assert list(row) == pytest.approx(np.percentile([100, 50, 150], months.PERCENTS).tolist(), rel=2**-7)


@pytest.mark.parametrize("visits", [LIMITS.threshold, LIMITS.threshold + 1])
def test_a_month_needs_as_many_gaps_as_the_threshold(visits: int) -> None:
    rows = [(datetime(2024, 1, 5, hour), 7) for hour in range(visits)]
    assert months.over(followed(rows, [], 0), LIMITS).height == (visits > LIMITS.threshold)
