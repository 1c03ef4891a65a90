"""Delivering a result: the result on standard output, what else there is to say on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl
import pytest

from llmtrace.commands.measuring import deliver
from llmtrace.options import Writing
from llmtrace.result import Result

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
RESULT = Result("show", {}, {"requests": 2}, {"rows": pl.DataFrame({"a": [1, 2]})}, "rows", notes=("The clock ticks in 3 s.",))


@pytest.mark.parametrize("form", ["csv", "json"])
def test_notes_go_to_standard_error_where_the_format_does_not_show_them_to_a_person(
    form: Literal["csv", "json"], capsys: Capture
) -> None:
    deliver(RESULT, Writing(form))
    assert capsys.readouterr().err == "llmtrace: note: The clock ticks in 3 s.\n"


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_notes_are_said_once(form: Literal["table", "markdown"], capsys: Capture) -> None:
    deliver(RESULT, Writing(form))
    said = capsys.readouterr()
    assert said.out.count("The clock ticks in 3 s.") == 1
    assert said.err == ""


def test_standard_output_carries_the_result_alone(capsys: Capture, tmp_path: Path) -> None:
    deliver(RESULT, Writing("csv", output=str(tmp_path / "out")))
    said = capsys.readouterr()
    assert said.out == "a\n1\n2\n"
    assert str(tmp_path / "out") in said.err


def test_quiet_silences_standard_error_and_keeps_notes_in_the_result(capsys: Capture) -> None:
    deliver(RESULT, Writing("json", quiet=True))
    said = capsys.readouterr()
    assert '"The clock ticks in 3 s."' in said.out
    assert said.err == ""
