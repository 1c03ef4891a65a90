"""Months: the gaps of each (user, calendar month), listed one by one, are the oracle, whatever the cut."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.summaries import months
from llmtrace.summaries.intervals import microseconds
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.trails import Limits
from llmtrace.summaries.united import Unions
from llmtrace.summaries.visits import arrange

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rows = Sequence[tuple[datetime, int]]

LIMITS = Limits(2, 4, profiled=True)
EDGES = [datetime(2023, 12, 1), datetime(2024, 1, 1), datetime(2024, 2, 1), datetime(2024, 3, 1), datetime(1969, 12, 1)]
TIMES = st.sampled_from(EDGES).flatmap(lambda edge: st.integers(-3, 3).map(lambda us: edge + timedelta(microseconds=us)))
ROWS = st.lists(st.tuples(TIMES | st.datetimes(EDGES[0], EDGES[3]), st.sampled_from([UNKNOWN, 3, 7])), max_size=50).map(sorted)


def state_of(rows: Rows) -> dict[str, pl.DataFrame]:
    values = [(microseconds(time), key, 0, 0) for time, key in rows]
    schema = {"time_us": pl.Int64, "user": pl.UInt64, "input_tokens": pl.Int64, "tokens": pl.Int64}
    frame = pl.DataFrame(values, schema, orient="row")
    return months.summarise(arrange(frame, "user"), frame["time_us"].to_numpy(), LIMITS)


@given(rows=ROWS, cuts=st.lists(st.integers(0, 50), max_size=3))
def test_percentiles_of_every_month_are_numpys_within_the_bound(rows: Rows, cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    state = months.combine([state_of(rows[start:end]) for start, end in pairwise(borders)], LIMITS, Unions())
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


@given(rows=ROWS, cut=st.integers(0, 50))
def test_only_the_first_and_the_last_month_stay_open(rows: Rows, cut: int) -> None:
    state = months.combine([state_of(rows[:cut]), state_of(rows[cut:])], LIMITS, Unions())
    known = sorted({datetime(time.year, time.month, 1) for time, key in rows if key != UNKNOWN})
    assert set(state["open_months"]["month"]) == {*known[:1], *known[-1:]}
    assert set(state["months"]["month"]) <= set(known[1:-1])


@given(rows=ROWS, cut=st.integers(0, 50))
def test_requests_of_all_known_keys_are_counted_up_to_a_limit(rows: Rows, cut: int) -> None:
    state = months.combine([state_of(rows[:cut]), state_of(rows[cut:])], LIMITS, Unions())
    counts = {key: sum(found == key for _, found in rows) for key in sorted({key for _, key in rows} - {UNKNOWN})}
    assert dict(state["visitors"].iter_rows()) == {key: min(count, months.MOST_REQUESTS) for key, count in counts.items()}
