"""The terminal table, as text of 80 columns: what is shown, and that nothing goes missing unsaid."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta

import polars as pl
import pytest
from rich.cells import cell_len

from llmtrace.errors import UsageError
from llmtrace.report.table import render
from llmtrace.result import Result, Scalar

ESCAPE = "\x1b"
PROVENANCE = {
    "sources": ["traces/code.csv"],
    "clock": "utc",
    "filters": {"models": ["m"]},
    "rows_read": 19_366,
    "rows": 8_819,
    "first": "2023-11-16T18:17:03.979960Z",
    "last": "2023-11-16T19:14:21Z",
}
SMALL = Result(
    command="stats",
    parameters={},
    scalars={
        "requests": 8_819,
        "users": None,
        "first_timestamp": datetime(2023, 11, 16, 18, 17, 3, 979960),
        "span_s": 3437.02,
        "requests_per_s": 2.566,
    },
    tables={
        "rates": pl.DataFrame(
            {
                "time": [datetime(2023, 11, 16, 18), datetime(2023, 11, 16, 19)],
                "requests": [7_000, 1_819],
                "failed_requests": [None, 12],
                "input_tokens_per_s": [3_512.5, 1_504.25],
                "users": pl.Series([None, None], dtype=pl.Int64),
            }
        ),
        "endpoints": pl.DataFrame(schema={"endpoint": pl.String}),
    },
    primary="rates",
    notes=("A note that is long enough to go on over the end of the first line of eighty columns.",),
    provenance=PROVENANCE,
    definitions={"requests": "requests that arrived, failed ones included"},
)
TEXT = """\
llmtrace stats  code.csv
2023-11-16 18:17:03 to 19:14:21 UTC, 8,819 of 19,366 rows
Filters: model m

requests                                 8,819
users                                        \u2013
first_timestamp  2023-11-16 18:17:03.97996 UTC
span_s                             57 min 17 s
requests_per_s                           2.566
Definitions: on a screen of 110 columns, or with --format json or markdown.

rates  2 rows
                              failed     input
time (UTC)        requests  requests  tokens/s
──────────────────────────────────────────────
2023-11-16 18:00     7,000         \u2013     3,512
2023-11-16 19:00     1,819        12     1,504
Not known (null in every row): users.

Other tables (rows): endpoints (0)
--table NAME shows one, --output DIR writes all of them and the figures.

Notes
- A note that is long enough to go on over the end of the first line of eighty
  columns.
"""


def of(table: pl.DataFrame, **provenance: object) -> Result:
    return Result("stats", {}, {}, {"rates": table}, "rates", provenance=provenance)


def body(table: pl.DataFrame, width: int = 80, **provenance: object) -> list[str]:
    """The lines below the table's name."""
    lines = render(of(table, **provenance), width=width).splitlines()
    return lines[next(place for place, line in enumerate(lines) if line.startswith("rates  ")) + 1 :]


def test_the_whole_text() -> None:
    assert render(SMALL) == TEXT


def test_plain_text_has_no_escapes_and_no_spaces_at_line_ends(year: Result) -> None:
    text = render(year)
    assert ESCAPE not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_color_changes_the_look_only() -> None:
    import re

    colored = render(SMALL, color=True)
    assert ESCAPE in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored).split() == TEXT.split()


def test_a_wide_screen_shows_definitions() -> None:
    lines = render(SMALL, width=120).splitlines()
    assert "requests                                 8,819  requests that arrived, failed ones included" in lines
    assert not any("Definitions" in line for line in lines)


@pytest.mark.parametrize("width", [40, 80, 110, 200])
def test_no_line_is_wider_than_the_screen(year: Result, hour: Result, width: int) -> None:
    texts = [render(result, width=width) for result in (year, hour, SMALL)] + [render(year, width=width, table="hour_of_week")]
    assert max(cell_len(line) for text in texts for line in text.splitlines()) <= width


def test_columns_that_do_not_fit_are_named(year: Result) -> None:
    text = " ".join(render(year).split())
    assert (
        "Too wide for 80 columns: requests_per_s, input_tokens_per_s, output_tokens_per_s, tokens_per_request; "
        "--format csv has all." in text
    )
    assert "Too wide" not in render(year, width=200)


