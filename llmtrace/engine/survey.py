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


def survey(trace: Trace) -> Trace:
    """The trace with every slice dated, reading the times (and nothing else) of those that are not.

    Raises:
        InputError: if a text file is too long to be read at once, or the trace has no row, or none with a readable time.
    """
    dated = trace.surveyed([_dated(trace.opened[piece.source], piece) for piece in trace.unsurveyed])
    if not any(piece.rows for piece in dated.slices):
        raise InputError(f"{', '.join(trace.names)}: there is no row", "Give a file with requests in it, or leave this one out.")
    if dated.span is None:
        raise InputError(
            f"{', '.join(trace.names)}: no row has a readable timestamp",
            "Name the time column with --map timestamp=COLUMN, and its unit with --time-unit if it holds bare numbers.",
        )
    return dated


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
