"""Pairs of consecutive gaps, binned: which length follows which, and Spearman's rank correlation from that.

A gap falls into a bucket of the log-linear histogram (see `histogram`): with `bits` significant bits, gaps below 2^(bits+1)
microseconds have a bucket each, longer ones share it with gaps that differ by less than a relative 2^-bits. Gaps from 2^45
microseconds (407 days) on share the last one. A pair is a cell of a grid: its row is the earlier gap's bucket, its column the
later one's, and its number row · columns + column. Below the rows for all pairs of consecutive gaps there are as many for the
pairs of consecutive positive gaps that have ties between them. So the pairs of the sequence of positive gaps are those of the
lower half, and those of the upper half outside its row and column of ties.

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

from llmtrace.summaries import cells, marked
from llmtrace.summaries.histogram import bucket_of
from llmtrace.summaries.kernels import inner
from llmtrace.summaries.marked import count

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.marked import Room

    Floats = npt.NDArray[np.float64]
    Codes = npt.NDArray[np.uint32]

__all__ = ["ALL_GAPS", "POSITIVE_GAPS", "border", "count_pairs", "room", "spearman"]

ALL_GAPS, POSITIVE_GAPS = 0, 1
LONGEST_BITS = 45
FEWEST_PAIRS = 3
"""With fewer pairs there is no correlation to speak of."""


def room(bits: int) -> Room:
    """Room to count pairs in."""
    return marked.room(2 * ((LONGEST_BITS + 1 - bits) << bits) ** 2)


def border(gaps_us: Integers, bits: int) -> Cells:
    """The pairs that a gap across a border makes with the gaps before and after it, each counted once where it is met.

    Args:
        gaps_us: a row per border with the last gap before it and the last positive one, the gap across it, and the first gap
            after it and the first positive one; -1 is a gap that there is not.
        bits: significant bits.
    """
    offsets, codes = _border(gaps_us, bits)
    return offsets, codes, np.ones(codes.size, np.uint32)


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


@inner
def count_pairs(gaps: Integers, size: int, before: int, positive: int, bits: int, buckets: Codes, within: Room) -> None:
    """Count the pairs that gaps make with the one before each, for kernels.

    Args:
        gaps: from place 1 on; at place 0 the one before them.
        size: how many there are.
        before: how many there are before them; if none, place 0 holds a zero.
        positive: the last positive gap before them; 0 if there is none.
        bits: significant bits.
        buckets: space for one more than there are gaps.
        within: room for the counts.
    """
    columns, ties = _columns(bits), int(before > 0 and gaps[0] == 0)
    buckets[0] = _bucket(gaps[0], bits)
    for place in range(1, size + 1):
        buckets[place] = _bucket(gaps[place], bits)
        ties += gaps[place] == 0
    if before > 0:
        count(within, buckets[0] * columns + buckets[1], np.uint32(1))
    for place in range(1, size):
        count(within, buckets[place] * columns + buckets[place + 1], np.uint32(1))
    if ties > 0:
        _count_apart(buckets, size, _bucket(positive, bits), columns, within)


@inner
def _count_apart(buckets: Codes, size: int, positive: np.uint32, columns: np.uint32, within: Room) -> None:
    """Count the pairs of positive gaps that have ties between them; only ties are in the first bucket."""
    for place in range(size):
        if buckets[place] > 0:
            positive = buckets[place]
        elif buckets[place + 1] > 0 and positive > 0:
            count(within, (columns + positive) * columns + buckets[place + 1], np.uint32(1))


@inner
def _columns(bits: int) -> np.uint32:
    """How many buckets there are."""
    return np.uint32((LONGEST_BITS + 1 - bits) << bits)


@inner
def _bucket(gap: int, bits: int) -> np.uint32:
    """The row or the column of a gap."""
    return np.uint32(min(bucket_of(gap, bits), ((LONGEST_BITS + 1 - bits) << bits) - 1))


@njit(nogil=True, cache=True)
def _border(gaps: Integers, bits: int) -> tuple[Integers, Codes]:
    ends, codes = np.zeros(gaps.shape[0] + 1, np.int64), np.empty(4 * gaps.shape[0], np.uint32)
    for row in range(gaps.shape[0]):
        ends[row + 1] = ends[row] if gaps[row, 2] < 0 else _list_border(gaps[row], bits, codes, ends[row])
    return ends, codes[: ends[-1]].copy()


@inner
def _list_border(gaps: Integers, bits: int, codes: Codes, size: int) -> int:
    """The pairs that a gap makes with its neighbours, from `size` on; where they end."""
    before, positive_before, gap, after, positive_after = gaps
    size = _list_pair(before, gap, 0, bits, codes, size)
    size = _list_pair(gap, after, 0, bits, codes, size)
    if gap == 0:
        return _list_pair(positive_before, positive_after, 1, bits, codes, size)
    if before == 0:
        size = _list_pair(positive_before, gap, 1, bits, codes, size)
    return _list_pair(gap, positive_after, 1, bits, codes, size) if after == 0 else size


@inner
def _list_pair(earlier: int, later: int, apart: int, bits: int, codes: Codes, size: int) -> int:
    """The pair of two gaps, if there are both; those that are apart are positive, and in the lower half."""
    if earlier < apart or later < apart:
        return size
    columns = _columns(bits)
    codes[size] = (apart * columns + _bucket(earlier, bits)) * columns + _bucket(later, bits)
    return size + 1


@njit(nogil=True, cache=True)
def _spearman(offsets: Integers, codes: Codes, counts: Codes, bits: int, sequence: int) -> tuple[Integers, Floats, Floats]:
    rows = offsets.size - 1
    pairs, coefficients, bounds = np.zeros(rows, np.int64), np.full(rows, np.nan), np.full(rows, np.nan)
    table = np.zeros((2, _columns(bits)))
    for row in range(rows):
        mine = codes[offsets[row] : offsets[row + 1]], counts[offsets[row] : offsets[row + 1]]
        pairs[row] = _marginals(mine[0], mine[1], sequence, table)
        if pairs[row] >= FEWEST_PAIRS:
            spreads = _to_ranks(table[0], bits), _to_ranks(table[1], bits)
            product = _product(mine[0], mine[1], sequence, table)
            coefficients[row], bounds[row] = _coefficient(product, spreads[0], spreads[1])
    return pairs, coefficients, bounds


@inner
def _places(code: np.uint32, columns: int, sequence: int) -> tuple[bool, int, int]:
    """Whether a cell holds pairs of a sequence, and the bucket of its earlier and of its later gap."""
    row, column = divmod(int(code), columns)
    if row >= columns:
        return sequence == POSITIVE_GAPS, row - columns, column
    return sequence == ALL_GAPS or (row > 0 and column > 0), row, column


@inner
def _marginals(codes: Codes, counts: Codes, sequence: int, table: Floats) -> int:
    """Count each side's buckets into a row of the table; the number of pairs."""
    pairs = 0
    table[:] = 0.0
    for cell in range(codes.size):
        belongs, earlier, later = _places(codes[cell], table.shape[1], sequence)
        if belongs:
            table[0, earlier] += counts[cell]
            table[1, later] += counts[cell]
            pairs += int(np.int64(counts[cell]))
    return pairs


@inner
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


@inner
def _product(codes: Codes, counts: Codes, sequence: int, ranks: Floats) -> float:
    total = 0.0
    for cell in range(codes.size):
        belongs, earlier, later = _places(codes[cell], ranks.shape[1], sequence)
        if belongs:
            total += counts[cell] * ranks[0, earlier] * ranks[1, later]
    return total


@inner
def _coefficient(product: float, earlier: tuple[float, float], later: tuple[float, float]) -> tuple[float, float]:
    """The correlation, and at most how far the exact one is from it."""
    if earlier[0] == 0 or later[0] == 0:
        return np.nan, np.nan
    coefficient = min(max(product / math.sqrt(earlier[0] * later[0]), -1.0), 1.0)
    tilt = math.atan(math.sqrt(earlier[1] / earlier[0])) + math.atan(math.sqrt(later[1] / later[0]))
    angle = math.acos(coefficient)
    lowest, highest = math.cos(min(angle + tilt, math.pi)), math.cos(max(angle - tilt, 0.0))
    return coefficient, max(coefficient - lowest, highest - coefficient)
