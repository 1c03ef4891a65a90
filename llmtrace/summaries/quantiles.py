"""Reading histograms: quantiles and empirical distribution functions of the rows of a `histogram` summary.

The q-quantile of n values lies at rank (n - 1)·q, counted from 0; between two ranks it is interpolated linearly (NumPy's method
'linear'). The value of a rank is the middle of its bucket, drawn into [min, max]; ranks 0 and n - 1 are min and max
themselves. So quantiles are exact below 2^(bits+1) and within a relative 2^-(bits+1) above: interpolation of two values that are
off by at most that share is off by at most that share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.histogram import bucket_middle, lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.histogram import Buckets, Counts

    Floats = npt.NDArray[np.float64]

__all__ = ["percentile_columns", "quantiles"]


def quantiles(frame: pl.DataFrame, at: Sequence[float], *, bits: int, positive: bool = False) -> Floats:
    """The quantiles of each row of a summary.

    Args:
        frame: a summary made with `bits`.
        at: ascending, each from 0 to 1.
        bits: significant bits of the histograms.
        positive: leave zeros out.

    Returns:
        One row per row of the frame, one column per quantile; NaN where the row has no values.
    """
    offsets, buckets, counts = lists(frame)
    found = np.full((frame.height, len(at)), np.nan)
    low, high = (frame[name].fill_null(-1).cast(pl.Float64).rechunk().to_numpy() for name in ("min", "max"))
    _quantiles((offsets, buckets, counts), low, high, np.asarray(at, np.float64), bits, int(positive), found)
    return found


def percentile_columns(frame: pl.DataFrame, percents: Sequence[int], *, bits: int, unit: float = 1.0) -> list[pl.Series]:
    """The percentiles of each row as columns `p1`, `p5`, ...: null where the row has no values, divided by `unit`."""
    values = quantiles(frame, [percent / 100 for percent in percents], bits=bits) / unit
    return [pl.Series(f"p{percent}", values[:, place]).fill_nan(None) for place, percent in enumerate(percents)]


@njit(nogil=True, cache=True)
def _quantiles(histograms: Cells, low: Floats, high: Floats, at: Floats, bits: int, least_bucket: int, found: Floats) -> None:
    """Fill a row of `found` for each histogram that has cells from `least_bucket` on."""
    offsets, buckets, counts = histograms
    for row in range(offsets.size - 1):
        cell, end = offsets[row], offsets[row + 1]
        least = low[row]
        if cell < end and buckets[cell] < least_bucket:
            cell, least = cell + 1, 0.0
        if cell < end:
            _of_one_row(buckets[cell:end], counts[cell:end], least, high[row], at, bits, found[row])


@njit(nogil=True, cache=True)
def _of_one_row(buckets: Buckets, counts: Counts, low: float, high: float, at: Floats, bits: int, found: Floats) -> None:
    """Walk the cells once; `reached` is the number of values in the cells up to and with `cell`."""
    total = 0
    for count in counts:
        total += count
    cell, reached = 0, np.int64(counts[0])
    for place in range(at.size):
        rank = (total - 1) * at[place]
        below = int(rank)
        while reached <= below:
            cell += 1
            reached += counts[cell]
        after = cell if below + 1 < reached or cell + 1 == counts.size else cell + 1
        here = _value(below, total, bucket_middle(buckets[cell], bits), low, high)
        there = _value(below + 1, total, bucket_middle(buckets[after], bits), low, high)
        found[place] = here + (there - here) * (rank - below)


@njit(nogil=True, cache=True)
def _value(rank: int, total: int, middle: float, low: float, high: float) -> float:
    if rank >= total - 1:
        return high
    if rank == 0 and low > 0.0:
        return low
    return min(max(middle, low), high)
