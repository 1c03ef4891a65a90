"""Periods: the stretches of time that a workload is compared by, calendar months (UTC) or intervals of one width.

A period holds the times from its start up to the start of the next one. Months are those of the calendar, so that they have
different lengths; on a relative clock, which counts from 1970, they are the months of 1970. Periods of one width are those of
`intervals`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from llmtrace.errors import UsageError
from llmtrace.summaries.intervals import Interval, microseconds

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

__all__ = ["Periods", "covered"]

_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_CUSTOMARY = (
    (timedelta(days=80 * 365), "year"),
    (timedelta(days=60), "month"),
    (timedelta(weeks=4), "1w"),
    (timedelta(days=3), "1d"),
    (timedelta(hours=3), "1h"),
)


@dataclass(frozen=True)
class Periods:
    """How time is cut.

    Attributes:
        months: calendar months to a period; 0 where periods have one width.
        interval: that width; None where they are months.
    """

    months: int
    interval: Interval | None = None

    @classmethod
    def parse(cls, text: str, option: str = "--interval") -> Periods:
        """The periods that `text` names: month, quarter, year, or a number and one of s, m, h, d, w.

        Raises:
            UsageError: if it is no such thing; the message names `option`.

        >>> str(Periods.parse("month")), str(Periods.parse("14d"))
        ('month', '2w')
        """
        if text in _MONTHS:
            return cls(_MONTHS[text])
        try:
            return cls(0, Interval.parse(text, option))
        except UsageError as error:
            raise UsageError(error.message, "Give month, quarter, year, or a number and a unit, as in 1w, 1d or 6h.") from None

    @classmethod
    def covering(cls, first: datetime, last: datetime) -> Periods:
        """The widest customary periods of which a trace from `first` to `last` shows a few: months from 60 days on.

        >>> str(Periods.covering(datetime(2025, 4, 11), datetime(2025, 4, 21)))
        '1d'
        """
        return cls.parse(next((text for span, text in _CUSTOMARY if last - first >= span), "1m"))

    def __str__(self) -> str:
        """The text that `parse` reads."""
        return next((text for text, months in _MONTHS.items() if months == self.months), str(self.interval))

    def edges(self, first: datetime, last: datetime) -> Integers:
        """The starts of the periods from that of `first` to that of `last`, and the end of the last; in microseconds since 1970.

        >>> Periods.parse("month").edges(datetime(1970, 1, 9), datetime(1970, 2, 1)) // 86_400_000_000
        array([ 0, 31, 59])
        """
        if self.interval is not None:
            starts = self.interval.starts(first, last)
            return np.append(starts, starts[-1] + self.interval.width_us)
        low, high = (self._number(time) for time in (first, last))
        months = np.arange(low, high + 2) * self.months
        edges: Integers = months.astype("M8[M]").astype("M8[us]").astype(np.int64)
        return edges

    def floor(self, times_us: Integers) -> Integers:
        """The start of the period of each time, all in microseconds since 1970.

        >>> Periods.parse("month").floor(np.array([5, 2_678_400_000_007]))
        array([            0, 2678400000000])
        """
        if self.interval is not None:
            return times_us - (times_us - self.interval.origin_us) % self.interval.width_us
        months = times_us.astype("M8[us]").astype("M8[M]").astype(np.int64)
        starts: Integers = (months - months % self.months).astype("M8[M]").astype("M8[us]").astype(np.int64)
        return starts

    def count(self, first: datetime, last: datetime) -> int:
        """How many periods lie between that of `first` and that of `last`, both included."""
        if self.interval is not None:
            return self.interval.count(first, last)
        return self._number(last) - self._number(first) + 1

    def runs(self, times_us: Integers) -> tuple[Integers, Integers]:
        """Where periods begin in sorted times.

        Args:
            times_us: ascending, in microseconds since 1970.

        Returns:
            The borders (row of the first time of each period that has any, then the number of rows) and the starts of those
            periods.

        >>> Periods.parse("month").runs(np.array([5, 7, 2_678_400_000_000]))
        (array([0, 2, 3]), array([            0, 2678400000000]))
        """
        if not times_us.size:
            return np.zeros(1, np.int64), np.empty(0, np.int64)
        first, last = (datetime(1970, 1, 1) + timedelta(microseconds=int(us)) for us in (times_us[0], times_us[-1]))
        edges = self.edges(first, last)
        borders = np.searchsorted(times_us, edges)
        filled = borders[1:] > borders[:-1]
        return np.append(borders[:-1][filled], times_us.size), edges[:-1][filled]

    def _number(self, time: datetime) -> int:
        """How many periods of whole months lie between 1970 and that of a time."""
        return (12 * (time.year - 1970) + time.month - 1) // self.months


def covered(edges: Integers, first: datetime | None, last: datetime | None) -> npt.NDArray[np.float64]:
    """Which share of each period lies between the first and the last arrival, 0 to 1."""
    if first is None or last is None:
        return np.zeros(edges.size - 1)
    starts, ends = np.maximum(edges[:-1], microseconds(first)), np.minimum(edges[1:], microseconds(last))
    shares: npt.NDArray[np.float64] = np.clip((ends - starts) / (edges[1:] - edges[:-1]), 0, 1)
    return shares
