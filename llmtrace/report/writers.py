"""Put a result where the user wants it: standard output, files, figures.

Standard output carries the result alone, in the chosen format. Files appear all together or not at all, and replace nothing
unless told to.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from llmtrace.errors import OutputError, UsageError
from llmtrace.report import figures, files
from llmtrace.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import polars as pl
    from matplotlib.figure import Figure

    from llmtrace.result import Result

__all__ = ["FIGURE_FORMATS", "FORMATS", "Output", "check", "write"]

FORMATS = ("table", "csv", "json", "markdown", "parquet")
FIGURE_FORMATS = ("png", "svg", "pdf")
ONE_TABLE = frozenset({"table", "csv", "markdown"})
"""The formats that can show one table alone."""
NARROWEST, USUAL = 40, 100
"""A table is laid out for so many columns at least, and for so many where no terminal says how many it has."""
TABLES: Mapping[str, tuple[str, ...]] = {
    "stats": ("rates", "endpoints", "streaming", "hour_of_week", "lengths", "lengths_by_model", "length_cdf"),
    "burstiness": ("by_key", "by_hour", "dispersion", "cv_windows", "fits", "survival"),
    "reuse-time": ("anchors", "coverage", "by_month", "by_model"),
    "hit-dist": ("by_input_length", "histogram", "cdf", "by_model", "by_user", "user_grid", "ttft_by_hit", "ttft_saved"),
    "evolution": ("active", "model_share", "tokens_by_month", "cohorts", "retention", "switching", "transitions", "drift"),
    "latency": (
        *("latencies", "cdf", "by_model", "over_time", "duration_grid", "ttft_grid"),
        *("load", "load_ttft", "load_decode"),
    ),
    "popularity": ("models", "users", "concentration", "zipf", "rank_frequency", "user_breadth", "user_lengths"),
    "balance": (
        *("load", "load_by_minute", "by_model", "instances", "replication_by_load", "replication_by_window"),
        *("regimes", "regime_users", "load_ttft", "load_decode", "latencies"),
    ),
    "sessions": ("turns", "lengths", "gaps", "by_model", "lengths_by_model", "gaps_by_model", "quality", "sensitivity"),
    "cache": ("curve", "by_capacity", "lru_curve", "histogram", "by_gap", "reuse_skew"),
    "route": ("tradeoff", "largest", "load"),
    "check": ("problems", "columns", "commands", "gaps"),
}
"""The tables that a command always has, whatever its options; known here so that files in the way are found before the work."""
ENCODING = "utf-8"
ESCAPE = "backslashreplace"
"""What is not Unicode (a file name from another encoding) is written as an escape, which in JSON is valid."""


@dataclass(frozen=True)
class Output:
    """Where a result goes.

    Attributes:
        format: what standard output shows: one of `FORMATS`. With `parquet`, which is for files, it shows the table.
        table: the table to show instead of the whole result (`csv`: instead of the primary table).
        output: a folder for `result.json`, one CSV (or Parquet) file per table, and the figures.
        figures: a folder for the figures alone.
        figure_format: one of `FIGURE_FORMATS`.
        force: whether files that are in the way are replaced.
    """

    format: str = "table"
    table: str | None = None
    output: Path | None = None
    figures: Path | None = None
    figure_format: str = "png"
    force: bool = False


def check(output: Output, command: str | None = None) -> None:
    """Find what would keep a result from being written, before the work that makes it.

    With the `command` known, tables and figures of an earlier run that are in the way are found too.

    Raises:
        UsageError: if a format is unknown or the options do not go together.
        OutputError: if a folder cannot be written to, or a file is in the way.
    """
    _check_choice("--format", output.format, FORMATS)
    _check_choice("--figure-format", output.figure_format, FIGURE_FORMATS)
    if output.format == "parquet" and output.output is None:
        raise UsageError("--format parquet needs a folder to write to", "Name one with --output DIR.")
    if output.table is not None and output.format not in ONE_TABLE:
        raise UsageError(
            f"--table {output.table}: --format {output.format} has every table", f"Use it with {', '.join(sorted(ONE_TABLE))}."
        )
    for option, folder in (("--output", output.output), ("--figures", output.figures)):
        if folder is not None:
            files.check_folder(folder, option)
    files.check_free(_certain(output, command), force=output.force)


def write(result: Result, output: Output, stdout: BinaryIO | TextIO, log: Callable[[str], None]) -> list[Path]:
    """Write the files, print the result, and return the files' paths.

    Files first, so that a reader of standard output who closes it early does not lose them. `log` hears where they are, and
    which figures have no data, once all is done: of what fails, the error alone is told.

    Raises:
        UsageError: if the options do not go together, or there is no such table.
        OutputError: if a file is in the way or cannot be written; nothing is left behind then.
        BrokenPipeError: if the reader of standard output is gone.
    """
    check(output, result.command)
    text = _text(result, output, stdout)
    told: list[str] = []
    contents = dict(_contents(result, output, told.append))
    files.check_free(contents, force=output.force)
    with files.staged() as add:
        for path, content in contents.items():
            add(path, content())
        # Another run may have written there in the meantime.
        files.check_free(contents, force=output.force)
    _print(text, stdout)
    written = Counter(path.parent for path in contents)
    for sentence in (*told, *(f"Wrote {counted(count, 'file')} to {folder}" for folder, count in written.items())):
        log(sentence)
    return list(contents)


def _check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{option} {value}: there is no such format", f"Choose one of: {', '.join(choices)}.")


def _figure_folder(output: Output) -> Path | None:
    return output.figures or output.output


def _certain(output: Output, command: str | None) -> list[Path]:
    """The files whose names are known before the result is."""
    paths = [] if output.output is None else [output.output / "result.json"]
    if output.output is not None and command is not None:
        ending = _ending(output.format)
        paths += [output.output / f"{name}{ending}" for name in TABLES.get(command, ())]
    folder = _figure_folder(output)
    if folder is not None and command is not None:
        paths += [folder / f"{name}.{output.figure_format}" for name in figures.names(command)]
    return paths


def _contents(result: Result, output: Output, log: Callable[[str], None]) -> Iterator[tuple[Path, Callable[[], bytes]]]:
    """Every file that is to be written, with what makes its content."""
    if output.output is not None:
        from llmtrace.report import json

        yield output.output / "result.json", lambda: json.dumps(result).encode(ENCODING, ESCAPE)
        for name, table in result.tables.items():
            yield _table_file(output.output, name, table, output.format)
    folder = _figure_folder(output)
    if folder is None:
        return
    if not figures.names(result.command) and output.figures is not None:
        log(f"{result.command} has no figures")
    for name, figure in figures.figures(result, log):
        yield folder / f"{name}.{output.figure_format}", partial(_drawn, name, figure, output.figure_format, log)


def _drawn(name: str, figure: Figure, file_format: str, log: Callable[[str], None]) -> bytes:
    """A figure as a file; `log` hears what matplotlib warns of, without the lines of source that warnings show."""
    from llmtrace.report import style

    with warnings.catch_warnings(record=True) as told:
        content = style.save(figure, file_format)
    for warning in told:
        log(f"Figure {name} may be hard to read: {warning.message}")
    return content


def _ending(file_format: str) -> str:
    """What the name of a table's file ends in."""
    return ".parquet" if file_format == "parquet" else ".csv"


