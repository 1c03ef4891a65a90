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

`tokens` reads the sums. `Accounts` takes requests, or the summaries of neighbouring parts, at the cost of what is new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.accumulator import Accumulator
from llmtrace.summaries.cells import frozen
from llmtrace.summaries.groups import Groups
from llmtrace.summaries.interning import Interner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.summaries.interning import Ids, Integers, Keys

    Table = np.ndarray[tuple[int, int], np.dtype[np.int64]]

__all__ = ["SCHEMA", "Accounts", "combine", "tokens"]

REQUESTS, FIRST, LAST, INSTANTS, INPUT, OUTPUT, FIELDS = 0, 1, 2, 3, 4, 7, 10
"""Columns of the table that kernels fill; from `INPUT` and `OUTPUT` on stand number, upper and lower part of a sum."""
_NAMES = (
    *("requests", "first_us", "last_us", "instants"),
    *("input_known", "input_high", "input_low"),
    *("output_known", "output_high", "output_low"),
)
SCHEMA: Mapping[str, pl.DataType] = {"key": pl.UInt64(), "name": pl.String(), **dict.fromkeys(_NAMES, pl.Int64())}
"""The columns of a summary."""

_SMALLEST = 1 << 10
_LOWER_BITS = 32
_LOWER = (1 << _LOWER_BITS) - 1


class Accounts(Accumulator[pl.DataFrame]):
    """The accounts of requests in order of time."""

    def __init__(self) -> None:
        """Have none."""
        self._keys = Interner()
        self._names = [pl.Series("name", [], pl.String)]
        self._table: Table = np.zeros((_SMALLEST, FIELDS), np.int64)
        self._ascending = np.empty(0, np.int64)

    def count(self, keys: Keys, names: pl.Series, times_us: Integers, inputs: Integers, outputs: Integers) -> Ids:
        """Take the next requests, and say which account each is of.

        Args:
            keys: theirs.
            names: the names behind them.
            times_us: arrivals, ascending.
            inputs: input tokens, -1 where not known.
            outputs: output tokens, the same.
        """
        known, ids = self._numbered(keys)
        rows = np.empty(self._keys.keys.size - known, np.int64)
        shown = frozen(ids, times_us, inputs, outputs)
        _fill(shown, self._table, known, rows)
        self._names.append(names.gather(rows))
        return ids

    @property
    def numbers(self) -> Interner:
        """What numbers the keys."""
        return self._keys

    def add(self, state: pl.DataFrame) -> None:
        """Take the accounts of the next part."""
        self.taken(state)

    def taken(self, state: pl.DataFrame) -> Ids:
        """Take the accounts of the next part, and say which number each key has."""
        known, places = self._numbered(state["key"].to_numpy())
        self._names.append(state["name"].filter(pl.Series(places >= known)))
        own, where = frozen(np.ascontiguousarray(state.select(_NAMES).to_numpy()), places)
        _add(own, where, self._table)
        return places

    def groups(self, ids: Ids) -> Groups:
        """The requests with these accounts, as groups."""
        order = self._order()
        return Groups(ids, order, {"key": pl.Series(self._keys.keys[order])})

    def total(self) -> pl.DataFrame:
        """The accounts of all that was taken."""
        order = self._order()
        names, table = pl.concat(self._names).gather(order), self._table[order]
        columns = (pl.Series(field, table[:, place]) for place, field in enumerate(_NAMES))
        return pl.DataFrame([pl.Series("key", self._keys.keys[order]), names, *columns])

    def _order(self) -> Integers:
        """The numbers of all keys, so that the keys ascend."""
        if self._ascending.size < self._keys.keys.size:
            self._ascending = np.argsort(self._keys.keys)
        return self._ascending

    def _numbered(self, keys: Keys) -> tuple[int, Ids]:
        """How many keys were known, and the number of each of these, for which there is room now."""
        known = self._keys.keys.size
        ids, count = self._keys.add(keys), self._keys.keys.size
        if count > len(self._table):
            wider = np.zeros((2 * count, FIELDS), np.int64)
            wider[:known] = self._table[:known]
            self._table = wider
        return known, ids


def combine(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The accounts of neighbouring parts, in order of time."""
    return Accounts().together(frames)


def tokens(side: str) -> pl.Expr:
    """The sum of the known tokens of a side, `input` or `output`: Int128, null where none is known."""
    upper, lower = (pl.col(f"{side}_{part}").cast(pl.Int128) for part in ("high", "low"))
    return pl.when(pl.col(f"{side}_known") > 0).then(upper * (1 << _LOWER_BITS) + lower)


@njit(nogil=True, cache=True)
def _fill(columns: tuple[Ids, Integers, Integers, Integers], table: Table, known: int, first_rows: Integers) -> None:
    """Count requests; and of each key beyond those that are known the row in which it comes first."""
    ids, times, inputs, outputs = columns
    for row in range(ids.size):
        one, time = ids[row], times[row]
        if table[one, REQUESTS] == 0:
            table[one, FIRST] = time
            table[one, INSTANTS] = 1
            first_rows[one - known] = row
        else:
            table[one, INSTANTS] += time != table[one, LAST]
        table[one, REQUESTS] += 1
        table[one, LAST] = time
        _count(table, one, INPUT, inputs[row])
        _count(table, one, OUTPUT, outputs[row])


@njit(nogil=True, cache=True)
def _count(table: Table, one: int, side: int, value: int) -> None:
    """Add a value that is known, and keep the lower part of the sum below 2^32."""
    if value >= 0:
        lower = table[one, side + 2] + (value & _LOWER)
        table[one, side] += 1
        table[one, side + 1] += (value >> _LOWER_BITS) + (lower >> _LOWER_BITS)
        table[one, side + 2] = lower & _LOWER


@njit(nogil=True, cache=True)
def _add(own: Table, places: Ids, table: Table) -> None:
    """Add the accounts of the next part."""
    for row in range(places.size):
        one = places[row]
        if table[one, REQUESTS] == 0:
            table[one] = own[row]
            continue
        table[one, INSTANTS] += own[row, INSTANTS] - (own[row, FIRST] == table[one, LAST])
        table[one, REQUESTS] += own[row, REQUESTS]
        table[one, LAST] = own[row, LAST]
        for side in (INPUT, OUTPUT):
            lower = table[one, side + 2] + own[row, side + 2]
            table[one, side] += own[row, side]
            table[one, side + 1] += own[row, side + 1] + (lower >> _LOWER_BITS)
            table[one, side + 2] = lower & _LOWER
