"""The scalars of `burstiness`, and its tables over keys, hours and windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from llmtrace.summaries import clock, hours, lags, moments, windows
from llmtrace.summaries.quantiles import quantiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from llmtrace.analyses.base import State
    from llmtrace.result import Scalar
    from llmtrace.summaries.intervals import Interval

__all__ = [
    "BITS",
    "BITS_BY_KEY",
    "LEAST_GAPS",
    "LEAST_REQUESTS",
    "LEAST_VALID_HOURS",
    "Found",
    "by_hour",
    "cv_windows",
    "dispersion",
    "read",
    "scalars",
]

BITS, BITS_BY_KEY = 4, 2
"""Significant bits of the buckets that pairs of gaps are ranked in: of the whole process, and of each key."""
LEAST_GAPS = 10
"""Keys with fewer gaps count in no share of keys."""
LEAST_REQUESTS, LEAST_VALID_HOURS = 100, 5
"""F9 shows keys with more requests, and at least so many valid hours."""
PROTOCOL = "all gaps, across hours"

_QUANTILES = {"cv_median": 0.5, "cv_p75": 0.75, "cv_p90": 0.9}


@dataclass(frozen=True)
class Found:
    """What a state says, read once.

    Attributes:
        by: what the gaps are taken by.
        grain: the clock as it stamped the requests.
        process: the gaps of all requests together, as `lags.describe` names them; None for each without requests.
        described: the gaps of each key, beside its name; keys with most requests first.
    """

    by: str
    grain: clock.Grain
    process: Mapping[str, Any]
    described: pl.DataFrame

    @property
    def by_key(self) -> pl.DataFrame:
        """The table of keys."""
        tie_share = pl.when(pl.col("gaps") > 0).then(pl.col("ties") / pl.col("gaps"))
        return self.described.select(
            pl.col("name").alias(self.by),
            "requests",
            "gaps",
            tie_share.alias("tie_share"),
            "mean_gap_s",
            "std_gap_s",
            "cv",
            "burstiness",
            "lag1_spearman",
            "lag1_spearman_bound",
            "lag1_log_pearson",
            "lag1_pearson",
        )


def read(state: State, by: str, step_us: int) -> Found:
    """Describe the gaps of the whole process and of each key.

    Args:
        state: that of the analysis.
        by: what the gaps are taken by.
        step_us: what every gap is a multiple of, in microseconds.
    """
    whole = lags.describe(state["process"], bits=BITS, step_us=step_us)
    process = whole.row(0, named=True) if whole.height else dict.fromkeys(whole.columns)
    keys = lags.describe(state["keys"], bits=BITS_BY_KEY, step_us=step_us)
    # A key with all requests has the gaps of the process, of which the finer buckets tell more.
    finer = whole.drop("key").join(keys.select("key", "requests"), on="requests").select(keys.columns)
    described = pl.concat([keys.join(finer, on="key", how="anti"), finer]).join(state["names"], on="key", how="left")
    order = described.sort("requests", "name", descending=[True, False])
    return Found(by, clock.grain(state), process, order)


def scalars(found: Found) -> dict[str, Scalar]:
    """Every scalar, in reading order; None is "not known"."""
    process, grain = found.process, found.grain
    frequent = found.described.filter(pl.col("gaps") >= LEAST_GAPS)
    shares = frequent.select((pl.col("cv") > 1).mean().alias("cv"), (pl.col("lag1_spearman") > 0).mean().alias("lag1"))
    return {
        "requests": grain.requests,
        "keys": found.described.height,
        "gaps": max(grain.requests - 1, 0),
        "first_timestamp": grain.first,
        "last_timestamp": grain.last,
        "mean_gap_s": process["mean_gap_s"],
        "std_gap_s": process["std_gap_s"],
        "cv": process["cv"],
        "burstiness": process["burstiness"],
        "lag1_pearson": process["lag1_pearson"],
        "lag1_log_pearson": process["lag1_log_pearson"],
        "lag1_spearman": process["lag1_spearman"],
        "lag1_spearman_bound": process["lag1_spearman_bound"],
        "quantum_s": grain.quantum_s,
        "tie_share": grain.tie_share,
        "share_keys_cv_above_1": shares["cv"].item(),
        "share_keys_lag1_positive": shares["lag1"].item(),
        "protocol": PROTOCOL,
    }


def by_hour(state: State, found: Found) -> pl.DataFrame:
    """The paper's Figure 9: one row per key with more than 100 requests and at least 5 valid hours."""
    closed = hours.closed(state)
    cvs = _quantiles(closed, "cv", list(_QUANTILES.values())) * hours.CV_UNIT
    loads = _quantiles(closed, "load", [0.5])
    columns = {
        **{name: pl.Series(name, cvs[:, place]) for place, name in enumerate(_QUANTILES)},
        "load_median": pl.Series("load_median", loads[:, 0]),
    }
    median, valid = pl.col("cv_median"), pl.col("valid")
    return (
        closed.with_columns(**columns, load_cv=_load_cv(closed))
        .filter(valid >= LEAST_VALID_HOURS)
        .join(found.described.select("key", "name", "lag1_spearman_positive", total="requests"), on="key")
        .filter(pl.col("total") > LEAST_REQUESTS)
        .sort("total", "name", descending=[True, False])
        .select(
            pl.col("name").alias(found.by),
            pl.col("total").alias("requests"),
            valid.alias("valid_hours"),
            (pl.col("valid_requests") / valid).alias("mean_requests_per_hour"),
            (pl.col("cv_sum") * hours.CV_UNIT / valid).alias("cv_mean"),
            *_QUANTILES,
            ((median - 1) / (median + 1)).alias("burstiness_median"),
            (pl.col("above_1") / valid).alias("share_hours_cv_above_1"),
            (pl.col("above_2") / valid).alias("share_hours_cv_above_2"),
            pl.col("busy").alias("busy_hours"),
            "load_cv",
            (pl.col("most_requests") / pl.col("load_median")).alias("load_peak_to_median"),
            pl.col("lag1_spearman_positive").alias("lag1_spearman"),
        )
    )


