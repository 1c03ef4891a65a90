"""How many requests there are and when: the number of rows, the first and the last arrival."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl

from llmtrace.summaries.accumulator import Accumulator

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

__all__ = ["InOrder", "Span", "check_order", "combine", "plan", "read"]


@dataclass(frozen=True)
class Span:
    """The span of some requests.

    Attributes:
        requests: how many.
        first: the earliest arrival; None without requests.
        last: the latest.
    """

    requests: int
    first: datetime | None
    last: datetime | None

    @property
    def seconds(self) -> float | None:
        """From the first arrival to the last; None without requests."""
        return None if self.first is None or self.last is None else (self.last - self.first) / timedelta(seconds=1)


def plan(frame: pl.LazyFrame) -> pl.LazyFrame:
    """One row: `requests`, `first`, `last`, of requests in order of time."""
    time = pl.col("timestamp")
    return frame.select(pl.len().cast(pl.Int64).alias("requests"), time.first().alias("first"), time.last().alias("last"))


def combine(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The span of all parts."""
    return pl.concat(frames).select(pl.col("requests").sum(), pl.col("first").min(), pl.col("last").max())


def check_order(spans: Iterable[tuple[Any, Any]]) -> None:
    """Check that parts are neighbours in order of time: kernels that follow gaps must not meet negative ones.

    Args:
        spans: of each the first and the last arrival, or None twice.

    Raises:
        ValueError: if one begins before another that it comes after has ended.

    >>> check_order([(1, 3), (None, None), (3, 4)])
    """
    filled = [span for span in spans if span[0] is not None]
    if any(after[0] < before[1] for before, after in pairwise(filled)):
        raise ValueError("states are not those of neighbouring parts in order of time")


class InOrder(Accumulator[pl.DataFrame]):
    """The spans of parts that have to come in order of time."""

    def __init__(self) -> None:
        """Know no part."""
        self._spans: list[pl.DataFrame] = []

    def add(self, state: pl.DataFrame) -> None:
        """Take the span of the next part.

        Raises:
            ValueError: if it begins before those that have been taken have ended.
        """
        spans = [*self._spans, state]
        check_order(span.row(0)[1:] for span in spans)
        self._spans = [combine(spans)]

    def total(self) -> pl.DataFrame:
        """The span of all parts; there has been one at least."""
        return self._spans[0]


def read(frame: pl.DataFrame) -> Span:
    """The span that a summary holds."""
    return Span(*frame.row(0))
