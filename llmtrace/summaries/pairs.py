"""Pairs of consecutive gaps, binned: which length follows which, and Spearman's rank correlation from that.

A gap falls into a bucket of the log-linear histogram (see `histogram`): with `bits` significant bits, gaps below 2^(bits+1)
microseconds have a bucket each, longer ones share it with gaps that differ by less than a relative 2^-bits. Gaps from 2^45
microseconds (407 days) on share the last one. A pair is a cell of a grid: its row is the earlier gap's bucket, its column the
later one's, and its number row · 2^12 + column. Below the rows for all pairs of consecutive gaps there are as many for the pairs
of consecutive positive gaps that have ties between them. So the pairs of the sequence of positive gaps are those of the lower
half, and those of the upper half outside its row and column of ties.

Binning puts the mean rank of a bucket in the place of each rank in it. That is an orthogonal projection: with a share s of the
ranks' variance inside buckets, projected and true ranks are at an angle whose squared sine is s. A correlation is the cosine of
the angle between two vectors, so the angle of Spearman's coefficient is off by at most the two angles together. The variance
inside a bucket is at most that of all its gaps being different. Where no gap reaches 2^(bits+1) microseconds the coefficient is
exact.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from llmtrace.summaries import cells
from llmtrace.summaries.cells import insert
from llmtrace.summaries.histogram import bucket_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.groups import Integers

    Floats = npt.NDArray[np.float64]
    Codes = npt.NDArray[np.uint32]

__all__ = ["ALL_GAPS", "POSITIVE_GAPS", "border", "bucket_of_gap", "count_pair", "drain", "list_pairs", "new_grid", "spearman"]

ALL_GAPS, POSITIVE_GAPS = 0, 1
LONGEST_BITS = 45
FEWEST_PAIRS = 3
"""With fewer pairs there is no correlation to speak of."""
_COLUMN_BITS = 12
_COLUMN = (1 << _COLUMN_BITS) - 1


def border(gaps_us: Integers, bits: int) -> Cells:
    """The pairs that a gap across a border makes with the gaps before and after it.

    Args:
        gaps_us: a row per key with the last gap before the border and the last positive one, the gap across it, and the first gap
            after it and the first positive one; -1 is a gap that there is not.
        bits: significant bits.
    """
    found: Cells = _border(gaps_us, bits)
    return found


def spearman(found: Cells, bits: int, sequence: int) -> tuple[Integers, Floats, Floats]:
    """Spearman's rank correlation of consecutive gaps, per row, ties at their mean rank.

    Args:
        found: the pairs of each row.
        bits: significant bits that they were made with.
        sequence: `ALL_GAPS`, or `POSITIVE_GAPS`, which leaves ties out.

    Returns:
        Pairs; the coefficient, NaN with fewer than 3 pairs or where either side does not vary; how far the exact one may be off.
    """
    offsets, codes, counts = cells.frozen(*found)
    pairs, coefficients, bounds = _spearman(offsets, codes, counts, bits, sequence)
    return pairs, coefficients, bounds


@njit(nogil=True, cache=True)
def bucket_of_gap(gap: int, bits: int) -> int:
    """The row or the column of a gap, for kernels."""
    return min(bucket_of(gap, bits), _side(bits) - 1)


@njit(nogil=True, cache=True)
def list_pairs(arrivals: Integers, bits: int, found: Codes, counts: Codes, first: int) -> int:
    """Count the pairs of a few arrivals among the cells of `found` from `first` on; where these end then."""
    apart = _side(bits) << _COLUMN_BITS
    before, positive, size = 0, 0, first
    for row in range(1, arrivals.size):
        bucket = bucket_of_gap(arrivals[row] - arrivals[row - 1], bits)
        if row > 1:
            size = insert(before << _COLUMN_BITS | bucket, found, counts, first, size)
        if before == 0 and bucket > 0 and positive > 0:
            size = insert(apart + (positive << _COLUMN_BITS | bucket), found, counts, first, size)
        before, positive = bucket, bucket if bucket > 0 else positive
    return size


@njit(nogil=True, cache=True)
def new_grid(bits: int) -> tuple[Codes, Integers]:
    """A grid to count many pairs in, by row and column; and per row the columns that are not zero, which are none."""
    side = _side(bits)
    reach = np.empty((2 * side, 2), np.int64)
    reach[:, 0], reach[:, 1] = side, -1
    return np.zeros((2 * side, side), np.uint32), reach


@njit(nogil=True, cache=True)
def count_pair(grid: Codes, reach: Integers, row: int, column: int) -> None:
    """Count a pair in a grid; those of its lower half stand as many rows below as it has columns."""
    grid[row, column] += np.uint32(1)
    # Seldom true, so that the branches cost less than storing a minimum and a maximum each time.
    if column < reach[row, 0]:  # noqa: PLR1730
        reach[row, 0] = column
    if column > reach[row, 1]:  # noqa: PLR1730
        reach[row, 1] = column


@njit(nogil=True, cache=True)
def drain(grid: Codes, reach: Integers, low: int, high: int, found: Codes, counts: Codes, size: int) -> int:
    """Move the counts of rows from `low` to `high` out of a grid, to `found` from `size` on; where they end there."""
    side = grid.shape[1]
    for row in range(low, high + 1):
        for column in range(reach[row, 0], reach[row, 1] + 1):
            found[size], counts[size] = row << _COLUMN_BITS | column, grid[row, column]
            size += grid[row, column] > 0
            grid[row, column] = 0
        reach[row, 0], reach[row, 1] = side, -1
    return size


@njit(nogil=True, cache=True)
def _side(bits: int) -> int:
    """How many buckets there are."""
    return (LONGEST_BITS + 1 - bits) << bits


@njit(nogil=True, cache=True)
def _cell(earlier: int, later: int, bits: int) -> int:
    """The number of a pair's cell in the upper half."""
    return bucket_of_gap(earlier, bits) << _COLUMN_BITS | bucket_of_gap(later, bits)


