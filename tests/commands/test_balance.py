"""The command `balance`: its options, what it says when a trace logged no instances, and what it writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from llmtrace.cli import main

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
HEAD = "timestamp,input_tokens,output_tokens,user,session,model,instance,cached_tokens"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Two minutes of sixty requests a second apart: one user with three sessions, three in four of its requests on i0."""
    rows = [f"{1_700_000_040 + row},900,100,u,s{row % 3},m,i{int(row % 4 == 3)},{600 * (row % 4 != 3)}" for row in range(120)]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([HEAD, *rows]))
    return str(path)


def result_of(arguments: list[str], capsys: Capture) -> dict[str, Any]:
    assert main(["balance", *arguments, "--format", "json", "--quiet"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_load_copies_and_hits_are_measured(trace: str, capsys: Capture) -> None:
    result = result_of([trace, "--min-requests", "120"], capsys)
    scalars = result["scalars"]
    assert (scalars["instances"], scalars["valid_minutes"], scalars["imbalance_max_mean"], scalars["cv"]) == (2, 2, 1.5, 0.5)
    assert (scalars["keys"], scalars["instances_per_key"], scalars["replication"]) == (2, 2, 2)
    assert [(row["instance"], row["tier"]) for row in result["tables"]["regimes"]] == [("i0", "high"), ("i1", "low")]
    assert (result["primary"], "heat_map" in result["tables"]) == ("load", False)
    assert [row["requests"] for row in result["tables"]["load_by_minute"]] == [60, 60]


def test_keys_windows_and_parts_can_be_chosen(trace: str, capsys: Capture) -> None:
    result = result_of([trace, "--by", "session", "--window", "1m", "--skip", "regimes", "--skip", "latency"], capsys)
    assert (result["scalars"]["keys"], result["scalars"]["windows"]) == (6, 2)
    assert result["tables"]["regime_users"] == []
    assert (result["scalars"]["regime_users"], result["scalars"]["mixed_users"]) == (None, None)
    chosen = ("by", "window", "skip")
    assert [result["parameters"][name] for name in chosen] == ["session", "1m", ["regimes", "latency"]]


def test_the_heat_map_is_read_where_it_is_asked_for(trace: str, capsys: Capture) -> None:
    result = result_of([trace, "--rows", "1"], capsys)
    assert [(row["row"], row["instance"], row["requests"]) for row in result["tables"]["heat_map"]] == [(1, "i0", 45)] * 2
    assert result["parameters"]["heat_map_rows"] == 1


def test_a_filter_bounds_the_heat_map_too(trace: str, capsys: Capture) -> None:
    result = result_of([trace, "--rows", "5", "--since", "2023-11-14T22:14:30", "--until", "2023-11-14T22:15:30"], capsys)
    assert sum(row["requests"] for row in result["tables"]["heat_map"]) == result["scalars"]["placed_requests"] == 60


def test_a_relative_clock_has_a_busiest_day_in_seconds(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "relative.csv"
    path.write_text(
        "\n".join(["timestamp,input_tokens,output_tokens,instance", *(f"{30 + 20 * row},9,1,i{row % 2}" for row in range(6))])
    )
    result = result_of([str(path), "--time-unit", "s", "--rows", "5"], capsys)
    assert result["scalars"]["busiest_day_time"] == -30
    assert [(row["instance"], row["time"], row["requests"]) for row in result["tables"]["heat_map"]] == [
        ("i0", -30, 1),
        ("i0", 30, 2),
        ("i1", -30, 1),
        ("i1", 30, 1),
        ("i1", 90, 1),
    ]


def test_a_trace_without_instances_is_told_what_to_do(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("timestamp,input_tokens,output_tokens,where\n1700000000,1,1,a\n")
    assert main(["balance", str(path)]) == 4
    error = capsys.readouterr().err.splitlines()
    assert error[0].startswith(
        "llmtrace: error: balance needs the column 'instance', the replica that served each request, which the"
    )
    assert "--map instance=COLUMN" in error[1]
    assert main(["balance", str(path), "--map", "instance=where", "--quiet"]) == 0


def test_tables_and_figures_are_written(trace: str, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "report"
    assert main(["balance", trace, "--min-requests", "50", "--output", str(folder), "--format", "csv", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith(
        "time,requests,instances,max_mean,jain,cv,tokens,tokens_per_s,minutes,valid_minutes\n"
    )
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {"result.json", "load.csv", "heat_map.csv", "load.png", "heat_map.png", "regimes.png"} <= names


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--window", "0s"], "--window 0s: not a length of time"), (["--by", "pod"], "--by pod: not a key")],
)
def test_what_makes_no_sense_is_a_usage_error(trace: str, options: list[str], message: str, capsys: Capture) -> None:
    assert main(["balance", trace, *options]) == 2
    assert capsys.readouterr().err.startswith(f"llmtrace: error: {message}\n")


def test_figures_of_what_is_left_out_are_left_out_in_silence(trace: str, tmp_path: Path, capsys: Capture) -> None:
    parts = [option for part in ("replication", "regimes", "latency") for option in ("--skip", part)]
    assert main(["balance", trace, *parts, "--figures", str(tmp_path / "figures")]) == 0
    assert "is not drawn" not in capsys.readouterr().err
    assert sorted(path.stem for path in (tmp_path / "figures").iterdir()) == ["heat_map", "load"]
