"""Where a result goes: standard output, a folder of files, a folder of figures."""

from __future__ import annotations

import csv
import errno
import io
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from llmtrace.cli import main
from llmtrace.errors import LlmtraceError, OutputError, UsageError
from llmtrace.report import table, writers
from llmtrace.report.json import dumps
from llmtrace.report.writers import FORMATS, Output, check, write
from llmtrace.result import Result

if TYPE_CHECKING:
    import os

    from _typeshed import ReadableBuffer

SMALL = Result(
    "check",
    {},
    {"rows": 2},
    {"columns": pl.DataFrame({"column": ["a", "b"], "nulls": [0, 1]}), "problems": pl.DataFrame({"problem": ["x"]})},
    "columns",
    notes=("A note.",),
    provenance={"sources": ["caf\udce9.csv"]},
)
YEAR = Path(__file__).parents[2] / "sample_traces" / "year"
DRAWN_IN_AN_HOUR = ("requests", "tokens", "rates", "input_tokens_cdf", "output_tokens_cdf", "ratio_cdf")


class Terminal(io.StringIO):
    """A terminal that is a stream of text."""

    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    """A stream that cannot be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, _: str) -> int:
        raise self.error


def printed(result: Result, output: Output) -> str:
    stream = io.StringIO()
    write(result, output, stream, pytest.fail)
    return stream.getvalue()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def nothing(_: str) -> None:
    pass


def test_standard_output_carries_the_result_alone() -> None:
    assert printed(SMALL, Output()) == table.render(SMALL)
    assert printed(SMALL, Output("csv")) == "column,nulls\na,0\nb,1\n"
    assert printed(SMALL, Output("csv", "problems")) == "problem\nx\n"
    assert printed(SMALL, Output("json")) == dumps(SMALL)
    assert printed(SMALL, Output("markdown", "problems")).endswith(
        "## problems\n\n| problem |\n| --- |\n| x |\n\n## Notes\n\n- A note.\n"
    )
    assert "problems  1 row\n" in printed(SMALL, Output("table", "problems"))


@pytest.mark.parametrize("file_format", [one for one in FORMATS if one != "parquet"])
def test_bytes_and_text_streams_get_the_same_utf8(file_format: str, year: Result) -> None:
    binary, wrapped = io.BytesIO(), io.TextIOWrapper(io.BytesIO(), encoding="latin-1", newline="\r\n")
    for result in (SMALL, year):
        write(result, Output(file_format), binary, nothing)
        write(result, Output(file_format), wrapped, nothing)
    assert binary.getvalue().decode().startswith(printed(SMALL, Output(file_format)).encode(errors="backslashreplace").decode())
    assert wrapped.buffer.getvalue() == binary.getvalue()


def test_a_file_name_that_is_not_unicode_is_valid_json() -> None:
    binary = io.BytesIO()
    write(SMALL, Output("json"), binary, nothing)
    assert json.loads(binary.getvalue())["provenance"]["sources"] == ["caf\udce9.csv"]


def test_color_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(stream: io.StringIO) -> bool:
        write(SMALL, Output(), stream, nothing)
        return "\x1b" in stream.getvalue()

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert shown(Terminal())
    assert not shown(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not shown(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not shown(Terminal())


def test_the_table_takes_the_screen_it_gets(year: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    assert printed(year, Output()) == table.render(year, width=150)
    monkeypatch.setenv("COLUMNS", "3")
    assert printed(year, Output()) == table.render(year, width=40)
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("os.get_terminal_size", _no_terminal)
    assert printed(year, Output()) == table.render(year, width=100)


def _no_terminal(_: int) -> os.terminal_size:
    raise OSError


def test_a_folder_gets_everything(hour: Result, tmp_path: Path) -> None:
    folder, said = tmp_path / "new" / "out", list[str]()
    stream = io.StringIO()
    paths = write(hour, Output("csv", output=folder), stream, said.append)
    assert stream.getvalue() == (folder / "rates.csv").read_text()
    assert names(folder) == {
        "result.json",
        *(f"{name}.csv" for name in hour.tables),
        *(f"{name}.png" for name in DRAWN_IN_AN_HOUR),
    }
    assert {path.name for path in paths} == names(folder)
    assert (folder / "result.json").read_text() == dumps(hour)
    assert len(list(csv.reader(io.StringIO((folder / "length_cdf.csv").read_text())))) == 304
    assert said[-1] == f"Wrote 11 files to {folder}"
    assert said[:-1] == [
        "Figure active_models is not drawn: the trace names neither models nor users",
        "Figure endpoints is not drawn: the trace names no endpoints",
        "Figure hour_of_week is not drawn: a relative clock has no days of the week",
    ]


def test_parquet_in_the_folder_and_the_table_on_the_screen(hour: Result, tmp_path: Path) -> None:
    stream = io.StringIO()
    write(hour, Output("parquet", output=tmp_path), stream, nothing)
    assert stream.getvalue() == table.render(hour)
    assert pl.read_parquet(tmp_path / "rates.parquet").equals(hour.tables["rates"])
    assert not [name for name in names(tmp_path) if name.endswith(".csv")]


def test_figures_alone(hour: Result, tmp_path: Path) -> None:
    write(hour, Output(figures=tmp_path, figure_format="svg"), io.StringIO(), nothing)
    assert names(tmp_path) == {f"{name}.svg" for name in DRAWN_IN_AN_HOUR}


def test_figures_have_their_own_folder_if_one_is_named(hour: Result, tmp_path: Path) -> None:
    write(hour, Output(output=tmp_path / "out", figures=tmp_path / "figures"), io.StringIO(), nothing)
    assert names(tmp_path / "figures") == {f"{name}.png" for name in DRAWN_IN_AN_HOUR}
    assert not list((tmp_path / "out").glob("*.png"))


def test_what_matplotlib_warns_of_is_said_without_source_lines(
    hour: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def save(*_: object) -> bytes:
        warnings.warn("no room", stacklevel=2)
        return b"figure"

    monkeypatch.setattr("llmtrace.report.style.save", save)
    said = list[str]()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        write(hour, Output(figures=tmp_path), io.StringIO(), said.append)
    assert "Figure requests may be hard to read: no room" in said
    assert capsys.readouterr().err == ""
    assert (tmp_path / "requests.png").read_bytes() == b"figure"


def test_a_command_without_figures_says_so_where_they_are_asked_for(tmp_path: Path) -> None:
    said: list[str] = []
    assert write(SMALL, Output(figures=tmp_path / "f"), io.StringIO(), said.append) == []
    assert said == ["check has no figures"]
    assert not (tmp_path / "f").exists()
    write(SMALL, Output(output=tmp_path / "o"), io.StringIO(), said.append)
    assert said[1:] == [f"Wrote 3 files to {tmp_path / 'o'}"]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (Output("xml"), "--format xml: there is no such format"),
        (Output(figure_format="gif"), "--figure-format gif: there is no such format"),
        (Output("parquet"), "--format parquet needs a folder to write to"),
        (Output("json", "rates"), "--table rates: --format json has every table"),
        (Output("parquet", "rates", Path("out")), "--table rates: --format parquet has every table"),
    ],
)
def test_options_that_do_not_go_together(output: Output, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(output)
    assert caught.value.message == message


def test_an_unknown_table_is_told_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--table nonsense"):
        write(SMALL, Output("csv", "nonsense", output=tmp_path / "out"), io.StringIO(), nothing)
    assert names(tmp_path) == set()


@pytest.mark.parametrize("option", ["output", "figures"])
def test_a_file_in_place_of_the_folder_is_told_before_the_work(tmp_path: Path, option: str) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    with pytest.raises(OutputError, match=f"--{option} .*taken is a file"):
        check(Output(output=taken) if option == "output" else Output(figures=taken))


def test_files_of_an_earlier_run_are_told_before_the_work(hour: Result, tmp_path: Path) -> None:
    write(hour, Output(figures=tmp_path), io.StringIO(), nothing)
    check(Output(figures=tmp_path))
    check(Output(figures=tmp_path), "check")
    check(Output(figures=tmp_path, figure_format="pdf"), "stats")
    check(Output(figures=tmp_path, force=True), "stats")
    with pytest.raises(OutputError, match=r"requests\.png \(and 5 more\) exist already"):
        check(Output(figures=tmp_path), "stats")
    (tmp_path / "result.json").touch()
    with pytest.raises(OutputError, match=r"result\.json exists already"):
        check(Output(output=tmp_path))


@pytest.mark.parametrize(("file_format", "name"), [("table", "rates.csv"), ("parquet", "rates.parquet")])
def test_a_table_of_an_earlier_run_is_told_before_the_work(tmp_path: Path, file_format: str, name: str) -> None:
    (tmp_path / name).touch()
    (tmp_path / "mine.csv").touch()
    (tmp_path / "mine.parquet").touch()
    output = Output(file_format, output=tmp_path)
    check(Output("parquet" if file_format == "table" else "table", output=tmp_path), "stats")
    check(replace(output, force=True), "stats")
    with pytest.raises(OutputError, match=rf"{name} exists already"):
        check(output, "stats")


@pytest.mark.parametrize("command", writers.TABLES)
def test_the_tables_that_a_command_always_has(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = ["--instances", "2"] if command == "route" else []
    assert main([command, str(YEAR), "--since", "360d", "--format", "json", "--quiet", *fleet]) == 0
    assert set(json.loads(capsys.readouterr().out)["tables"]) == set(writers.TABLES[command])


def test_of_what_fails_the_error_alone_is_told(hour: Result, tmp_path: Path) -> None:
    said: list[str] = []
    full = Broken(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OutputError):
        write(hour, Output(output=tmp_path / "out"), full, said.append)
    assert said == []


def test_nothing_is_overwritten_without_force(hour: Result, tmp_path: Path) -> None:
    (tmp_path / "endpoints.csv").write_text("mine")
    stream = io.StringIO()
    with pytest.raises(OutputError, match=r"endpoints\.csv exists already"):
        write(hour, Output(output=tmp_path), stream, nothing)
    assert names(tmp_path) == {"endpoints.csv"}
    assert (tmp_path / "endpoints.csv").read_text() == "mine"
    assert stream.getvalue() == ""


def test_what_another_run_wrote_meanwhile_is_kept(hour: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dumps_late(result: Result) -> str:
        (tmp_path / "requests.png").write_text("another's")
        return dumps(result)

    monkeypatch.setattr("llmtrace.report.json.dumps", dumps_late)
    with pytest.raises(OutputError, match=r"requests\.png exists already"):
        write(hour, Output(output=tmp_path), io.StringIO(), nothing)
    assert names(tmp_path) == {"requests.png"}
    assert (tmp_path / "requests.png").read_text() == "another's"


def test_force_replaces_only_what_is_written(hour: Result, tmp_path: Path) -> None:
    (tmp_path / "endpoints.csv").write_text("mine")
    (tmp_path / "other.csv").write_text("other")
    write(hour, Output(output=tmp_path, force=True), io.StringIO(), nothing)
    assert (tmp_path / "endpoints.csv").read_text() == "time,endpoint,requests\n"
    assert (tmp_path / "other.csv").read_text() == "other"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
def test_an_interrupted_run_leaves_nothing(
    hour: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def interrupted(*_: object) -> bytes:
        raise error

    monkeypatch.setattr("llmtrace.report.style.save", interrupted)
    with pytest.raises(type(error)):
        write(hour, Output(output=tmp_path / "out"), io.StringIO(), nothing)
    assert names(tmp_path) == set()


def test_a_reader_who_leaves_early_loses_no_file(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError):
        write(SMALL, Output(output=tmp_path), Broken(BrokenPipeError(errno.EPIPE, "Broken pipe")), nothing)
    assert names(tmp_path) == {"result.json", "columns.csv", "problems.csv"}


class Unbuffered(io.BytesIO):
    """Standard output with PYTHONUNBUFFERED: it takes what fits, and fails only when nothing does."""

    def __init__(self, room: int, failure: int) -> None:
        super().__init__()
        self.room, self.failure = room, failure

    def write(self, content: ReadableBuffer, /) -> int:
        if self.tell() >= self.room:
            raise OSError(self.failure, "no more")
        return super().write(bytes(content)[:7])


def test_a_stream_without_a_buffer_gets_everything() -> None:
    whole, piecemeal = io.BytesIO(), Unbuffered(100_000, errno.ENOSPC)
    write(SMALL, Output(), whole, nothing)
    write(SMALL, Output(), piecemeal, nothing)
    assert piecemeal.getvalue() == whole.getvalue()


@pytest.mark.parametrize(("code", "error"), [(errno.ENOSPC, OutputError), (errno.EPIPE, BrokenPipeError)])
def test_a_stream_without_a_buffer_that_stops_halfway_is_noticed(code: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        write(SMALL, Output(), Unbuffered(14, code), nothing)


def test_a_full_disk_behind_standard_output_is_an_output_error() -> None:
    with pytest.raises(OutputError, match="Standard output cannot be written: No space left on device"):
        write(SMALL, Output(), Broken(OSError(errno.ENOSPC, "No space left on device")), nothing)


def test_every_error_is_ours_and_has_a_hint(tmp_path: Path) -> None:
    for output in (Output("xml"), Output("parquet"), Output(output=Path(__file__)), Output("json", "t")):
        with pytest.raises(LlmtraceError) as caught:
            write(SMALL, output, io.StringIO(), nothing)
        assert caught.value.hint.endswith(".")
    assert names(tmp_path) == set()


def test_defaults_are_the_documented_ones() -> None:
    assert Output() == Output("table", None, None, None, "png", force=False)
    assert writers.FIGURE_FORMATS == ("png", "svg", "pdf")
