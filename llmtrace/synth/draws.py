"""Random draws that come out the same on every machine.

Only `Generator.random()` is asked for randomness, and what is done with it is addition, multiplication, division and
comparison, which IEEE 754 fixes to the last bit. Everything transcendental sits in quantile tables that are rounded to nine
digits when they are built, so that the last bit of one machine's `exp` decides nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Floats", "Ints", "Lognormal", "between", "draw", "draws", "pick", "stream", "zipf"]

Floats: TypeAlias = "NDArray[np.float64]"
Ints: TypeAlias = "NDArray[np.int64]"

KNOTS = 1024
"""Intervals of a quantile table; a draw is linear between two knots."""
_TAIL = 1 / (4 * KNOTS)
_DIGITS = 9


def stream(seed: int, purpose: int, block: int = 0) -> np.random.Generator:
    """The independent stream of random numbers for one purpose in one block of time.

    >>> stream(1, 2, 3).random() == stream(1, 2, 3).random(), stream(1, 2, 3).random() == stream(1, 2, 4).random()
    (True, False)
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(purpose, block))))


@dataclass(frozen=True)
class Lognormal:
    """A log-normal quantity within bounds.

    Attributes:
        median: half of the draws are below it.
        sigma: standard deviation of the natural logarithm; 0 is a constant.
        low: smaller draws become this.
        high: larger draws become this.
    """

    median: float
    sigma: float
    low: float = 0.0
    high: float = math.inf

    def table(self, unit: float = 1.0) -> Floats:
        """Quantiles at 0, 1/KNOTS, ..., 1, times `unit`; the tails end at 1/(4 KNOTS), about 3.5 sigma.

        >>> [float(value) for value in Lognormal(median=8, sigma=1, high=100).table()[[0, 512, 1024]]]
        [0.24471462, 8.0, 100.0]
        """
        normal = NormalDist()
        shares = (min(max(knot / KNOTS, _TAIL), 1 - _TAIL) for knot in range(KNOTS + 1))
        values = (self.median * math.exp(self.sigma * normal.inv_cdf(share)) for share in shares)
        return np.array([unit * _rounded(min(max(value, self.low), self.high)) for value in values])


def zipf(ranks: int, exponent: float, shift: float = 0.0) -> Floats:
    """Zipf-Mandelbrot weights 1 / (rank + shift)^exponent for ranks 1 to `ranks`, not normalised.

    >>> [float(weight) for weight in zipf(3, 1)]
    [1.0, 0.5, 0.333333333]
    """
    return np.array([_rounded(math.pow(rank + shift, -exponent)) for rank in range(1, ranks + 1)])


def between(values: Sequence[float], position: float) -> float:
    """The value at `position` of the way (0 to 1) along equally spaced values, linear in between.

    >>> between((1, 2, 4), 0.75)
    3.0
    """
    place = min(max(position, 0.0), 1.0) * (len(values) - 1)
    left = min(int(place), len(values) - 2)
    return values[left] + (place - left) * (values[left + 1] - values[left])


@njit(nogil=True, cache=True)
def draw(table: Floats, share: float) -> float:
    """The quantile of a table (`Lognormal.table`) at `share`, from 0 up to but not including 1."""
    place = share * (table.size - 1)
    knot = int(place)
    return float(table[knot] + (place - knot) * (table[knot + 1] - table[knot]))


@njit(nogil=True, cache=True)
def draws(table: Floats, shares: Floats) -> Floats:
    """`draw` of every share."""
    values = np.empty(shares.size)
    for index in range(shares.size):
        values[index] = draw(table, shares[index])
    return values


@njit(nogil=True, cache=True)
def pick(cumulative: Floats, share: float) -> int:
    """The first index whose cumulative weight exceeds `share` of the total; one with weight zero is never picked."""
    return int(np.searchsorted(cumulative, share * cumulative[-1], side="right"))


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
