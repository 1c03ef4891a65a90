"""How many requests there are and when: the number of rows, the first and the last arrival."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

__all__ = ["Span", "combine", "plan", "read"]


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


def read(frame: pl.DataFrame) -> Span:
    """The span that a summary holds."""
    return Span(*frame.row(0))
