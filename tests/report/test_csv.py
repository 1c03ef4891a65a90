"""CSV: what the standard library reads back."""

from __future__ import annotations

import csv
import io
import math
from datetime import date, datetime, timedelta

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.report.csv import dumps


def test_the_whole_text() -> None:
    table = pl.DataFrame(
        {
            "time": [datetime(2025, 4, 1, 6), None],
            "month": [date(2025, 4, 1), None],
            "requests": pl.Series([2**70, None], dtype=pl.Int128),
            "ratio": [0.1 + 0.2, math.nan],
            "model": ['a,"b"', ""],
            "stream": [True, None],
            "gap": [timedelta(seconds=2), None],
            "blocks": pl.Series([[1, 2], None], dtype=pl.List(pl.Int64)),
        }
    )
    assert dumps(table) == (
        "time,month,requests,ratio,model,stream,gap,blocks\n"
        '2025-04-01T06:00:00Z,2025-04-01,1180591620717411303424,0.30000000000000004,"a,""b""",true,2.0,"[1,2]"\n'
        ',,,,"",,,\n'
    )


def test_an_empty_table_has_its_header() -> None:
    assert dumps(pl.DataFrame(schema={"time": pl.Datetime("us"), "requests": pl.Int64})) == "time,requests\n"


@given(st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.text(st.characters(exclude_categories=["C"])))))
def test_floats_and_text_come_back_as_they_were(rows: list[tuple[float, str]]) -> None:
    table = pl.DataFrame(rows, schema={"x": pl.Float64, "t": pl.String}, orient="row")
    read = list(csv.DictReader(io.StringIO(dumps(table))))
    assert [(float(row["x"]), row["t"]) for row in read] == rows
