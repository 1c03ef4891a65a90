"""Parquet footers: rows, row groups and their statistics, order and metadata, without reading data."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow.parquet as pq

from llmtrace.formats.stores import filesystem, is_address

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RowGroup", "key_values", "may_be_empty", "metadata", "row_groups", "schema"]


@dataclass(frozen=True)
class RowGroup:
    """A row group, as its file's footer describes it for one column.

    Attributes:
        first_row: index of its first row in the file.
        rows: its number of rows.
        minimum: smallest value of the column; None where there are no statistics, and for text, whose statistics may be cut off.
            Of times it is the integer that the file stores, so that `pl.Series([minimum], dtype=...)` with the column's dtype
            holds it.
        maximum: largest value, likewise.
        nulls: number of nulls; None if unknown.
    """

    first_row: int
    rows: int
    minimum: object | None
    maximum: object | None
    nulls: int | None


def metadata(path: str) -> pq.FileMetaData:
    """The footer of a Parquet file on disk or at an address such as `s3://`.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not Parquet.
        NotImplementedError: if it has columns of a type that pyarrow does not know.
    """
    return _metadata(path, *_version(path))


def schema(path: str) -> dict[str, pl.DataType]:
    """Column names and dtypes, as Polars reads them."""
    return {**_schema(path, *_version(path))}


def _version(path: str) -> tuple[int, int]:
    """What tells versions of a file apart: its size, and when it was modified."""
    if is_address(path):
        return 0, 0
    state = os.stat(path)  # noqa: PTH116 - a path takes longer to make than to ask for, and this is asked often
    return state.st_size, state.st_mtime_ns


@functools.lru_cache(maxsize=256)
def _metadata(path: str, size: int, modified_ns: int) -> pq.FileMetaData:  # noqa: ARG001 - they only tell versions apart
    if not is_address(path):
        return pq.read_metadata(path)
    store, inside = filesystem(path)
    return pq.read_metadata(inside, filesystem=store)


@functools.lru_cache(maxsize=256)
def _schema(path: str, size: int, modified_ns: int) -> dict[str, pl.DataType]:  # noqa: ARG001
    return dict(pl.read_parquet_schema(path))


def key_values(path: str) -> dict[str, str]:
    """The file's key-value metadata."""
    pairs: dict[bytes, bytes] = metadata(path).metadata or {}
    return {
        key.decode(errors="replace"): value.decode(errors="replace") for key, value in pairs.items() if key != b"ARROW:schema"
    }


def row_groups(path: str, column: str) -> list[RowGroup]:
    """The row groups in file order, described for one column; an unknown column has no statistics."""
    footer, dtype = metadata(path), schema(path).get(column)
    place = _place(footer, column) if dtype is not None and _comparable(dtype) else None
    physical = dtype is not None and dtype.is_temporal()
    return list(_described(footer, place, physical=physical))


def may_be_empty(path: str, column: str) -> bool:
    """Whether an empty text may be in a column: statistics may have the least one cut off, but not to nothing."""
    footer = metadata(path)
    place = _place(footer, column)
    if place is None:
        return True
    known = [footer.row_group(index).column(place).statistics for index in range(footer.num_row_groups)]
    return any(one is None or not one.has_min_max or not one.min_raw for one in known)


def _place(footer: pq.FileMetaData, column: str) -> int | None:
    """The index of a flat column among the leaves of the file's schema."""
    leaves = footer.schema
    found = [index for index in range(len(leaves)) if leaves.column(index).path == column]
    return found[0] if len(found) == 1 else None


def _comparable(dtype: pl.DataType) -> bool:
    return dtype.is_temporal() or dtype.is_numeric()


def _described(footer: pq.FileMetaData, place: int | None, *, physical: bool) -> Iterator[RowGroup]:
    first_row = 0
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        known = None if place is None else group.column(place).statistics
        minimum, maximum = _bounds(known, physical=physical)
        nulls = known.null_count if known is not None and known.has_null_count else None
        yield RowGroup(first_row, group.num_rows, minimum, maximum, nulls)
        first_row += group.num_rows


def _bounds(known: pq.Statistics | None, *, physical: bool) -> tuple[object | None, object | None]:
    if known is None or not known.has_min_max:
        return None, None
    return (known.min_raw, known.max_raw) if physical else (known.min, known.max)
