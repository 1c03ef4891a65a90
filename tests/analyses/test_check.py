"""Check: every kind of fault is found, counted and told; every later command learns what it would miss."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from llmtrace.analyses.check import NEEDS, Check, verdict
from llmtrace.cli import main
from llmtrace.engine.local import run
from llmtrace.engine.order import out_of_order_rows
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from llmtrace.result import Result

START = datetime(2025, 4, 11)
HEADER = "timestamp,input_tokens,output_tokens,cached_tokens,status,ttft_s,duration_s\n"


def checked(path: Path) -> Result:
    trace = open_trace(str(path))
    [scan] = run(trace, [Check()])
    return verdict(scan, out_of_order_rows(trace))


def problems(result: Result) -> dict[str, int]:
    return dict(result.tables["problems"].select("problem", "rows").iter_rows())


def faulty(folder: Path) -> Path:
    path = folder / "faulty.csv"
    rows = [
        "2025-04-11T00:00:00Z,100,10,50,ok,0.1,1.0",
        "2025-04-11T00:00:01Z,100,10,150,ok,0.1,1.0",  # more cached than input
        "2025-04-11T00:00:02Z,lots,10,,ok,0.1,1.0",  # unreadable
        "2025-04-11T00:00:03Z,-5,10,,ok,0.1,1.0",  # negative
        "2025-04-11T00:00:04Z,20000000,10,,ok,0.1,1.0",  # absurd
        "2025-04-11T00:00:05Z,100,10,,ok,2.0,1.0",  # first token after the last
        "2025-04-11T00:00:06Z,100,10,,ok,0.1,1.0",
        "2025-04-11T00:00:06Z,100,10,,ok,0.1,1.0",  # twice
        "not a time,100,10,,ok,0.1,1.0",
        "2025-04-11T09:00:07Z,,,,timeout,,",  # failed, after nine hours
        "2025-04-11T09:00:00Z,100,10,,ok,0.1,1.0",  # seven seconds back
    ]
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def test_every_fault_is_found_and_counted(tmp_path: Path) -> None:
    result = checked(faulty(tmp_path))
    assert dict(result.scalars) == {
        "rows": 10,
        "usable": "yes",
        "bad_rows": 3,
        "duplicate_rows": 1,
        "out_of_order_rows": 1,
        "tie_share": 1 / 9,
        "quantum_s": 1.0,
        "failed_requests": 1,
        "cached_above_input": 1,
        "first_timestamp": START,
        "last_timestamp": START + timedelta(hours=9, seconds=7),
    }
    assert problems(result) == {
        "no readable timestamp": 1,
        "cached above input tokens": 1,
        "unreadable input_tokens": 2,
        "earlier than the row before": 1,
        "duplicate rows": 1,
        "absurd: more than 10,000,000 input tokens": 1,
        "absurd: a first token later than the last one": 1,
        "no input_tokens although not failed": 2,
    }


def test_columns_tell_nulls_unreadable_cells_and_bounds(tmp_path: Path) -> None:
    columns = {row["column"]: row for row in checked(faulty(tmp_path)).tables["columns"].iter_rows(named=True)}
    assert list(columns) == HEADER.strip().replace(
        "cached_tokens,status,ttft_s,duration_s", "cached_tokens,ttft_s,duration_s,status"
    ).split(",")
    assert columns["timestamp"]["nulls"] == 1
    assert (columns["input_tokens"]["nulls"], columns["input_tokens"]["bad"]) == (3, 2)
    assert (columns["input_tokens"]["min"], columns["input_tokens"]["max"]) == (100, 20_000_000)
    assert columns["cached_tokens"]["max"] == 100
    assert columns["status"]["min"] is None


def test_many_rows_with_more_cached_than_input_suggest_the_other_mode(tmp_path: Path) -> None:
    path = tmp_path / "exclusive.csv"
    path.write_text(HEADER + "".join(f"2025-04-11T00:00:{second:02}Z,10,1,900,ok,0.1,1\n" for second in range(50)))
    advice = checked(path).tables["problems"].filter(pl.col("problem") == "cached above input tokens")["advice"].item()
    assert "--cached-mode exclusive" in advice


def test_a_newest_first_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "reversed.csv"
    path.write_text(HEADER + "".join(f"2025-04-11T00:00:{second:02}Z,10,1,,ok,0.1,1\n" for second in reversed(range(50))))
    result = checked(path)
    assert result.scalars["out_of_order_rows"] == 49
    advice = result.tables["problems"].filter(pl.col("problem") == "earlier than the row before")["advice"].item()
    assert advice.startswith("Newest first")


def test_long_gaps_are_listed_with_where_they_begin(tmp_path: Path) -> None:
    path = tmp_path / "hole.csv"
    seconds = [*range(300), *range(90_000, 90_300)]
    rows = [f"{(START + timedelta(seconds=second)).isoformat()}Z,10,1,,ok,0.1,1\n" for second in seconds]
    path.write_text(HEADER + "".join(rows))
    result = checked(path)
    assert problems(result) == {"long gaps in time": 1}
    assert result.tables["gaps"].row(0) == (START + timedelta(seconds=299), 89_701.0)


def test_each_command_learns_what_it_would_miss(tmp_path: Path) -> None:
    ready = {
        row["command"]: (row["ready"], row["missing"])
        for row in checked(faulty(tmp_path)).tables["commands"].iter_rows(named=True)
    }
    assert list(ready) == list(NEEDS)
    assert ready["stats"] == ("yes", None)
    assert ready["hit-dist"] == ("yes", None)
    assert ready["balance"] == ("no", "instance")
    assert ready["sessions"] == ("no", "user")
    assert ready["cache"] == ("no", "block_hashes or session or user")
    assert ready["latency"] == ("yes", None)


def test_every_number_is_defined(tmp_path: Path) -> None:
    result = checked(faulty(tmp_path))
    columns = {f"{name}.{column}" for name, table in result.tables.items() for column in table.columns}
    assert result.definitions.keys() == result.scalars.keys() | columns


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["check", *arguments, "--format", "json", "--quiet"])
    return code, json.loads(capsys.readouterr().out)


def test_an_unusable_trace_is_shown_and_ends_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mostly.csv"
    path.write_text("timestamp,input_tokens,output_tokens\n2025-04-11,1,1\n" + "whenever,1,1\n" * 3)
    code, found = answer(capsys, str(path))
    assert code == 3
    assert found["scalars"]["usable"] == "no"
    assert found["tables"]["problems"][0]["rows"] == 3


def test_mooncake_has_one_duplicate_and_a_clock_of_three_seconds(real_traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = answer(capsys, str(real_traces / "mooncake" / "conversation_trace.jsonl"))
    assert code == 0
    scalars = found["scalars"]
    assert (scalars["rows"], scalars["duplicate_rows"], scalars["quantum_s"]) == (12_031, 1, 3.0)
    assert scalars["tie_share"] == pytest.approx(0.902, abs=5e-4)
    assert scalars["last_timestamp"] - scalars["first_timestamp"] == pytest.approx(3536.999)


def test_azure_is_sound(real_traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = answer(capsys, str(real_traces / "azure_2023" / "AzureLLMInferenceTrace_code.csv"))
    assert code == 0
    assert found["tables"]["problems"] == []
    assert (found["scalars"]["tie_share"], found["scalars"]["quantum_s"]) == (0.0, 1e-6)
