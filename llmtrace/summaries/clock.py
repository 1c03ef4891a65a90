"""The grain of a clock: how arrivals are spaced, how many share an instant, and in which steps the clock ticks.

State: `clock` (one row: requests, first and last arrival, ties, the gaps' greatest common divisor, in microseconds), `clock_gaps`
(positive gaps in log-linear buckets: bucket, gaps, their sum in microseconds) and `clock_longest` (the ten longest gaps).
`combine` adds the gap across each border, so that cutting changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.cells import frozen
from llmtrace.summaries.histogram import bucket_of, bucket_starts
from llmtrace.summaries.summary import Summary, plans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import numpy.typing as npt

    from llmtrace.summaries.groups import Integers

__all__ = ["Grain", "combine", "grain", "longest", "plan", "summaries"]

BITS = 11
LONGEST = 10
MODAL_SHARE = 0.2
MODAL_WIDTH = 0.01

_CLOCK = dict.fromkeys(("requests", "first_us", "last_us", "ties", "divisor_us"), pl.Int64())
_GAPS: Mapping[str, pl.DataType] = {"bucket": pl.Int64(), "gaps": pl.Int64(), "total_us": pl.Int64()}
_LONGEST = dict.fromkeys(("start_us", "gap_us"), pl.Int64())
_TIME = {"timestamp": pl.col("timestamp").to_physical()}


@dataclass(frozen=True)
class Grain:
    """What a state says about the clock.

    Attributes:
        requests: arrivals.
        first: earliest arrival; None without arrivals.
        last: latest arrival.
        ties: gaps of length zero.
        tie_share: ties over gaps; None with fewer than two arrivals.
        quantum_s: the modal positive gap if at least 20 % of the positive gaps lie within 1 % of it, else their greatest common
            divisor; None without a positive gap.
        mean_gap_s: span over gaps.
        buckets: lower bounds of the gap buckets, in seconds, with their counts.
    """

    requests: int
    first: datetime | None
    last: datetime | None
    ties: int
    tie_share: float | None
    quantum_s: float | None
    mean_gap_s: float | None
    buckets: tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]

    def gaps_above(self, limit_s: float) -> int:
        """Gaps at least `limit_s` long, to the resolution of the buckets (relative 2^-11)."""
        starts, counts = self.buckets
        return int(counts[starts >= limit_s].sum())


def summaries() -> dict[str, Summary]:
    """The three tables of a part that is sorted by time."""
    return {
        "clock": Summary(_TIME, _CLOCK, _clock),
        "clock_gaps": Summary(_TIME, _GAPS, _bucketed),
        "clock_longest": Summary(_TIME, _LONGEST, _longest),
    }


def plan(part: pl.LazyFrame) -> Mapping[str, pl.LazyFrame]:
    """The plans that summarise a part sorted by time."""
    return plans(part, summaries())


def combine(states: Sequence[Mapping[str, pl.DataFrame]]) -> dict[str, pl.DataFrame]:
    """The state of neighbouring parts, in order of time."""
    clocks = pl.concat([state["clock"] for state in states]).filter(pl.col("requests") > 0)
    last, first = (clocks[name].to_numpy() for name in ("last_us", "first_us"))
    starts, gaps = last[:-1], first[1:] - last[:-1]
    within = [state["clock_gaps"] for state in states]
    held = pl.concat([*(state["clock_longest"] for state in states), _longest_of(starts, gaps)])
    return {
        "clock": _joined(clocks, gaps),
        "clock_gaps": _merged([*within, _histogram(np.append(0, gaps.cumsum()))]),
        "clock_longest": held.sort("gap_us", "start_us", descending=[True, False]).head(LONGEST),
    }


def grain(state: Mapping[str, pl.DataFrame]) -> Grain:
    """What the state says about the clock."""
    row = state["clock"].row(0, named=True)
    gaps = max(row["requests"] - 1, 0)
    first, last = (_moment(row[name]) for name in ("first_us", "last_us"))
    starts = bucket_starts(state["clock_gaps"]["bucket"].to_numpy(), BITS) / 1e6
    return Grain(
        requests=row["requests"],
        first=first,
        last=last,
        ties=row["ties"],
        tie_share=row["ties"] / gaps if gaps else None,
        quantum_s=_quantum_s(state["clock_gaps"], row["divisor_us"]),
        mean_gap_s=(last - first).total_seconds() / gaps if gaps and first and last else None,
        buckets=(starts, state["clock_gaps"]["gaps"].to_numpy()),
    )


def longest(state: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The ten longest gaps: `time` of the arrival before, `gap_s`."""
    return state["clock_longest"].select(pl.from_epoch("start_us", "us").alias("time"), (pl.col("gap_us") / 1e6).alias("gap_s"))


def _moment(us: int | None) -> datetime | None:
    moment: datetime | None = pl.select(pl.from_epoch(pl.lit(us, pl.Int64), "us")).item()
    return moment