@njit(nogil=True, cache=True)
def _place(code: int) -> tuple[int, int]:
    """The row and the column of a cell."""
    signed = int(np.int64(code))
    return signed >> _COLUMN_BITS, signed & _COLUMN


@njit(nogil=True, cache=True)
def _border(gaps: Integers, bits: int) -> tuple[Integers, Codes, Codes]:
    ends = np.zeros(gaps.shape[0] + 1, np.int64)
    found, counts = np.empty(4 * gaps.shape[0], np.uint32), np.empty(4 * gaps.shape[0], np.uint32)
    for row in range(gaps.shape[0]):
        ends[row + 1] = ends[row] if gaps[row, 2] < 0 else _insert_border(gaps[row], bits, found, counts, ends[row])
    return ends, found[: ends[-1]].copy(), counts[: ends[-1]].copy()


@njit(nogil=True, cache=True)
def _insert_border(gaps: Integers, bits: int, found: Codes, counts: Codes, first: int) -> int:
    """The pairs that a gap makes with its neighbours; the new size of `found`."""
    before, positive_before, gap, after, positive_after = gaps
    size = first
    if before >= 0:
        size = insert(_cell(before, gap, bits), found, counts, first, size)
    if after >= 0:
        size = insert(_cell(gap, after, bits), found, counts, first, size)
    if gap == 0:
        return _insert_apart(positive_before, positive_after, bits, found, counts, first, size)
    if before == 0:
        size = _insert_apart(positive_before, gap, bits, found, counts, first, size)
    return _insert_apart(gap, positive_after, bits, found, counts, first, size) if after == 0 else size


@njit(nogil=True, cache=True)
def _insert_apart(before: int, after: int, bits: int, found: Codes, counts: Codes, first: int, size: int) -> int:
    """The pair of two positive gaps that have ties between them, if there are both; the new size."""
    if before <= 0 or after <= 0:
        return size
    apart = _side(bits) << _COLUMN_BITS
    return insert(apart + _cell(before, after, bits), found, counts, first, size)


