"""Sentences about counts are right for one of them too."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from llmtrace.cli import COMMANDS, main

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = "timestamp,input_tokens,output_tokens,user,model,endpoint,session,instance,cached_tokens,ttft_s,duration_s,status\n"
ROW = "2025-10-26 02:30:00,5,1,u,m,chat,s,i,9,0.1,2,ok\n"
WRONG_PLURAL = re.compile(
    r"(?<![\d,.])1 (?:of 1 )?(?:synthetic )?(?:requests|rows|times|gaps|users|models|keys|months|days|files|sessions)\b"
)
WRONG_VERB = re.compile(r"(?<![\d,.])1 of [\d,]+ \w+ (?:have|are|name|do|were)\b")
MEASURING = [command.__name__.replace("_", "-") for commands in COMMANDS.values() for command in commands]


@pytest.mark.parametrize("command", [name for name in MEASURING if name not in {"convert", "generate"}])
@pytest.mark.parametrize("rows", [ROW, ROW + "2025-10-26 02:30:00,x,1,,,,,,,,,ok,surplus\nnever,1,1,u,m,chat,s,i,,,,error\n"])
def test_what_is_one_is_said_as_one(command: str, rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text(COLUMNS + rows)
    call = [command, str(tmp_path / "t.csv"), "--tz", "Europe/Berlin"]
    main(call)
    out, err = capsys.readouterr()
    main([*call, "--format", "json"])
    notes = json.loads(capsys.readouterr().out)["notes"]
    said = " ".join([*out.splitlines()[:2], *err.splitlines(), *notes])
    assert notes
    assert not WRONG_PLURAL.findall(said), said
    assert not WRONG_VERB.findall(said), said


def test_what_is_one_is_said_as_one_where_traces_are_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text(COLUMNS + ROW)
    assert main(["convert", str(tmp_path / "t.csv"), str(tmp_path / "made")]) == 0
    assert main(["generate", str(tmp_path / "drawn"), "--requests", "1"]) == 0
    converted, generated = capsys.readouterr().err.splitlines()[-2:]
    assert converted.endswith(": 1 request")
    assert generated.endswith(": 1 synthetic request")


def test_less_than_a_percent_is_not_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("timestamp,input_tokens,output_tokens\n2025-04-11T00:59:59,1,1\n2025-04-11T02:00:01,1,1\n")
    assert main(["stats", str(tmp_path / "t.csv"), "--interval", "1h", "--format", "csv"]) == 0
    assert "the first interval to less than 1% and the last interval to less than 1% only" in capsys.readouterr().err
