"""Whatever a user gives `stats` that cannot work: two lines, the right exit code, no traceback, nothing left behind."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llmtrace.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
Error = tuple[int, str, str]
NOBODY = 65534

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


EMPTY = "Give a file with requests in it, or leave this one out."
DAMAGED = "Copy or download the file again; if it is text, look for a quote that is not closed."
NO_TIME = "Write times in ISO 8601 (2025-12-31T10:00Z) or numbers with --time-unit; --map timestamp=COLUMN names another column."
NOT_TEXT = "Give Parquet, CSV, TSV or JSON lines, plain or in gzip, zstd or zip; a spreadsheet must be saved as CSV first."


@pytest.mark.parametrize(
    ("name", "content", "code", "message", "hint"),
    [
        ("empty.csv", b"", 3, "empty.csv is empty", EMPTY),
        ("blank.csv", b"\n\n", 3, "blank.csv is empty", EMPTY),
        ("empty.jsonl", b"", 3, "empty.jsonl is empty", EMPTY),
        ("empty.parquet", b"", 3, "empty.parquet is empty", EMPTY),
        ("header.csv", b"timestamp,input_tokens,output_tokens\n", 3, "header.csv: there is no row", EMPTY),
        (
            "dates.csv",
            b"timestamp,input_tokens,output_tokens\n,1,1\n31/12/2025 10:00,1,1\n",
            3,
            "dates.csv: no row has a readable timestamp: '31/12/2025 10:00' in 'timestamp' is no time",
            NO_TIME,
        ),
        (
            "untimed.csv",
            b"timestamp,input_tokens,output_tokens\n,1,1\n",
            3,
            "untimed.csv: no row has a readable timestamp",
            "Name the time column with --map timestamp=COLUMN.",
        ),
        ("noise.csv", bytes(range(256)) * 8, 3, "noise.csv is neither Parquet nor text", NOT_TEXT),
        (
            "other.csv",
            b"colour,shape\nred,round\n",
            4,
            "other.csv: no column is recognised as 'timestamp', 'input_tokens', 'output_tokens'",
            "Name them, as in --map timestamp=COLUMN. other.csv has the columns: colour, shape.",
        ),
        (
            "cut.csv.gz",
            gzip.compress(ROWS.encode(), mtime=0)[:-9],
            3,
            "cut.csv.gz is damaged: Compressed file ended before the end-of-stream marker was reached",
            DAMAGED,
        ),
        (
            "brackets.jsonl",
            b'{"timestamp": 1, "input_tokens"\n',
            3,
            "brackets.jsonl is not JSON to its end: ':' is missing",
            "Export it again, best as JSON lines (one object a line).",
        ),
    ],
)
def test_unusable_files(name: str, content: bytes, code: int, message: str, hint: str, folder: Path, capsys: Capture) -> None:
    (folder / name).write_bytes(content)
    assert stats([name], capsys) == (code, message, hint)


def test_parquet_whose_times_are_all_out_of_bounds(folder: Path, capsys: Capture) -> None:
    far = pl.Series("timestamp", [10**18]).cast(pl.Datetime("us"))
    far.to_frame().with_columns(input_tokens=pl.lit(1), output_tokens=pl.lit(1)).write_parquet(folder / "far.parquet")
    code, message, hint = stats(["far.parquet"], capsys)
    assert (code, hint) == (3, NO_TIME)
    assert message.startswith("far.parquet: no row has a readable timestamp: '")


def test_missing_files(trace: str, capsys: Capture) -> None:
    assert stats(["tracy.csv"], capsys) == (3, "tracy.csv does not exist", f"Did you mean {trace}?")
    assert stats(["*.parquet"], capsys)[:2] == (3, "*.parquet matches no file")


def test_folder_without_a_trace(folder: Path, capsys: Capture) -> None:
    (folder / "nothing").mkdir()
    assert stats(["nothing"], capsys)[:2] == (3, "nothing holds no trace files")


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


@pytest.mark.parametrize("beyond_us", [10**15, 2**61])
def test_parquet_with_times_beyond_its_own_statistics(folder: Path, capsys: Capture, beyond_us: int) -> None:
    first = 1_735_689_600_000_000
    times = pa.array([first, first + 77_777, first + 200_000], pa.timestamp("us"))
    table = pa.table({"timestamp": times, "input_tokens": [1, 2, 3], "output_tokens": [4, 5, 6]})
    pq.write_table(table, folder / "whole.parquet", compression="none", use_dictionary=False)
    content = (folder / "whole.parquet").read_bytes()
    middle, later = ((first + offset).to_bytes(8, "little") for offset in (77_777, beyond_us))
    assert content.count(middle) == 1
    (folder / "rotten.parquet").write_bytes(content.replace(middle, later))
    code, message, hint = stats(["rotten.parquet"], capsys)
    assert code == 3
    assert message.endswith("rotten.parquet: there are times beyond those that the file's own statistics give")
    assert hint


@pytest.mark.parametrize("command", ["stats", "burstiness", "reuse-time"])
def test_parquet_that_is_not_sorted_as_it_says(command: str, folder: Path, capsys: Capture) -> None:
    frame = pl.DataFrame({"timestamp": pl.datetime_range(datetime(2025, 1, 1), datetime(2025, 1, 2), "1m", eager=True)})
    frame = frame.with_columns(pl.lit("a").alias(name) for name in ("user", "model")).with_columns(
        input_tokens=1, output_tokens=2
    )
    found = []
    for name, rows in (("sound", frame), ("lying", frame.sample(fraction=1, shuffle=True, seed=1))):
        pq.write_table(rows.to_arrow(), folder / f"{name}.parquet", sorting_columns=[pq.SortingColumn(0)])
        assert main([command, f"{name}.parquet", "--format", "json", "--quiet"]) == 0
        result = json.loads(capsys.readouterr().out)
        found.append((result["scalars"], result["tables"]))
    assert found[0] == found[1]


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may read everything: step down for a while."""
    before = os.geteuid()
    os.seteuid(before or NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions are of another kind here")
@pytest.mark.parametrize("name", ["trace.csv", "trace.parquet"])
def test_no_permission(name: str, trace: str, folder: Path, capsys: Capture) -> None:
    pl.read_csv(trace, try_parse_dates=True).write_parquet("trace.parquet")
    assert main(["stats", name, "--quiet"]) == 0, "and everything is imported that may not be readable to others"
    capsys.readouterr()
    (folder / name).chmod(0)
    folder.chmod(0o755)
    with unprivileged():
        error = stats([name], capsys)
    assert error == (3, f"{name} cannot be read: Permission denied", "Check the file's permissions.")


PREDICATE = "Give a SQL predicate on canonical columns, as in --where \"input_tokens > 1000 AND model LIKE 'org/%'\"."
WIDTH = "Give a whole number and a unit, one of s, m, h, d, w, as in 15m, 1h or 1d."
COLUMNS = "timestamp, input_tokens, output_tokens, model"
TABLES = "rates, endpoints, streaming, hour_of_week, lengths, lengths_by_model, length_cdf"


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (["--map", "user=who"], 4, "--map user=who: trace.csv has no column 'who'", f"It has: {COLUMNS}."),
        (
            ["--user", "me"],
            4,
            "--user needs the column 'user', which the trace does not have",
            f"The trace has: {COLUMNS}. Name the source column with --map CANONICAL=COLUMN if it is called otherwise.",
        ),
        (
            ["--where", "ttft_s > 1"],
            4,
            "--where ttft_s > 1 needs the column 'ttft_s', which the trace does not have",
            f"The trace has: {COLUMNS}. Name the source column with --map CANONICAL=COLUMN if it is called otherwise.",
        ),
        (
            ["--from", "nonsense"],
            2,
            "--from nonsense: there is no such layout",
            "Choose one of: canonical, azure, burstgpt, chutes, mooncake, bailian, ragpulse, generic.",
        ),
        (["--where", "model >"], 2, "--where model >: unable to parse 'model >' as Expr", PREDICATE),
        (
            ["--where", "sum(input_tokens) > 1"],
            2,
            "--where sum(input_tokens) > 1: an aggregate or window is not a test of one request",
            PREDICATE,
        ),
        (["--where", "input_tokens + 1"], 2, "--where input_tokens + 1: gives Int64, not true or false", PREDICATE),
        (
            ["--since", "yesterday"],
            2,
            "--since yesterday: not a time",
            "Give an ISO time (--since 2025-04-11T08:00) or a duration from the start (--since 36h).",
        ),
        (
            ["--since", "2025-01-02", "--until", "2025-01-01"],
            2,
            "--since 2025-01-02 is not before --until 2025-01-01",
            "Give a window that begins before it ends.",
        ),
        (
            ["--tz", "Europe/Nowhere"],
            2,
            "--tz Europe/Nowhere: there is no such time zone",
            "Give an IANA name, such as Europe/Berlin or UTC.",
        ),
        (["--interval", "1y"], 2, "--interval 1y: not a length of time", WIDTH),
        (["--table", "nonsense"], 2, "--table nonsense: stats has no such table", f"Choose one of: {TABLES}."),
        (["--format", "parquet"], 2, "--format parquet needs a folder to write to", "Name one with --output DIR."),
        (
            ["--format", "json", "--table", "rates"],
            2,
            "--table rates: --format json has every table",
            "Use it with csv, markdown, table.",
        ),
        (["--output", ""], 2, "--output has an empty name", "Name a folder; . is the current one."),
        (["--figures", ""], 2, "--figures has an empty name", "Name a folder; . is the current one."),
        (
            ["--output", "s3://bucket/report"],
            2,
            "--output s3://bucket/report: only folders of this machine are written to",
            "Name one, and copy it there.",
        ),
        (["--figures", "-"], 2, "--figures -: files do not go to standard output", "Name a folder; ./- is one of that name."),
        (["--output", "trace.csv"], 5, "--output trace.csv: trace.csv is a file, not a folder", "Name another folder."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_options(arguments: list[str], code: int, message: str, hint: str, trace: str, capsys: Capture) -> None:
    assert stats([trace, *arguments], capsys) == (code, message, hint)


@pytest.mark.parametrize("command", ["stats trace.csv", "convert trace.csv out"])
def test_a_predicate_that_fits_not_every_value(command: str, trace: str, folder: Path, capsys: Capture) -> None:
    assert main([*command.split(), "--where", "CAST(model AS INT) > 1"]) == 2
    message, hint = capsys.readouterr().err.splitlines()
    assert message.startswith(
        "llmtrace: error: --where cannot be applied: conversion from `str` to `i32` failed in column 'model'"
    )
    assert "TRY_CAST" in hint
    assert [path.name for path in folder.iterdir()] == [trace]


@pytest.mark.parametrize("command", ["convert trace.csv", "generate"])
def test_a_destination_without_a_name(command: str, trace: str, folder: Path, capsys: Capture) -> None:
    assert main([*command.split(), "", "--force"]) == 2
    assert capsys.readouterr().err == "llmtrace: error: DEST has an empty name\n  Name a folder; . is the current one.\n"
    assert [path.name for path in folder.iterdir()] == [trace]


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
    (folder / "out").mkdir()
    (folder / "out" / "result.json").write_text("mine")
    hint = "Name another folder, or replace files with --force."
    assert stats([trace, "--output", "out"], capsys) == (5, "out/result.json exists already", hint)
    assert [path.name for path in (folder / "out").iterdir()] == ["result.json"]
    assert (folder / "out" / "result.json").read_text() == "mine"
    assert main(["stats", trace, "--output", "out", "--force", "--quiet"]) == 0
    assert (folder / "out" / "result.json").read_text() != "mine"


def test_a_table_in_the_way_is_told_before_anything_is_read(folder: Path, capsys: Capture) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "rates.csv").touch()
    hint = "Name another folder, or replace files with --force."
    assert stats(["nowhere.csv", "--output", "out"], capsys) == (5, "out/rates.csv exists already", hint)
    (folder / "out" / "result.json").touch()
    assert stats(["nowhere.csv", "--output", "out"], capsys) == (5, "out/result.json (and 1 more) exist already", hint)


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


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")  # noqa: PTH110
@pytest.mark.parametrize("arguments", ["stats trace.csv --format csv --output out", "convert trace.csv out", "generate out -n 9"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.usefixtures("trace")
def test_full_standard_error_keeps_the_result(arguments: str, unbuffered: str, folder: Path) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(
            [*program([])[:-1], *arguments.split()],
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 0
    assert (folder / "out").is_dir()
    assert done.stdout.startswith("time,requests,") == ("stats" in arguments)


def run_without(descriptor: int, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The program with one of its standard streams closed, as by `<&-`, `>&-` or `2>&-` in a shell."""
    return subprocess.run(
        program(arguments), capture_output=True, text=True, check=False, preexec_fn=lambda: os.close(descriptor)
    )


@pytest.mark.skipif(os.name != "posix", reason="streams are closed in another way here")
def test_closed_standard_streams(trace: str) -> None:
    done = run_without(0, ["-"])
    assert (done.returncode, done.stderr.splitlines()) == (3, ["llmtrace: error: standard input is empty", f"  {EMPTY}"])
    for arguments in ([trace, "--quiet"], [trace, "--quiet", "--format", "json"], ["--help"]):
        done = run_without(1, arguments)
        assert (done.returncode, len(done.stderr.splitlines())) == (5, 2), done.stderr
    done = run_without(2, [trace, "--format", "csv"])
    assert done.returncode == 0
    assert done.stdout.startswith("time,requests,")
    assert run_without(2, ["tracy.csv"]).returncode == 3


@pytest.mark.skipif(os.name != "posix", reason="a folder in use cannot be removed here")
def test_a_working_folder_that_is_gone_is_two_lines(folder: Path) -> None:
    (folder / "gone").mkdir()
    enter = "import os, sys; os.chdir('gone'); os.rmdir('../gone'); from llmtrace.__main__ import program; program()"
    done = subprocess.run([sys.executable, "-c", enter, "stats", "t.csv"], capture_output=True, text=True, check=False)
    message = "llmtrace: error: The working folder cannot be used: No such file or directory"
    assert (done.returncode, done.stderr.splitlines()) == (2, [message, "  Change to another one with cd."])


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
