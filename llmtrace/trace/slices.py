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

__all__ = ["sliced"]


def sliced(index: int, opened: Opened) -> tuple[Opened, list[Slice]]:
    """What a footer tells.

    Args:
        index: the number of the source.
        opened: the source.

    Returns:
        The same source, its times, counts and names checked one by one only where its statistics do not vouch for all of them;
        and its slices: a row group each, or the whole of a text file, to be surveyed unless it is empty.
    """
    if opened.source.kind != "parquet":
        rows = 0 if opened.is_empty else None
        return opened, [Slice(index, 0, rows, None, None, surveyed=opened.is_empty, divisible=False)]
    time, groups, moments = _time(opened)
    vouched = replace(opened, reading=replace(opened.reading, cells={**_vouched(opened), "timestamp": time}))
    if moments is None:
        return vouched, [Slice(index, group.first_row, group.rows, None, None, surveyed=False) for group in groups]
    return vouched, [
        _slice(index, group, first, last, complete=time.bad is None and group.nulls == 0)
        for group, first, last in zip(groups, moments[::2], moments[1::2], strict=True)
        if group.rows
    ]


def _vouched(opened: Opened) -> dict[str, Cell]:
    """The cells of a source, plain where its statistics vouch for what is in them."""
    sound = {name: cell for name, cell in opened.reading.cells.items() if _is_sound(opened, cell)}
    return {**opened.reading.cells, **{name: Cell(pl.col(cell.sources[0]), None, cell.sources) for name, cell in sound.items()}}


def _time(opened: Opened) -> tuple[Cell, Sequence[RowGroup], Sequence[datetime | None] | None]:
    """How times are read, with a check that they are in range unless statistics say so, or the reading checks them anyway.

    Besides, the row groups; and of each its first and last arrival, read as the column itself is, if the statistics have them.
    """
    cell = opened.reading.cells["timestamp"]
    groups = opened.source.row_groups(cell.sources[0]) if cell.sources else []
    if len(cell.sources) != 1:
        return cell, groups, None
    [column] = cell.sources
    dtype = opened.schema[column]
    checked = times.bounded(cell, dtype) if cell.bad is None else cell
    if not (_bounded(groups) and _orders_time(dtype)):
        return checked, groups, None
    moments, bad = _bounds(checked, column, dtype, groups)
    return checked if bad.any() else cell, groups, moments.to_list()


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
    least = [group.minimum for group in groups if group.minimum is not None]
    return _bounded(groups) and all(isinstance(one, int) and one >= 0 for one in least)


def _bounded(groups: Sequence[RowGroup]) -> bool:
    return all(group.minimum is not None or group.nulls == group.rows for group in groups)


def _orders_time(dtype: pl.DataType) -> bool:
    """Whether a raw column sorts as time does: true of times and numbers, not of text."""
    return dtype.is_temporal() or dtype.is_numeric()


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
