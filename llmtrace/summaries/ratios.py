"""Ratios of two columns as integers in millionths, so that they are counted exactly and cut anywhere alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

if TYPE_CHECKING:
    from llmtrace.summaries.groups import Integers

__all__ = ["MILLION", "millionths"]

MILLION = 1_000_000
_LARGEST_EXACT = 1 << 42
_LARGEST = float(1 << 62)


def millionths(numerator: str, denominator: str) -> pl.Expr:
    """The quotient of two columns in millionths, rounded half up, at least 1 where the numerator is not zero.

    Null where either is null or the denominator is zero. Ratios above 4.6·10¹² are taken as that; numerators above 2^42 are
    divided in floating point.

    >>> pl.DataFrame({"out": [1, 0, 5, None], "in": [3, 3, 0, 1]}).select(millionths("out", "in")).to_series().to_list()
    [333333, 0, None, None]
    """
    pair = pl.struct(pl.col(numerator).fill_null(-1).alias("numerator"), pl.col(denominator).fill_null(-1).alias("denominator"))
    ratio = pair.map_batches(_divide, return_dtype=pl.Int64, is_elementwise=True)
    return pl.when(ratio >= 0).then(ratio).alias(f"{numerator}_to_{denominator}")


def _divide(pair: pl.Series) -> pl.Series:
    return pl.Series(_millionths(pair.struct.field("numerator").to_numpy(), pair.struct.field("denominator").to_numpy()))


@njit(nogil=True, cache=True)
def _millionths(numerators: Integers, denominators: Integers) -> Integers:
    ratios = np.full(numerators.size, np.int64(-1))
    for row in range(numerators.size):
        numerator, denominator = numerators[row], denominators[row]
        if numerator < 0 or denominator <= 0:
            continue
        if numerator <= _LARGEST_EXACT:
            ratio = (numerator * MILLION + denominator // 2) // denominator
        else:
            ratio = np.int64(min(numerator / denominator * MILLION + 0.5, _LARGEST))
        ratios[row] = max(ratio, min(numerator, 1))
    return ratios
