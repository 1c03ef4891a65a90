"""Whatever a user gives `stats` that cannot work: two lines, the right exit code, no traceback, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import polars as pl
import pytest

from llmtrace.cli import main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
Error = tuple[int, str, str]

ROWS = "timestamp,input_tokens,output_tokens,model\n2025-01-01T00:00:00,100,10,a\n2025-01-01T00:00:30,50,,b\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, so that messages hold no path but the one given."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def trace(folder: Path) -> str:
    """A trace of two requests."""
    (folder / "trace.csv").write_text(ROWS)
    return "trace.csv"


def stats(arguments: Sequence[str], capsys: Capture) -> Error:
    """Exit code, message and hint of a call that must fail with nothing but these two lines."""
    code = main(["stats", *arguments])
    said = capsys.readouterr()
    assert said.out == ""
    message, hint = said.err.splitlines()
    assert message.startswith("llmtrace: error: ")
    assert hint.startswith("  ")
    return code, message.removeprefix("llmtrace: error: "), hint.strip()


def program(arguments: Sequence[str]) -> list[str]:
    """The same as a program of its own."""
    return [sys.executable, "-m", "llmtrace", "stats", *arguments]


def test_right_input(trace: str, capsys: Capture) -> None:
    assert main(["stats", trace, "--format", "csv", "--interval", "1m"]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("time,requests,")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("blank.csv", b"\n\n"),
        ("header.csv", b"timestamp,input_tokens,output_tokens\n"),
        ("empty.jsonl", b""),
        ("empty.parquet", b""),
        ("text.parquet", b"this is no Parquet file"),
        ("noise.csv", bytes(range(256)) * 8),
        ("cut.csv.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x2b"),
        ("other.csv", b"colour,shape\nred,round\n"),
        ("no_time.csv", b"timestamp,input_tokens,output_tokens\nyesterday,1,1\n"),
        ("brackets.jsonl", b'{"timestamp": 1, "input_tokens"\n'),
    ],
)
def test_unusable_files(name: str, content: bytes, folder: Path, capsys: Capture) -> None:
    (folder / name).write_bytes(content)
    code, message, _ = stats([name], capsys)
    assert code in {3, 4}
    assert name in message


def test_missing_file(folder: Path, capsys: Capture) -> None:
    assert stats(["nowhere.csv"], capsys)[0] == 3
    assert stats([str(folder / "*.parquet")], capsys)[0] == 3


def test_folder_without_a_trace(folder: Path, capsys: Capture) -> None:
    (folder / "empty").mkdir()
    code, message, _ = stats(["empty"], capsys)
    assert code == 3
    assert "empty" in message


def test_truncated_parquet(folder: Path, capsys: Capture) -> None:
    pl.DataFrame({"timestamp": [1], "input_tokens": [1], "output_tokens": [1]}).write_parquet(folder / "whole.parquet")
    (folder / "cut.parquet").write_bytes((folder / "whole.parquet").read_bytes()[:-20])
    code, message, _ = stats(["cut.parquet"], capsys)
    assert code == 3
    assert "cut.parquet" in message


def test_parquet_damaged_in_its_data(folder: Path, capsys: Capture) -> None:
    times = pl.datetime_range(pl.datetime(2025, 1, 1), pl.datetime(2025, 1, 2), "1s", eager=True).cast(pl.Datetime("us"))
    frame = pl.DataFrame({"timestamp": times}).with_columns(
        input_tokens=pl.int_range(pl.len()), output_tokens=pl.int_range(pl.len())
    )
    frame.write_parquet(folder / "whole.parquet")
    damaged = bytearray((folder / "whole.parquet").read_bytes())
    damaged[4 : len(damaged) // 2] = bytes(len(damaged) // 2 - 4)
    (folder / "damaged.parquet").write_bytes(damaged)
    code, message, _ = stats(["damaged.parquet"], capsys)
    assert code == 3
    assert "damaged.parquet" in message


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_no_permission(trace: str, folder: Path, capsys: Capture) -> None:
    (folder / trace).chmod(0)
    code, message, _ = stats([trace], capsys)
    assert code == 3
    assert trace in message


def test_column_that_is_not_there(trace: str, capsys: Capture) -> None:
    assert stats([trace, "--map", "user=who"], capsys)[0] == 4
    assert stats([trace, "--where", "ttft_s > 1"], capsys)[0] == 4
    assert stats([trace, "--user", "me"], capsys)[0] == 4


@pytest.mark.parametrize(
    "arguments",
    [
        ["--from", "nonsense"],
        ["--where", "input_tokens >"],
        ["--where", "sum(input_tokens) > 1"],
        ["--where", "input_tokens + 1"],
        ["--since", "yesterday"],
        ["--since", "2025-01-02", "--until", "2025-01-01"],
        ["--tz", "Europe/Nowhere"],
        ["--table", "nonsense"],
        ["--format", "parquet"],
        ["--format", "json", "--table", "rates"],
    ],
    ids=" ".join,
)
def test_wrong_options(arguments: list[str], trace: str, capsys: Capture) -> None:
    code, message, _ = stats([trace, *arguments], capsys)
    assert code == 2
    assert arguments[0] in message


def test_unreadable_numbers_are_said_and_strict_refuses_them(folder: Path, capsys: Capture) -> None:
    (folder / "trace.csv").write_text(ROWS + "2025-01-01T00:01:00,many,1,a\n")
    assert main(["stats", "trace.csv", "--format", "csv"]) == 0
    said = capsys.readouterr()
    assert "llmtrace: note: 1 of 3 rows" in said.err
    code, message, _ = stats(["trace.csv", "--strict"], capsys)
    assert code == 3
    assert "1 of 3 rows" in message


def test_no_request_passes_the_filters(trace: str, capsys: Capture) -> None:
    assert main(["stats", trace, "--model", "c", "--format", "json"]) == 0
    said = capsys.readouterr()
    assert '"requests": 0' in said.out
    assert "note: No request passes the filters" in said.err


def test_output_in_the_way(trace: str, folder: Path, capsys: Capture) -> None:
    (folder / "file").touch()
    assert stats([trace, "--output", "file"], capsys)[0] == 5
    (folder / "out").mkdir()
    (folder / "out" / "result.json").write_text("mine")
    code, message, hint = stats([trace, "--output", "out"], capsys)
    assert code == 5
    assert "result.json" in message
    assert "--force" in hint
    assert [path.name for path in (folder / "out").iterdir()] == ["result.json"]
    assert (folder / "out" / "result.json").read_text() == "mine"


def test_quiet_leaves_standard_error_empty(trace: str, folder: Path, capsys: Capture) -> None:
    assert main(["stats", trace, "--quiet", "--format", "csv", "--output", "out"]) == 0
    assert capsys.readouterr().err == ""
    assert (folder / "out" / "result.json").exists()


def test_closed_pipe_is_quiet(trace: str) -> None:
    with subprocess.Popen(program([trace, "--quiet"]), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")  # noqa: PTH110
def test_full_standard_output_is_two_lines(trace: str) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(program([trace, "--quiet"]), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 5
    assert len(done.stderr.splitlines()) == 2


def press_ctrl_c(running: subprocess.Popen[bytes]) -> None:
    """As often as it takes: a signal between two reads is noticed only when the next one ends."""
    for _ in range(10):
        running.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            running.wait(2)
            return
    running.kill()


def test_ctrl_c_is_quiet_and_leaves_nothing(folder: Path) -> None:
    scratch = folder / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    arguments = program(["-", "--output", "out"])
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        # More than a pipe holds: once this is written, the program is reading.
        running.stdin.write(ROWS.encode() + b"2025-01-01T00:01:00,1,1,a\n" * 10_000)
        running.stdin.flush()
        press_ctrl_c(running)
        assert running.stderr.read() == b""
    assert running.returncode == 130
    assert list(scratch.iterdir()) == []
    assert not (folder / "out").exists()
