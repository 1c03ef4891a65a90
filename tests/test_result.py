"""What a result says of itself: times without dates, tables by name."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl

from llmtrace.result import Result

START = datetime(1970, 1, 1, 5)


def test_a_relative_clock_has_neither_dates_nor_days_of_the_week() -> None:
    times = pl.Series([START, START + timedelta(seconds=90)], dtype=pl.Datetime("us"))
    tables = {
        "rates": pl.DataFrame({"time": times, "requests": [1, 2]}),
        "hour_of_week": pl.DataFrame({"weekday": [4, 4], "hour": [0, 1], "requests": [3, 0]}),
    }
    result = Result("stats", {}, {"first": START, "requests": 3}, tables, "rates", notes=("before",))
    relative = result.on_relative_clock(START)
    assert relative.scalars == {"first": 0.0, "requests": 3}
    assert relative.tables["rates"]["time"].to_list() == [0.0, 90.0]
    assert relative.tables["hour_of_week"].schema == tables["hour_of_week"].schema
    assert relative.tables["hour_of_week"].is_empty()
    assert relative.notes == ("before", "The trace is on a relative clock, which has no days of the week: hour_of_week is empty.")
    assert result.tables["hour_of_week"].height == 2
    assert relative.on_relative_clock(START).notes == relative.notes
