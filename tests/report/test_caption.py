"""Where a result comes from, in words."""

from __future__ import annotations

from typing import Any

import pytest

from llmtrace.report.caption import caption, filters, period, rows, trace_name
from llmtrace.result import Result


def result(scalars: dict[str, Any] | None = None, **provenance: object) -> Result:
    return Result("stats", {}, scalars or {}, {}, "", provenance=provenance)


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([], "unnamed trace"),
        (["-"], "standard input"),
        (["/data/a.csv"], "a.csv"),
        (["C:\\data\\a.csv"], "a.csv"),
        (["s3://bucket/traces/2025/"], "2025"),
        (["/dev/fd/63"], "/dev/fd/63"),
        (["/proc/self/fd/63"], "/proc/self/fd/63"),
        (["a.csv", "b.csv", "c.csv", "d.csv"], "a.csv, b.csv, 2 more"),
        (["x" * 60], "x" * 24 + "…" + "x" * 23),
    ],
)
def test_trace_name(sources: list[str], expected: str) -> None:
    assert trace_name(result(sources=sources)) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("2023-11-16T18:17:03.979960Z", "2023-11-16T19:14:21Z", "2023-11-16 18:17:03 to 19:14:21 UTC"),
        ("2023-11-16T23:59:00Z", "2023-11-17T00:01:00Z", "2023-11-16 23:59:00 to 2023-11-17 00:01:00 UTC"),
        ("2023-11-16T00:00:00Z", "2023-11-16T23:59:59Z", "2023-11-16 00:00 to 23:59 UTC"),
        ("2024-05-10T00:00:00Z", "2024-05-18T23:59:59Z", "2024-05-10 00:00 to 2024-05-18 23:59 UTC"),
        ("2025-04-11T04:00:00Z", "2026-04-12T00:00:00Z", "2025-04-11 to 2026-04-12 UTC"),
        (None, None, ""),
    ],
)
def test_period(first: str | None, last: str | None, expected: str) -> None:
    assert period(result(clock="utc", first=first, last=last)) == expected


def test_a_relative_clock_has_no_dates() -> None:
    assert period(result({"span_s": 3536.999}, clock="relative")) == "58 min 57 s on a relative clock"
    assert period(result(clock="relative", first=60.0, last=3660.0)) == "1 h on a relative clock"
    assert period(result(clock="relative", first=None, last=None)) == ""


def test_filters_and_rows() -> None:
    told = result(filters={"since": "36h", "models": ["a", "b"], "users": [], "where": None}, rows=5, rows_read=7)
    assert filters(told) == "since 36h, model a or b"
    assert rows(told) == "5 of 7 rows"
    assert rows(result(rows=7, rows_read=7)) == "7 rows"
    assert rows(result()) == filters(result()) == ""


def test_caption_joins_what_is_known(year: Result, hour: Result) -> None:
    assert caption(hour) == "conversation_trace.jsonl · 58 min 57 s on a relative clock"
    assert caption(year).startswith("chutes_metadata.parquet · 2025-04-11 to 2026-04-11 UTC · since 2025-04-11, model ")
