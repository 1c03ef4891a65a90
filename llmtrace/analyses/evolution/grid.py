"""The periods of a trace, one after the other, and how much of each it covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries.periods import covered

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.periods import Periods
    from llmtrace.summaries.span import Span

    Integers = npt.NDArray[np.int64]

__all__ = ["WHOLE", "Grid"]

WHOLE = 0.95
"""A period of which the trace covers less is partial."""


@dataclass(frozen=True)
class Grid:
    """All periods from the first arrival to the last, empty ones included.

    Attributes:
        edges: where they begin, and where the last one ends, in microseconds since 1970.
        covered: which share of each lies between the first and the last arrival, 0 to 1.
    """

    edges: Integers
    covered: npt.NDArray[np.float64]

    @classmethod
    def of(cls, span: Span, periods: Periods) -> Grid:
        """The periods that a span touches; none without requests."""
        if span.first is None or span.last is None:
            return cls(np.zeros(1, np.int64), np.zeros(0))
        edges = periods.edges(span.first, span.last)
        return cls(edges, covered(edges, span.first, span.last))

    @property
    def size(self) -> int:
        """How many periods there are."""
        return self.covered.size

    @property
    def partial(self) -> npt.NDArray[np.bool_]:
        """Which of them the trace covers in part only."""
        return self.covered < WHOLE

    def whole(self, places: Integers) -> Integers:
        """Those of these places whose periods it covers; all of them if there is none."""
        found = places[~self.partial[places]]
        return found if found.size else places

    def frame(self) -> pl.DataFrame:
        """A row per period: `time` (its start) and `partial`."""
        return pl.DataFrame({"time": self.times(np.arange(self.size)), "partial": self.partial})

    def times(self, places: npt.NDArray[np.integer]) -> pl.Series:
        """When the periods at these places begin."""
        return pl.Series("time", self.edges[places], dtype=pl.Int64).cast(pl.Datetime("us"))

    def places(self, times: pl.Series) -> Integers:
        """The place of the period that begins at each of these times."""
        return np.searchsorted(self.edges, times.to_physical().to_numpy())
