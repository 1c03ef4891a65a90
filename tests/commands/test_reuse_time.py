"""The command `reuse-time`: its keys, what it says when they are not there, and what it writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from llmtrace.cli import main

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Two users who come back to a model every second, 30 times each; sessions of three requests; no instances."""
    rows = [f"{1_700_000_000 + row / 2:.1f},10,20,u{row % 2},m,s{row // 6}" for row in range(60)]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["timestamp,input_tokens,output_tokens,user,model,session", *rows]))
    return str(path)


def result_of(arguments: list[str], capsys: Capture) -> dict[str, Any]:
    assert main(["reuse-time", *arguments, "--format", "json", "--quiet"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_user_and_a_model_are_the_key(trace: str, capsys: Capture) -> None:
    result = result_of([trace], capsys)
    assert result["parameters"] == {"by": ["user", "model"], "min_gaps": 10, "highlight": []}
    scalars = result["scalars"]
    assert (scalars["keys"], scalars["gaps"], scalars["within_100ms"], scalars["within_1s"]) == (2, 58, 0.0, 1.0)
    assert scalars["p50_s"] == pytest.approx(1, rel=2**-12)
    assert result["primary"] == "anchors"
    assert [row["ttl_s"] for row in result["tables"]["anchors"]] == [0.1, 1.0, 10.0]
    [model] = result["tables"]["by_model"]
    assert (model["model"], model["users"], model["p50_s"]) == ("m", 2, pytest.approx(1, rel=2**-7))


def test_columns_gaps_and_models_can_be_chosen(trace: str, capsys: Capture) -> None:
    result = result_of([trace, "--by", " session , user ", "--min-gaps", "2", "--highlight", "m"], capsys)
    assert result["parameters"] == {"by": ["session", "user"], "min_gaps": 2, "highlight": ["m"]}
    assert (result["scalars"]["keys"], result["scalars"]["eligible_keys"]) == (20, 20)
    assert result["tables"]["by_model"] == []
    assert result["tables"]["by_month"][0]["users"] == 2


def test_a_key_that_the_trace_lacks_is_an_error_that_names_others(trace: str, capsys: Capture) -> None:
    assert main(["reuse-time", trace, "--by", "user,instance"]) == 4
    error = capsys.readouterr().err.splitlines()
    assert error[0] == "llmtrace: error: reuse-time --by user,instance needs what the trace does not have: 'instance'"
    assert (
        error[1].strip().startswith("Take another key with --by, of: user, model, session. Or name the source column with --map")
    )


def test_a_trace_without_any_key_is_told_so(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("timestamp,input_tokens,output_tokens\n1700000000,1,1\n")
    assert main(["reuse-time", str(path)]) == 4
    assert "'user', 'model'\n  No column is recognised that a key can be made of: if" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "ttft_s"], "--by ttft_s: 'ttft_s' cannot be part of a key"),
        (["--by", "user,user"], "--by user,user: not a list of different columns"),
        (["--by", ""], "--by : '' cannot be part of a key"),
        (["--min-gaps", "0"], "--min-gaps 0: out of range"),
        (["--min-gaps", "1001"], "--min-gaps 1001: out of range"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(trace: str, options: list[str], message: str, capsys: Capture) -> None:
    assert main(["reuse-time", trace, *options]) == 2
    assert capsys.readouterr().err.startswith(f"llmtrace: error: {message}\n")


def test_tables_and_figures_are_written(trace: str, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "report"
    assert main(["reuse-time", trace, "--output", str(folder), "--format", "csv", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("ttl_s,covered_ratio,covered_ratio_all,")
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {"result.json", "coverage.csv", "by_month.csv", "coverage.png", "tokens.png", "by_month.png", "by_model.png"} <= names
