"""Numbers, durations and times as people write them."""

from __future__ import annotations

import re
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.report.units import (
    NULL,
    aligned,
    duration,
    is_duration,
    is_time,
    label,
    moment,
    number,
    per,
    shortened,
    unit,
    visible,
)

SECONDS = {"d": 86_400.0, "h": 3_600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "\u00b5s": 1e-6, "ns": 1e-9}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("span_s", "s"),
        ("p50_s", "s"),
        ("requests", "requests"),
        ("failed_requests", "requests"),
        ("cached_tokens", "tokens"),
        ("cached_tokens_per_s", "tokens/s"),
        ("tokens_per_request", "tokens/request"),
        ("requests_per_day", "requests/day"),
        ("peak_to_mean_requests", ""),
        ("output_to_input_ratio", ""),
        ("cv", ""),
    ],
)
def test_unit_comes_from_the_name(name: str, expected: str) -> None:
    assert unit(name) == expected


def test_a_rate_is_no_duration_and_a_span_no_time() -> None:
    assert [is_duration(name) for name in ("ttl_s", "requests_per_s", "sessions")] == [True, False, False]
    assert [is_time(name) for name in ("time", "month", "last_timestamp", "span_s", "hour")] == [True, True, True, False, False]


def test_label_reads_as_words() -> None:
    assert label("cached_tokens_per_s") == "cached tokens/s"
    assert label("window_s") == "window"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (0.0, "0"),
        (1_234_567, "1,234,567"),
        (-1_234.6, "-1,235"),
        (999.96, "1,000"),
        (99.996, "100.0"),
        (3.7000000000000002, "3.7"),
        (2.0, "2"),
        (0.0001, "0.0001"),
        (0.00001234, "1.234e-05"),
        (1e15, "1.000e+15"),
        (123456789012345.0, "123,456,789,012,345"),
        (float("nan"), NULL),
        (float("inf"), NULL),
    ],
)
def test_number(value: float, expected: str) -> None:
    assert number(value) == expected


@given(st.floats(-1e14, 1e14))
def test_number_is_never_further_off_than_four_digits(value: float) -> None:
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=5.1e-4, abs=1e-300)


@given(st.lists(st.integers(-(10**30), 10**30)))
def test_integers_of_a_column_are_exact_until_a_prefix_is_needed(values: list[int]) -> None:
    texts = aligned(values)
    if any(abs(value) >= 10_000_000 for value in values):
        assert [text for text, value in zip(texts, values, strict=True) if abs(value) < 1_000] == [
            str(value) for value in values if abs(value) < 1_000
        ]
    else:
        assert texts == [f"{value:,}" for value in values]


def test_aligned_shares_decimals_and_keeps_null() -> None:
    assert aligned([2.9333333, 3.05, 3.7, None, float("nan")]) == ["2.933", "3.050", "3.700", NULL, NULL]
    assert aligned([0.01 * place for place in (0, 1, 57, 100)]) == ["0.00", "0.01", "0.57", "1.00"]
    assert aligned([712.8123, 3_644.2]) == ["712.8", "3,644"]
    assert aligned([3.0, 27.8812, 0.0008071, 0.0]) == ["3", "27.88", "0.0008071", "0"]
    assert aligned([]) == []


def test_aligned_with_prefixes() -> None:
    assert aligned([17_204_000_000, 1_209_000_000, 9_999_600, 950, 0]) == ["17.20 G", "1.209 G", "10.00 M", "950", "0"]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 s"),
        (1e-6, "1 \u00b5s"),
        (2.5e-9, "2.5 ns"),
        (0.99999, "1 s"),
        (59.9999, "1 min"),
        (61.4, "1 min 1 s"),
        (3_599.7, "1 h"),
        (3_600, "1 h"),
        (86_399.9, "1 d"),
        (90_000, "1 d 1 h"),
        (-90, "-1 min 30 s"),
        (float("nan"), NULL),
    ],
)
def test_duration(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


@given(st.floats(1e-9, 1e11))
def test_duration_says_about_as_long(seconds: float) -> None:
    parts = re.findall(r"([\d,.]+) (\S+)", duration(seconds))
    total = sum(float(count.replace(",", "")) * SECONDS[symbol] for count, symbol in parts)
    assert total == pytest.approx(seconds, rel=0.01)
    assert len(parts) <= 2


def test_moment_shows_no_silly_zeros() -> None:
    assert moment(datetime(2025, 4, 1)) == "2025-04-01"
    assert moment(datetime(2025, 4, 1, 7)) == "2025-04-01 07:00:00"
    assert moment(datetime(2025, 4, 1, 7, 0, 0, 120)) == "2025-04-01 07:00:00.00012"


def test_per() -> None:
    assert [per(value) for value in (1, 60, 3_600.0, 604_800, 900, 0.5)] == [
        "second",
        "minute",
        "hour",
        "week",
        "15 min",
        "500 ms",
    ]


@given(st.text(), st.integers(3, 30))
def test_shortened_fits_and_keeps_both_ends(text: str, length: int) -> None:
    short = shortened(text, length)
    assert len(short) <= length
    assert short == text or (short[0] == text[0] and short[-1] == text[-1] and "…" in short)


@pytest.mark.parametrize("word", ["café", "cafe\u0301", "\u03b1\u0314\u0301\u0345", "ज़ुं", "ไทยน้ำ", "Việt", "❤\ufe0f"])
def test_marks_of_words_are_kept(word: str) -> None:
    assert visible(word) == word


def test_marks_that_would_run_over_other_lines_are_escapes() -> None:
    stacked = "Z\u0351\u036b\u0313\u036a\u034f\u0488A\u0301"
    assert visible(stacked) == "Z\u0351\u036b\u0313\\u036a\\u034f\\u0488A\u0301"
    assert visible(stacked) != visible(stacked.replace("\u034f", "\u0302"))