@njit(nogil=True, cache=True)
def _spearman(offsets: Integers, codes: Codes, counts: Codes, bits: int, sequence: int) -> tuple[Integers, Floats, Floats]:
    rows = offsets.size - 1
    pairs, coefficients, bounds = np.zeros(rows, np.int64), np.full(rows, np.nan), np.full(rows, np.nan)
    table = np.zeros((2, _side(bits)))
    for row in range(rows):
        mine = codes[offsets[row] : offsets[row + 1]], counts[offsets[row] : offsets[row + 1]]
        pairs[row] = _marginals(mine[0], mine[1], sequence, table)
        if pairs[row] >= FEWEST_PAIRS:
            spreads = _to_ranks(table[0], bits), _to_ranks(table[1], bits)
            product = _product(mine[0], mine[1], sequence, table)
            coefficients[row], bounds[row] = _coefficient(product, spreads[0], spreads[1])
    return pairs, coefficients, bounds


@njit(nogil=True, cache=True)
def _belongs(row: int, column: int, apart: int, sequence: int) -> bool:
    """Whether a cell holds pairs of a sequence; rows from `apart` on are the lower half."""
    if sequence == ALL_GAPS:
        return row < apart
    return row >= apart or (row > 0 and column > 0)


@njit(nogil=True, cache=True)
def _marginals(codes: Codes, counts: Codes, sequence: int, table: Floats) -> int:
    """Count each side's buckets into a row of the table; the number of pairs."""
    apart = table.shape[1]
    pairs = 0
    table[:] = 0.0
    for cell in range(codes.size):
        row, column = _place(codes[cell])
        if _belongs(row, column, apart, sequence):
            table[0, row if row < apart else row - apart] += counts[cell]
            table[1, column] += counts[cell]
            pairs += int(np.int64(counts[cell]))
    return pairs


@njit(nogil=True, cache=True)
def _to_ranks(buckets: Floats, bits: int) -> tuple[float, float]:
    """Replace the number of gaps in each bucket by their mean rank, from the middle one.

    Returns:
        The sum of squares of these ranks over all gaps, and at most how much the gaps' own ranks add to it.
    """
    half, below, seen, hidden = buckets.sum() / 2, 0.0, 0.0, 0.0
    for bucket in range(buckets.size):
        number = buckets[bucket]
        buckets[bucket] = below + number / 2 - half
        seen += number * buckets[bucket] ** 2
        if number > 0 and bucket >> (bits + 1):
            different = min(number, 2.0 ** ((bucket >> bits) - 1))
            hidden += number**3 / 12 * (1 - 1 / different**2)
        below += number
    return seen, hidden


@njit(nogil=True, cache=True)
def _product(codes: Codes, counts: Codes, sequence: int, ranks: Floats) -> float:
    apart = ranks.shape[1]
    total = 0.0
    for cell in range(codes.size):
        row, column = _place(codes[cell])
        if _belongs(row, column, apart, sequence):
            total += counts[cell] * ranks[0, row if row < apart else row - apart] * ranks[1, column]
    return total


@njit(nogil=True, cache=True)
def _coefficient(product: float, earlier: tuple[float, float], later: tuple[float, float]) -> tuple[float, float]:
    """The correlation, and at most how far the exact one is from it."""
    if earlier[0] == 0 or later[0] == 0:
        return np.nan, np.nan
    coefficient = min(max(product / math.sqrt(earlier[0] * later[0]), -1.0), 1.0)
    tilt = math.atan(math.sqrt(earlier[1] / earlier[0])) + math.atan(math.sqrt(later[1] / later[0]))
    angle = math.acos(coefficient)
    lowest, highest = math.cos(min(angle + tilt, math.pi)), math.cos(max(angle - tilt, 0.0))
    return coefficient, max(coefficient - lowest, highest - coefficient)
