"""Groups of rows within runs: rows of one run that have the same key are a group, whatever other runs hold.

Where a part is sorted by time its minutes or windows are runs, and a table for each of them alone stays small enough for the
nearest cache of the processor, which one for the whole part would not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from llmtrace.summaries.cells import frozen

if TYPE_CHECKING:
    from llmtrace.summaries.groups import Ids, Integers, Keys

__all__ = ["Within", "added", "counted", "greatest", "mixed", "runs_of", "within"]

_ONE = np.uint64(1)
_LEAST_BITS = 4
# 2^64 over the golden ratio: the upper bits of a product with it tell even regular keys apart (Knuth, TAOCP 6.4).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
# Odd, so that a key times it is another for every key.
_STEP = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True)
class Within:
    """The groups of rows, in order of their first row; so those of a run stand together.

    Attributes:
        ids: the group of each row.
        firsts: the first row of each group.
        borders: where the groups of each run begin, and the number of groups.
    """

    ids: Ids
    firsts: Integers
    borders: Integers


def within(keys: Keys, borders: Integers) -> Within:
    """Group rows by key within runs.

    Args:
        keys: of each row.
        borders: the row where each run begins, and the number of rows.

    >>> found = within(np.array([7, 9, 7, 7], np.uint64), np.array([0, 3, 4]))
    >>> found.ids, found.firsts, found.borders
    (array([0, 1, 0, 2], dtype=uint32), array([0, 1, 3]), array([0, 2, 3]))
    """
    longest = int(np.diff(borders).max(initial=0))
    ids, firsts, ends = np.empty(keys.size, np.uint32), np.empty(keys.size, np.int64), np.zeros(borders.size, np.int64)
    table = np.empty(1 << _bits(longest), np.uint32), np.empty(longest, np.uint64)
    keys, borders = frozen(keys, borders)
    _within(keys, borders, ids, firsts, ends, table)
    return Within(ids, firsts[: ends[-1]].copy(), ends)


def mixed(*keys: Keys) -> Keys:
    """One key for several. Keys are random, so two combinations share one as seldom as two keys do.

    >>> mixed(np.array([1, 2], np.uint64), np.array([0, 0], np.uint64))
    array([1, 2], dtype=uint64)
    """
    found = keys[0]
    step = _ONE
    with np.errstate(over="ignore"):
        for more in keys[1:]:
            step = step * _STEP
            found = found + more * step
    return found


def runs_of(values: Integers) -> Integers:
    """Where runs of equal values begin, and the number of values.

    >>> runs_of(np.array([5, 5, 8]))
    array([0, 2, 3])
    """
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.concatenate([np.zeros(1, np.int64), changes, np.full(int(values.size > 0), values.size)])


def counted(ids: Ids, groups: int) -> Integers:
    """How many rows each group has."""
    counts: Integers = np.bincount(ids, minlength=groups)
    return counts


def added(ids: Ids, values: Integers, groups: int) -> Integers:
    """The sum of the values of each group.

    >>> added(np.array([0, 1, 0], np.uint32), np.array([3, 4, 5]), 2)
    array([8, 4])
    """
    sums = np.zeros(groups, np.int64)
    ids, values = frozen(ids, values)
    _add(ids, values, sums)
    return sums


def greatest(ids: Ids, values: Integers, groups: int) -> Integers:
    """The greatest value of each group, no value being negative.

    >>> greatest(np.array([0, 1, 0], np.uint32), np.array([3, 4, 5]), 2)
    array([5, 4])
    """
    found = np.zeros(groups, np.int64)
    ids, values = frozen(ids, values)
    _raise(ids, values, found)
    return found


@njit(nogil=True, cache=True)
def _bits(rows: int) -> int:
    """The size of a table for so many rows, at most half full, as a power of two."""
    bits = _LEAST_BITS
    while 1 << bits < 2 * rows:
        bits += 1
    return bits


@njit(nogil=True, cache=True)
def _within(keys: Keys, borders: Integers, ids: Ids, firsts: Integers, ends: Integers, table: tuple[Ids, Keys]) -> None:
    slots, distinct = table
    known = 0
    for run in range(borders.size - 1):
        bits = _bits(borders[run + 1] - borders[run])
        known = _number(keys, (borders[run], borders[run + 1]), known, (slots[: 1 << bits], distinct), bits, ids, firsts)
        ends[run + 1] = known


@njit(nogil=True, cache=True)
def _number(keys: Keys, run: tuple[int, int], known: int, table: tuple[Ids, Keys], bits: int, ids: Ids, firsts: Integers) -> int:
    """Number the keys of a run from `known` on; how many there are then. A slot has a number in the run + 1; 0 is free."""
    slots, distinct = table
    slots[:] = 0
    base, shift, mask = known, np.uint64(64 - bits), np.uint64(slots.size - 1)
    for row in range(run[0], run[1]):
        key = keys[row]
        slot = (key * _SPREAD) >> shift
        while slots[slot] != 0 and distinct[slots[slot] - 1] != key:
            slot = (slot + _ONE) & mask
        if slots[slot] == 0:
            distinct[known - base] = key
            firsts[known] = row
            known += 1
            slots[slot] = known - base
        ids[row] = base + np.int64(slots[slot]) - 1
    return known


@njit(nogil=True, cache=True)
def _add(ids: Ids, values: Integers, sums: Integers) -> None:
    for row in range(ids.size):
        sums[ids[row]] += values[row]


@njit(nogil=True, cache=True)
def _raise(ids: Ids, values: Integers, found: Integers) -> None:
    for row in range(ids.size):
        found[ids[row]] = max(found[ids[row]], values[row])
