"""Bins: whole numbers in log-linear bins, so that a count of bins says nothing exact about a large number.

With `bits` bits, numbers below 2^(bits + 1) have a bin of their own; above, each octave has 2^bits bins of equal width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmtrace.synth.draws import Ints

__all__ = ["COARSE_BITS", "FINE_BITS", "bins", "low", "width"]

COARSE_BITS = 3
"""Eight bins an octave: joint distributions, gaps, latencies."""
FINE_BITS = 7
"""128 bins an octave: where in a coarse bin the lengths of a model lie."""


def bins(values: NDArray[np.int64] | NDArray[np.float64], bits: int = COARSE_BITS) -> Ints:
    """The bin of each whole number; negative ones count as 0.

    >>> bins(np.array([0, 7, 15, 16, 17, 18, 1000])).tolist()
    [0, 7, 15, 16, 16, 17, 63]
    """
    whole = np.maximum(values, 0).astype(np.int64)
    exponent = np.maximum(np.frexp(whole.astype(np.float64))[1] - 1 - bits, 0).astype(np.int64)
    return np.asarray((exponent << bits) + (whole >> exponent), np.int64)


@njit(nogil=True, cache=True)
def low(place: int, bits: int) -> int:
    """The smallest number of a bin.

    >>> low(63, 3), low(63, 3) + width(63, 3)
    (960, 1024)
    """
    octave = max((place >> bits) - 1, 0)
    return (place - (octave << bits)) << octave


@njit(nogil=True, cache=True)
def width(place: int, bits: int) -> int:
    """How many numbers a bin holds."""
    return 1 << max((place >> bits) - 1, 0)
