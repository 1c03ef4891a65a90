"""The command `route` from the command line: options, outputs, and whatever is wrong told in two lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

from llmtrace.cli import main

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user with two conversations that take turns, each request in flight for two minutes."""
    monkeypatch.chdir(tmp_path)
    rows = [f"2025-05-01T00:0{row}:00,{10 * (row + 1)},5,u{row % 2},s{row % 2},120" for row in range(8)]
    (tmp_path / "trace.csv").write_text("\n".join(["timestamp,input_tokens,output_tokens,user,session,duration_s", *rows, ""]))
    return "trace.csv"


def call(arguments: list[str], capsys: Capture) -> tuple[int, str, str]:
    code = main(["route", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_grid(trace: str, capsys: Capture) -> None:
    options = ["--policy", "round-robin,sticky", "--policy", "score:beta=1", "--instances", "1,2", "--capacity", "20,unlimited"]
    code, out, _ = call([trace, *options, "--format", "csv", "--quiet"], capsys)
    assert code == 0
    table = pl.read_csv(out.encode())
    assert table["policy"].unique(maintain_order=True).to_list() == ["round-robin", "sticky", "score:beta=1"]
    assert table["instances"].to_list() == [1, 1, 2, 2] * 3
    assert table["capacity_tokens"].to_list() == [20, None, 20, None] * 3
    # Every turn but the first two finds all that its session left: 15, 25, ... of prompts 30, 40, ...
    unlimited = table.filter(pl.col("capacity_tokens").is_null(), policy="sticky")
    assert unlimited["token_hit_ratio"].to_list() == [sum(range(15, 75, 10)) / sum(range(10, 90, 10))] * 2


def test_to_say_how_sessions_are_reconstructed_is_to_ask_for_it(trace: str, capsys: Capture) -> None:
    for options, reconstructs in (([], False), (["--reconstruct"], True), (["--k", "3"], True), (["--max-gap", "1h"], True)):
        code, out, _ = call([trace, "--instances", "1", "--format", "json", "--quiet", *options], capsys)
        found = json.loads(out)
        assert (code, found["parameters"]["reconstruct"]) == (0, reconstructs)
        assert any("reconstructed" in note for note in found["notes"]) == reconstructs


def test_what_is_written(trace: str, tmp_path: Path, capsys: Capture) -> None:
    options = ["--instances", "2,3", "--capacity", "20,50", "--kv-model", "minimax-m2", "--search"]
    assert call([trace, *options, "--output", "report", "--quiet"], capsys)[0] == 0
    written = json.loads((tmp_path / "report" / "result.json").read_text())
    assert written["command"] == "route"
    assert written["primary"] == "tradeoff"
    assert list(written["tables"]) == ["tradeoff", "largest", "load", "searched", "pareto"]
    assert {"requests", "policies"} <= set(written["scalars"])
    columns = "policy instances capacity_tokens token_hit_ratio request_hit_ratio replication imbalance_ratio jain cv".split()  # noqa: SIM905
    assert list(written["tables"]["tradeoff"][0])[: len(columns)] == columns
    moved = written["tables"]["tradeoff"][0]
    assert moved["moved_bytes"] == moved["elsewhere_tokens"] * 253_952
    assert moved["move_s"] == pytest.approx(moved["moved_bytes"] / 10e9)
    figures = {path.stem for path in (tmp_path / "report").glob("*.png")}
    assert figures == {
        "hit_by_capacity",
        "imbalance_by_instances",
        "load_over_time",
        "pareto",
        "replication_by_capacity",
        "replication_by_instances",
    }


def test_prefill_and_decode(trace: str, capsys: Capture) -> None:
    code, out, _ = call([trace, "--prefill", "1", "--decode", "2", "--format", "json", "--quiet"], capsys)
    scalars = json.loads(out)["scalars"]
    assert (code, scalars["decode_instances"], scalars["transferred_tokens"]) == (0, 2, 360)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--policy", "fastest"], 2, "--policy fastest: there is no such policy"),
        (["--policy", "score:beta=x"], 2, "--policy score:beta=x: 'beta=x' is not NAME=NUMBER"),
        (["--instances", "two"], 2, "--instances two: not a whole number"),
        (["--instances", "-1"], 2, "--instances -1: not a whole number"),
        (["--instances", ""], 2, "--instances : not a whole number"),
        (["--instances", "0"], 2, "--instances 0: out of range"),
        (["--capacity", "much"], 2, "--capacity much: not a capacity"),
        (["--capacity", "0"], 2, "--capacity 0: not above zero"),
        (["--capacity", "1GiB"], 2, "--capacity 1GiB: bytes are no tokens"),
        (["--kv-model", "gpt-17"], 2, "--kv-model gpt-17: its shape is not known"),
        (["--kv-bytes-per-token", "0"], 2, "--kv-bytes-per-token 0: not above zero"),
        (["--decode", "2"], 2, "--prefill and --decode go together"),
        (["--prefill-tokens-per-s", "0"], 2, "--prefill-tokens-per-s 0: not above zero"),
        (["--seed", "-3"], 2, "--seed -3: out of range"),
        (["--k", "0"], 2, "--k 0: out of range"),
        (["--object", "block"], 4, "route --object block needs the column 'block_hashes', which the trace does not have"),
        (["--table", "front"], 2, "--table front: route has no such table"),
        (["--where", "nothing > 1"], 4, "--where"),
    ],
)
def test_wrong_input(trace: str, options: list[str], code: int, message: str, capsys: Capture) -> None:
    found, out, said = call([trace, *options], capsys)
    assert (found, out) == (code, "")
    first, hint = said.splitlines()
    assert first.startswith(f"llmtrace: error: {message}")
    assert hint.strip()


def test_an_output_in_the_way_is_told_before_anything_is_read(trace: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "result.json").write_text("mine")
    code, out, _ = call([trace, "--output", "report"], capsys)
    assert (code, out) == (5, "")
    assert (tmp_path / "report" / "result.json").read_text() == "mine"


def test_no_request_passes_the_filters(trace: str, capsys: Capture) -> None:
    code, out, _ = call([trace, "--where", "input_tokens > 1000", "--format", "json", "--quiet", "--search"], capsys)
    found = json.loads(out)
    assert (code, found["scalars"]["routed_requests"], found["scalars"]["input_tokens"]) == (0, 0, None)
    assert found["tables"]["load"] == []


def test_where_nothing_can_be_found_no_policy_is_praised(trace: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / trace).write_text(
        "timestamp,input_tokens,output_tokens,user,session\n2025-05-01T00:00:00,90,5,u,s\n2025-05-01T00:01:00,10,5,u,t\n"
    )
    code, out, _ = call([trace, "--instances", "2", "--capacity", "5000", "--format", "json", "--quiet"], capsys)
    notes = " ".join(json.loads(out)["notes"])
    assert code == 0
    assert "no policy finds anything" in notes
    assert "most is found" not in notes