def test_a_course_of_time_keeps_both_ends() -> None:
    start = datetime(2025, 4, 1)
    table = pl.DataFrame({"time": [start + timedelta(days=one) for one in range(100)], "requests": range(100)})
    lines = body(table)
    assert lines[1:] == [
        "─" * 20,
        *(f"2025-04-{one + 1:02}        {one:2}" for one in range(10)),
        "⋮                  ⋮",
        *(f"{start + timedelta(days=one):%Y-%m-%d}        {one}" for one in range(90, 100)),
        "20 of 100 rows shown; --format csv prints all.",
    ]


def test_any_other_order_keeps_its_head() -> None:
    table = pl.DataFrame({"model": [f"m{one}" for one in range(21)], "requests": range(21)})
    lines = body(table)
    assert lines[21:] == ["m19          19", "⋮             ⋮", "20 of 21 rows shown; --format csv prints all."]
    assert len(body(table.head(20))) == 22


def test_a_named_table_stands_alone_and_longer(year: Result) -> None:
    text = render(year, table="endpoints")
    assert text.splitlines()[0] == "llmtrace stats  chutes_metadata.parquet"
    assert "endpoints  2,196 rows" in text
    assert "1,000 of 2,196 rows shown; --format csv --table endpoints prints all." in text
    assert "requests_per_s" not in text
    assert "Other tables" not in text
    assert "Notes" in text
    assert "168 rows" in render(year, table="hour_of_week")
    assert "rows shown" not in render(year, table="hour_of_week")


def test_partial_rows_are_marked_where_no_width_can_cut_it_off() -> None:
    start = datetime(2025, 4, 1)
    table = pl.DataFrame(
        {"time": [start + timedelta(days=one) for one in range(3)], "users": [1, 2, 3], "partial": [True, False, True]}
    )
    assert body(table) == [
        "time (UTC)    users",
        "───────────────────",
        "2025-04-01 *      1",
        "2025-04-02        2",
        "2025-04-03 *      3",
        "* partial: the trace has only a part of it.",
    ]
    assert body(table.with_columns(partial=False))[0] == "time (UTC)  users  partial"


def test_a_mark_stands_in_its_row_where_rows_are_left_out() -> None:
    start = datetime(2025, 4, 1)
    days = [start + timedelta(days=one) for one in range(100)]
    lines = body(pl.DataFrame({"time": days, "partial": [day.day == 1 for day in days]}))
    assert [line for line in lines if line.endswith(" *")] == ["2025-04-01 *", "2025-07-01 *"]


def test_names_are_shortened_where_more_columns_fit_then() -> None:
    name = "0123456789abcdefghijklmnopqrstuvwxyz"
    table = pl.DataFrame({"model": [name, "m"], "requests": [1, 3], "gaps": [2, 4]})
    assert body(table, width=60)[2].split()[0] == name
    assert body(table, width=50)[2].split() == ["0123456789…rstuvwxyz", "1", "2"]
    alike = table.with_columns(model=pl.Series([name, name.replace("f", "g")]))
    assert body(alike, width=50)[2].split() == [name, "1"]


def test_an_unknown_table_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no such table"):
        render(SMALL, table="nonsense")


def test_an_empty_table_shows_its_columns() -> None:
    table = pl.DataFrame(schema={"time": pl.Datetime("us"), "requests": pl.Int64, "model": pl.String})
    assert render(of(table)).splitlines()[2:] == ["rates  0 rows", "time", "(UTC)  requests  model", "─" * 22]


