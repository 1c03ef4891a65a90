"""Slices of a source, from its footer alone: row groups with their first and last arrival."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.formats import times
from llmtrace.formats.cells import count, text
from llmtrace.formats.layout import Cell
from llmtrace.trace.parts import Slice

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from llmtrace.formats.source import RowGroup
    from llmtrace.trace.part import Opened

__all__ = ["slices_of", "vouched"]


def vouched(opened: Opened) -> Opened:
    """The same source, its times, counts and names checked one by one only where its statistics do not vouch for all of them."""
    if opened.source.kind != "parquet":
        return opened
    sound = {name: cell for name, cell in opened.reading.cells.items() if _is_sound(opened, cell)}
    plain = {name: Cell(pl.col(cell.sources[0]), None, cell.sources) for name, cell in sound.items()}
    cells = {**opened.reading.cells, **plain, "timestamp": _time(opened)}
    return replace(opened, reading=replace(opened.reading, cells=cells))


def slices_of(index: int, opened: Opened) -> list[Slice]:
    """The slices of source number `index`: a row group each, or the whole of a text file, to be surveyed unless it is empty."""
    if opened.source.kind != "parquet":
        rows = 0 if opened.is_empty else None
        return [Slice(index, 0, rows, None, None, surveyed=opened.is_empty, divisible=False)]
    columns = opened.reading.cells["timestamp"].sources
    groups = opened.source.row_groups(columns[0]) if columns else []
    if len(columns) == 1 and _bounded(groups) and _orders_time(opened, columns[0]):
        return _dated(index, opened, columns[0], groups)
    return [Slice(index, group.first_row, group.rows, None, None, surveyed=False) for group in groups]


def _time(opened: Opened) -> Cell:
    """How times are read, with a check that they are in range unless statistics say so, or the reading checks them anyway."""
    cell = opened.reading.cells["timestamp"]
    if cell.bad is not None or len(cell.sources) != 1:
        return cell
    [column] = cell.sources
    groups, dtype = opened.source.row_groups(column), opened.schema[column]
    checked = times.bounded(cell, dtype)
    is_vouched = _bounded(groups) and not _bounds(checked, column, dtype, groups)[1].any()
    return cell if is_vouched else checked


def _is_sound(opened: Opened, cell: Cell) -> bool:
    """Whether a cell is a count or a name that stands in the source as it should: none negative, none empty."""
    if len(cell.sources) != 1:
        return False
    [column] = cell.sources
    dtype = opened.schema[column]
    if dtype == pl.String:
        return cell.value.meta.eq(text(column, dtype, written=False).value) and not opened.source.may_be_empty(column)
    if dtype != pl.Int64 or not cell.value.meta.eq(count(column, dtype).value):
        return False
    groups = opened.source.row_groups(column)
    return _bounded(groups) and bool((pl.Series([group.minimum for group in groups], dtype=dtype).drop_nulls() >= 0).all())


def _bounded(groups: Sequence[RowGroup]) -> bool:
    return all(group.minimum is not None or group.nulls == group.rows for group in groups)


def _orders_time(opened: Opened, column: str) -> bool:
    """Whether the raw column sorts as time does: true of times and numbers, not of text."""
    dtype = opened.schema[column]
    return dtype.is_temporal() or dtype.is_numeric()


def _dated(index: int, opened: Opened, column: str, groups: Sequence[RowGroup]) -> list[Slice]:
    """Each row group's first and last arrival: its statistics, read as the column itself would be."""
    cell = opened.reading.cells["timestamp"]
    moments: list[datetime | None] = _bounds(cell, column, opened.schema[column], groups)[0].to_list()
    readable = cell.bad is None
    return [
        _slice(index, group, first, last, complete=readable and group.nulls == 0)
        for group, first, last in zip(groups, moments[::2], moments[1::2], strict=True)
        if group.rows
    ]


def _bounds(cell: Cell, column: str, dtype: pl.DataType, groups: Sequence[RowGroup]) -> tuple[pl.Series, pl.Series]:
    """The statistics read as the column itself would be, and whether they are bad: of each row group its minimum and maximum."""
    bounds = pl.Series(column, [bound for group in groups for bound in (group.minimum, group.maximum)], dtype=dtype, strict=False)
    bad = pl.lit(value=False) if cell.bad is None else cell.bad
    read = bounds.to_frame().select(time=cell.value, bad=bad)
    return read["time"], read["bad"]


def _slice(index: int, group: RowGroup, first: datetime | None, last: datetime | None, *, complete: bool) -> Slice:
    """A row group as a slice; bounds that are there but are no times (a -1 for "missing") leave it to be surveyed."""
    misread = (group.minimum is not None and first is None) or (group.maximum is not None and last is None)
    if misread:
        return Slice(index, group.first_row, group.rows, None, None, surveyed=False)
    return Slice(index, group.first_row, group.rows, first, last, surveyed=True, complete=complete)
