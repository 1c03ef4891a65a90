"""Groups of options: spread over a command's signature, and put together again."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

from llmtrace.cli import COMMANDS
from llmtrace.errors import UsageError
from llmtrace.options import Reading, Writing, spread


def command(reading: Reading, writing: Writing, top: int = 3) -> None:
    """Which?"""
    seen.append((reading, writing, top))


seen: list[tuple[Reading, Writing, int]] = []


def test_spread_shows_every_option_once_with_its_default() -> None:
    shown = inspect.signature(spread(command)).parameters
    assert list(shown) == [*(one.name for one in fields(Reading)), *(one.name for one in fields(Writing)), "top"]
    assert shown["sources"].default is inspect.Parameter.empty
    assert (shown["model"].default, shown["format"].default, shown["top"].default) == ([], "table", 3)


def test_spread_keeps_help_and_annotations() -> None:
    assert spread(command).__doc__ == "Which?"
    hints = get_type_hints(spread(command), include_extras=True)
    assert hints["since"] == get_type_hints(Reading, include_extras=True)["since"]
    assert hints["top"] is int


def test_spread_puts_groups_together() -> None:
    seen.clear()
    spread(command)(sources=["a", "b"], model=["m"], output="out", force=True, top=5)
    assert seen == [(Reading(["a", "b"], model=["m"]), Writing(output="out", force=True), 5)]


def test_defaults_of_lists_are_not_shared() -> None:
    assert Reading(["a"]).model is not Reading(["a"]).model


def test_reading_hands_everything_over(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("when,it,out,who\n5,1,2,me\n7,3,4,me\n")
    mapping = ["timestamp=when", "input_tokens=it", "output_tokens=out", "user=who"]
    reading = Reading(
        [str(tmp_path / "t.csv")], mapping=mapping, time_unit="s", strict=True, since="1s", user=["me"], where="input_tokens > 0"
    )
    trace = reading.open()
    assert trace.names == (str(tmp_path / "t.csv"),)
    assert trace.strict
    assert trace.columns == ("timestamp", "input_tokens", "output_tokens", "user")
    assert trace.filters.described() == {"since": "1s", "users": ["me"], "where": "input_tokens > 0"}


def test_mapping_may_hold_an_equals_sign(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("timestamp,a=b,output_tokens\n2025-01-01T00:00:00,1,2\n")
    trace = Reading([str(tmp_path / "t.csv")], mapping=["input_tokens=a=b"]).open()
    assert trace.opened[0].reading.cells["input_tokens"].sources == ("a=b",)


@pytest.mark.parametrize("pair", ["user", "user=", "=a", "who=a"])
def test_mapping_must_name_both_sides(pair: str) -> None:
    with pytest.raises(UsageError, match=f"--map {pair}"):
        Reading(["t.csv"], mapping=[pair]).open()


def test_writing_hands_everything_over() -> None:
    target = Writing("csv", "rates", "a", "b", "svg", force=True).target()
    assert (target.format, target.table, target.output, target.figures, target.figure_format, target.force) == (
        "csv",
        "rates",
        Path("a"),
        Path("b"),
        "svg",
        True,
    )


def test_an_empty_name_is_not_the_current_folder() -> None:
    with pytest.raises(UsageError, match="--output has an empty name"):
        Writing(output="").target()
    with pytest.raises(UsageError, match="--figures has an empty name"):
        Writing(figures="").target()


def test_what_replaces_and_what_is_quiet_is_declared_once() -> None:
    """Every command has both, with the same names and the same words."""
    declared = [
        {name: inspect.signature(spread(one)).parameters[name].annotation for name in ("force", "quiet")}
        for commands in COMMANDS.values()
        for one in commands
    ]
    assert all(one == declared[0] for one in declared)
