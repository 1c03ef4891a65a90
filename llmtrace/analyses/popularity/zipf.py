"""Zipf's law fitted to amounts by rank, and the ranks it is fitted to.

The law says that the entity of rank r has c·r^-s. The exponent s is the slope of a straight line fitted by least squares to log
amount against log rank, each rank weighted by 1/r: the same weight for every stretch of the logarithmic axis, where thousands of
ranks at the end would decide alone otherwise. Fitted are ranks from 1 up to the last entity with enough to tell it from noise.

No distribution is claimed: the line says how steep the curve is. How straight it is, is said by the share of variance explained
(R squared, with the same weights) and by the slopes of both halves of the logarithmic axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

__all__ = ["LEAST_RANKS", "SCHEMA", "Fit", "fit"]

LEAST_RANKS = 10
"""A line through fewer ranks says nothing."""
SCHEMA: Mapping[str, pl.DataType] = {
    "exponent": pl.Float64(),
    "first_rank": pl.Int64(),
    "last_rank": pl.Int64(),
    "r_squared": pl.Float64(),
    "head_exponent": pl.Float64(),
    "tail_exponent": pl.Float64(),
}
"""What `Fit.described` gives."""


@dataclass(frozen=True)
class Fit:
    """A fit of Zipf's law; every number is None where there is none.

    Attributes:
        exponent: s.
        scale: c, what the line gives rank 1.
        last_rank: the last rank that it is fitted to; the first is 1.
        r_squared: share of the variance of log amount that the line explains, 0 to 1.
        head_exponent: s of the ranks up to the square root of the last.
        tail_exponent: s of those from there on.
    """

    exponent: float | None = None
    scale: float | None = None
    last_rank: int | None = None
    r_squared: float | None = None
    head_exponent: float | None = None
    tail_exponent: float | None = None

    def described(self) -> tuple[float | int | None, ...]:
        """The values of `SCHEMA`."""
        first = None if self.last_rank is None else 1
        return self.exponent, first, self.last_rank, self.r_squared, self.head_exponent, self.tail_exponent

    def values(self, ranks: npt.NDArray[np.int64]) -> Floats:
        """What the law gives ranks; NaN beyond those that it is fitted to."""
        if self.exponent is None or self.scale is None or self.last_rank is None:
            return np.full(ranks.size, np.nan)
        found: Floats = np.where(ranks <= self.last_rank, self.scale * ranks.astype(np.float64) ** -self.exponent, np.nan)
        return found


def fit(amounts: Floats, least: float) -> Fit:
    """Fit Zipf's law.

    Args:
        amounts: descending.
        least: entities that have less are beyond the last rank.

    >>> found = fit(1_000_000 / np.arange(1, 2_001) ** 0.8, least=10_000)
    >>> found.last_rank, [round(value, 6) for value in (found.exponent, found.r_squared, found.tail_exponent)]
    (316, [0.8, 1.0, 0.8])
    """
    last = int((amounts >= max(least, np.finfo(np.float64).tiny)).sum())
    if last < LEAST_RANKS or amounts[0] == amounts[last - 1]:
        return Fit()
    x, y = np.log(np.arange(1, last + 1)), np.log(amounts[:last])
    slope, height, r_squared = _line(x, y)
    half = x[-1] / 2
    head, tail = (_line(x[some], y[some])[0] for some in (x <= half, x >= half))
    return Fit(-slope, float(np.exp(height)), last, r_squared, -head, -tail)


def _line(x: Floats, y: Floats) -> tuple[float, float, float]:
    """Slope, height at zero and R squared of the line that fits best, points weighted by 1/exp(x)."""
    weights = np.exp(-x)
    weights /= weights.sum()
    mean_x, mean_y = (weights * x).sum(), (weights * y).sum()
    from_x, from_y = x - mean_x, y - mean_y
    slope = (weights * from_x * from_y).sum() / (weights * from_x**2).sum()
    variance = (weights * from_y**2).sum()
    unexplained = (weights * (from_y - slope * from_x) ** 2).sum()
    return float(slope), float(mean_y - slope * mean_x), float(1 - unexplained / variance) if variance > 0 else 1.0
