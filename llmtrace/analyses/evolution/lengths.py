"""Lengths of requests from period to period: percentiles (Figure 11 of the paper), and how far they drift from the first ones.

Distributions are of the histograms of `usage`, of requests of which both tokens are positive: exact below 4,096 tokens, above it
a value is the middle of a bucket that is within a relative 2^-12 of every value in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries import cells, usage
from llmtrace.summaries.histogram import bucket_starts

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from llmtrace.analyses.base import State
    from llmtrace.analyses.evolution.grid import Grid

    Floats = npt.NDArray[np.float64]
    Counts = np.ndarray[tuple[int, int], np.dtype[np.int64]]

__all__ = ["LEVELS", "NOISE", "PERCENTS", "Lengths", "drift", "tokens_by_month"]

PERCENTS = (10, 25, 50, 75, 90)
LEVELS = {"stable": 0.1, "moderate": 0.25}
"""What a population stability index below a number is called; `major` above the last."""
NOISE = "noise"
"""What it is called, however high, where the two samples may as well be of one distribution."""
DECILES = 10
CRITICAL = 1.358
"""Two samples of n and m values from one distribution are further apart than this · √(1/n + 1/m) once in twenty times."""
_DRIFT: Mapping[str, type[pl.DataType]] = {
    "place": pl.Int64,
    "column": pl.String,
    "is_reference": pl.Boolean,
    "requests": pl.Int64,
    "psi": pl.Float64,
    "wasserstein_log10": pl.Float64,
    "geometric_mean_ratio": pl.Float64,
    "ks": pl.Float64,
    "ks_noise": pl.Float64,
}


class Lengths:
    """The distributions of one column, period by period.

    Attributes:
        values: the lengths that occur anywhere, ascending.
        counts: a row per period and a column per value.
    """

    def __init__(self, state: State, column: str, grid: Grid) -> None:
        """Take them from the state of a trace."""
        rows = state["lengths"].filter(pl.col("column") == column)
        offsets, buckets, counts = cells.read(rows, "buckets")
        occurring, places = np.unique(buckets, return_inverse=True)
        self.values: Floats = _middles(occurring.astype(np.int64))
        self.counts: Counts = np.zeros((grid.size, occurring.size), np.int64)
        self.counts[np.repeat(grid.places(rows["time"]), np.diff(offsets)), places] = counts
        self.requests = self.counts.sum(axis=1)

    def shares(self, place: int) -> Floats:
        """Which share of the requests of a period is at most as long as each value; it has requests."""
        shares: Floats = np.cumsum(self.counts[place]) / self.requests[place]
        return shares

    def percentiles(self, place: int) -> list[float | None]:
        """The percentiles of a period, interpolated linearly between ranks; None without requests."""
        if not self.requests[place]:
            return [None] * len(PERCENTS)
        ranks = (self.requests[place] - 1) * np.array(PERCENTS) / 100
        reached = np.cumsum(self.counts[place])
        places = [np.searchsorted(reached, np.floor(ranks) + more, side="right") for more in (0, ranks % 1 > 0)]
        below, above = self.values[places]
        found: list[float | None] = (below + (above - below) * (ranks % 1)).tolist()
        return found


def _middles(buckets: npt.NDArray[np.int64]) -> Floats:
    """The middle of the lowest and the highest value of each bucket."""
    widths = np.exp2(np.maximum((buckets >> usage.BITS) - 1, 0))
    middles: Floats = bucket_starts(buckets, usage.BITS) + (widths - 1) / 2
    return middles


def tokens_by_month(lengths: dict[str, Lengths], grid: Grid) -> pl.DataFrame:
    """A row per period: percentiles of input and of output tokens."""
    columns = {
        f"p{percent}_{column}": pl.Series(
            [lengths[column].percentiles(place)[one] for place in range(grid.size)], dtype=pl.Float64
        )
        for column in lengths
        for one, percent in enumerate(PERCENTS)
    }
    requests = next(iter(lengths.values())).requests
    return grid.frame().with_columns(requests=pl.Series(requests), **columns).select("time", "requests", *columns, "partial")


def drift(lengths: dict[str, Lengths], grid: Grid) -> pl.DataFrame:
    """A row per period with requests and column: how its lengths differ from those of the first whole period that has any."""
    rows = [
        (place, column, place == reference, *_compared(found, reference, place))
        for column, found in lengths.items()
        if (reference := reference_of(found, grid)) is not None
        for place in np.flatnonzero(found.requests).tolist()
    ]
    table = pl.DataFrame(rows, _DRIFT, orient="row").sort("place", "column")
    places = table["place"].to_numpy()
    partial = pl.Series("partial", grid.partial[places], dtype=pl.Boolean)
    return table.select(grid.times(places), "column", "requests", "is_reference", "psi", _level(), *list(_DRIFT)[5:], partial)


def _level() -> pl.Expr:
    """What an index is called; null that of the reference itself."""
    named = [pl.when(pl.col("ks") <= pl.col("ks_noise")).then(pl.lit(NOISE))]
    named += [pl.when(pl.col("psi") < limit).then(pl.lit(name)) for name, limit in LEVELS.items()]
    return pl.when(~pl.col("is_reference")).then(pl.coalesce(*named, pl.lit("major"))).alias("psi_level")


def reference_of(found: Lengths, grid: Grid) -> int | None:
    """The first whole period with lengths, or the first one with any; None without."""
    filled = grid.whole(np.flatnonzero(found.requests))
    return int(filled[0]) if filled.size else None


def _compared(found: Lengths, reference: int, place: int) -> tuple[int, float, float, float, float, float]:
    """Requests of a period, and how its lengths differ from those of the reference."""
    pair = [place, reference]
    apart = np.abs(found.shares(place) - found.shares(reference))
    logs = np.log10(found.values)
    means = (found.counts[pair] * logs).sum(axis=1) / found.requests[pair]
    return (
        int(found.requests[place]),
        _stability(found, reference, place),
        float((apart[:-1] * np.diff(logs)).sum()),
        float(10 ** (means[0] - means[1])),
        float(apart.max()),
        CRITICAL * float(np.sqrt((1 / found.requests[pair]).sum())),
    )


def _stability(found: Lengths, reference: int, place: int) -> float:
    """The population stability index over the deciles of the reference, half a request added to each of their counts."""
    shares = found.shares(reference)
    # A range reaches up to the value at which the reference reaches a tenth more; deciles that coincide bound one.
    borders = np.unique(np.searchsorted(shares, np.arange(1, DECILES) / DECILES)) + 1
    starts = np.append(0, borders[borders < shares.size])
    counts = np.add.reduceat(found.counts[[place, reference]], starts, axis=1)
    # Above the reference is a range only for a period that has requests there, whatever others have.
    ours, theirs = counts[:, counts.any(axis=0)] + 0.5
    p, q = ours / ours.sum(), theirs / theirs.sum()
    return float(((p - q) * np.log(p / q)).sum())
