"""A set of integers below a bound whose greatest member is found at once, for kernels.

Words of 64 bits, and above them words that say which of those are not empty, up to a single one. So to add, to take out and to
find cost a step per level, of which a thousand million integers need five.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from llmtrace.replay.kernels import kernel

__all__ = ["Bits", "add", "discard", "greatest", "highest", "is_empty", "new_bits"]

_ONE, _SIX, _LOW = np.uint64(1), np.uint64(6), np.uint64(63)


class Bits(NamedTuple):
    """The words of all levels, the lowest first, and where each level begins."""

    words: Any
    starts: Any


def new_bits(bound: int) -> Bits:
    """An empty set for integers from 0 to below `bound`."""
    sizes = [max(-(-bound // 64), 1)]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 64))
    return Bits(np.zeros(sum(sizes), np.uint64), np.cumsum([0, *sizes[:-1]]))


@kernel
def add(bits: Bits, one: int) -> None:
    """Put an integer into the set."""
    place = np.uint64(one)
    for level in range(bits.starts.size):
        word = bits.starts[level] + np.int64(place >> _SIX)
        before = bits.words[word]
        bits.words[word] = before | (_ONE << (place & _LOW))
        if before != 0:
            break
        place >>= _SIX


@kernel
def discard(bits: Bits, one: int) -> None:
    """Take an integer out of the set."""
    place = np.uint64(one)
    for level in range(bits.starts.size):
        word = bits.starts[level] + np.int64(place >> _SIX)
        bits.words[word] &= ~(_ONE << (place & _LOW))
        if bits.words[word] != 0:
            break
        place >>= _SIX


@kernel
def is_empty(bits: Bits) -> bool:
    """Whether the set has no integer."""
    return bool(bits.words[bits.words.size - 1] == 0)


@kernel
def greatest(bits: Bits) -> int:
    """The greatest integer of a set that is not empty."""
    place = 0
    for level in range(bits.starts.size - 1, -1, -1):
        place = 64 * place + highest(bits.words[bits.starts[level] + place])
    return place


@kernel
def highest(word: np.uint64) -> int:
    """The place of the highest bit that is set, of a word that is not 0."""
    place = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(step) != 0:
            word >>= np.uint64(step)
            place += step
    return place
