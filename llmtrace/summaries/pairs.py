"""Pairs of consecutive gaps, binned: which length follows which, and Spearman's rank correlation from that.

A gap falls into a bucket of the log-linear histogram (see `histogram`): with `bits` significant bits, gaps below 2^(bits+1)
microseconds have a bucket each, longer ones share it with gaps that differ by less than a relative 2^-bits. Gaps from 2^45
microseconds (407 days) on share the last one. A pair is a cell of a grid: its row is the earlier gap's bucket, its column the
later one's, and its number row · columns + column. Ties, gaps of length zero, have the first bucket to themselves, so that the
pairs of two positive gaps are those outside the first row and the first column.

Binning puts the mean rank of a bucket in the place of each rank in it. So a rank is its bucket's mean plus a rest, the rests of
a bucket add up to nothing, and their squares are at most those of gaps that are all different, or of as many different ones as
the clock's step lets into the bucket: none where that is one. The exact product sum of the ranks differs from the binned one by
three sums. Those of one side's rests times the other side's means are bounded by Cauchy and Schwarz bucket by bucket: the
root of the bucket's squares of rests times the squares by which the means of the gaps that it is paired with vary. That of rests
times rests is at most the root of the squares of both sides, and at most what it would be if every rest in a cell were the
largest. The exact sums of squares are the binned ones plus those of the rests. All of it bounds how far the exact coefficient is
off, and where buckets hold a gap each, as below 2^(bits+1) microseconds, the coefficient is exact.
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
"""The pairs that count: all, or those of two positive gaps."""
LONGEST_BITS = 45
FEWEST_PAIRS = 3
"""With fewer pairs there is no correlation to speak of."""
_FIELDS = 5
NUMBER, RANK, RESTS, PARTNER, VARIED = range(_FIELDS)
"""Of a bucket of one side: its gaps, their mean rank, at most the sum of squares of the rests, the mean of the mean ranks that it
is paired with, and the sum of squares of what these are from that."""


def room(bits: int) -> Room:
    """Room to count pairs in."""
    return marked.room(((LONGEST_BITS + 1 - bits) << bits) ** 2)


def border(gaps_us: Integers, bits: int) -> Cells:
    """The pairs that a gap across a border makes with the gaps before and after it, each counted once where it is met.

    Args:
        gaps_us: a row per border with the last gap before it, the gap across it, and the first gap after it; -1 is a gap that
            there is not.
        bits: significant bits.
    """
    offsets, codes = _border(gaps_us, bits)
    return offsets, codes, np.ones(codes.size, np.uint32)


def spearman(found: Cells, bits: int, sequence: int, step_us: int = 1) -> tuple[Integers, Floats, Floats]:
    """Spearman's rank correlation of consecutive gaps, per row, ties at their mean rank.

    Args:
        found: the pairs of each row.
        bits: significant bits that they were made with.
        sequence: `ALL_GAPS`, or `POSITIVE_GAPS`, which leaves out pairs with a tie.
        step_us: what every gap is a multiple of.

    Returns:
        Pairs; the coefficient, NaN with fewer than 3 pairs or where either side does not vary; how far the exact one may be off.
    """
    offsets, codes, counts = cells.frozen(*found)
    pairs, coefficients, bounds = _spearman(offsets, codes, counts, bits, sequence, step_us)
    return pairs, coefficients, bounds


@inner
def count_pairs(gaps: Integers, size: int, before: int, bits: int, buckets: Codes, within: Room) -> None:
    """Count the pairs that gaps make with the one before each, for kernels.

    Args:
        gaps: from place 1 on; at place 0 the one before them.
        size: how many there are.
        before: how many there are before them; if none, place 0 holds a zero.
        bits: significant bits.
        buckets: space for one more than there are gaps.
        within: room for the counts.
    """
    columns = _columns(bits)
    for place in range(size + 1):
        buckets[place] = _bucket(gaps[place], bits)
    if before > 0:
        count(within, buckets[0] * columns + buckets[1], np.uint32(1))
    for place in range(1, size):
        count(within, buckets[place] * columns + buckets[place + 1], np.uint32(1))


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
    ends, codes = np.zeros(gaps.shape[0] + 1, np.int64), np.empty(2 * gaps.shape[0], np.uint32)
    for row in range(gaps.shape[0]):
        earlier = _list_pair(gaps[row, 0], gaps[row, 1], bits, codes, ends[row])
        ends[row + 1] = _list_pair(gaps[row, 1], gaps[row, 2], bits, codes, earlier)
    return ends, codes[: ends[-1]].copy()


@inner
def _list_pair(earlier: int, later: int, bits: int, codes: Codes, size: int) -> int:
    """Write the pair of two gaps, if there are both: how many pairs there are then."""
    if earlier < 0 or later < 0:
        return size
    codes[size] = _bucket(earlier, bits) * _columns(bits) + _bucket(later, bits)
    return size + 1


@njit(nogil=True, cache=True)
def _spearman(
    offsets: Integers, codes: Codes, counts: Codes, bits: int, sequence: int, step: int
) -> tuple[Integers, Floats, Floats]:
    rows = offsets.size - 1
    pairs, coefficients, bounds = np.zeros(rows, np.int64), np.full(rows, np.nan), np.full(rows, np.nan)
    sides, values = np.zeros((2, _FIELDS, _columns(bits))), _values(bits, step)
    for row in range(rows):
        mine = codes[offsets[row] : offsets[row + 1]], counts[offsets[row] : offsets[row + 1]]
        pairs[row] = _count_sides(mine[0], mine[1], sequence, sides)
        if pairs[row] >= FEWEST_PAIRS:
            _rank(sides[0], values)
            _rank(sides[1], values)
            product = _product(mine[0], mine[1], sequence, sides)
            off = _off(mine[0], mine[1], sequence, sides)
            coefficients[row], bounds[row] = _coefficient(product, off, sides)
    return pairs, coefficients, bounds


@inner
def _places(code: np.uint32, columns: int, sequence: int) -> tuple[bool, int, int]:
    """Whether the pairs of a cell count, and the bucket of its earlier and of its later gap."""
    row, column = divmod(int(code), columns)
    return sequence == ALL_GAPS or (row > 0 and column > 0), row, column


@inner
def _values(bits: int, step: int) -> Floats:
    """How many multiples of the step each bucket holds; the last one has no end."""
    found = np.full(_columns(bits), np.inf)
    for bucket in range(found.size - 1):
        exponent = max((bucket >> bits) - 1, 0)
        first = (bucket - (exponent << bits)) << exponent
        # One at least: a step may be longer than a bucket that holds no gap.
        found[bucket] = max((first + (1 << exponent) - 1) // step - (first - 1) // step, 1)
    return found


@inner
def _count_sides(codes: Codes, counts: Codes, sequence: int, sides: Floats) -> int:
    """Count the gaps of each bucket on each side, and clear the other fields; the number of pairs."""
    pairs = 0
    sides[:] = 0.0
    for cell in range(codes.size):
        belongs, earlier, later = _places(codes[cell], sides.shape[2], sequence)
        if belongs:
            sides[0, NUMBER, earlier] += counts[cell]
            sides[1, NUMBER, later] += counts[cell]
            pairs += int(np.int64(counts[cell]))
    return pairs


@inner
def _rank(side: Floats, values: Floats) -> None:
    """The mean rank of each bucket, from the middle one of all, and at most the sum of squares of the rests in it."""
    half, below = side[NUMBER].sum() / 2, 0.0
    for bucket in range(values.size):
        number = side[NUMBER, bucket]
        if number > 0:
            side[RANK, bucket] = below + number / 2 - half
            different = min(number, values[bucket])
            side[RESTS, bucket] = number * number * number / 12 * (1 - 1 / (different * different))
            below += number


@inner
def _product(codes: Codes, counts: Codes, sequence: int, sides: Floats) -> float:
    """The sum of products of mean ranks; of each bucket, the mean of those that it is paired with."""
    total = 0.0
    for cell in range(codes.size):
        belongs, earlier, later = _places(codes[cell], sides.shape[2], sequence)
        if belongs:
            total += counts[cell] * sides[0, RANK, earlier] * sides[1, RANK, later]
            sides[0, PARTNER, earlier] += counts[cell] * sides[1, RANK, later] / sides[0, NUMBER, earlier]
            sides[1, PARTNER, later] += counts[cell] * sides[0, RANK, earlier] / sides[1, NUMBER, later]
    return total


@inner
def _off(codes: Codes, counts: Codes, sequence: int, sides: Floats) -> float:
    """At most how far the sum of products of exact ranks is from that of mean ranks."""
    both = 0.0
    for cell in range(codes.size):
        belongs, earlier, later = _places(codes[cell], sides.shape[2], sequence)
        if belongs:
            sides[0, VARIED, earlier] += counts[cell] * (sides[1, RANK, later] - sides[0, PARTNER, earlier]) ** 2
            sides[1, VARIED, later] += counts[cell] * (sides[0, RANK, earlier] - sides[1, PARTNER, later]) ** 2
            if sides[0, RESTS, earlier] > 0 and sides[1, RESTS, later] > 0:
                both += counts[cell] * (sides[0, NUMBER, earlier] - 1) * (sides[1, NUMBER, later] - 1) / 4
    one: float = np.sqrt(sides[:, RESTS] * sides[:, VARIED]).sum()
    return one + min(both, math.sqrt(sides[0, RESTS].sum() * sides[1, RESTS].sum()))


@inner
def _coefficient(product: float, off: float, sides: Floats) -> tuple[float, float]:
    """The correlation of mean ranks, and at most how far the exact one is from it."""
    seen = (sides[0, NUMBER] * sides[0, RANK] ** 2).sum(), (sides[1, NUMBER] * sides[1, RANK] ** 2).sum()
    if seen[0] == 0 or seen[1] == 0:
        return np.nan, np.nan
    least = math.sqrt(seen[0] * seen[1])
    most = math.sqrt((seen[0] + sides[0, RESTS].sum()) * (seen[1] + sides[1, RESTS].sum()))
    coefficient = min(max(product / least, -1.0), 1.0)
    low, high = product - off, product + off
    lowest = max(low / (most if low > 0 else least), -1.0)
    highest = min(high / (least if high > 0 else most), 1.0)
    return coefficient, max(coefficient - lowest, highest - coefficient)
