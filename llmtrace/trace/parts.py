"""How a trace is cut: disjoint time intervals of a few million rows, from row-group statistics alone.

A `Slice` is a run of rows of one file whose first and last arrival are known. The slices of all files are cut together, so
overlapping files, several files a day, one huge file and unsorted row groups all work: a part reads the slices that reach into
its interval, and no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from llmtrace.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

__all__ = ["EPOCH", "MICROSECOND", "PART_ROWS", "Interval", "Slice", "cut", "large_part_rows", "part_rows"]

PART_ROWS = 1_000_000
"""Rows that a part aims at: large enough for kernels to pay, small enough for several at once to fit into a gigabyte."""

PARTS_OF_EACH = 4
"""Large parts that each thread is to have, however few rows there are."""

NARROW = 3
"""Up to so many numbers in a row it counts as small; a name is as much as two."""

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Slice:
    """A run of rows of one source.

    Attributes:
        source: index of the source in the trace.
        first_row: its first row in the source.
        rows: how many rows; None as long as nobody has counted (text).
        first: earliest arrival in it; None if unknown, or if no row has a readable time.
        last: latest arrival in it.
        surveyed: whether rows, first and last are final.
        complete: whether it is known that every row has a readable time.
        divisible: whether a part can read some of its rows without reading all; true of Parquet, not of text.
    """

    source: int
    first_row: int
    rows: int | None
    first: datetime | None
    last: datetime | None
    surveyed: bool
    complete: bool = False
    divisible: bool = True

    def overlaps(self, interval: Interval) -> bool:
        """Whether one of its arrivals can lie in the interval."""
        return self.first is not None and self.last is not None and self.first < interval.end and self.last >= interval.start

    def within(self, interval: Interval) -> bool:
        """Whether all its arrivals lie in the interval."""
        return self.first is not None and self.last is not None and self.first >= interval.start and self.last < interval.end


@dataclass(frozen=True)
class Interval:
    """A half-open interval of time, [start, end)."""

    start: datetime
    end: datetime

    @property
    def edges_us(self) -> tuple[int, int]:
        """Both in microseconds since 1970."""
        return _microseconds(self.start), _microseconds(self.end)


def part_rows(columns: Collection[str]) -> int:
    """Rows to aim at with these canonical columns: three times `PART_ROWS` where rows are no more than times and a key.

    Such rows are small, and fewer parts are fewer states to combine.

    >>> part_rows({"timestamp", "model"}), part_rows({"timestamp", "user", "model"})
    (3000000, 1000000)
    """
    numbers = sum(1 if COLUMNS[name].dtype.is_numeric() or COLUMNS[name].dtype.is_temporal() else 2 for name in columns)
    return PART_ROWS * 3 if numbers <= NARROW else PART_ROWS


def large_part_rows(rows: int, threads: int, at_once: int) -> int:
    """Rows to aim at where larger parts are faster.

    Args:
        rows: those of all parts.
        threads: parts that are worked on at once.
        at_once: rows that these may have together, if that leaves each part `PART_ROWS`.

    >>> [large_part_rows(rows, threads, 5_000_000) for rows, threads in ((50_000_000, 2), (12_000_000, 2), (50_000_000, 16))]
    [2500000, 1500000, 1000000]
    """
    return max(PART_ROWS, min(at_once, rows // PARTS_OF_EACH) // threads)


def cut(slices: Sequence[Slice], window: Interval, rows: int = PART_ROWS) -> list[Interval]:
    """Disjoint intervals in order that cover `window`, each holding about `rows` rows.

    Rows are taken as evenly spread between a slice's first and last arrival. A cut moves to the nearby beginning of a slice where
    there is one, since slices that a cut does not divide are read once and need no filter. An indivisible slice is never cut, so
    that an interval can hold many more rows.
    """
    dated = [piece for piece in slices if piece.overlaps(window)]
    first = np.array([_microseconds(piece.first) for piece in dated], np.int64)
    last = np.array([_microseconds(piece.last) for piece in dated], np.int64) + 1
    weight = np.array([piece.rows or 0 for piece in dated], np.float64)
    cuts = _cut_times(first, last, weight, rows)
    whole = np.array([not piece.divisible for piece in dated], np.bool_)
    kept = [us for us in sorted(set(cuts.tolist())) if not (whole & (first < us) & (us < last)).any()]
    inner = [moment for moment in (EPOCH + timedelta(microseconds=us) for us in kept) if window.start < moment < window.end]
    edges = [window.start, *inner, window.end]
    return [Interval(start, end) for start, end in pairwise(edges)]


def _microseconds(moment: datetime | None) -> int:
    return 0 if moment is None else (moment - EPOCH) // MICROSECOND


def _cut_times(
    first: npt.NDArray[np.int64], last: npt.NDArray[np.int64], weight: npt.NDArray[np.float64], rows: int
) -> npt.NDArray[np.int64]:
    total = weight.sum()
    pieces = int(np.ceil(total / rows))
    if pieces <= 1:
        return np.empty(0, np.int64)
    times, before = _cumulative_rows(first, last, weight)
    ideal = np.interp(np.arange(1, pieces) * (total / pieces), before, times).astype(np.int64)
    return _snap(ideal, np.sort(first), times, before, slack=rows / 4)


def _cumulative_rows(
    first: npt.NDArray[np.int64], last: npt.NDArray[np.int64], weight: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Breakpoints in time, and the expected number of rows before each of them."""
    density = weight / (last - first)
    times, place = np.unique(np.concatenate([first, last]), return_inverse=True)
    slope = np.cumsum(np.bincount(place, np.concatenate([density, -density]), len(times)))
    return times, np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(times))])


def _snap(
    ideal: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
    before: npt.NDArray[np.float64],
    slack: float,
) -> npt.NDArray[np.int64]:
    """Move each ideal cut to the nearest slice beginning that is at most `slack` rows away."""
    right = np.searchsorted(starts, ideal).clip(1, len(starts) - 1) if len(starts) > 1 else np.zeros(len(ideal), np.int64)
    candidates = np.stack([starts[np.maximum(right - 1, 0)], starts[right]])
    away = np.abs(np.interp(candidates, times, before) - np.interp(ideal, times, before))
    best = away.argmin(axis=0)
    nearest = candidates[best, np.arange(len(ideal))]
    return np.where(away.min(axis=0) <= slack, nearest, ideal)
