"""Rates: how many requests begin in each block of time, and when within it.

A block is a day, or an equal piece of one where days are large, so that a block always fits in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from llmtrace.synth.draws import Lognormal, between, draw, stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llmtrace.synth.draws import Floats
    from llmtrace.synth.workload import Workload

__all__ = ["DAY_US", "Block", "blocks", "span_us"]

DAY_US = 86_400_000_000
SLOTS = 96
"""Quarter hours of a day: the resolution of its curve."""
_PIECES = (1, 2, 4, 8, 24, 48, 96)
_BLOCK_ROWS = 250_000
_PURPOSE = 1
_EPOCH = datetime(1970, 1, 1)
_SATURDAY = 5


@dataclass(frozen=True)
class Block:
    """One stretch of time and the requests whose sessions begin in it.

    Attributes:
        index: position among the blocks.
        day: days since the start of the trace.
        rows: requests of the sessions that begin in it; some arrive later.
        start_us: begin, microseconds since 1970.
        end_us: end of it.
        curve: relative rate of each quarter hour in it.
    """

    index: int
    day: int
    rows: int
    start_us: int
    end_us: int
    curve: Floats


def blocks(workload: Workload) -> Iterator[Block]:
    """The blocks of a workload in order of time; their rows add up to its requests."""
    pieces = _pieces(workload)
    first_us, _ = span_us(workload)
    length_us, slots = DAY_US // pieces, SLOTS // pieces
    curves = _day_curves(workload)
    rows = _shares_of(workload.requests, curves.reshape(-1, slots))
    for index, count in enumerate(rows):
        start_us = first_us + index * length_us
        curve = curves[index * slots : (index + 1) * slots]
        yield Block(index, index // pieces, count, start_us, start_us + length_us, curve)


def span_us(workload: Workload) -> tuple[int, int]:
    """When a workload starts and when it ends, microseconds since 1970."""
    first_us = (datetime.combine(workload.start, time()) - _EPOCH) // timedelta(microseconds=1)
    return first_us, first_us + workload.days * DAY_US


def _pieces(workload: Workload) -> int:
    rows_a_day = workload.requests / workload.days
    return next((pieces for pieces in _PIECES if rows_a_day <= pieces * _BLOCK_ROWS), _PIECES[-1])


def _day_curves(workload: Workload) -> Floats:
    """Relative rate in each quarter hour of all days: the year's trend, the weekday, chance, and the hour."""
    profile = workload.profile
    noise = Lognormal(1.0, profile.day_noise).table()
    shapes = [(_quarters(hours), sum(hours)) for hours in (profile.hours, profile.weekend_hours)]
    curves = np.empty((workload.days, SLOTS))
    for day in range(workload.days):
        weekday = (workload.start.weekday() + day) % len(profile.weekdays)
        chance = draw(noise, stream(workload.seed, _PURPOSE, day).random())
        level = between(profile.volume, workload.progress(day)) * profile.weekdays[weekday] * chance
        quarters, total = shapes[weekday >= _SATURDAY]
        curves[day] = quarters * (level / total)
    return curves.ravel()


def _quarters(hours: Sequence[float]) -> Floats:
    """Hourly rates as quarter-hourly ones, linear between the middles of the hours and around midnight."""
    around = (hours[-1], *hours, hours[0])
    quarters = [between(around, ((slot + 0.5) * len(hours) / SLOTS + 0.5) / (len(hours) + 1)) for slot in range(SLOTS)]
    return np.array(quarters)


def _shares_of(total: int, weights: Floats) -> list[int]:
    """Whole numbers in proportion to the rows of `weights` that add up to `total`."""
    cumulative = np.cumsum(weights.ravel())[weights.shape[1] - 1 :: weights.shape[1]]
    ends = [0, *(int(total * (reached / cumulative[-1])) for reached in cumulative)]
    return [right - left for left, right in pairwise(ends)]
