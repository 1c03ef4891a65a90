"""Counts and sums per group that never wrap.

Columns of a summary: the group's `time` and `key` where grouped by them, `requests` (Int64), and for each value column its sum
(Int128) and, under the name with the suffix `_known`, how many rows the sum is over. A sum over nothing known is 0 of 0 here;
`known_sum` reads it as null.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.groups import group, needs
from llmtrace.summaries.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Ids, Integers
    from llmtrace.summaries.intervals import Interval

__all__ = ["combine", "known_mean", "known_sum", "narrowed", "summary", "wide"]

_LABELS = {"time": pl.Datetime("us"), "key": pl.UInt64()}
_TWO_TO_64 = pl.lit(1 << 64, dtype=pl.Int128)


def summary(
    columns: Sequence[str] = (), *, by: str | None = None, interval: Interval | None = None, complete: bool = False
) -> Summary:
    """Count the rows and sum the value columns of each group.

    Args:
        columns: value columns: integers, not negative, null where not known.
        by: a column of keys to group by.
        interval: the intervals to group by; the part is sorted by `timestamp` then.
        complete: sum over the rows in which every column is known, and no others.
    """
    labels = [name for name, given in (("time", interval), ("key", by)) if given is not None]
    values = {name: dtype for column in columns for name, dtype in ((column, pl.Int128()), (f"{column}_known", pl.Int64()))}
    schema = {**{label: _LABELS[label] for label in labels}, "requests": pl.Int64(), **values}
    return Summary(
        needs(by, interval, columns), schema, partial(_summarise, columns=columns, by=by, interval=interval, complete=complete)
    )


def combine(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The summary of all parts, groups in ascending order."""
    rows = pl.concat(frames)
    labels = [name for name in rows.columns if name in _LABELS]
    return rows.group_by(labels).sum().sort(labels) if labels else rows.sum()


def known_sum(column: str) -> pl.Expr:
    """The sum of a column of a summary; null where no row was known."""
    return pl.when(pl.col(f"{column}_known") > 0).then(pl.col(column))


def known_mean(column: str) -> pl.Expr:
    """The mean of a column over the rows where it is known; null where there is none."""
    return pl.when(pl.col(f"{column}_known") > 0).then(pl.col(column) / pl.col(f"{column}_known"))


def narrowed(frame: pl.DataFrame) -> pl.DataFrame:
    """The same frame with every Int128 column as Int64, if all its values fit.

    >>> narrowed(pl.DataFrame({"tokens": [1, 2]}, schema={"tokens": pl.Int128}))["tokens"].dtype
    Int64
    """
    sums = [name for name, dtype in frame.schema.items() if dtype == pl.Int128]
    fits = [name for name in sums if frame.select((pl.col(name).abs() < 1 << 63).all()).item()]
    return frame.with_columns(pl.col(fits).cast(pl.Int64))


def wide(high: Integers, low: npt.NDArray[np.uint64]) -> pl.Series:
    """Int128 from its upper and lower 64 bits."""
    halves = pl.DataFrame({"high": high, "low": low})
    return halves.select(pl.col("high").cast(pl.Int128) * _TWO_TO_64 + pl.col("low").cast(pl.Int128)).to_series()


def _summarise(
    frame: pl.DataFrame, *, columns: Sequence[str], by: str | None, interval: Interval | None, complete: bool
) -> pl.DataFrame:
    groups = group(frame, by, interval)
    ids, order = groups.ids, groups.order
    found: dict[str, pl.Series | Integers] = {**groups.labels, "requests": _count(ids, order.size)[order]}
    rows = [frame[column].to_numpy() >= 0 for column in columns]
    everywhere = np.logical_and.reduce(rows) if complete else None
    for column, here in zip(columns, rows, strict=True):
        known = here if everywhere is None else everywhere
        values = frame[column].to_numpy() if known.any() else np.zeros(0, np.int64)
        number, low, high = _add_up(ids, order.size, values.astype(np.int64, copy=False), known)
        found |= {column: wide(high[order], low[order]), f"{column}_known": number[order]}
    return pl.DataFrame(found)


@njit(nogil=True, cache=True)
def _count(ids: Ids, groups: int) -> Integers:
    counts = np.zeros(groups, np.int64)
    for one in ids:
        counts[one] += 1
    return counts


@njit(nogil=True, cache=True)
def _add_up(
    ids: Ids, groups: int, values: Integers, rows: npt.NDArray[np.bool_]
) -> tuple[Integers, npt.NDArray[np.uint64], Integers]:
    """Per group the number of values in the given rows and their sum, as lower and upper 64 bits."""
    number = np.zeros(groups, np.int64)
    low = np.zeros(groups, np.uint64)
    high = np.zeros(groups, np.int64)
    for row in range(values.size):
        if rows[row]:
            one, value = ids[row], np.uint64(values[row])
            number[one] += 1
            low[one] += value
            high[one] += low[one] < value
    return number, low, high
