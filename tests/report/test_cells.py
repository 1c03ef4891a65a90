"""Values as other programs read them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from pathlib import Path

import polars as pl
import pytest

from llmtrace.report.cells import plain_frame, plain_value, text_frame


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**100, 2**100),
        (0.1 + 0.2, 0.30000000000000004),
        (math.nan, None),
        (-math.inf, None),
        ("text", "text"),
        (datetime(2023, 11, 16, 18, 17, 3, 979960), "2023-11-16T18:17:03.979960Z"),
        (datetime(2023, 11, 16, 18), "2023-11-16T18:00:00Z"),
        (datetime(2023, 11, 16, 18, tzinfo=UTC), "2023-11-16T18:00:00Z"),
        (datetime(2023, 11, 16, 18, tzinfo=timezone(timedelta(hours=5))), "2023-11-16T13:00:00Z"),
        (date(2025, 4, 1), "2025-04-01"),
        (timedelta(minutes=1, microseconds=5), 60.000005),
        (Path("a/b"), str(Path("a/b"))),
        ({"b": (1, math.nan), 2: {"c": {3, 1}}}, {"b": [1, None], "2": {"c": [1, 3]}}),
    ],
)
def test_plain_value(value: object, expected: object) -> None:
    assert plain_value(value) == expected


def column(values: list[object], dtype: pl.DataType | type[pl.DataType]) -> pl.DataFrame:
    return pl.DataFrame({"x": pl.Series(values, dtype=dtype)})


WHOLE, FINE = datetime(2025, 4, 1, 12), datetime(2025, 4, 1, 12, 0, 0, 7)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (column([WHOLE, None], pl.Datetime("us")), ["2025-04-01T12:00:00Z", None]),
        (column([WHOLE, FINE], pl.Datetime("us")), ["2025-04-01T12:00:00.000000Z", "2025-04-01T12:00:00.000007Z"]),
        (column([WHOLE], pl.Datetime("ms")), ["2025-04-01T12:00:00Z"]),
        (
            column([datetime(2025, 4, 1, 12, tzinfo=UTC)], pl.Datetime("us", "UTC")).select(
                pl.col("x").dt.convert_time_zone("Asia/Tokyo")
            ),
            ["2025-04-01T12:00:00Z"],
        ),
        (column([date(2025, 4, 1), None], pl.Date), ["2025-04-01", None]),
        (column([time(1, 2, 3)], pl.Time), ["01:02:03"]),
        (column([timedelta(seconds=1.5), None], pl.Duration("ms")), [1.5, None]),
        (column([math.nan, math.inf, -math.inf, 1.5, None], pl.Float64), [None, None, None, 1.5, None]),
        (column([2**100, None], pl.Int128), [2**100, None]),
        (column([[1, None], None], pl.List(pl.Int64)), [[1, None], None]),
        (column([], pl.Datetime("us")), []),
    ],
)
def test_plain_frame(table: pl.DataFrame, expected: list[object]) -> None:
    before = table.clone()
    assert plain_frame(table)["x"].to_list() == expected
    assert table.equals(before)


def test_nested_cells_become_json_text() -> None:
    table = column([[1.5, math.nan], [], None], pl.List(pl.Float64)).with_columns(s=pl.struct(a=pl.lit('"'), b=1), n=1)
    texts = text_frame(table)
    assert texts["x"].to_list() == ["[1.5,null]", "[]", None]
    assert texts["s"].to_list() == ['{"a":"\\"","b":1}'] * 3
    assert texts["n"].to_list() == [1, 1, 1]
