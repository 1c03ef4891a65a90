"""Slices of a source, from its footer alone: row groups with their first and last arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.trace.parts import Slice

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from llmtrace.formats.source import RowGroup
    from llmtrace.trace.part import Opened

__all__ = ["slices_of"]


def slices_of(index: int, opened: Opened) -> list[Slice]:
    """The slices of source number `index`: a row group each, or the whole of a text file, which is still to be surveyed."""
    if opened.source.kind != "parquet":
        return [Slice(index, 0, None, None, None, surveyed=False, divisible=False)]
    columns = opened.reading.cells["timestamp"].sources
    groups = opened.source.row_groups(columns[0]) if columns else []
    if len(columns) == 1 and _bounded(groups) and _orders_time(opened, columns[0]):
        return _dated(index, opened, columns[0], groups)
    return [Slice(index, group.first_row, group.rows, None, None, surveyed=False) for group in groups]


def _bounded(groups: Sequence[RowGroup]) -> bool:
    return all(group.minimum is not None or group.nulls == group.rows for group in groups)


def _orders_time(opened: Opened, column: str) -> bool:
    """Whether the raw column sorts as time does: true of times and numbers, not of text."""
    dtype = opened.schema[column]
    return dtype.is_temporal() or dtype.is_numeric()


def _dated(index: int, opened: Opened, column: str, groups: Sequence[RowGroup]) -> list[Slice]:
    """Each row group's first and last arrival: its statistics, read as the column itself would be."""
    dtype = opened.schema[column]
    bounds = pl.Series(column, [bound for group in groups for bound in (group.minimum, group.maximum)], dtype=dtype, strict=False)
    times: list[datetime | None] = pl.select(pl.lit(bounds)).select(opened.reading.cells["timestamp"].value).to_series().to_list()
    readable = opened.reading.cells["timestamp"].bad is None
    return [
        _slice(index, group, first, last, complete=readable and group.nulls == 0)
        for group, first, last in zip(groups, times[::2], times[1::2], strict=True)
        if group.rows
    ]


def _slice(index: int, group: RowGroup, first: datetime | None, last: datetime | None, *, complete: bool) -> Slice:
    """A row group as a slice; bounds that are there but are no times (a -1 for "missing") leave it to be surveyed."""
    misread = (group.minimum is not None and first is None) or (group.maximum is not None and last is None)
    if misread:
        return Slice(index, group.first_row, group.rows, None, None, surveyed=False)
    return Slice(index, group.first_row, group.rows, first, last, surveyed=True, complete=complete)
