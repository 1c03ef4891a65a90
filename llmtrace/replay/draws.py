"""Random numbers for kernels: the same on every machine, and easy to write again for a check.

SplitMix64 of Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    import numpy.typing as npt

    Words = npt.NDArray[np.uint64]

__all__ = ["SEED", "below", "mixed", "new_draws"]

SEED = 1
"""Where draws begin that nobody chooses the seed of."""

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
_HALF = np.uint64(32)


def new_draws(seed: int) -> Words:
    """The state of a generator."""
    return np.array([seed], np.uint64)


@kernel
def below(draws: Words, bound: int) -> int:
    """A number from 0 to before `bound`, all alike: the upper half of a word times the bound, shifted back."""
    draws[0] += _STEP
    return int(np.int64(((mixed(draws[0]) >> _HALF) * np.uint64(bound)) >> _HALF))


@kernel
def mixed(word: np.uint64) -> np.uint64:
    """A word of which every bit depends on all bits of the given one."""
    word = (word ^ (word >> _SHIFTS[0])) * _FIRST
    word = (word ^ (word >> _SHIFTS[1])) * _SECOND
    return word ^ (word >> _SHIFTS[2])
