"""Ties spread out: what arrivals may have been where the clock that stamped them is coarse.

A clock that ticks in steps stamps all arrivals of a step alike. `spread` puts each of the requests that share a stamp somewhere
between it and the next possible stamp, uniformly and independently. Where a request goes depends on the seed, its stamp and its
place among those that share it, and on nothing else: equal stamps are never in two parts, so cutting changes nothing. A request
alone at its stamp is spread too, because its time is no better known than that of the others.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

if TYPE_CHECKING:
    from llmtrace.summaries.groups import Integers

__all__ = ["spread"]

# Steele, Lea and Flood, Fast splittable pseudorandom number generators (OOPSLA 2014): the step and the finaliser of SplitMix64.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)


def spread(frame: pl.LazyFrame, width_us: int, seed: int) -> pl.LazyFrame:
    """The same requests with their times spread over [time, time + width), in order of the new times.

    Args:
        frame: requests, sorted by `timestamp`.
        width_us: at most the shortest positive gap of the whole trace, so that no request overtakes one of a later stamp.
        seed: another seed spreads otherwise.
    """
    return frame.map_batches(partial(_spread, width_us=width_us, seed=seed), validate_output_schema=True)


def _spread(frame: pl.DataFrame, *, width_us: int, seed: int) -> pl.DataFrame:
    times = frame["timestamp"].to_physical().to_numpy()
    moved = _moved(times, width_us, np.uint64(seed & ((1 << 64) - 1)))
    order = np.argsort(moved, kind="stable")
    return frame[order].with_columns(pl.Series("timestamp", moved[order]).cast(frame.schema["timestamp"]))


@njit(nogil=True, cache=True)
def _moved(times: Integers, width: int, seed: np.uint64) -> Integers:
    """Each time, later by a share of the width that hashes of seed, time and place among equals draw."""
    moved = np.empty_like(times)
    place = 0
    for row in range(times.size):
        place = place + 1 if row > 0 and times[row] == times[row - 1] else 0
        drawn = _mixed(_mixed(_mixed(seed) ^ np.uint64(times[row])) ^ np.uint64(place))
        moved[row] = times[row] + int(float(drawn >> np.uint64(11)) * 2.0**-53 * width)
    return moved


@njit(nogil=True, cache=True)
def _mixed(value: np.uint64) -> np.uint64:
    value += _STEP
    value = (value ^ (value >> _SHIFT_1)) * _MIX_1
    value = (value ^ (value >> _SHIFT_2)) * _MIX_2
    return value ^ (value >> _SHIFT_3)
