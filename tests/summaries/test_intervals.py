from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.errors import UsageError
from llmtrace.summaries.intervals import DAY, HOUR, Interval, microseconds

WIDTHS = ("1s", "7s", "1m", "1h", "1d", "1w", "4w")


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1), ("90s", 90), ("15m", 900), ("1h", 3600), ("6h", 21_600), ("1d", 86_400), ("2w", 1_209_600)]
)
def test_a_width_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert Interval.parse(text).seconds == seconds


@pytest.mark.parametrize(
    "text", ["", "h", "1", "0h", "-1h", "1.5h", "1 h", "1h ", "1mo", "1H", "60000w", "9" * 13 + "s", "\u0661h"]
)
def test_anything_else_is_a_usage_error_that_names_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--interval") as caught:
        Interval.parse(text)
    assert "s, m, h, d, w" in caught.value.hint


@pytest.mark.parametrize("text", ["52001w", "99999999999d", "9" * 400 + "s"])
def test_a_width_beyond_a_thousand_years_is_too_long(text: str) -> None:
    assert Interval.parse("52000w").seconds == 52_000 * 604_800
    with pytest.raises(UsageError, match=f"--interval {text}: too long"):
        Interval.parse(text)


def test_the_error_names_the_option_that_was_given() -> None:
    with pytest.raises(UsageError, match="--window 5x"):
        Interval.parse("5x", "--window")


@pytest.mark.parametrize(
    ("text", "shortest"), [("60s", "1m"), ("90s", "90s"), ("24h", "1d"), ("7d", "1w"), ("14d", "2w"), ("48h", "2d")]
)
def test_text_uses_the_largest_unit(text: str, shortest: str) -> None:
    assert str(Interval.parse(text)) == shortest
    assert Interval.parse(shortest) == Interval.parse(text)


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (timedelta(0), "1s"),
        (timedelta(seconds=499), "1s"),
        (timedelta(seconds=500), "10s"),
        (timedelta(hours=1), "10s"),
        (timedelta(hours=2), "1m"),
        (timedelta(days=1), "5m"),
        (timedelta(days=10), "1h"),
        (timedelta(days=365), "1d"),
        (timedelta(days=3650), "4w"),
        (timedelta(days=365 * 400), "52w"),
        (timedelta(days=365 * 4000), "520w"),
    ],
)
def test_covering_takes_the_narrowest_customary_width(span: timedelta, expected: str) -> None:
    start = datetime(2025, 4, 11)
    assert str(Interval.covering(start, start + span)) == expected
    assert Interval.covering(start, start + span).count(start, start + span) <= 500


def test_covering_holds_for_every_time_that_a_clock_can_show() -> None:
    assert Interval.covering(datetime.min, datetime.max).count(datetime.min, datetime.max) <= 500


def test_hours_and_days_are_those_of_utc_and_weeks_begin_on_monday() -> None:
    time = microseconds(datetime(2025, 4, 11, 13, 37))
    assert HOUR.floor_us(time) == microseconds(datetime(2025, 4, 11, 13))
    assert DAY.floor_us(time) == microseconds(datetime(2025, 4, 11))
    assert Interval.parse("1w").floor_us(time) == microseconds(datetime(2025, 4, 7))
    assert datetime(2025, 4, 7).isoweekday() == 1


def test_times_before_1970_fall_into_the_interval_that_holds_them() -> None:
    assert HOUR.floor_us(-1) == -HOUR.width_us


@given(st.lists(st.integers(-(10**13), 10**13), max_size=30), st.sampled_from(WIDTHS))
def test_runs_are_those_of_a_naive_grouping(times: list[int], width: str) -> None:
    interval, ordered = Interval.parse(width), sorted(times)
    floors = [interval.floor_us(time) for time in ordered]
    expected = sorted(set(floors))
    borders, starts = interval.runs(np.array(ordered, np.int64))
    assert starts.tolist() == expected
    assert borders.tolist() == [*(floors.index(start) for start in expected), len(times)]


@given(st.integers(1, 2000), st.integers(0, 2000))
def test_a_long_run_ends_where_the_interval_does(inside: int, after: int) -> None:
    times = np.concatenate([np.full(inside, 999_999), np.full(after, 1_000_000)]).astype(np.int64)
    assert Interval.parse("1s").runs(times)[0].tolist() == [0, *([inside] if after else []), inside + after]


@given(st.integers(-(10**15), 10**15), st.integers(0, 10**9), st.sampled_from(WIDTHS))
def test_starts_are_every_interval_from_the_first_to_the_last(first_us: int, length_us: int, width: str) -> None:
    first = datetime(1970, 1, 1) + timedelta(microseconds=first_us)
    last = first + timedelta(microseconds=length_us)
    interval = Interval.parse(width)
    starts = interval.starts(first, last)
    assert starts.size == interval.count(first, last)
    assert starts[0] <= first_us < starts[0] + interval.width_us
    assert starts[-1] <= first_us + length_us < starts[-1] + interval.width_us
    assert (np.diff(starts) == interval.width_us).all()
