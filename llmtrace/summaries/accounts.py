"""What stands to the account of each key: its requests, its tokens, and its first and last arrival.

Columns of a summary, one row per key, ascending, `UNKNOWN` among them where it occurs:

    key                     of a user or a model, say
    name                    the name behind it; null for `UNKNOWN`
    requests                how many
    first_us, last_us       earliest and latest arrival, in microseconds since 1970
    instants                how many different times of arrival: one more than there are positive gaps
    input_known             requests with known input tokens
    input_high, input_low   their sum is input_high · 2^32 + input_low, which no trace is long enough to wrap
    output_known, output_high, output_low   the same for output tokens

`tokens` reads the sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.cells import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.summaries.groups import Groups, Ids, Integers
    from llmtrace.summaries.unions import Union

    Table = np.ndarray[tuple[int, int], np.dtype[np.int64]]

__all__ = ["SCHEMA", "combine", "summarise", "tokens"]

REQUESTS, FIRST, LAST, INSTANTS, INPUT, OUTPUT, FIELDS = 0, 1, 2, 3, 4, 7, 10
"""Columns of the table that kernels fill; from `INPUT` and `OUTPUT` on stand number, upper and lower part of a sum."""
_NAMES = (
    *("requests", "first_us", "last_us", "instants"),
    *("input_known", "input_high", "input_low"),
    *("output_known", "output_high", "output_low"),
)
SCHEMA: Mapping[str, pl.DataType] = {"key": pl.UInt64(), "name": pl.String(), **dict.fromkeys(_NAMES, pl.Int64())}
"""The columns of a summary."""

_LOWER_BITS = 32
_LOWER = (1 << _LOWER_BITS) - 1


def summarise(groups: Groups, names: pl.Series, times_us: Integers, inputs: Integers, outputs: Integers) -> pl.DataFrame:
    """The accounts of a part.

    Args:
        groups: its requests by key.
        names: the name of each request's key.
        times_us: arrivals, ascending.
        inputs: input tokens, -1 where not known.
        outputs: output tokens, the same.
    """
    order = groups.order
    table, first_rows = np.zeros((order.size, FIELDS), np.int64), np.zeros(order.size, np.int64)
    _fill(groups.ids, times_us, inputs, outputs, table, first_rows)
    name = names.gather(first_rows[order]).alias("name")
    return _frame(groups.labels["key"], name, table[order])


def combine(frames: Sequence[pl.DataFrame], union: Union) -> pl.DataFrame:
    """The accounts of neighbouring parts, in order of time.

    Args:
        frames: theirs.
        union: of their keys.
    """
    if len(frames) == 1:
        return frames[0]
    table, rows = np.zeros((union.keys.size, FIELDS), np.int64), np.zeros(union.keys.size, np.int64)
    start = 0
    for frame, where in zip(frames, union.places, strict=True):
        own, there = frozen(np.ascontiguousarray(frame.select(_NAMES).to_numpy()), where)
        _add(own, there, table, rows, start)
        start += frame.height
    names = pl.concat([frame["name"] for frame in frames]).gather(rows)
    return _frame(pl.Series(union.keys), names, table)


def tokens(side: str) -> pl.Expr:
    """The sum of the known tokens of a side, `input` or `output`: Int128, null where none is known."""
    upper, lower = (pl.col(f"{side}_{part}").cast(pl.Int128) for part in ("high", "low"))
    return pl.when(pl.col(f"{side}_known") > 0).then(upper * (1 << _LOWER_BITS) + lower)


def _frame(key: pl.Series, name: pl.Series, table: Table) -> pl.DataFrame:
    columns = (pl.Series(field, table[:, place]) for place, field in enumerate(_NAMES))
    return pl.DataFrame([key.alias("key"), name, *columns])


@njit(nogil=True, cache=True)
def _fill(ids: Ids, times: Integers, inputs: Integers, outputs: Integers, table: Table, first_rows: Integers) -> None:
    for row in range(ids.size):
        one, time = ids[row], times[row]
        if table[one, REQUESTS] == 0:
            table[one, FIRST] = time
            table[one, INSTANTS] = 1
            first_rows[one] = row
        else:
            table[one, INSTANTS] += time != table[one, LAST]
        table[one, REQUESTS] += 1
        table[one, LAST] = time
        _count(table, one, INPUT, inputs[row])
        _count(table, one, OUTPUT, outputs[row])
    for one in range(len(table)):
        _carry(table, one)


@njit(nogil=True, cache=True)
def _count(table: Table, one: int, side: int, value: int) -> None:
    """Add a value that is known; its lower half stays below 2^63 for 2^31 rows."""
    known = value >= 0
    counted = value if known else 0
    table[one, side] += known
    table[one, side + 1] += counted >> _LOWER_BITS
    table[one, side + 2] += counted & _LOWER


@njit(nogil=True, cache=True)
def _carry(table: Table, one: int) -> None:
    for side in (INPUT, OUTPUT):
        table[one, side + 1] += table[one, side + 2] >> _LOWER_BITS
        table[one, side + 2] &= _LOWER


@njit(nogil=True, cache=True)
def _add(own: Table, places: Ids, table: Table, rows: Integers, start: int) -> None:
    """Add the accounts of the next part; `rows` has the first row of each key among those of all parts, counted from `start`."""
    for row in range(places.size):
        one = places[row]
        if table[one, REQUESTS] == 0:
            table[one] = own[row]
            rows[one] = start + row
            continue
        table[one, INSTANTS] += own[row, INSTANTS] - (own[row, FIRST] == table[one, LAST])
        table[one, REQUESTS] += own[row, REQUESTS]
        table[one, LAST] = own[row, LAST]
        for field in range(INPUT, FIELDS):
            table[one, field] += own[row, field]
        _carry(table, one)
