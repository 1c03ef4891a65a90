"""The command `cache`: its options, what it says of input that does not fit, and what it writes."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from llmtrace.cli import main

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
HEAD = "timestamp,input_tokens,output_tokens,session,model"
FIGURES = {"curve", "lru_curve", "histogram", "by_gap", "reuse_skew"}


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Thirty sessions in turn, each of four requests of 100, 200, 300 and 400 tokens."""
    rows = [f"{1_700_000_000 + row},{100 * (1 + row // 30)},10,s{row % 30},m" for row in range(120)]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([HEAD, *rows]))
    return str(path)


@pytest.fixture
def hashed(tmp_path: Path) -> str:
    """Prompts of blocks of 512 tokens, each the one before it and a block more, twice over."""
    rows = [
        {
            "timestamp": 1_000 * row,
            "input_length": 512 * (1 + row % 10),
            "output_length": 1,
            "hash_ids": list(range(1 + row % 10)),
        }
        for row in range(20)
    ]
    path = tmp_path / "hashed.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def result_of(arguments: list[str], capsys: Capture) -> dict[str, Any]:
    assert main(["cache", *arguments, "--format", "json", "--quiet"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def curve(result: dict[str, Any], policy: str) -> list[tuple[int | None, float]]:
    return [
        (row["capacity_tokens"], row["token_hit_ratio_prefix"]) for row in result["tables"]["curve"] if row["policy"] == policy
    ]


def test_sessions_are_replayed(trace: str, capsys: Capture) -> None:
    result = result_of([trace, "--policy", "lru", "--capacity", "12000,100%", "--policy", "fifo"], capsys)
    scalars = result["scalars"]
    assert (scalars["requests"], scalars["sessions_or_blocks"], scalars["working_set_tokens"]) == (120, 30, 3_000)
    # All thirty sessions come by before one comes again. 12,000 tokens have room for all: 100, 200 and 300 of 1,000 are found. In
    # 3,000 the first session finds its 100, grows, and the others are gone one after the other before they come again.
    assert curve(result, "lru") == [(3_000, 100 / 30_000), (12_000, 0.6)]
    assert curve(result, "ideal") == [(None, 0.6)]
    assert scalars["ideal_token_hit_ratio"] == 0.6
    assert scalars["ideal_token_hit_ratio_full"] == 0.9
    assert result["primary"] == "curve"
    assert {row["policy"] for row in result["tables"]["curve"]} == {"lru", "fifo", "ideal"}


def test_the_policies_of_the_figure_are_replayed_unless_told_otherwise(trace: str, capsys: Capture) -> None:
    result = result_of([trace], capsys)
    policies = dict.fromkeys(row["policy"] for row in result["tables"]["curve"])
    assert list(policies) == ["fifo", "lru", "arc", "gdsf", "sieve", "oracle", "ideal"]


def test_options_reach_the_replay(trace: str, capsys: Capture) -> None:
    options = [
        "--policy",
        "lru",
        "--capacity",
        "1MiB",
        "--kv-bytes-per-token",
        "64",
        "--warmup",
        "75%",
        "--ttl",
        "29s",
        "--keep-output",
    ]
    result = result_of([trace, *options], capsys)
    assert result["scalars"]["counted_requests"] == 30
    assert curve(result, "lru") == [(16_384, 310 / 400)]
    assert curve(result, "ttl") == [(16_384, 0.0), (None, 0.0)]
    assert result["parameters"] == {
        "policies": ["lru", "ttl"],
        "capacities": ["1MiB"],
        "object": "session",
        "leaves_only": False,
        "keep_output": True,
        "reconstruct": False,
        "warmup": 0.75,
        "ttl": "29s",
        "block_tokens": None,
        "kv_bytes_per_token": 64,
        "like": None,
    }


def test_blocks_are_replayed(hashed: str, capsys: Capture) -> None:
    result = result_of([hashed, "--policy", "lru", "--leaves-only", "--capacity", "10blocks", "--like", "aiperf"], capsys)
    assert result["scalars"]["working_set_tokens"] == 5_120
    # 0 + 1 + ... + 9 blocks, then 1 + 2 + ... + 10, of 110.
    assert curve(result, "lru") == [(5_120, 100 / 110)]
    assert [row["hit_ratio"] for row in result["tables"]["like"]] == [
        pytest.approx((sum(one / (one + 1) for one in range(10)) + 10) / 20)
    ]


def test_sessions_are_reconstructed(trace: str, tmp_path: Path, capsys: Capture) -> None:
    frame = pl.read_csv(trace).rename({"session": "user"})
    frame.write_csv(tmp_path / "users.csv")
    result = result_of([str(tmp_path / "users.csv"), "--policy", "lru", "--capacity", "12000"], capsys)
    assert result["parameters"]["reconstruct"] is True
    assert curve(result, "lru") == [(12_000, 0.6)]


def test_a_trace_in_two_files_and_filters(trace: str, tmp_path: Path, capsys: Capture) -> None:
    frame = pl.read_csv(trace)
    frame[60:].write_csv(tmp_path / "a.csv")
    frame[:60].write_csv(tmp_path / "b.csv")
    options = ["--policy", "lru", "--capacity", "5000"]
    whole, halves = (
        result_of([*sources, *options], capsys) for sources in ([trace], [str(tmp_path / name) for name in ("a.csv", "b.csv")])
    )
    assert halves["tables"] == whole["tables"]
    some = result_of([trace, *options, "--where", "input_tokens <= 200"], capsys)
    assert some["scalars"]["requests"] == 60


def test_no_request_passes_the_filters(trace: str, capsys: Capture) -> None:
    result = result_of([trace, "--model", "other", "--ttl", "5m"], capsys)
    assert (result["scalars"]["requests"], result["scalars"]["ideal_token_hit_ratio"]) == (0, None)
    assert "No request can be replayed: there is none." in result["notes"]


def test_tables_and_figures_are_written(trace: str, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "report"
    assert main(["cache", trace, "--output", str(folder), "--format", "csv", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("policy,capacity_tokens,request_hit_ratio,token_hit_ratio_full,")
    names = {path.name for path in folder.iterdir()}
    assert {"result.json", "curve.csv", "by_capacity.csv", "reuse_skew.csv", *(f"{name}.png" for name in FIGURES)} <= names


def test_the_terminal_shows_ratios_by_capacity(trace: str, capsys: Capture) -> None:
    assert main(["cache", trace, "--policy", "lru", "--capacity", "12000", "--warmup", "0.25"]) == 0
    said = capsys.readouterr().out
    assert "by_capacity  1 row" in said
    assert "The first 25 % of the requests warm the cache (--warmup)" in said


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--policy", "lru,mru"], 2, "--policy mru: there is no such policy"),
        (["--policy", "lru,"], 2, "--policy : there is no such policy"),
        (["--policy", "ttl"], 2, "--policy ttl needs a time to live"),
        (["--ttl", "0s"], 2, "--ttl 0s: not above zero"),
        (["--ttl", "5 apples"], 2, "--ttl 5 apples: not a length of time"),
        (["--capacity", "0"], 2, "--capacity 0: not above zero"),
        (["--capacity=-5"], 2, "--capacity -5: not a capacity"),
        (["--capacity", "5 apples"], 2, "--capacity 5 apples: not a capacity"),
        (["--capacity", "1e30"], 2, "--capacity 1e30: larger than any cache"),
        (["--capacity", "1e-9%"], 2, "--capacity 1e-9%: holds no token"),
        (["--capacity", "64GiB"], 2, "--capacity 64GiB: bytes are no tokens"),
        (["--capacity", "3blocks"], 2, "--capacity 3blocks: sessions have no blocks"),
        (["--kv-bytes-per-token", "0"], 2, "--kv-bytes-per-token 0: not above zero"),
        (
            ["--kv-bytes-per-token", "5", "--kv-model", "qwen3-32b"],
            2,
            "--kv-bytes-per-token together with --kv-model: they say the same",
        ),
        (["--kv-bytes-per-token", "1073741825"], 2, "--kv-bytes-per-token 1073741825: more than a token takes"),
        (["--kv-model", "gpt-2"], 2, "--kv-model gpt-2: its shape is not known"),
        (["--leaves-only"], 2, "--leaves-only: sessions have no leaves"),
        (["--block-size", "16"], 2, "--block-size: sessions have no blocks"),
        (["--like", "aiperf"], 2, "--like aiperf: it replays blocks, not sessions"),
        (["--warmup", "1"], 2, "--warmup 1: not a share from 0 to below 1"),
        (["--warmup", "half"], 2, "--warmup half: not a share"),
        (["--object", "block"], 4, "cache --object block needs the column 'block_hashes', which the trace does not have"),
        (["--reconstruct"], 4, "cache --reconstruct needs the column 'user', which the trace does not have"),
        (["--table", "nonsense"], 2, "--table nonsense: cache has no such table"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_makes_no_sense_is_two_lines(options: list[str], code: int, message: str, trace: str, capsys: Capture) -> None:
    assert main(["cache", trace, *options]) == code
    said = capsys.readouterr()
    first, second = said.err.splitlines()
    assert first.startswith(f"llmtrace: error: {message}")
    assert second.startswith("  ")
    assert said.out == ""


def test_the_policy_that_learns_needs_its_library(trace: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    assert main(["cache", trace, "--policy", "lrb"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    first, second = said.err.splitlines()
    assert "--policy lrb needs the library LightGBM" in first
    assert "pip install 'llmtrace-workload[lrb]'" in second


@pytest.mark.usefixtures("lightgbm_library")
def test_the_policy_that_learns_says_that_it_did_not(trace: str, capsys: Capture) -> None:
    result = result_of([trace, "--policy", "lru,lrb", "--capacity", "1000,4000"], capsys)
    assert curve(result, "lrb") == curve(result, "lru")
    assert {row["trainings"] for row in result["tables"]["curve"] if row["policy"] == "lrb"} == {0}
    assert any("Its model was never trained" in note for note in result["notes"])


def test_a_trace_that_says_nothing_of_what_requests_share(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("timestamp,input_tokens,output_tokens\n1700000000,1,1\n")
    assert main(["cache", str(path)]) == 4
    message, hint = capsys.readouterr().err.splitlines()
    assert "'block_hashes', 'session' and 'user'" in message
    assert "--map CANONICAL=COLUMN" in hint


def test_blocks_of_unknown_size(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "hashes.parquet"
    columns: dict[str, Any] = {"timestamp": [datetime(2025, 4, 11)], "input_tokens": [30], "output_tokens": [1]}
    hashes = pl.Series("block_hashes", [[1, 2]], pl.List(pl.UInt64))
    pl.DataFrame(columns).with_columns(pl.col("timestamp").cast(pl.Datetime("us")), hashes).write_parquet(path)
    assert main(["cache", str(path)]) == 2
    assert capsys.readouterr().err.splitlines()[0] == "llmtrace: error: The trace does not say how many tokens a block has"
    assert result_of([str(path), "--block-size", "16"], capsys)["parameters"]["block_tokens"] == 16


START = datetime(2025, 4, 11)
MINUTES = [START + timedelta(minutes=minute) for minute in range(50)]
ODD: dict[str, tuple[list[datetime], dict[str, Any]]] = {
    "regular": (MINUTES, {}),
    "at one instant": ([START] * 40, {}),
    "one": ([START], {}),
    "nothing but failures": (MINUTES, {"status": "error"}),
    "nothing but zeros": (MINUTES, {"input_tokens": 0}),
    "largest": (MINUTES, {"input_tokens": 2**63 - 1}),
    "as large as can be": (MINUTES, {"input_tokens": 2**31 - 1}),
    "far apart": ([datetime(1700, 1, 1), datetime(2200, 1, 1)], {}),
    "no names": (MINUTES, {"user": None, "model": None, "session": None}),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("options", [[], ["--reconstruct"], ["--keep-output", "--ttl", "5m", "--capacity", "50%"]], ids=str)
def test_odd_traces_are_replayed_without_a_warning(name: str, options: list[str], tmp_path: Path) -> None:
    times, columns = ODD[name]
    same: dict[str, Any] = {
        "input_tokens": 10,
        "output_tokens": 10,
        "user": "u",
        "model": "m",
        "session": "s",
        "status": "ok",
        **columns,
    }
    frame = pl.DataFrame({"timestamp": pl.Series(times, dtype=pl.Datetime("us"))})
    frame.with_columns(pl.lit(value).alias(column) for column, value in same.items()).write_parquet(tmp_path / "t.parquet")
    assert main(["cache", str(tmp_path / "t.parquet"), *options, "--output", str(tmp_path / "out"), "--format", "markdown"]) == 0
    assert (tmp_path / "out" / "result.json").exists()


def test_the_published_sessions_of_chutes(real_traces: Path, capsys: Capture) -> None:
    source = str(real_traces / "chutes" / "chutes_excerpt_36rows.csv")
    result = result_of([source, "--policy", "lru", "--capacity", "100%"], capsys)
    assert result["scalars"]["requests"] == 36
    assert result["parameters"]["object"] == "session"


def test_mooncake_by_the_command(real_traces: Path, capsys: Capture) -> None:
    source = str(real_traces / "mooncake" / "conversation_trace.jsonl")
    result = result_of([source, "--warmup", "0.5", "--policy", "lru", "--capacity", "352blocks,22550blocks"], capsys)
    assert [ratio for _, ratio in curve(result, "lru")] == pytest.approx([0.0454, 0.31659], abs=5e-6)
    assert result["scalars"]["ideal_token_hit_ratio"] == pytest.approx(0.398113, abs=5e-7)
    cold = result_of([source, "--policy", "fifo", "--capacity", "352blocks"], capsys)
    assert cold["scalars"]["ideal_token_hit_ratio"] == pytest.approx(0.373624, abs=5e-7)
