"""Markdown as GitHub reads it."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pytest

from llmtrace.errors import UsageError
from llmtrace.report.markdown import dumps
from llmtrace.result import Result

SMALL = Result(
    command="stats",
    parameters={},
    scalars={"requests": 12_031, "span_s": 3536.999, "users": None, "stream": True},
    tables={
        "rates": pl.DataFrame({"time": [datetime(2025, 4, 1)], "requests": [12_031], "ratio": [0.1 + 0.2]}),
        "models": pl.DataFrame({"model": ["a|b*\n_c_", None], "blocks": [[1], None]}),
    },
    primary="rates",
    notes=("A note with <b>markup</b>.",),
    provenance={"sources": ["x/snake_case.csv"], "rows": 12_031, "rows_read": 12_032, "filters": {"where": "input_tokens > 0"}},
    definitions={"requests": "requests that arrived"},
)


def test_the_whole_text() -> None:
    assert dumps(SMALL) == (
        "# llmtrace stats: snake_case.csv\n"
        "\n"
        "12,031 of 12,032 rows, filters: where input_tokens \\> 0\n"
        "\n"
        "| name | value | definition |\n"
        "| --- | ---: | --- |\n"
        "| requests | 12031 | requests that arrived |\n"
        "| span_s | 3536.999 | \u2013 |\n"
        "| users | \u2013 | \u2013 |\n"
        "| stream | true | \u2013 |\n"
        "\n"
        "## rates\n"
        "\n"
        "| time | requests | ratio |\n"
        "| --- | ---: | ---: |\n"
        "| 2025-04-01T00:00:00Z | 12031 | 0.30000000000000004 |\n"
        "\n"
        "## models\n"
        "\n"
        "| model | blocks |\n"
        "| --- | --- |\n"
        "| a\\|b\\* \\_c\\_ | \\[1\\] |\n"
        "| \u2013 | \u2013 |\n"
        "\n"
        "## Notes\n"
        "\n"
        "- A note with \\<b\\>markup\\</b\\>.\n"
    )


def test_one_table_alone() -> None:
    text = dumps(SMALL, "models")
    assert "## models" in text
    assert "## rates" not in text
    assert "| name |" not in text
    assert "## Notes" in text


def test_a_name_cannot_draw_on_the_terminal() -> None:
    result = Result("check", {}, {}, {"columns": pl.DataFrame({"column": ["\x1b[31mred\x9b1m\r\na"]})}, "columns")
    assert "|  \\[31mred 1m a |" in dumps(result)


def test_an_unknown_table_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--table nonsense"):
        dumps(SMALL, "nonsense")


def test_no_row_is_left_out(year: Result) -> None:
    lines = dumps(year).splitlines()
    rows = sum(table.height for table in year.tables.values())
    assert sum(line.startswith("|") for line in lines) == rows + len(year.scalars) + 2 * (len(year.tables) + 1)
