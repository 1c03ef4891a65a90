"""Values as other programs read them: the one rule for CSV, JSON and Markdown.

A time is ISO 8601 with `Z`, a date its day (a month its first), a length of time its seconds; what is not a number is null.
Nothing is rounded. A column of times shows microseconds in every row or in none, so that one format reads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias

import polars as pl

__all__ = ["Plain", "plain_frame", "plain_value", "text_frame"]

Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"
"""What JSON can say."""


def plain_value(value: object) -> Plain:
    """A scalar, parameter or piece of provenance as JSON can say it.

    >>> plain_value({"first": datetime(2025, 4, 11, 4, 0, 0, 15295), "cv": float("nan")})
    {'first': '2025-04-11T04:00:00.015295Z', 'cv': None}
    """
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items: list[Plain] = [plain_value(item) for item in value]
        return items if isinstance(value, (list, tuple)) else sorted(items, key=str)
    return _plain_scalar(value)


def _plain_scalar(value: object) -> str | float | None:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, datetime):
        return f"{_utc(value).isoformat()}Z"
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.isoformat() if isinstance(value, date) else str(value)


def plain_frame(table: pl.DataFrame) -> pl.DataFrame:
    """The table with times as text, lengths of time as seconds, and null for every number that is none."""
    return pl.DataFrame([_plain(column) for column in table.iter_columns()])


def text_frame(table: pl.DataFrame) -> pl.DataFrame:
    """The plain table with lists and structs as JSON text, for formats whose cells hold no nesting."""
    return plain_frame(table).with_columns(_json(column) for column in table.iter_columns() if column.dtype.is_nested())


def _plain(column: pl.Series) -> pl.Series:
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime):
        return _iso(column)
    if isinstance(dtype, pl.Duration):
        return column.cast(pl.Duration("us")).cast(pl.Int64) / 1e6
    if dtype.is_float():
        return column.to_frame().select(pl.when(pl.first().is_finite()).then(pl.first())).to_series()
    if isinstance(dtype, (pl.Date, pl.Time)):
        return column.cast(pl.String)
    return column


def _iso(column: pl.Series) -> pl.Series:
    moments = column.cast(pl.Datetime("us")) if column.dtype.time_zone is None else _naive(column)  # type: ignore[attr-defined]
    whole = not (moments.dt.microsecond() != 0).any()
    return moments.dt.to_string("%Y-%m-%dT%H:%M:%SZ" if whole else "%Y-%m-%dT%H:%M:%S%.6fZ")


def _naive(column: pl.Series) -> pl.Series:
    return column.dt.convert_time_zone("UTC").dt.replace_time_zone(None).cast(pl.Datetime("us"))


def _utc(time: datetime) -> datetime:
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


def _json(column: pl.Series) -> pl.Expr:
    """JSON text of a nested column: a struct of one field is encoded, then its `{"x":` and `}` are cut off."""
    wrapped = pl.struct(pl.col(column.name).alias("x")).struct.json_encode()
    text = wrapped.str.head(-1).str.slice(len('{"x":'))
    return pl.when(pl.col(column.name).is_not_null()).then(text).alias(column.name)
