"""Which command has which figures, and what happens to those without data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from llmtrace.report import figures
from llmtrace.report.figures import stats
from llmtrace.result import Result

SOURCES = sorted(Path(figures.__file__).parents[1].rglob("*.py"))


def test_names() -> None:
    assert figures.names("stats") == (
        "requests",
        "tokens",
        "rates",
        "active_models",
        "endpoints",
        "hour_of_week",
        "input_tokens_cdf",
        "output_tokens_cdf",
        "ratio_cdf",
    )
    assert figures.names("check") == ()


def test_a_year_has_them_all(year: Result) -> None:
    assert tuple(name for name, _ in figures.figures(year, pytest.fail)) == figures.names("stats")


def test_without_requests_every_figure_says_why_it_is_not_there(year: Result) -> None:
    said: list[str] = []
    empty = replace(year, tables={name: table.clear() for name, table in year.tables.items()})
    for nothing in (empty, replace(year, tables={}), replace(empty, scalars={})):
        assert list(figures.figures(nothing, said.append)) == []
    assert [line.split(" is not drawn: ")[0] for line in said] == [f"Figure {name}" for name in figures.names("stats")] * 3


def test_a_command_without_figures_has_none() -> None:
    assert list(figures.figures(Result("check", {}, {}, {"a": pl.DataFrame()}, "a"), pytest.fail)) == []


@pytest.mark.parametrize("draw", stats.FIGURES.values())
def test_every_drawing_says_what_it_shows(draw: object) -> None:
    assert draw.__doc__


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: "-".join(source.parts[-2:]))
def test_no_global_state_of_matplotlib_is_used(source: Path) -> None:
    assert "pyplot" not in source.read_text(encoding="utf-8")