def _clock(frame: pl.DataFrame) -> pl.DataFrame:
    (times,) = frozen(frame["timestamp"].to_numpy())
    bounds = (int(times[0]), int(times[-1])) if times.size else (None, None)
    return pl.DataFrame([(times.size, *bounds, *_ties_and_divisor(times))], _CLOCK, orient="row")


def _joined(clocks: pl.DataFrame, border_gaps: Integers) -> pl.DataFrame:
    divisor = math.gcd(*clocks["divisor_us"].to_list(), *border_gaps.tolist())
    return clocks.select(
        pl.col("requests").sum(),
        pl.col("first_us").first(),
        pl.col("last_us").last(),
        pl.col("ties").sum() + int((border_gaps == 0).sum()),
        pl.lit(divisor, pl.Int64).alias("divisor_us"),
    )


def _bucketed(frame: pl.DataFrame) -> pl.DataFrame:
    return _histogram(frame["timestamp"].to_numpy())


def _histogram(times_us: Integers) -> pl.DataFrame:
    (times,) = frozen(times_us)
    counts, totals = _tally(times, BITS)
    return _buckets(counts, totals)


def _buckets(counts: Integers, totals: Integers) -> pl.DataFrame:
    buckets = np.flatnonzero(counts)
    return pl.DataFrame({"bucket": buckets, "gaps": counts[buckets], "total_us": totals[buckets]}, schema=_GAPS)


def _merged(histograms: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The buckets of all; no total exceeds the time from the first arrival to the last."""
    size = max(int(one["bucket"][-1]) if one.height else 0 for one in histograms) + 1
    counts, totals = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for one in histograms:
        buckets, gaps, total = (one[name].to_numpy() for name in _GAPS)
        counts[buckets] += gaps
        totals[buckets] += total
    return _buckets(counts, totals)


def _longest(frame: pl.DataFrame) -> pl.DataFrame:
    (times,) = frozen(frame["timestamp"].to_numpy())
    rows = _longest_rows(times, LONGEST)
    return pl.DataFrame({"start_us": times[rows], "gap_us": times[rows + 1] - times[rows]}, schema=_LONGEST)


def _longest_of(starts: Integers, gaps: Integers) -> pl.DataFrame:
    frame = pl.DataFrame({"start_us": starts, "gap_us": gaps}, schema=_LONGEST).filter(pl.col("gap_us") > 0)
    return frame.sort("gap_us", "start_us", descending=[True, False]).head(LONGEST)


def _quantum_s(gaps: pl.DataFrame, divisor_us: int) -> float | None:
    """The modal gap where it stands out, else the divisor; the modal bucket's mean, so that an exact step comes out exact."""
    if gaps.is_empty():
        return None
    mode = gaps.sort("gaps", "bucket", descending=[True, False]).row(0, named=True)
    modal_us = mode["total_us"] / mode["gaps"]
    centres = (pl.col("total_us") / pl.col("gaps")).cast(pl.Float64)
    near = gaps.filter((centres - modal_us).abs() <= MODAL_WIDTH * modal_us)["gaps"].to_numpy().sum()
    return float((modal_us if near >= MODAL_SHARE * gaps["gaps"].to_numpy().sum() else divisor_us) / 1e6)


@njit(nogil=True, cache=True)
def _ties_and_divisor(times: Integers) -> tuple[int, int]:
    """How many gaps are zero, and the greatest common divisor of all; 0 without a positive one."""
    ties, divisor = 0, 0
    for row in range(1, times.size):
        gap = times[row] - times[row - 1]
        ties += gap == 0
        while divisor != 1 and gap:
            divisor, gap = gap, divisor % gap
    return ties, divisor


@njit(nogil=True, cache=True)
def _tally(times: Integers, bits: int) -> tuple[Integers, Integers]:
    """How many positive gaps each bucket holds, and their sum."""
    counts, totals = np.zeros((64 - bits) << bits, np.int64), np.zeros((64 - bits) << bits, np.int64)
    for row in range(1, times.size):
        gap = times[row] - times[row - 1]
        bucket = bucket_of(gap, bits)
        counts[bucket] += 1
        totals[bucket] += gap
    # Ties have a bucket of their own; to ask of every gap whether it is one would take longer, since they come as they like.
    counts[0] = 0
    return counts, totals


@njit(nogil=True, cache=True)
def _longest_rows(times: Integers, most: int) -> Integers:
    """The rows before the longest positive gaps, longest first, the earlier of equals first."""
    rows = np.empty(most + 1, np.int64)
    found, least = 0, 0
    for row in range(times.size - 1):
        gap = times[row + 1] - times[row]
        if gap <= least:
            continue
        place = found
        while place > 0 and times[rows[place - 1] + 1] - times[rows[place - 1]] < gap:
            rows[place] = rows[place - 1]
            place -= 1
        rows[place] = row
        found = min(found + 1, most)
        least = times[rows[found - 1] + 1] - times[rows[found - 1]] if found == most else 0
    return rows[:found].copy()
