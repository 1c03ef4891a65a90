from __future__ import annotations

from datetime import datetime

import polars as pl

from llmtrace.summaries import span

TIMES = [datetime(2025, 4, 11, 10), datetime(2025, 4, 11, 11), datetime(2025, 4, 12, 11, 0, 0, 500_000)]


def frame_of(times: list[datetime]) -> pl.LazyFrame:
    return pl.LazyFrame({"timestamp": times}, {"timestamp": pl.Datetime("us")})


def test_the_span_of_parts_is_that_of_the_whole() -> None:
    parts = [span.plan(frame_of(times)).collect() for times in ([], TIMES[:1], [], TIMES[1:])]
    found = span.read(span.combine(parts))
    assert found == span.Span(3, TIMES[0], TIMES[2])
    assert found.seconds == 25 * 3600 + 0.5
    assert span.combine(parts).equals(span.plan(frame_of(TIMES)).collect())


def test_without_requests_there_is_no_span() -> None:
    found = span.read(span.combine([span.plan(frame_of([])).collect()] * 2))
    assert found == span.Span(0, None, None)
    assert found.seconds is None
