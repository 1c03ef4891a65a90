"""Deviation and correlation from exact integer sums.

The textbook forms, Σx² - (Σx)²/n and its like, lose everything to cancellation where deviations are small beside the mean. Here
sums are integers, so they are first moved to the whole number next to the mean, exactly; what is then still to be subtracted is
at most half of what it is subtracted from.

Columns in, a column out, of the same length: as one expression the many steps would take Polars longer to plan than to compute.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

__all__ = ["Sums", "correlation", "deviation"]

FEWEST_PAIRS = 3
"""With fewer pairs there is no correlation to speak of."""


@dataclass(frozen=True)
class Sums:
    """Sums over pairs (x, y) of integers, as columns.

    Attributes:
        count: how many pairs there are.
        x: Σx.
        xx: Σx².
        y: Σy.
        yy: Σy².
        xy: Σxy.
    """

    count: pl.Series
    x: pl.Series
    xx: pl.Series
    y: pl.Series
    yy: pl.Series
    xy: pl.Series


def deviation(count: pl.Series, total: pl.Series, squares: pl.Series) -> pl.Series:
    """The sample standard deviation; null with fewer than two values.

    Args:
        count: how many values there are.
        total: their sum.
        squares: the sum of their squares.

    >>> deviation(pl.Series([3, 1]), pl.Series([6, 5]), pl.Series([14, 25])).to_list()
    [1.0, None]
    """
    spread = _centred(count, total, total, squares)
    return (spread / (count - 1)).set(count < 2, None).sqrt()  # noqa: PLR2004


def correlation(sums: Sums) -> pl.Series:
    """Pearson's correlation coefficient; null with fewer than 3 pairs or where either side does not vary."""
    product = _centred(sums.count, sums.x, sums.y, sums.xy)
    x, y = _centred(sums.count, sums.x, sums.x, sums.xx), _centred(sums.count, sums.y, sums.y, sums.yy)
    varies = (sums.count >= FEWEST_PAIRS) & (x > 0) & (y > 0)
    return (product / (x.sqrt() * y.sqrt())).clip(-1, 1).set(~varies.fill_null(value=False), None)


def _centred(count: pl.Series, x_total: pl.Series, y_total: pl.Series, products: pl.Series) -> pl.Series:
    """Σ(x - mean)(y - mean) as a float; null without values."""
    size = count.set(count < 1, None).cast(pl.Int128)
    x, y = x_total.cast(pl.Int128), y_total.cast(pl.Int128)
    near_x, near_y = (x + x + size) // (size + size), (y + y + size) // (size + size)
    moved = products.cast(pl.Int128) - near_x * y - near_y * x + size * near_x * near_y
    rest = (x - size * near_x).cast(pl.Float64) * (y - size * near_y).cast(pl.Float64)
    return moved.cast(pl.Float64) - rest / size.cast(pl.Float64)
