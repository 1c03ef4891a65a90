"""The command `hit-dist`: its options, what it says when cached tokens are not there, and what it writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from llmtrace.cli import main

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
HEAD = "timestamp,input_tokens,output_tokens,cached_tokens,user,model,ttft_s"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """300 requests: two thirds hit 95 of 100 tokens, one third nothing; hits halve the time to first token; one is not logged."""
    rows = [
        f"{1_700_000_000 + row},100,20,{95 if row % 3 else 0},u{row % 2},m{row % 2},{0.1 if row % 3 else 0.2}"
        for row in range(900)
    ]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([HEAD, *rows, "1700001000,100,20,,u0,m0,0.1"]))
    return str(path)


def result_of(arguments: list[str], capsys: Capture) -> dict[str, Any]:
    assert main(["hit-dist", *arguments, "--format", "json", "--quiet"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_trace_is_measured(trace: str, capsys: Capture) -> None:
    result = result_of([trace], capsys)
    scalars = result["scalars"]
    assert (scalars["requests"], scalars["measured_requests"], scalars["unlogged_requests"]) == (901, 900, 1)
    assert [scalars[name] for name in ("token_hit_ratio", "mean_request_hit_ratio")] == pytest.approx([0.95 * 2 / 3] * 2)
    assert (scalars["share_zero"], scalars["share_full"]) == pytest.approx((1 / 3, 2 / 3))
    assert scalars["ttft_saved_s"] == pytest.approx(0.1, rel=0.02)
    assert scalars["ttft_saved_ratio"] == pytest.approx(0.5, rel=0.02)
    assert result["primary"] == "by_input_length"
    assert "users" not in result["tables"]
    assert result["notes"][0].startswith("1 of 901 requests does not log cached tokens")


def test_options_reach_the_analysis(trace: str, capsys: Capture) -> None:
    options = ["--highlight", "m1", "--zero-at", "0.1", "--full-at", "0.96", "--per-user", "--skip", "ttft"]
    result = result_of([trace, *options], capsys)
    parameters = {"highlight": ["m1"], "zero_at": 0.1, "full_at": 0.96, "per_user": True, "skip": ["ttft"]}
    assert result["parameters"] == parameters
    assert result["scalars"]["share_full"] == 0
    assert [row["user"] for row in result["tables"]["users"]] == ["u0", "u1"]
    assert {row["name"] for row in result["tables"]["cdf"] if row["scope"] == "model"} == {"m1"}
    assert result["tables"]["ttft_by_hit"] == []


def test_without_cached_tokens_it_says_what_is_needed_and_what_answers_without(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("timestamp,input_tokens,output_tokens\n1700000000,1,1\n")
    assert main(["hit-dist", str(path)]) == 4
    message, hint = capsys.readouterr().err.splitlines()
    assert message.startswith("llmtrace: error: hit-dist needs the column 'cached_tokens', which the trace does not have: ")
    assert "--map cached_tokens=COLUMN" in hint
    assert hint.endswith("without them, llmtrace sessions and llmtrace cache estimate reuse.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--zero-at", "2"], "--zero-at 2: not a hit ratio in thousandths"),
        (["--full-at", "0"], "--zero-at 0: not below --full-at 0"),
        (["--skip", "user"], "--skip user: there is no such part"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(trace: str, options: list[str], message: str, capsys: Capture) -> None:
    assert main(["hit-dist", trace, *options]) == 2
    assert capsys.readouterr().err.startswith(f"llmtrace: error: {message}\n")


def test_tables_and_figures_are_written(trace: str, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "report"
    assert main(["hit-dist", trace, "--output", str(folder), "--format", "csv", "--table", "histogram", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("hit_ratio_from,hit_ratio_to,requests,")
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    figures = {"histogram", "cdf_by_input_length", "cdf_by_model", "models", "users", "ttft_by_hit", "ttft_saved"}
    assert {"result.json", "by_model.csv", "by_user.csv", *(f"{name}.png" for name in figures)} <= names
    assert "users.csv" not in names
