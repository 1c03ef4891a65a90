"""Groups of requests: by key, by interval of time, by both, or all in one, as dense integers that kernels can index with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.interning import intern

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from llmtrace.summaries.intervals import Interval

    Ids = npt.NDArray[np.uint32]
    Keys = npt.NDArray[np.uint64]
    Integers = npt.NDArray[np.int64]

__all__ = ["Groups", "group", "needs"]


@dataclass(frozen=True)
class Groups:
    """The groups of a frame's rows.

    Attributes:
        ids: the group of each row, numbered from 0 in order of appearance.
        order: the groups in ascending order of their labels.
        labels: `time` (start of the interval) where grouped by interval, `key` where by key; one value per group, ascending.
    """

    ids: Ids
    order: Integers
    labels: dict[str, pl.Series]

    def offsets(self) -> Integers:
        """Where groups begin when rows stand group by group: group g from offsets[g] up to offsets[g + 1]."""
        return np.array([0, self.ids.size]) if self.order.size == 1 else _offsets(self.ids, self.order.size)

    def arranged(self, values: Integers, offsets: Integers) -> Integers:
        """Values of rows group by group, as `offsets` says, those of each group in the order of rows."""
        return values if self.order.size == 1 else _arranged(self.ids, offsets, values)


def needs(by: str | None = None, interval: Interval | None = None, values: Sequence[str] = ()) -> dict[str, pl.Expr]:
    """What kernels need of a frame: time in microseconds where grouped by it, the keys where by them, -1 for unknown values."""
    time = {} if interval is None else {"timestamp": pl.col("timestamp").to_physical()}
    keys = {} if by is None else {by: pl.col(by)}
    return {**time, **keys, **{value: pl.col(value).fill_null(-1) for value in values}}


def group(frame: pl.DataFrame, by: str | None = None, interval: Interval | None = None) -> Groups:
    """Group the rows of a frame by key, by interval, by both, or (with neither) all in one group.

    Args:
        frame: the columns that it `needs`, sorted by time where an interval is given.
        by: a column of keys.
        interval: the intervals of time.
    """
    if interval is None:
        return _by_key(frame[by].to_numpy()) if by else Groups(np.zeros(frame.height, np.uint32), np.zeros(1, np.int64), {})
    borders, starts = interval.runs(frame["timestamp"].to_numpy())
    if by is None:
        return Groups(_spread(borders), np.arange(starts.size), {"time": _time(starts)})
    return _by_key_and_run(frame[by].to_numpy(), borders, starts)


def _by_key(keys: Keys) -> Groups:
    ids, distinct = intern(keys)
    order = np.argsort(distinct)
    return Groups(ids, order, {"key": pl.Series(distinct[order])})


def _by_key_and_run(keys: Keys, borders: Integers, starts: Integers) -> Groups:
    dense, distinct = intern(keys)
    ids, run_of, dense_of, pairs = _split(dense, borders, distinct.size)
    run_of, dense_of = run_of[:pairs], dense_of[:pairs]
    order = np.lexsort((distinct[dense_of], run_of))
    labels = {"time": _time(starts[run_of[order]]), "key": pl.Series(distinct[dense_of[order]])}
    return Groups(ids, order, labels)


def _time(starts: Integers) -> pl.Series:
    return pl.Series(starts, dtype=pl.Int64).cast(pl.Datetime("us"))


@njit(nogil=True, cache=True)
def _offsets(ids: Ids, groups: int) -> Integers:
    """Where each group begins when rows stand group by group, and the number of rows."""
    offsets = np.zeros(groups + 1, np.int64)
    for one in ids:
        offsets[one + 1] += 1
    for one in range(groups):
        offsets[one + 1] += offsets[one]
    return offsets


@njit(nogil=True, cache=True)
def _arranged(ids: Ids, offsets: Integers, values: Integers) -> Integers:
    arranged = np.empty(values.size, np.int64)
    place = offsets.copy()
    for row in range(values.size):
        arranged[place[ids[row]]] = values[row]
        place[ids[row]] += 1
    return arranged


@njit(nogil=True, cache=True)
def _spread(borders: Integers) -> Ids:
    """The number of its run for each row."""
    ids = np.empty(borders[-1], np.uint32)
    for run in range(borders.size - 1):
        for row in range(borders[run], borders[run + 1]):
            ids[row] = run
    return ids


@njit(nogil=True, cache=True)
def _split(dense: Ids, borders: Integers, distinct: int) -> tuple[Ids, Integers, Integers, int]:
    """Number the pairs of (run, key) in order of appearance: the pair of each row, run and key of each pair, how many."""
    ids = np.empty(dense.size, np.uint32)
    run_of = np.empty(dense.size, np.int64)
    dense_of = np.empty(dense.size, np.int64)
    runs_seen = np.zeros(distinct, np.int64)
    latest_pair = np.zeros(distinct, np.uint32)
    pairs = 0
    for run in range(borders.size - 1):
        for row in range(borders[run], borders[run + 1]):
            one = dense[row]
            if runs_seen[one] <= run:
                runs_seen[one], latest_pair[one] = run + 1, pairs
                run_of[pairs], dense_of[pairs] = run, one
                pairs += 1
            ids[row] = latest_pair[one]
    return ids, run_of, dense_of, pairs
