"""Deviation and correlation from exact integer sums.

The textbook forms, Σx² - (Σx)²/n and its like, lose everything to cancellation where deviations are small beside the mean. Here
sums are integers, so they are first moved to the whole number next to the mean, exactly; what is then still to be subtracted is
at most half of what it is subtracted from.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

__all__ = ["Sums", "correlation", "deviation"]

FEWEST_PAIRS = 3
"""With fewer pairs there is no correlation to speak of."""


@dataclass(frozen=True)
class Sums:
    """Expressions for the sums of one or two columns of integers; those of a second may be missing.

    Attributes:
        count: how many values, or pairs, there are.
        x: Σx.
        xx: Σx².
        y: Σy.
        yy: Σy².
        xy: Σxy.
    """

    count: pl.Expr
    x: pl.Expr
    xx: pl.Expr
    y: pl.Expr
    yy: pl.Expr
    xy: pl.Expr


def deviation(count: pl.Expr, total: pl.Expr, squares: pl.Expr) -> pl.Expr:
    """The sample standard deviation; null with fewer than two values.

    >>> frame = pl.DataFrame({"n": [3], "sum": [6], "squares": [14]})
    >>> frame.select(deviation(pl.col("n"), pl.col("sum"), pl.col("squares"))).item()
    1.0
    """
    spread = _centred(count, (total, total), squares)
    return pl.when(count > 1).then((spread / (count - 1)).sqrt())


def correlation(sums: Sums) -> pl.Expr:
    """Pearson's correlation coefficient; null with fewer than 3 pairs or where either side does not vary."""
    product = _centred(sums.count, (sums.x, sums.y), sums.xy)
    x, y = _centred(sums.count, (sums.x, sums.x), sums.xx), _centred(sums.count, (sums.y, sums.y), sums.yy)
    varies = (sums.count >= FEWEST_PAIRS) & (x > 0) & (y > 0)
    return pl.when(varies).then((product / (x.sqrt() * y.sqrt())).clip(-1, 1))


def _centred(count: pl.Expr, totals: tuple[pl.Expr, pl.Expr], products: pl.Expr) -> pl.Expr:
    """Σ(x - mean)(y - mean) as a float."""
    size = pl.when(count > 0).then(count).cast(pl.Int128)
    x, y = (total.cast(pl.Int128) for total in totals)
    near_x, near_y = ((2 * total + size) // (2 * size) for total in (x, y))
    moved = products.cast(pl.Int128) - near_x * y - near_y * x + size * near_x * near_y
    rest = (x - size * near_x).cast(pl.Float64) * (y - size * near_y).cast(pl.Float64)
    return moved.cast(pl.Float64) - rest / size.cast(pl.Float64)
