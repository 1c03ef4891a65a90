"""The command `sessions`: what it takes, what it says when something is missing, and the trace that it writes."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from llmtrace.cli import main

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
SAMPLE = "year"
HEADER = "timestamp,input_tokens,output_tokens,user,model,status"


@pytest.fixture(name="trace")
def _trace(tmp_path: Path) -> str:
    """Two users with conversations of three turns, every minute a turn; one request has failed, one has no user."""
    rows = [f"2025-04-11T00:0{turn}:0{user}Z,{100 * (turn + 1)},10,u{user},m{user},ok" for turn in range(3) for user in range(2)]
    rows += ["2025-04-11T00:05:00Z,500,1,u0,m0,timeout", "2025-04-11T00:06:00Z,500,1,,m0,ok"]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([HEADER, *rows]))
    return str(path)


def result_of(arguments: list[str], capsys: Capture) -> dict[str, Any]:
    assert main(["sessions", *arguments, "--format", "json", "--quiet"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_conversations_are_found(trace: str, capsys: Capture) -> None:
    result = result_of([trace], capsys)
    assert result["parameters"] == {"given": False, "k": 10, "max_gap_s": None, "by": ["user", "model"], "highlight": []}
    scalars = result["scalars"]
    assert (scalars["requests"], scalars["session_requests"], scalars["sessions"]) == (8, 6, 2)
    assert (scalars["mean_turns"], scalars["single_turn_share"]) == (3, 0)
    assert scalars["structural_reuse"] == (110 + 210) / 600
    assert scalars["gap_p50_s"] == 60
    assert "1 request has failed and belongs to no session." in result["notes"]
    assert "1 request does not say whose it is, and belongs to no session." in result["notes"]


def test_the_rule_can_be_changed(trace: str, capsys: Capture) -> None:
    result = result_of([trace, "--k", "2", "--max-gap", "30s", "--by", " user , model ", "--highlight", "m1"], capsys)
    assert result["parameters"] == {"given": False, "k": 2, "max_gap_s": 30.0, "by": ["user", "model"], "highlight": ["m1"]}
    assert result["scalars"]["sessions"] == 6
    assert {row["model"] for row in result["tables"]["lengths_by_model"]} == {"m1"}
    assert result_of([trace, "--sensitivity"], capsys)["tables"]["sensitivity"][0]["k"] == 1


def test_a_model_to_compare_that_is_not_there_is_told(trace: str, capsys: Capture) -> None:
    result = result_of([trace, "--highlight", "m1", "--highlight", "m9", "--highlight", "m8"], capsys)
    assert "No session is of 'm9' or of 'm8' (--highlight)." in result["notes"]
    assert not any("--highlight" in note for note in result_of([trace, "--highlight", "m1"], capsys)["notes"])
    assert not any("--highlight" in note for note in result_of([trace, "--highlight", "m9", "--by", "user"], capsys)["notes"])


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--k", "0"], 2, "--k 0: out of range"),
        (["--max-gap", "soon"], 2, "--max-gap soon: not a length of time"),
        (["--by", "stream"], 2, "--by stream: 'stream' cannot be part of a key"),
        (["--by", "user,instance"], 4, "sessions needs 'instance' to reconstruct sessions, which the trace does not have"),
        (["--given"], 4, "sessions --given needs the column 'session', which the trace does not have"),
        (["--given", "--sensitivity"], 2, "--sensitivity: sessions that the trace gives follow no rule"),
        (["--given", "--max-gap", "5m"], 2, "--given: sessions that the trace gives follow no rule"),
        (["--write", ""], 2, "--write has an empty name"),
        (["--write", "s3://bucket/trace"], 2, "--write s3://bucket/trace: only folders of this machine are written to"),
        (["--write", "a", "--output", "a"], 2, "--output a is in --write a"),
        (["--write", "a", "--figures", "a/b"], 2, "--figures a/b is in --write a"),
    ],
)
def test_what_makes_no_sense_is_told(trace: str, capsys: Capture, options: list[str], code: int, message: str) -> None:
    assert main(["sessions", trace, *options]) == code
    error = capsys.readouterr().err
    assert error.splitlines()[0] == f"llmtrace: error: {message}"
    assert len(error.splitlines()) == 2


def test_a_trace_without_users_says_what_to_do(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "t.csv"
    path.write_text("timestamp,input_tokens,output_tokens,model,key\n2025-04-11T00:00:00Z,5,1,m,a\n")
    assert main(["sessions", str(path)]) == 4
    assert capsys.readouterr().err.splitlines() == [
        "llmtrace: error: sessions needs 'user' to reconstruct sessions, which the trace does not have",
        "  Name the source column with --map user=COLUMN, or take another key with --by, of: model.",
    ]
    assert main(["sessions", str(path), "--map", "user=key", "--quiet"]) == 0


def frames(folder: Path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path, hive_partitioning=False) for path in sorted(folder.rglob("*.parquet"))])


def test_the_written_trace_has_its_sessions_and_nothing_less(tmp_path: Path, repository: Path, capsys: Capture) -> None:
    source, target = repository / "sample_traces" / "year", tmp_path / "with-sessions"
    arguments = ["--until", "3d", "--format", "json"]
    assert main(["sessions", str(source), *arguments, "--write", str(target)]) == 0
    captured = capsys.readouterr()
    result, whole = json.loads(captured.out), frames(source)
    assert f"wrote {target}: {result['provenance']['rows']:,} requests" in captured.err
    assert "note: The trace's own sessions are not in what was written: reconstructed ones stand there." in captured.err
    assert [path.name for path in target.iterdir()] == ["month=2025-04"]
    written = frames(target)
    assert written.columns == [*whole.columns, "prefix_tokens"]
    assert written.schema["turn"] == pl.Int32
    first = whole["timestamp"].min()
    assert isinstance(first, datetime)
    kept = whole.filter(pl.col("timestamp") < first + timedelta(days=3))
    same = [name for name in whole.columns if name not in {"session", "turn"}]
    assert_frame_equal(written.select(same), kept.select(same))
    known = written.filter(pl.col("session").is_not_null())
    assert known.height == result["scalars"]["session_requests"]
    assert known["session"].n_unique() == result["scalars"]["sessions"]
    assert known["prefix_tokens"].sum() == result["scalars"]["prefix_tokens"]
    assert written.filter(pl.col("session").is_null()).select("turn", "prefix_tokens").null_count().row(0) == (
        written.height - known.height,
        written.height - known.height,
    )
    again = result_of([str(target), "--given"], capsys)
    for name in ("sessions", "mean_turns", "structural_reuse", "last_turn_max", "gap_p90_s"):
        assert again["scalars"][name] == result["scalars"][name]
    for name in ("turns", "lengths", "gaps", "by_model"):
        assert again["tables"][name] == result["tables"][name]


def test_given_sessions_keep_their_names(tmp_path: Path, repository: Path, capsys: Capture) -> None:
    source, target = repository / "sample_traces" / "year", tmp_path / "written.parquet"
    assert main(["sessions", str(source), "--until", "1d", "--given", "--write", str(target), "--quiet"]) == 0
    capsys.readouterr()
    written = pl.read_parquet(target)
    assert set(written["session"].drop_nulls()) <= set(frames(source)["session"])
    turns = written.drop_nulls("turn").with_columns(pl.int_range(pl.len()).over("session", "model").alias("expected"))
    assert turns["turn"].to_list() == turns["expected"].to_list()


def test_a_destination_in_the_way_is_refused(trace: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["sessions", trace, "--write", str(tmp_path)]) == 2
    assert "is the source itself" in capsys.readouterr().err
    target = tmp_path / "there"
    for options, code in (([], 0), ([], 5), (["--force"], 0)):
        assert main(["sessions", trace, "--write", str(target), "--quiet", *options]) == code
    assert [path.name for path in target.iterdir()] == ["part-0.parquet"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_nothing_is_left_where_reading_fails(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\n2025-04-11T00:00:00Z,many,1,u,m,ok\n")
    assert main(["sessions", str(path), "--strict", "--write", str(tmp_path / "there")]) == 3
    assert "unreadable input_tokens" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["t.csv"]