def dispersion(state: State, found: Found) -> pl.DataFrame:
    """The index of dispersion at all widths that are at least the clock's quantum, and of which there are two windows."""
    table = windows.dispersion(state["counts"])
    return table.filter(pl.col("window_s") >= (found.grain.quantum_s or 0), pl.col("windows") > 1)


def cv_windows(state: State, width: Interval) -> pl.DataFrame:
    """The gaps within each window that has requests, in order of time."""
    found = state["windows"].rechunk()
    gaps, total = found["requests"] - 1, found["last_us"] - found["first_us"]
    mean_s = (total / gaps / 1e6).set(gaps < 1, None)
    std_s = moments.deviation(gaps, total, found["squares"]) / 1e6
    return found.select(
        pl.from_epoch("start_us", "us").alias("time"),
        "requests",
        (pl.col("requests") / width.seconds).alias("requests_per_s"),
        gaps.alias("gaps"),
        mean_s.alias("mean_gap_s"),
        (std_s / mean_s).set(total < 1, None).alias("cv"),
    )


def _quantiles(closed: pl.DataFrame, of: str, at: list[float]) -> npt.NDArray[np.float64]:
    """Quantiles of the hours of each key."""
    value = {"load": "requests"}.get(of, of)
    names = {f"least_{value}": "min", f"most_{value}": "max", f"{of}_buckets": "buckets", f"{of}_counts": "counts"}
    return quantiles(closed.select(pl.col(name).alias(alias) for name, alias in names.items()), at, bits=hours.BITS)


def _load_cv(closed: pl.DataFrame) -> pl.Series:
    """The coefficient of variation of requests over busy hours."""
    busy, requests = closed["busy"], closed["requests"]
    return moments.deviation(busy, requests, closed["squares"]) / (requests / busy)
