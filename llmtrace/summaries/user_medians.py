"""The median lengths of users, read from the tallies that `usage` makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from llmtrace.summaries.histogram import bucket_middle
from llmtrace.summaries.tallies import COUNT_BITS, MOST_COUNT
from llmtrace.summaries.usage import CELLS, OUTPUT_CELL, USER_BITS

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.interning import Ids, Integers, Keys
    from llmtrace.summaries.tallies import Tallies

    Floats = npt.NDArray[np.float64]

__all__ = ["Floats", "medians"]

_ONE = np.uint64(1)


def medians(found: Tallies, wanted: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The median input and output tokens of users, within a relative 2^-7; NaN without lengths, and of users not wanted.

    Args:
        found: the tallies of their lengths.
        wanted: per user whether to give them.
    """
    inputs, outputs = np.full(wanted.size, np.nan), np.full(wanted.size, np.nan)
    _medians(found.offsets(), found.flat, wanted, inputs, outputs)
    return inputs, outputs


@njit(nogil=True, cache=True)
def _medians(offsets: Integers, flat: Ids, wanted: npt.NDArray[np.bool_], inputs: Floats, outputs: Floats) -> None:
    counts, marks = np.zeros(CELLS, np.int64), np.zeros(CELLS // 64, np.uint64)
    for user in range(wanted.size):
        if not wanted[user] or offsets[user] == offsets[user + 1]:
            continue
        twice = 0
        for one in range(offsets[user], offsets[user + 1]):
            cell = np.int64(flat[one] >> COUNT_BITS)
            counts[cell] += flat[one] & MOST_COUNT
            marks[cell >> 6] |= _ONE << np.uint64(cell & 63)
            twice += flat[one] & MOST_COUNT
        inputs[user] = _median(counts, marks, 0, twice // 2)
        outputs[user] = _median(counts, marks, OUTPUT_CELL, twice // 2)


@njit(nogil=True, cache=True)
def _median(counts: Integers, marks: Keys, base: int, total: int) -> float:
    """The median of so many values in the `OUTPUT_CELL` cells from `base` on, whose counts and marks are zero afterwards."""
    reached, low, high = 0, -1.0, -1.0
    for word in range(base >> 6, (base + OUTPUT_CELL) >> 6):
        rest = marks[word]
        marks[word] = 0
        while rest:
            lowest = rest & (~rest + _ONE)
            # A power of two, whose exponent a float holds above 52 bits of mantissa.
            cell = (word << 6) + (np.float64(lowest).view(np.int64) >> 52) - 1023
            rest ^= lowest
            reached += counts[cell]
            counts[cell] = 0
            if low < 0 and 2 * reached >= total:
                low = bucket_middle(int(cell - base), USER_BITS)
            if high < 0 and 2 * reached > total:
                high = bucket_middle(int(cell - base), USER_BITS)
    return (low + high) / 2
