"""Writing: a workload to its destination, all of it or nothing."""

from __future__ import annotations

import gzip
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, time
from typing import IO, TYPE_CHECKING, Literal, TypeAlias, cast

import pyarrow.parquet as pq

from llmtrace.errors import OutputError, UsageError
from llmtrace.synth.dressing import frame_of
from llmtrace.synth.frames import tables
from llmtrace.synth.layouts import LAYOUTS
from llmtrace.trace.store import ROW_GROUP_ROWS, Footer, Store, hidden_folder, kind_of, refuse_existing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import polars as pl
    import pyarrow as pa

    from llmtrace.synth.layouts import Layout
    from llmtrace.synth.workload import Workload

    Append: TypeAlias = Callable[[pa.Table], int]

__all__ = ["CANONICAL", "Partition", "write"]

CANONICAL = "canonical"
FRAME_ROWS = 250_000
"""Rows handed to a writer at once."""
Partition: TypeAlias = Literal["auto", "day", "month", "none"]
_MANY_ROWS_A_DAY = 100_000
_KINDS = {"csv": "CSV", "jsonl": "JSON lines", "parquet": "Parquet"}


def write(
    workload: Workload,
    destination: Path,
    *,
    layout: str = CANONICAL,
    partition: Partition = "auto",
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Generate a workload into `destination`.

    Args:
        workload: what to generate.
        destination: a folder to make (one file if its name ends in `.parquet`); in a foreign layout a file.
        layout: `canonical`, or the name of a foreign layout (`LAYOUTS`).
        partition: in the canonical layout, a folder per day, per month, or none; `auto` is days from 100,000 requests a day on.
        force: replace what stands there, if it is a trace.
        progress: called with the requests generated so far and in total.

    Returns:
        How many requests were written; a foreign layout may have no place for those that failed.

    Raises:
        UsageError: if there is no such layout, the workload has not the blocks or the service that it needs, or the destination
            has the name of another kind of file.
        OutputError: if the destination is in the way or cannot be written.
    """
    if layout == CANONICAL:
        sink = _trace(workload, destination, partition, force=force)
    else:
        foreign = _checked(layout, workload, partition)
        workload = replace(workload, block_size=foreign.block_size or 0)
        sink = _foreign_file(destination, foreign, datetime.combine(workload.start, time()), force=force)
    done = written = 0
    with sink as append, closing(tables(workload, FRAME_ROWS)) as made:
        for table in made:
            written += append(table)
            done += table.num_rows
            if progress is not None:
                progress(done, workload.requests)
    return written


def _checked(layout: str, workload: Workload, partition: Partition) -> Layout:
    if layout not in LAYOUTS:
        raise UsageError(f"--layout {layout}: there is no such layout", f"Choose one of: {', '.join((CANONICAL, *LAYOUTS))}.")
    if partition not in {"auto", "none"}:
        raise UsageError(f"--partition {partition}: the layout {layout} is one file", "Leave --partition out.")
    if LAYOUTS[layout].served and not workload.service:
        raise UsageError(f"--no-service: the layout {layout} has columns of latencies", "Leave --no-service out.")
    needed = LAYOUTS[layout].block_size
    if needed is not None and needed != workload.block_size:
        raise UsageError(f"--layout {layout}: its blocks have {needed} tokens", f"Give --block-size {needed}, or leave it out.")
    return LAYOUTS[layout]


@contextmanager
def _trace(workload: Workload, destination: Path, partition: Partition, *, force: bool) -> Iterator[Append]:
    by_day = workload.requests >= _MANY_ROWS_A_DAY * workload.days
    chosen = ("day" if by_day else "month") if partition == "auto" else partition
    with Store(destination, chosen, Footer("utc", workload.block_size or None, synthetic=True), force=force) as store:

        def append(table: pa.Table) -> int:
            store.append(table)
            return int(table.num_rows)

        yield append


@contextmanager
def _foreign_file(destination: Path, layout: Layout, start: datetime, *, force: bool) -> Iterator[Append]:
    """Give the function that appends canonical tables and counts their rows; the file takes its place when the last one is in."""
    if kind_of(destination) not in {None, layout.kind}:
        raise UsageError(
            f"{destination}: the layout {layout.name} is {_KINDS[layout.kind]}", f"Choose a name that ends in .{layout.kind}."
        )
    refuse_existing(destination, force=force)
    if destination.is_dir():
        raise OutputError(f"{destination} is a folder", f"The layout {layout.name} is one file: give a name for it.")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with hidden_folder(destination, "tmp") as folder:
            written = folder / "written"
            with (
                _opened(written, packed=destination.suffix == ".gz") as file,
                closing(_Parquet(file) if layout.kind == "parquet" else _Text(file, layout)) as sheet,
            ):
                yield lambda table: sheet.append(layout.rows(frame_of(table), start))
            # Another run may have put something there in the meantime.
            refuse_existing(destination, force=force)
            written.replace(destination)
    except OSError as error:
        hint = "Check the folder's permissions and the space left on its disk."
        raise OutputError(f"{destination} cannot be written: {error.strerror or error}", hint) from None


@contextmanager
def _opened(path: Path, *, packed: bool) -> Iterator[IO[bytes]]:
    """The file for writing, through gzip if it is to be packed; no name or time in it, so that equal rows are equal bytes."""
    with path.open("wb") as file:
        if not packed:
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
            yield cast("IO[bytes]", zipped)


class _Text:
    """A file of lines: a line's end is written before the next line, because a layout's last line may have none."""

    def __init__(self, file: IO[bytes], layout: Layout) -> None:
        self._file, self._layout, self._begun = file, layout, False

    def append(self, rows: pl.DataFrame) -> int:
        newline = self._layout.newline
        if self._layout.kind == "jsonl":
            lines = rows.write_ndjson()
        else:
            lines = rows.write_csv(include_header=not self._begun, line_terminator=newline)
        if lines:
            self._file.write((newline * self._begun + lines.removesuffix(newline)).encode())
            self._begun = True
        return rows.height

    def close(self) -> None:
        if self._layout.last_newline:
            self._file.write(self._layout.newline.encode())


class _Parquet:
    """A Parquet file whose columns are those of the first rows."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._writer: pq.ParquetWriter | None = None

    def append(self, rows: pl.DataFrame) -> int:
        table = rows.to_arrow()
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, table.schema, compression="zstd")
        self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        return rows.height

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
