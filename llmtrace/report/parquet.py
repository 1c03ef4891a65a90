"""Parquet: one table as it is, in types that every reader of Parquet knows."""

from __future__ import annotations

import io

import polars as pl
from polars import selectors as cs

__all__ = ["dumps"]

_DIGITS = 38
"""A 128-bit integer has at most 39 digits; no count or sum of ours comes near that."""


def dumps(table: pl.DataFrame) -> bytes:
    """The table as a Parquet file.

    Times are marked as UTC. A 128-bit integer becomes 64 bits wide, or a decimal if that is not enough.
    """
    wide = table.select(cs.by_dtype(pl.Int128)).columns
    stream = io.BytesIO()
    table.with_columns(
        cs.datetime(time_zone=None).dt.replace_time_zone("UTC"),
        *(_narrowed(table[name]) for name in wide),
    ).write_parquet(stream)
    return stream.getvalue()


def _narrowed(column: pl.Series) -> pl.Series:
    narrow = column.cast(pl.Int64, strict=False)
    return narrow if narrow.null_count() == column.null_count() else column.cast(pl.Decimal(_DIGITS, 0))