def test_a_table_of_nulls_says_so() -> None:
    table = pl.DataFrame({"users": [None, None], "models": [None, None]}, schema={"users": pl.Int64, "models": pl.String})
    assert body(table) == ["Not known (null in every row): users, models."]


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        (pl.Series("time", [datetime(2025, 4, 1), datetime(2025, 5, 1)]), ["2025-04", "2025-05"]),
        (pl.Series("time", [datetime(2025, 4, 1), datetime(2025, 5, 2)]), ["2025-04-01", "2025-05-02"]),
        (pl.Series("time", [datetime(2025, 4, 1, 1), datetime(2025, 5, 1, 1)]), ["2025-04-01 01:00", "2025-05-01 01:00"]),
        (pl.Series("time", [datetime(2025, 4, 1), None]), ["2025-04-01", "\u2013"]),
        (pl.Series("time", [datetime(2025, 4, 1, 6, 30)]), ["2025-04-01 06:30"]),
        (
            pl.Series("time", [datetime(2025, 4, 1), datetime(2025, 4, 1, 0, 0, 5)]),
            ["2025-04-01 00:00:00", "2025-04-01 00:00:05"],
        ),
        (pl.Series("time", [datetime(2025, 4, 1, 6, 0, 0, 500)]), ["2025-04-01 06:00:00.000500"]),
        (pl.Series("month", [date(2025, 4, 1)]), ["2025-04-01"]),
        (pl.Series("ttl_s", [0.1, 900.0, None]), ["100 ms", "15 min", "\u2013"]),
        (pl.Series("gap", [timedelta(minutes=2)]), ["2 min"]),
        (pl.Series("tokens", [17_204_000_000, 950]), ["17.2 G", "950"]),
        (pl.Series("share", [0.5, 0.125]), ["0.500", "0.125"]),
        (pl.Series("weekday", [1, 7]), ["1", "7"]),
        (pl.Series("stream", [True, None]), ["true", "\u2013"]),
        (pl.Series("blocks", [[1, 2]]), ["[1,2]"]),
        (pl.Series("model", ["a" * 60]), ["a" * 20 + "…" + "a" * 19]),
        (pl.Series("model", ["[bold]x[/bold]", "日本"]), ["[bold]x[/bold]", "日本"]),
        (pl.Series("model", ["a\x1b[31m\n"]), ["a\\x1b[31m\\n"]),
    ],
)
def test_cells(column: pl.Series, cells: list[str]) -> None:
    lines = body(column.to_frame())
    rule = next(place for place, line in enumerate(lines) if line.startswith("─"))
    assert [line.strip() for line in lines[rule + 1 :]] == cells


def test_a_relative_clock_shows_elapsed_time() -> None:
    table = pl.DataFrame({"time": [-17.0, 0.0, 0.5, 183_600.25], "requests": [1, 2, 3, 4]})
    lines = body(table, clock="relative")
    assert lines[0].split() == ["time", "requests"]
    assert [line.rsplit(maxsplit=1)[0] for line in lines[2:]] == ["-00:00:17", "00:00:00", "00:00:00.5", "2 d 03:00:00.25"]
    apart = body(table.filter(pl.col("requests") != 3), clock="relative")
    assert [line.rsplit(maxsplit=1)[0] for line in apart[2:]] == ["-00:00:17", "00:00:00", "2 d 03:00:00"]
    first = Result("stats", {}, {"first_timestamp": 0.0, "span_s": 60.0}, {"t": table}, "t", provenance={"clock": "relative"})
    assert "first_timestamp    0 s\nspan_s           1 min\n" in render(first)


def test_scalars_of_every_kind() -> None:
    scalars: dict[str, Scalar] = {
        "name": "x\x1b",
        "usable": True,
        "month": date(2025, 4, 1),
        "quantum_s": 1e-6,
        "requests": 6_122_413_756,
    }
    text = render(Result("check", {}, scalars, {"t": pl.DataFrame()}, "t"))
    assert text.splitlines()[2:7] == [
        "name               x\\x1b",
        "usable               yes",
        "month         2025-04-01",
        "quantum_s           1 \u00b5s",
        "requests   6,122,413,756",
    ]


def test_parameters_in_json_are_said_in_words_and_rounded() -> None:
    found = [
        '{"shape": 0.16253709877502487, "scale_s": 536.7053723310612}',
        None,
        '{"scale_s": 87.2345341156602}',
        '{"name": "b"}',
    ]
    text = render(replace(SMALL, tables={"rates": pl.DataFrame({"parameters": found, "name": ["a{", "b", "c", "{d"]})}))
    assert [line.split("  ")[0] for line in text.splitlines() if line.endswith((" a{", " b", " c", " {d"))] == [
        "shape 0.1625, scale 8 min 57 s",
        "\u2013",
        "scale 1 min 27 s",
        '{"name": "b"}',
    ]
