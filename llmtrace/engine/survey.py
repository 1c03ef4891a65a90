"""Survey: the first and last arrival of the parts of a trace that carry no statistics (text, and Parquet without them)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.engine.damage import told
from llmtrace.errors import InputError
from llmtrace.trace import MAX_TEXT_ROWS, too_long
from llmtrace.trace.part import canonical

if TYPE_CHECKING:
    from llmtrace.trace import Trace
    from llmtrace.trace.part import Opened
    from llmtrace.trace.parts import Slice

__all__ = ["survey"]

_LONGEST_EXAMPLE = 60
"""Characters of a cell that a message shows."""


def survey(trace: Trace) -> Trace:
    """The trace with every slice dated, reading the times (and nothing else) of those that are not.

    Raises:
        InputError: if a text file is too long to be read at once, or the trace has no row, or none with a readable time.
    """
    dated = trace.surveyed([_dated(trace.opened[piece.source], piece) for piece in trace.unsurveyed])
    if not any(piece.rows for piece in dated.slices):
        raise InputError(f"{', '.join(trace.names)}: there is no row", "Give a file with requests in it, or leave this one out.")
    if dated.span is None:
        raise _without_times(trace)
    return dated


def _without_times(trace: Trace) -> InputError:
    """The error for a trace without a single time: what stands in its place, if anything does."""
    message = f"{', '.join(trace.names)}: no row has a readable timestamp"
    found = next((example for opened in trace.opened if (example := _unreadable(opened))), None)
    if found is None:
        return InputError(message, "Name the time column with --map timestamp=COLUMN.")
    return InputError(
        f"{message}: {found} is no time",
        "Write times in ISO 8601 (2025-12-31T10:00Z) or numbers with --time-unit; --map timestamp=COLUMN names another column.",
    )


def _unreadable(opened: Opened) -> str | None:
    """What a source has where a time should be, for a message; None if nothing stands there."""
    cell = opened.reading.cells["timestamp"]
    if cell.bad is None or not cell.sources:
        return None
    [column, *_] = cell.sources
    with told([opened]):
        found = opened.source.scan().filter(cell.bad).select(column).head(1).collect()[column]
    # Python has no times as far off as those of Polars.
    values = (found.cast(pl.String) if found.dtype.is_temporal() else found).to_list()
    return f"'{str(values[0])[:_LONGEST_EXAMPLE]}' in '{column}'" if values else None


def _dated(opened: Opened, piece: Slice) -> Slice:
    if opened.source.kind != "parquet" and opened.source.estimated_rows() > MAX_TEXT_ROWS:
        raise too_long(opened.source.name, opened.source.estimated_rows())
    frame = opened.source.scan(piece.first_row, piece.rows)
    time = pl.col("timestamp")
    counts = canonical(frame, opened.reading, ["timestamp"]).select(
        pl.len().alias("rows"), time.min().alias("first"), time.max().alias("last")
    )
    with told([opened]):
        row = counts.collect().row(0, named=True)
    return replace(piece, rows=row["rows"], first=row["first"], last=row["last"], surveyed=True)
