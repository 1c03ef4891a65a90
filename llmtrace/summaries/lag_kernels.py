"""The kernels of `lags`: the gaps of each key walked through, and rows of neighbouring parts joined.

A key is a row of `FIELDS`, which are integers, and counts in cells. Gaps are worked on in blocks that stay in the nearest cache,
step by step, and most steps are turned by the compiler into operations on several gaps at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numba import njit

from llmtrace.summaries.fixed import added, fixed_log
from llmtrace.summaries.kernels import inner
from llmtrace.summaries.marked import drain
from llmtrace.summaries.pairs import count_pairs

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.marked import Room

    Row = npt.NDArray[np.int64]

__all__ = ["FIELDS", "join", "walk"]

_EDGES = (
    "requests",
    "first_us",
    "last_us",
    "ties",
    "first_gap_us",
    "last_gap_us",
    "first_positive_us",
    "last_positive_us",
)
REQUESTS, FIRST, LAST, TIES, FIRST_GAP, LAST_GAP, FIRST_POSITIVE, LAST_POSITIVE = range(len(_EDGES))
_SUMS = ("squares", "products", "logs", "log_squares", "log_products")
SQUARES, PRODUCTS, LOGS, LOG_SQUARES, LOG_PRODUCTS = (len(_EDGES) + 2 * place for place in range(len(_SUMS)))
FIELDS = (*_EDGES, *(f"{name}_{half}" for name in _SUMS for half in ("high", "low")))
_WIDTH = len(FIELDS)

_BLOCK = 1024
Block: TypeAlias = "tuple[Integers, Integers, Integers, npt.NDArray[np.uint32]]"
"""Gaps, the positive ones among them, the logarithms of these, and buckets; at place 0 of each the last of the block before."""


@njit(nogil=True, cache=True)
def walk(times: Integers, offsets: Integers, bits: int, within: Room) -> tuple[Integers, Cells]:
    """A row of `FIELDS` for each key, and its pairs.

    Args:
        times: ascending for each key.
        offsets: where the times of each key begin, and the number of all.
        bits: significant bits of the buckets of pairs.
        within: room for pairs.
    """
    fields, ends = np.zeros((offsets.size - 1, _WIDTH), np.int64), np.zeros(offsets.size, np.int64)
    codes, counts = np.empty(2 * times.size + 1, np.uint32), np.empty(2 * times.size + 1, np.uint32)
    gaps, positive, logs = np.empty(_BLOCK + 1, np.int64), np.empty(_BLOCK + 1, np.int64), np.empty(_BLOCK + 1, np.int64)
    block = gaps, positive, logs, np.empty(_BLOCK + 1, np.uint32)
    for key in range(offsets.size - 1):
        arrivals, row = times[offsets[key] : offsets[key + 1]], fields[key]
        _set_edges(arrivals, row)
        _follow(arrivals, bits, row, block, within)
        ends[key + 1] = drain(within, codes, counts, ends[key])
    return fields, (ends, codes[: ends[-1]].copy(), counts[: ends[-1]].copy())


@inner
def _set_edges(arrivals: Integers, row: Row) -> None:
    row[REQUESTS], row[FIRST], row[LAST] = arrivals.size, arrivals[0], arrivals[-1]
    row[FIRST_GAP : LAST_POSITIVE + 1] = -1
    if arrivals.size > 1:
        row[FIRST_GAP], row[LAST_GAP] = arrivals[1] - arrivals[0], arrivals[-1] - arrivals[-2]
        row[FIRST_POSITIVE], row[LAST_POSITIVE] = _positive_edges(arrivals)


@inner
def _positive_edges(arrivals: Integers) -> tuple[int, int]:
    """The first and the last positive gap; -1 where there is none."""
    if arrivals[0] == arrivals[-1]:
        return -1, -1
    start, end = 0, arrivals.size - 1
    while arrivals[start + 1] == arrivals[start]:
        start += 1
    while arrivals[end - 1] == arrivals[end]:
        end -= 1
    return arrivals[start + 1] - arrivals[start], arrivals[end] - arrivals[end - 1]


@inner
def _follow(arrivals: Integers, bits: int, row: Row, block: Block, within: Room) -> None:
    """Ties, the sums and the pairs of one key. What is before the first gap is zero, which adds nothing to a product."""
    gaps, positive, logs, buckets = block
    gaps[0], positive[0], logs[0] = 0, 0, 0
    for start in range(1, arrivals.size, _BLOCK):
        size = _subtract(arrivals[start : start + _BLOCK], arrivals[start - 1 :], gaps)
        found = _leave_out_ties(gaps, size, positive)
        row[TIES] += size - found
        row[LOGS + 1] += _take_logs(positive, found, logs)
        _add_products(gaps, size, row[SQUARES:])
        _add_products(logs, found, row[LOG_SQUARES:])
        count_pairs(gaps, size, start - 1, bits, buckets, within)
        gaps[0], positive[0], logs[0] = gaps[size], positive[found], logs[found]


@inner
def _subtract(later: Integers, earlier: Integers, gaps: Integers) -> int:
    for place in range(later.size):
        gaps[place + 1] = later[place] - earlier[place]
    return later.size


@inner
def _leave_out_ties(gaps: Integers, size: int, positive: Integers) -> int:
    """The positive gaps end to end, and how many they are; without a branch, since ties come as they like."""
    found = 0
    for place in range(1, size + 1):
        positive[found + 1] = gaps[place]
        found += gaps[place] > 0
    return found


@inner
def _take_logs(values: Integers, size: int, logs: Integers) -> int:
    """The fixed logarithms of values; their sum."""
    total = 0
    for place in range(1, size + 1):
        logs[place] = fixed_log(values[place])
        total += logs[place]
    return total


@inner
def _add_products(values: Integers, size: int, sums: Row) -> None:
    """Add Σ x² to the first of the sums, and Σ x · next x to the second."""
    high, low = np.uint64(sums[0]), np.uint64(sums[1])
    next_high, next_low = np.uint64(sums[2]), np.uint64(sums[3])
    for place in range(1, size + 1):
        before, value = np.uint64(values[place - 1]), np.uint64(values[place])
        high, low = added(high, low, value, value)
        next_high, next_low = added(next_high, next_low, before, value)
    sums[0], sums[1] = np.int64(high), np.int64(low)
    sums[2], sums[3] = np.int64(next_high), np.int64(next_low)


@njit(nogil=True, cache=True)
def join(fields: Integers, order: Integers, starts: Integers) -> tuple[Integers, Integers]:
    """The rows of neighbours in time as one row for each key, and the gaps around the borders between them.

    Args:
        fields: a row of `FIELDS` for each key of each part.
        order: the rows, key by key, those of each in order of time.
        starts: where each key begins in `order`, and its length.

    Returns:
        A row for each key; and for each place in `order` what `pairs.border` needs of the gap before that row.
    """
    joined, borders = np.empty((starts.size - 1, _WIDTH), np.int64), np.full((order.size, 3), -1)
    for key in range(starts.size - 1):
        row, first = joined[key], fields[order[starts[key]]]
        # Not as slices: Numba would spend seconds on the message for those that do not fit.
        for field in range(_WIDTH):
            row[field] = first[field]
        for place in range(starts[key] + 1, starts[key + 1]):
            _join(row, fields[order[place]], borders[place])
    return joined, borders


@inner
def _join(row: Row, after: Row, border: Row) -> None:
    """Let a row go on with a later one of the same key; the gap between them joins the gaps around it to pairs."""
    gap = after[FIRST] - row[LAST]
    border[0], border[1], border[2] = row[LAST_GAP], gap, after[FIRST_GAP]
    _add_sums(row, after)
    _add(row[SQUARES:], gap, gap)
    _add(row[PRODUCTS:], row[LAST_GAP], gap)
    _add(row[PRODUCTS:], gap, after[FIRST_GAP])
    _join_logs(row, gap, after[FIRST_POSITIVE])
    _join_edges(row, gap, after)


@inner
def _add_sums(row: Row, after: Row) -> None:
    for field in range(SQUARES, _WIDTH, 2):
        low = np.uint64(row[field + 1]) + np.uint64(after[field + 1])
        carry = np.int64(low < np.uint64(after[field + 1]))
        row[field], row[field + 1] = row[field] + after[field] + carry, np.int64(low)


@inner
def _add(total: Row, x: int, y: int) -> None:
    """Add a product to a sum; a factor that is not positive adds nothing."""
    if x > 0 and y > 0:
        high, low = added(np.uint64(total[0]), np.uint64(total[1]), np.uint64(x), np.uint64(y))
        total[0], total[1] = np.int64(high), np.int64(low)


@inner
def _join_logs(row: Row, gap: int, after: int) -> None:
    """What the gap at a border adds to the sums of logarithms; at a tie the positive gaps around it become neighbours."""
    log_before = fixed_log(row[LAST_POSITIVE]) if row[LAST_POSITIVE] > 0 else 0
    log_after = fixed_log(after) if after > 0 else 0
    if gap == 0:
        _add(row[LOG_PRODUCTS:], log_before, log_after)
        return
    log = fixed_log(gap)
    _add(row[LOGS:], 1, log)
    _add(row[LOG_SQUARES:], log, log)
    _add(row[LOG_PRODUCTS:], log_before, log)
    _add(row[LOG_PRODUCTS:], log, log_after)


@inner
def _join_edges(row: Row, gap: int, after: Row) -> None:
    row[REQUESTS] += after[REQUESTS]
    row[TIES] += after[TIES] + (gap == 0)
    row[LAST] = after[LAST]
    if row[FIRST_GAP] < 0:
        row[FIRST_GAP] = gap
    if row[FIRST_POSITIVE] < 0:
        row[FIRST_POSITIVE] = gap if gap > 0 else after[FIRST_POSITIVE]
    row[LAST_GAP] = after[LAST_GAP] if after[LAST_GAP] >= 0 else gap
    if after[LAST_POSITIVE] > 0:
        row[LAST_POSITIVE] = after[LAST_POSITIVE]
    elif gap > 0:
        row[LAST_POSITIVE] = gap
