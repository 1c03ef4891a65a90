"""The tables of `hit-dist` over all requests: the histogram, input lengths, and their cumulative shares (F13a of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.analyses.hit_dist import shape
from llmtrace.summaries import hit_lengths, hits
from llmtrace.summaries.sums import narrowed

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.analyses.base import State

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

__all__ = ["FEWEST", "HISTOGRAM_BINS", "Lengths", "curves"]

HISTOGRAM_BINS = 50
"""Bins of the histogram, 0.02 wide."""
FEWEST = 100
"""A group of requests with so many or fewer has no shape to speak of; the paper shows models above."""

_GROUPS = {"under 1,000": (0, 1_000), "1,000 to 7,999": (1_000, 8_000), "8,000 and more": (8_000, None)}
"""The groups of input lengths whose curves are drawn: the first and the last are the paper's."""
_SHAPE = ("p10", "p50", "p90")


@dataclass(frozen=True)
class Lengths:
    """The requests with a ratio by band of input length and cell.

    Attributes:
        frame: a row per band and cell that occurs, as `hit_lengths.split` gives it.
    """

    frame: pl.DataFrame

    @classmethod
    def read(cls, state: State) -> Lengths:
        """Those of a state."""
        return cls(hit_lengths.split(state["lengths"]))

    @cached_property
    def counts(self) -> Integers:
        """How many requests each band has in each cell."""
        return self._dense(self.frame["measured"]).astype(np.int64)

    @cached_property
    def overall(self) -> dict[str, int | float | None]:
        """All requests together, as `hits.described` names the numbers; tokens and counts are 0 where there are none."""
        together = self.frame.drop("band", "cell").select(pl.col(name).cast(pl.Int128).sum() for name in self.frame.columns[2:])
        return hits.described(together).row(0, named=True)

    def histogram(self) -> pl.DataFrame:
        """One row per bin, and one for requests that found all of their input in the cache."""
        found = self.frame.group_by(pl.col("cell") // 2 * HISTOGRAM_BINS // hits.STEPS).agg(
            pl.col("measured").sum().alias("requests"),
            *(hits.tokens(side).sum() for side in ("input", "cached")),
        )
        edges = np.arange(HISTOGRAM_BINS + 1) / HISTOGRAM_BINS
        bins = pl.DataFrame({"cell": pl.int_range(edges.size, eager=True), "from": edges, "to": np.append(edges[1:], 1.0)})
        rows = bins.join(found, on="cell", how="left", maintain_order="left").with_columns(pl.all().fill_null(0))
        names = ("requests", "input_tokens", "cached_tokens")
        return narrowed(
            rows.select(
                pl.col("from").alias("hit_ratio_from"),
                pl.col("to").alias("hit_ratio_to"),
                *(column for name in names for column in (pl.col(name), _share(pl.col(name)).alias(f"{name}_ratio"))),
            )
        )

    def by_input_length(self) -> pl.DataFrame:
        """One row per band that has requests."""
        sums = self.frame.drop("cell").group_by("band").sum().sort("band")
        counts = self.counts[sums["band"].to_numpy()]
        edges = dict(enumerate(hits.BANDS))
        lower = pl.col("band").replace_strict(edges, return_dtype=pl.Int64)
        upper = (pl.col("band") + 1).replace_strict(edges, default=None, return_dtype=pl.Int64)
        return (
            hits.described(sums)
            .drop("requests")
            .rename({"measured_requests": "requests"})
            .select(
                lower.alias("input_tokens_from"),
                upper.alias("input_tokens_to"),
                "requests",
                _share(pl.col("requests")).alias("requests_ratio"),
                pl.exclude("band", "requests"),
                *described(counts),
            )
        )

    def cdf(self) -> pl.DataFrame:
        """The share of requests and of input tokens up to each ratio: over all, and by group of input lengths."""
        tokens = self._dense(self.frame.select(hits.tokens("input")).to_series())
        rows = [("all", None, slice(None))] + [("input_length", name, _bands(*edges)) for name, edges in _GROUPS.items()]
        return pl.concat(
            curves(scope, name, self.counts[bands].sum(axis=0, keepdims=True), tokens[bands].sum(axis=0, keepdims=True))
            for scope, name, bands in rows
        )

    def _dense(self, values: pl.Series) -> Floats:
        found = np.zeros((len(hits.BANDS), hits.CELLS))
        found[self.frame["band"].to_numpy(), self.frame["cell"].to_numpy()] = values.cast(pl.Float64).to_numpy()
        return found


def curves(scope: str, name: str | None, requests: Integers, tokens: Floats | None) -> pl.DataFrame:
    """The rows of `cdf` for one group; none where it is empty.

    Args:
        scope: what kind of group it is.
        name: which of these.
        requests: how many it has in each cell, one row.
        tokens: their input tokens; None where these are not known by cell.
    """
    schema = {
        "scope": pl.String,
        "name": pl.String,
        "hit_ratio": pl.Float64,
        "cumulative_ratio": pl.Float64,
        "cumulative_tokens_ratio": pl.Float64,
    }
    if not requests.sum():
        return pl.DataFrame(schema=schema)
    size = len(shape.CURVE)
    weighted = [None] * size if tokens is None else shape.cumulative(tokens)[0]
    return pl.DataFrame([[scope] * size, [name] * size, shape.CURVE, shape.cumulative(requests)[0], weighted], schema)


def described(counts: Integers) -> list[pl.Series]:
    """Percentiles of each row of counts, and with more than `FEWEST` how it is shaped."""
    few = counts.sum(axis=1) <= FEWEST
    values = shape.quantiles(counts, [0.1, 0.5, 0.9])
    columns = {f"hit_ratio_{name}": values[:, place] for place, name in enumerate(_SHAPE)}
    columns["bimodality"] = np.where(few, np.nan, shape.bimodality(counts))
    columns["valley_depth"] = np.where(few, np.nan, shape.modes(counts).depth)
    return [pl.Series(name, column, pl.Float64).fill_nan(None) for name, column in columns.items()]


def _share(amount: pl.Expr) -> pl.Expr:
    return pl.when(amount.sum() > 0).then(amount / amount.sum())


def _bands(low: int, high: int | None) -> slice:
    edges = hits.BANDS
    return slice(edges.index(low), len(edges) if high is None else edges.index(high))
