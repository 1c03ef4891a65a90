"""The kernels of `returns` and `months`: follow keys through a part, and match those of neighbouring states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numba import njit

from llmtrace.summaries import ttl
from llmtrace.summaries.gaps import NOWHERE
from llmtrace.summaries.ttl import NO_CELL
from llmtrace.summaries.visits import INNER, INPUT, TIME, TOKENS

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.gaps import Rows
    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.ttl import CellArray, Sums
    from llmtrace.summaries.visits import Table

    Small = npt.NDArray[np.uint32]
    Values = npt.NDArray[Any]

Columns: TypeAlias = "tuple[Small, Integers, Integers, Integers, Integers, Small]"
"""Of each key: inner, first_us, last_us, first_input_tokens, last_tokens, positive gaps."""

__all__ = ["cross", "follow", "match", "number", "pick", "renumbered"]

NO_KEY = (1 << 32) - 1


def number(table: Table, offsets: Integers, distinct: int, unknown: int) -> tuple[Small, Small]:
    """Number the pairs of outer and inner key in order of their first visits.

    Args:
        table: visits by outer key.
        offsets: where those of each outer key begin.
        distinct: how many inner keys there are.
        unknown: the inner key of visits that belong to no pair.

    Returns:
        The pair of each visit, `NO_KEY` where there is none; how many pairs each outer key has.
    """
    pair_of, counts = np.empty(len(table), np.uint32), np.zeros(offsets.size - 1, np.uint32)
    _number(table, offsets, np.full(distinct, NOWHERE), unknown, pair_of, counts)
    return pair_of, counts


def follow(table: Table, pair_of: Small, pairs: int) -> tuple[Columns, CellArray, Sums]:
    """Follow each pair through its visits.

    Returns:
        The columns of the pairs; the cell of the gap before each visit, `NO_CELL` at the first; the sums over all gaps.
    """
    inner, positive = np.empty(pairs, np.uint32), np.zeros(pairs, np.uint32)
    first, last, first_input, last_tokens = (np.empty(pairs, np.int64) for _ in range(4))
    columns = (inner, first, last, first_input, last_tokens, positive)
    cells, sums = np.empty(pair_of.size, np.uint32), ttl.no_sums()
    _follow(table, pair_of, columns, cells, sums)
    return columns, cells, sums


def match(
    groups: tuple[Rows, Rows], left: tuple[Integers, Small], right: tuple[Integers, Small], distinct: int
) -> tuple[Rows, Rows, Small]:
    """The pairs of two states together: per outer key those of the left one in their order, then those new on the right.

    Args:
        groups: per outer key its place on the left and on the right, -1 where it is not there.
        left: where the pairs of each outer key begin, and the inner key of each.
        right: the same.
        distinct: how many inner keys there are.

    Returns:
        Per pair its place on the left and on the right, -1 where it is not there; how many pairs each outer key has.
    """
    room = left[1].size + right[1].size
    rows, counts = (np.empty(room, np.int32), np.empty(room, np.int32)), np.zeros(groups[0].size, np.uint32)
    size = _match(groups, left, right, np.full(distinct, NOWHERE), rows, counts)
    return rows[0][:size], rows[1][:size], counts


def cross(
    rows: tuple[Rows, Rows], both: Integers, left: tuple[Integers, Integers], right: tuple[Integers, Integers]
) -> tuple[CellArray, Sums]:
    """The gaps between two neighbouring parts.

    Args:
        rows: per pair its place on the left and on the right.
        both: the pairs that are on both sides.
        left: last arrivals and the tokens of the last requests, by place.
        right: first arrivals and the input tokens of the first requests, by place.

    Returns:
        The cell of each gap; the sums over them.
    """
    cells, sums = np.empty(both.size, np.uint32), ttl.no_sums()
    _cross(rows, both, left, right, cells, sums)
    return cells, sums


def renumbered(values: Small, numbers: Small) -> Small:
    """For each value the number that stands at its place."""
    found = np.empty(values.size, np.uint32)
    _renumber(values, numbers, found)
    return found


def pick(first: Values, first_rows: Rows, second: Values, second_rows: Rows) -> Values:
    """Per pair the value of the first state where it has the pair, else that of the second."""
    picked = np.empty(first_rows.size, first.dtype)
    if first.size and second.size:
        _pick(first, first_rows, second, second_rows, picked)
    else:
        picked[:] = first if first.size else second
    return picked


@njit(nogil=True, cache=True)
def _number(table: Table, offsets: Integers, latest: Integers, unknown: int, pair_of: Small, counts: Small) -> None:
    pairs = 0
    for place in range(counts.size):
        start = pairs
        for row in range(offsets[place], offsets[place + 1]):
            inner = table[row, INNER]
            if inner == unknown:
                pair_of[row] = NO_KEY
                continue
            # Without a branch, which keys that come back at random would make costly.
            is_new = latest[inner] < start
            latest[inner] = pairs if is_new else latest[inner]
            pair_of[row] = latest[inner]
            pairs += is_new
        counts[place] = pairs - start


@njit(nogil=True, cache=True)
def _follow(table: Table, pair_of: Small, columns: Columns, cells: CellArray, sums: Sums) -> None:
    inner, first, last, first_input, last_tokens, positive = columns
    seen = 0
    for row in range(pair_of.size):
        pair = pair_of[row]
        cells[row] = NO_CELL
        if pair == NO_KEY:
            continue
        time = table[row, TIME]
        if pair == seen:
            seen += 1
            inner[pair], first[pair], first_input[pair] = table[row, INNER], time, table[row, INPUT]
        else:
            cells[row] = ttl.add(sums, time - last[pair], table[row, INPUT], last_tokens[pair])
            positive[pair] += time > last[pair]
        last[pair], last_tokens[pair] = time, table[row, TOKENS]


@njit(nogil=True, cache=True)
def _match(
    groups: tuple[Rows, Rows],
    left: tuple[Integers, Small],
    right: tuple[Integers, Small],
    latest: Integers,
    rows: tuple[Rows, Rows],
    counts: Small,
) -> int:
    (left_offsets, left_inner), (right_offsets, right_inner), (left_rows, right_rows) = left, right, rows
    size = 0
    for group in range(counts.size):
        start = size
        a, b = groups[0][group], groups[1][group]
        if a >= 0:
            for row in range(left_offsets[a], left_offsets[a + 1]):
                latest[left_inner[row]] = size
                left_rows[size], right_rows[size] = row, NOWHERE
                size += 1
        if b >= 0:
            for row in range(right_offsets[b], right_offsets[b + 1]):
                pair = latest[right_inner[row]]
                left_rows[size] = NOWHERE
                right_rows[pair if pair >= start else size] = row
                size += pair < start
        counts[group] = size - start
    return size


@njit(nogil=True, cache=True)
def _pick(first: Values, first_rows: Rows, second: Values, second_rows: Rows, picked: Values) -> None:
    for pair in range(picked.size):
        ours, theirs = first[max(first_rows[pair], 0)], second[max(second_rows[pair], 0)]
        picked[pair] = ours if first_rows[pair] >= 0 else theirs


@njit(nogil=True, cache=True)
def _cross(
    rows: tuple[Rows, Rows],
    both: Integers,
    left: tuple[Integers, Integers],
    right: tuple[Integers, Integers],
    cells: CellArray,
    sums: Sums,
) -> None:
    for place in range(both.size):
        before, after = rows[0][both[place]], rows[1][both[place]]
        cells[place] = ttl.add(sums, right[0][after] - left[0][before], right[1][after], left[1][before])


@njit(nogil=True, cache=True)
def _renumber(values: Small, numbers: Small, found: Small) -> None:
    for row in range(values.size):
        found[row] = numbers[values[row]]
