"""Dense integers for 64-bit keys, in order of first appearance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from llmtrace.summaries.cells import frozen

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.uint32]
    Keys = npt.NDArray[np.uint64]
    Integers = npt.NDArray[np.int64]

__all__ = ["Interner", "first_rows", "intern"]

_SMALLEST_TABLE = 1 << 12
_SPARSE = 1 << 22
"""Tables up to this size are a quarter full at most, for speed; larger ones half, for memory."""
_ONE = np.uint64(1)
# 2^64 over the golden ratio: the upper bits of a product with it tell even small and regular keys apart (Knuth, TAOCP 6.4).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Interner:
    """Numbers keys that come in several lots.

    >>> interner = Interner()
    >>> interner.add(np.array([7, 9, 7], np.uint64)), interner.add(np.array([9, 4], np.uint64)), interner.keys
    (array([0, 1, 0], dtype=uint32), array([1, 2], dtype=uint32), array([7, 9, 4], dtype=uint64))
    """

    def __init__(self) -> None:
        """Know no key."""
        self._table = np.zeros(_SMALLEST_TABLE, np.uint32)
        self._distinct = np.empty(_room(_SMALLEST_TABLE), np.uint64)
        self._known = 0

    @property
    def keys(self) -> Keys:
        """The key of each integer."""
        return self._distinct[: self._known]

    def add(self, keys: Keys) -> Ids:
        """The integer of each key; keys that are new get the next ones."""
        ids, row = np.empty(keys.size, np.uint32), 0
        (given,) = frozen(keys)
        while True:
            row, self._known = _fill(given, row, ids, self._distinct, self._known, self._table)
            if row == keys.size:
                return ids
            self._grow()

    def _grow(self) -> None:
        size = self._table.size * (4 if self._table.size < _SPARSE else 2)
        distinct = np.empty(_room(size), np.uint64)
        distinct[: self._known] = self.keys
        self._table, self._distinct = np.zeros(size, np.uint32), distinct
        _place(self.keys, self._table)


def intern(keys: Keys) -> tuple[Ids, Keys]:
    """Dense integers for keys, in order of first appearance.

    Returns:
        The integer of each row, and the key of each integer.

    >>> intern(np.array([7, 9, 7], np.uint64))
    (array([0, 1, 0], dtype=uint32), array([7, 9], dtype=uint64))
    """
    interner = Interner()
    return interner.add(keys), interner.keys


def first_rows(ids: Ids, distinct: int) -> Integers:
    """The row in which each integer of `intern` appears first, ascending.

    >>> first_rows(np.array([0, 1, 0], np.uint32), 2)
    array([0, 1])
    """
    rows = np.empty(distinct, np.int64)
    _note_firsts(ids, rows)
    return rows


def _room(table: int) -> int:
    """How many keys a table takes before it has to grow."""
    return table // (4 if table <= _SPARSE else 2)


@njit(nogil=True, cache=True)
def _note_firsts(ids: Ids, rows: Integers) -> None:
    known = 0
    for row in range(ids.size):
        if known < rows.size and ids[row] == known:
            rows[known] = row
            known += 1


@njit(nogil=True, cache=True)
def _shift(table: Ids) -> np.uint64:
    """By how much a 64-bit product is shifted to give a slot of a table, whose size is a power of two."""
    bits = 0
    while table.size >> bits > 1:
        bits += 1
    return np.uint64(64 - bits)


@njit(nogil=True, cache=True)
def _place(keys: Keys, table: Ids) -> None:
    """Put distinct keys into an empty table, in which an integer + 1 stands, so that 0 is free."""
    mask, shift = np.uint64(table.size - 1), _shift(table)
    for one in range(keys.size):
        slot = (keys[one] * _SPREAD) >> shift
        while table[slot] != 0:
            slot = (slot + _ONE) & mask
        table[slot] = one + 1


@njit(nogil=True, cache=True)
def _fill(keys: Keys, row: int, ids: Ids, distinct: Keys, known: int, table: Ids) -> tuple[int, int]:
    """Number keys from `row` on until there is no room for another: the next row and how many keys are known.

    Open addressing with linear probing. What grows the arrays is another function because those that a loop replaces could not
    stay in registers.
    """
    mask, shift = np.uint64(table.size - 1), _shift(table)
    while row < keys.size:
        key = keys[row]
        slot = (key * _SPREAD) >> shift
        while table[slot] != 0 and distinct[table[slot] - 1] != key:
            slot = (slot + _ONE) & mask
        if table[slot] == 0:
            if known == distinct.size:
                break
            distinct[known] = key
            known += 1
            table[slot] = known
        ids[row] = table[slot] - 1
        row += 1
    return row, known
