from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.errors import UsageError
from llmtrace.summaries.periods import Periods, covered

EPOCH = datetime(1970, 1, 1)
MOMENTS = st.datetimes(datetime(1969, 6, 1), datetime(2031, 1, 1))
TEXTS = st.sampled_from(["month", "quarter", "year", "1w", "2d", "1h", "90m"])


def us(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def naive_start(time: datetime, text: str) -> datetime:
    """By the calendar, and by whole widths since 1970 or the first Monday of it."""
    if text in {"month", "quarter", "year"}:
        months = {"month": 1, "quarter": 3, "year": 12}[text]
        return datetime(time.year, (time.month - 1) // months * months + 1, 1)
    origin = datetime(1970, 1, 5) if text == "1w" else EPOCH
    width = {"1w": timedelta(weeks=1), "2d": timedelta(days=2), "1h": timedelta(hours=1), "90m": timedelta(minutes=90)}[text]
    return origin + (time - origin) // width * width


@given(st.lists(MOMENTS, min_size=1, max_size=20), TEXTS)
def test_a_time_lies_in_the_period_of_the_calendar_or_the_grid(times: list[datetime], text: str) -> None:
    starts = Periods.parse(text).floor(np.array([us(time) for time in times]))
    assert starts.tolist() == [us(naive_start(time, text)) for time in times]


@given(MOMENTS, st.timedeltas(timedelta(0), timedelta(days=800)), TEXTS)
def test_edges_lead_from_the_first_period_to_the_end_of_the_last(first: datetime, length: timedelta, text: str) -> None:
    periods, last = Periods.parse(text), first + length
    edges = periods.edges(first, last)
    assert edges[0] == us(naive_start(first, text))
    assert edges[-2] == us(naive_start(last, text))
    assert edges[-2] <= us(last) < edges[-1]
    assert periods.floor(edges).tolist() == edges.tolist()
    assert periods.count(first, last) == edges.size - 1
    assert (np.diff(edges) > 0).all()


@given(st.lists(MOMENTS, max_size=20), TEXTS)
def test_runs_are_the_times_of_each_period(times: list[datetime], text: str) -> None:
    moments = sorted(times)[:1] + [time for time in sorted(times)[1:] if time - min(times) < timedelta(days=400)]
    borders, starts = Periods.parse(text).runs(np.array([us(time) for time in moments], np.int64))
    runs = [moments[low:high] for low, high in pairwise(borders)]
    assert [us(naive_start(run[0], text)) for run in runs] == starts.tolist()
    assert all(len({naive_start(time, text) for time in run}) == 1 for run in runs)
    assert [time for run in runs for time in run] == moments
    assert len(set(starts.tolist())) == starts.size


@pytest.mark.parametrize("text", ["month", "quarter", "year", "1w", "2d", "6h", "1m"])
def test_the_text_of_periods_reads_back(text: str) -> None:
    assert str(Periods.parse(text)) == text


@pytest.mark.parametrize("text", ["", "months", "1mo", "0d", "-1d", "1.5h", "d"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--interval .*: not a length of time") as refused:
        Periods.parse(text)
    assert "month" in refused.value.hint


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(days=80 * 365), "year"),
        (timedelta(days=365), "month"),
        (timedelta(days=60), "month"),
        (timedelta(days=59), "1w"),
        (timedelta(days=27), "1d"),
        (timedelta(hours=71), "1h"),
        (timedelta(hours=2), "1m"),
        (timedelta(0), "1m"),
    ],
)
def test_periods_for_a_trace_are_months_from_sixty_days_on(length: timedelta, text: str) -> None:
    first = datetime(2025, 4, 11, 12)
    assert str(Periods.covering(first, first + length)) == text


def test_what_is_covered_of_a_period_is_the_part_between_first_and_last() -> None:
    first, last = datetime(2025, 4, 16), datetime(2025, 6, 7)
    edges = Periods.parse("month").edges(first, last)
    assert covered(edges, first, last).tolist() == [0.5, 1.0, 0.2]
    assert covered(edges, None, None).tolist() == [0.0, 0.0, 0.0]