def _table_file(folder: Path, name: str, table: pl.DataFrame, file_format: str) -> tuple[Path, Callable[[], bytes]]:
    from llmtrace.report import csv, parquet

    path = folder / f"{name}{_ending(file_format)}"
    if file_format == "parquet":
        return path, lambda: parquet.dumps(table)
    return path, lambda: csv.dumps(table).encode(ENCODING, ESCAPE)


def _text(result: Result, output: Output, stdout: BinaryIO | TextIO) -> str:
    """What standard output shows."""
    from llmtrace.report import csv, json, markdown

    if output.format == "csv":
        return csv.dumps(result.table(output.table))
    if output.format == "json":
        return json.dumps(result)
    if output.format == "markdown":
        return markdown.dumps(result, output.table)
    # It alone needs Rich.
    from llmtrace.report import table

    width = max(NARROWEST, shutil.get_terminal_size((USUAL, 0)).columns)
    return table.render(result, width=width, color=_has_color(stdout), table=output.table)


def _has_color(stdout: BinaryIO | TextIO) -> bool:
    """Whether to write escape sequences: only to a terminal that takes them, and that nobody asked to go without."""
    return stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _print(text: str, stdout: BinaryIO | TextIO) -> None:
    """Print text as UTF-8 with plain line ends, whatever the locale, where bytes can be written."""
    only_text = isinstance(stdout, io.TextIOBase) and not hasattr(stdout, "buffer")
    stream: Any = stdout if only_text else getattr(stdout, "buffer", stdout)
    try:
        stdout.flush()
        if only_text:
            stream.write(text)
        else:
            _write_all(stream, text.encode(ENCODING, ESCAPE))
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"Standard output cannot be written: {error.strerror}", "Send it to a place with room.") from error


def _write_all(stream: io.RawIOBase, content: bytes) -> None:
    """Write bytes to the last one; a stream without a buffer, as with PYTHONUNBUFFERED, takes as many as go at once."""
    rest = memoryview(content)
    while rest:
        written = stream.write(rest)
        if written is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        rest = rest[written:]
