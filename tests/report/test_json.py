"""The JSON contract: keys, order, times, nulls, and that nothing is lost."""

from __future__ import annotations

import json
import math
from datetime import datetime

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.report.json import dumps
from llmtrace.result import Result

SMALL = Result(
    command="stats",
    parameters={"interval": "1h", "quantiles": [0.5, math.nan]},
    scalars={"requests": 2, "first_timestamp": datetime(2023, 11, 16, 18, 17, 3, 979960), "users": None, "cv": math.inf},
    tables={
        "rates": pl.DataFrame({"time": [datetime(2025, 4, 1), None], "requests": [2**70, 1], "cv": [math.nan, 0.1 + 0.2]}),
        "empty": pl.DataFrame(schema={"a": pl.Int64}),
    },
    primary="rates",
    notes=('A "quoted" note\u2028.',),
    provenance={"sources": ["a.csv"], "filters": {}},
    definitions={"requests": "requests that arrived"},
)
TEXT = """\
{
  "command": "stats",
  "parameters": {
    "interval": "1h",
    "quantiles": [0.5, null]
  },
  "scalars": {
    "requests": 2,
    "first_timestamp": "2023-11-16T18:17:03.979960Z",
    "users": null,
    "cv": null
  },
  "tables": {
    "rates": [
      {"time":"2025-04-01T00:00:00Z","requests":1180591620717411303424,"cv":null},
      {"time":null,"requests":1,"cv":0.30000000000000004}
    ],
    "empty": []
  },
  "primary": "rates",
  "notes": [
    "A \\"quoted\\" note\u2028."
  ],
  "provenance": {
    "sources": ["a.csv"],
    "filters": {}
  },
  "definitions": {
    "requests": "requests that arrived"
  }
}
"""


def test_the_whole_text() -> None:
    assert dumps(SMALL) == TEXT


def test_a_bare_result() -> None:
    bare = json.loads(dumps(Result("check", {}, {}, {"problems": pl.DataFrame()}, "problems")))
    assert bare["tables"] == {"problems": []}
    assert bare["notes"] == []
    assert bare["scalars"] == bare["parameters"] == bare["provenance"] == {}


def test_every_number_of_a_year_survives(year: Result) -> None:
    read = json.loads(dumps(year))
    assert list(read) == ["command", "parameters", "scalars", "tables", "primary", "notes", "provenance", "definitions"]
    assert list(read["tables"]) == list(year.tables)
    for name, table in year.tables.items():
        rows = [
            {key: f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value for key, value in row.items()}
            for row in table.iter_rows(named=True)
        ]
        assert read["tables"][name] == rows
        assert all(list(row) == table.columns for row in read["tables"][name])


@given(st.lists(st.floats(), min_size=1), st.text())
def test_floats_and_text_come_back_as_they_were(values: list[float], text: str) -> None:
    table = pl.DataFrame({"x": values}).with_columns(t=pl.lit(text))
    read = json.loads(dumps(Result("stats", {text: text}, {text: 1}, {"a": table}, "a", (text,))))
    assert [row["x"] for row in read["tables"]["a"]] == [value if math.isfinite(value) else None for value in values]
    assert {row["t"] for row in read["tables"]["a"]} == {text}
    assert read["parameters"] == {text: text}
    assert read["notes"] == [text]
