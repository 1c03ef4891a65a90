"""The command `latency`: its options, what it says when a trace has no latencies, and what it writes."""

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
    """A hundred requests a second apart, every other one streamed: half a second to the first token, two seconds in all."""
    rows = [f"{1_700_000_000 + row},3000,101,m{row % 2},i,{'true,0.5' if row % 2 else 'false,'},2.5" for row in range(100)]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["timestamp,input_tokens,output_tokens,model,instance,stream,ttft_s,duration_s", *rows]))
    return str(path)


def result_of(arguments: list[str], capsys: Capture) -> dict[str, Any]:
    assert main(["latency", *arguments, "--format", "json", "--quiet"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_latencies_come_from_streamed_requests(trace: str, capsys: Capture) -> None:
    result = result_of([trace], capsys)
    scalars = result["scalars"]
    assert (scalars["requests"], scalars["ttft_requests"], scalars["duration_requests"]) == (100, 50, 100)
    assert (scalars["ttft_p50_s"], scalars["duration_p50_s"], scalars["tpot_p50_s"], scalars["prefill_share_p50"]) == (
        0.5,
        2.5,
        0.02,
        0.2,
    )
    assert result["primary"] == "latencies"
    assert [row["measure"] for row in result["tables"]["latencies"]][:2] == ["ttft_s", "duration_s"]
    assert [row["model"] for row in result["tables"]["cdf"]][::101] == [None] * 6 + ["m0"] + ["m1"] * 6
    [cell] = result["tables"]["duration_grid"]
    assert cell == {"input_tokens": 2_000, "output_tokens": 0, "requests": 100, "duration_p50_s": 2.5, "duration_p90_s": 2.5}


def test_models_intervals_and_steps_can_be_chosen(trace: str, capsys: Capture) -> None:
    options = ["--highlight", "m1", "--interval", "10s", "--input-step", "1000", "--output-step", "50"]
    result = result_of([trace, *options], capsys)
    assert {row["model"] for row in result["tables"]["cdf"]} == {None, "m1"}
    assert [row["ttft_requests"] for row in result["tables"]["over_time"]] == [5] * 10
    [cell] = result["tables"]["ttft_grid"]
    assert (cell["input_tokens"], cell["output_tokens"], cell["requests"]) == (3_000, 100, 50)
    chosen = ("highlight", "interval", "input_step", "output_step")
    assert [result["parameters"][name] for name in chosen] == [["m1"], "10s", 1_000, 50]


def test_one_latency_is_enough(tmp_path: Path, capsys: Capture) -> None:
    for column, there, missing in (("ttft_s", "ttft_p50_s", "duration_p50_s"), ("duration_s", "duration_p50_s", "ttft_p50_s")):
        path = tmp_path / f"{column}.csv"
        path.write_text(f"timestamp,input_tokens,output_tokens,{column}\n1700000000,1,1,2.0\n")
        scalars = result_of([str(path)], capsys)["scalars"]
        assert (scalars[there], scalars[missing], scalars["decode_p50_s"]) == (2.0, None, None)


def test_a_trace_without_latencies_is_told_so(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("timestamp,input_tokens,output_tokens\n1700000000,1,1\n")
    assert main(["latency", str(path)]) == 4
    error = capsys.readouterr().err.splitlines()
    assert error[0] == "llmtrace: error: latency needs the column 'ttft_s' or 'duration_s', and the trace has neither"
    assert error[1].strip().startswith("The trace has: timestamp, input_tokens, output_tokens. Name the source column with --map")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input-step", "0"], "--input-step 0: out of range"),
        (["--output-step", "-1"], "--output-step -1: out of range"),
        (["--interval", "1x"], "--interval 1x: not a length of time"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(trace: str, options: list[str], message: str, capsys: Capture) -> None:
    assert main(["latency", trace, *options]) == 2
    assert capsys.readouterr().err.startswith(f"llmtrace: error: {message}\n")


def test_tables_and_figures_are_written(trace: str, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "report"
    assert main(["latency", trace, "--output", str(folder), "--format", "csv", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("measure,requests,mean,p5,p25,p50,p75,p90,p95,p99,max,min\n")
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {
        "result.json",
        "latencies.csv",
        "load.csv",
        "duration_cdf.png",
        "duration_grid.png",
        "ttft_grid.png",
        "over_time.png",
    } <= names
    assert json.loads((folder / "result.json").read_text())["tables"]["load"][0]["load_to_tokens_per_s"] == 5_000
