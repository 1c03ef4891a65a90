"""Integer arithmetic for sums that no cut changes: products in 128 bits, and logarithms in fixed point.

A sum of integers is the same whatever the order of its terms, a sum of floats is not. So squares and products of times in
microseconds are summed exactly, in 128 bits, and logarithms as whole multiples of 2^-26, to which they are rounded.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from llmtrace.summaries.groups import Integers

__all__ = ["LOG_UNIT", "added", "fixed_log", "fixed_logs"]

LOG_BITS = 26
LOG_UNIT = 1 / (1 << LOG_BITS)
"""What a step of a fixed logarithm is worth: they are off by at most half of it, and any two multiply within 64 bits."""

_HALF = np.uint64(32)
_LOWER_HALF = np.uint64((1 << 32) - 1)
_ZERO, _ONE = np.uint64(0), np.uint64(1)

# A float is its exponent, biased by 1023, above 52 bits of mantissa.
_MANTISSA_BITS, _BIAS = 52, 1023
_MANTISSA = (1 << _MANTISSA_BITS) - 1
_UNIT_EXPONENT = _BIAS << _MANTISSA_BITS

# Between 1 and 2, log2(m) = log2(c) + log2(1 + r) with c the middle of one of 1024 steps and r = m/c - 1, at most 2^-11.
_STEP_BITS = 10
_MIDDLES = 1 + (np.arange(1 << _STEP_BITS) + 0.5) / (1 << _STEP_BITS)
_LOGS = np.log2(_MIDDLES) * (1 << LOG_BITS)
_INVERSES = 1 / _MIDDLES
_PER_NATURAL = (1 << LOG_BITS) / math.log(2)


@njit(nogil=True, cache=True)
def added(high: np.uint64, low: np.uint64, x: np.uint64, y: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The sum of a 128-bit integer, given as its upper and lower half, and a product x·y; both factors are below 2^63.

    >>> [int(half) for half in added(np.uint64(0), np.uint64(2**64 - 1), np.uint64(2**40), np.uint64(2**40))]
    [65536, 18446744073709551615]
    """
    x_high, x_low, y_high, y_low = x >> _HALF, x & _LOWER_HALF, y >> _HALF, y & _LOWER_HALF
    product = x_low * y_low
    if x_high | y_high:
        cross = x_high * y_low + x_low * y_high
        shifted = cross << _HALF
        product += shifted
        high += x_high * y_high + (cross >> _HALF) + (_ONE if product < shifted else _ZERO)
    low += product
    return high + (_ONE if low < product else _ZERO), low


@njit(nogil=True, cache=True)
def fixed_log(value: int) -> int:
    """The binary logarithm of a positive integer in units of 2^-26, rounded to the nearest.

    >>> fixed_log(8) / 2**26
    3.0
    """
    bits = int(np.float64(value).view(np.int64))
    mantissa = bits & _MANTISSA
    step = mantissa >> (_MANTISSA_BITS - _STEP_BITS)
    rest = np.int64(mantissa | _UNIT_EXPONENT).view(np.float64) * _INVERSES[step] - 1.0
    fraction = _LOGS[step] + rest * (1.0 - rest * (0.5 - rest / 3.0)) * _PER_NATURAL
    return (((bits >> _MANTISSA_BITS) - _BIAS) << LOG_BITS) + int(fraction + 0.5)


@njit(nogil=True, cache=True)
def fixed_logs(values: Integers) -> Integers:
    """The fixed logarithms of positive integers; 0 for the others."""
    logs = np.zeros(values.size, np.int64)
    for row in range(values.size):
        if values[row] > 0:
            logs[row] = fixed_log(values[row])
    return logs
