"""Intervals of one width, as rates and distinct counts use them: their text, their borders, and the runs of a sorted column.

An interval holds the times from its start up to the next start. Starts are whole multiples of the width since
1970-01-01T00:00, so hours and days are those of UTC; widths of whole weeks count from Monday 1970-01-05.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from llmtrace.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["DAY", "HOUR", "Interval", "end_of_run", "microseconds"]

_UNITS_US = {"w": 604_800_000_000, "d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000}
_EPOCH = datetime(1970, 1, 1)
_FIRST_MONDAY_US = 4 * _UNITS_US["d"]
_LONGEST_US = 1000 * 52 * _UNITS_US["w"]
_AUTO = ("1s", "10s", "1m", "5m", "15m", "1h", "6h", "1d", "1w", "4w", "52w", "520w")


@dataclass(frozen=True)
class Interval:
    """A width in microseconds, and with it the grid of intervals of that width."""

    width_us: int

    @classmethod
    def parse(cls, text: str, option: str = "--interval") -> Interval:
        """The interval that `text` names: a number and one of s, m, h, d, w.

        Raises:
            UsageError: if it is no such thing, zero, or longer than 52,000 weeks; the message names `option`.

        >>> Interval.parse("15m").seconds
        900.0
        """
        found = re.fullmatch(r"([0-9]{1,1000})([smhdw])", text)
        width_us = int(found[1]) * _UNITS_US[found[2]] if found else 0
        if width_us > _LONGEST_US:
            raise UsageError(f"{option} {text}: too long", "Give 52000w at most: a whole number and one of s, m, h, d, w.")
        if not width_us:
            raise UsageError(
                f"{option} {text}: not a length of time",
                "Give a whole number and a unit, one of s, m, h, d, w, as in 15m, 1h or 1d.",
            )
        return cls(width_us)

    @classmethod
    def covering(cls, first: datetime, last: datetime, most: int = 500) -> Interval:
        """The narrowest customary interval of which at most `most` reach from `first` to `last`.

        >>> str(Interval.covering(datetime(2025, 1, 1), datetime(2025, 1, 11)))
        '1h'
        """
        choices = (cls.parse(text) for text in _AUTO)
        return next((choice for choice in choices if choice.count(first, last) <= most), cls.parse("5200w"))

    def __str__(self) -> str:
        """The text that `parse` reads, in the largest unit that divides the width."""
        unit = next(unit for unit, us in _UNITS_US.items() if self.width_us % us == 0)
        return f"{self.width_us // _UNITS_US[unit]}{unit}"

    @property
    def seconds(self) -> float:
        """The width in seconds."""
        return self.width_us / 1e6

    @property
    def origin_us(self) -> int:
        """The time, in microseconds since 1970, from which whole widths are counted."""
        return _FIRST_MONDAY_US if self.width_us % _UNITS_US["w"] == 0 else 0

    def floor_us(self, time_us: int) -> int:
        """The start of the interval that holds a time, both in microseconds since 1970."""
        return time_us - (time_us - self.origin_us) % self.width_us

    def count(self, first: datetime, last: datetime) -> int:
        """How many intervals lie between the one of `first` and the one of `last`, both included."""
        return (self.floor_us(microseconds(last)) - self.floor_us(microseconds(first))) // self.width_us + 1

    def starts(self, first: datetime, last: datetime) -> npt.NDArray[np.int64]:
        """The starts of all those intervals, in microseconds since 1970."""
        return np.arange(self.floor_us(microseconds(first)), microseconds(last) + 1, self.width_us, dtype=np.int64)

    def runs(self, times: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the intervals of sorted times begin.

        Args:
            times: ascending, in microseconds since 1970.

        Returns:
            The borders (row of the first time of each non-empty interval, then the number of rows) and the starts of those
            intervals.

        >>> Interval.parse("1s").runs(np.array([10, 20, 3_000_000]))
        (array([0, 2, 3]), array([      0, 3000000]))
        """
        return _runs(times, self.width_us, self.origin_us)


HOUR, DAY = Interval(_UNITS_US["h"]), Interval(_UNITS_US["d"])


def microseconds(time: datetime) -> int:
    """A naive time in microseconds since 1970, exactly.

    >>> microseconds(datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    return (time - _EPOCH) // timedelta(microseconds=1)


@njit(nogil=True, cache=True)
def end_of_run(times: npt.NDArray[np.int64], row: int, end: int) -> int:
    """The first row after `row` whose time is at least `end`, by doubling steps and then halving them; for kernels."""
    step = 1
    while row + step < times.size and times[row + step] < end:
        row += step
        step *= 2
    while step:
        if row + step < times.size and times[row + step] < end:
            row += step
        step //= 2
    return row + 1


@njit(nogil=True, cache=True)
def _runs(times: npt.NDArray[np.int64], width: int, origin: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    if not times.size:
        return np.zeros(1, np.int64), np.empty(0, np.int64)
    # There are no more runs than times, nor than intervals from the first time to the last.
    room = min(times.size, (times[-1] - times[0]) // width + 2)
    borders, starts = np.zeros(room + 1, np.int64), np.empty(room, np.int64)
    runs = 0
    while borders[runs] < times.size:
        starts[runs] = _start(times[borders[runs]], width, origin)
        borders[runs + 1] = end_of_run(times, borders[runs], starts[runs] + width)
        runs += 1
    return borders[: runs + 1], starts[:runs]


@njit(nogil=True, cache=True)
def _start(time: int, width: int, origin: int) -> int:
    return time - (time - origin) % width
