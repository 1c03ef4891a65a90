"""The tables of `stats` over time: rates, endpoints, streaming, hours of the week; and how peaked the rates are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries import distinct, sums

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.analyses.base import State
    from llmtrace.summaries.intervals import Interval
    from llmtrace.summaries.span import Span

__all__ = ["COLUMNS", "MOST_ROWS", "Overview", "overview", "tables"]

COLUMNS = ("failed_requests", "streamed_requests", "input_tokens", "output_tokens", "cached_tokens")
"""What is summed per interval."""
MOST_ROWS = 100_000
"""With more intervals than that, `rates` keeps only those with requests."""

_COUNTED = ("failed_requests", "input_tokens", "output_tokens", "cached_tokens")
_DISTINCT = ("users", "models", "instances")
_LEAST_INTERVALS = 3


@dataclass(frozen=True)
class Overview:
    """How requests and tokens vary over the intervals from the first arrival to the last, empty ones included.

    Attributes:
        intervals: how many there are.
        peak_to_mean_requests: the busiest interval's requests over the mean; None without requests.
        peak_to_mean_tokens: the same for input and output tokens together.
        rate_correlation: Pearson's correlation of requests and tokens; None with fewer than 3 intervals or where one is constant.
    """

    intervals: int
    peak_to_mean_requests: float | None
    peak_to_mean_tokens: float | None
    rate_correlation: float | None


def overview(state: State, span: Span, interval: Interval) -> Overview:
    """Compare the rates of requests and tokens; intervals with requests but no known token do not count for tokens."""
    counted = state["rates"]
    if span.first is None or span.last is None:
        return Overview(0, None, None, None)
    intervals = interval.count(span.first, span.last)
    tokens_known = pl.col("input_tokens_known") + pl.col("output_tokens_known") > 0
    tokens = (pl.col("input_tokens") + pl.col("output_tokens")).cast(pl.Float64)
    known = counted.filter(tokens_known).select(pl.col("requests").cast(pl.Float64), tokens=tokens)
    comparable = intervals - counted.height + known.height
    pairs = known["requests"].to_numpy(), known["tokens"].to_numpy()
    return Overview(
        intervals,
        _peak_to_mean(counted["requests"].to_numpy().astype(np.float64), intervals),
        _peak_to_mean(pairs[1], comparable),
        _correlation(*pairs, comparable),
    )


def tables(state: State, span: Span, interval: Interval) -> dict[str, pl.DataFrame]:
    """`rates`, `endpoints`, `streaming` and `hour_of_week`."""
    return {
        "rates": _rates(state, span, interval),
        "endpoints": _endpoints(state),
        "streaming": _streaming(state),
        "hour_of_week": _hour_of_week(state["hours"], span),
    }


def _rates(state: State, span: Span, interval: Interval) -> pl.DataFrame:
    """One row per interval; what is known nowhere is null everywhere, what is known somewhere is 0 where nothing happened."""
    counted = state["rates"]
    rows = _times(counted, span, interval).join(counted, on="time", how="left", maintain_order="left")
    for name in _DISTINCT:
        found = distinct.per_interval(state[f"distinct_{name}"]).rename({"distinct": name})
        rows = rows.join(found, on="time", how="left", maintain_order="left")
    is_empty = pl.col("requests").is_null()
    known = [name for name in _COUNTED if counted[f"{name}_known"].sum()]
    known += [name for name in _DISTINCT if distinct.overall(state[f"distinct_{name}"]) is not None]
    tokens_per_request = sums.known_mean("input_tokens") + sums.known_mean("output_tokens")
    return sums.narrowed(
        rows.with_columns(
            *(sums.known_sum(name).alias(name) for name in _COUNTED),
            *(pl.when(pl.col(name) > 0).then(name).alias(name) for name in _DISTINCT),
            tokens_per_request.alias("tokens_per_request"),
        )
        .with_columns(pl.when(is_empty).then(0).otherwise(pl.col(name)).alias(name) for name in known)
        .with_columns(pl.col("requests").fill_null(0))
        .select(
            "time",
            "requests",
            *_COUNTED,
            *((pl.col(name) / interval.seconds).alias(f"{name}_per_s") for name in ("requests", *_COUNTED[1:])),
            "tokens_per_request",
            *_DISTINCT,
        )
    )


def _times(counted: pl.DataFrame, span: Span, interval: Interval) -> pl.DataFrame:
    if span.first is None or span.last is None or interval.count(span.first, span.last) > MOST_ROWS:
        return counted.select("time")
    starts = pl.Series("time", interval.starts(span.first, span.last), dtype=pl.Int64)
    return starts.cast(pl.Datetime("us")).to_frame()


def _endpoints(state: State) -> pl.DataFrame:
    """One row per interval and endpoint that occurs in it; an unknown endpoint is null, a trace without endpoints has no rows."""
    names = state["endpoint_names"].rename({"name": "endpoint"})
    counted = state["endpoints"] if names.height else state["endpoints"].clear()
    share = pl.col("requests") / pl.col("requests").sum().over("time")
    return (
        counted.join(names, on="key", how="left")
        .select("time", "endpoint", "requests", share.alias("requests_ratio"))
        .sort("time", "endpoint", nulls_last=True)
    )


def _streaming(state: State) -> pl.DataFrame:
    """One row per interval with requests of which it is known whether they streamed."""
    return (
        state["rates"]
        .filter(pl.col("streamed_requests_known") > 0)
        .select(
            "time",
            pl.col("streamed_requests_known").alias("known_requests"),
            pl.col("streamed_requests").cast(pl.Int64),
            sums.known_mean("streamed_requests").alias("stream_ratio"),
        )
    )


def _hour_of_week(hours: pl.DataFrame, span: Span) -> pl.DataFrame:
    """168 rows: requests in each hour of each weekday, over the number of calendar days of that weekday in the span."""
    weekday, hour = pl.col("time").dt.weekday().alias("weekday"), pl.col("time").dt.hour().alias("hour")
    requests = hours.group_by(weekday, hour).agg(pl.col("requests").sum())
    per_day = pl.when(pl.col("days") > 0).then(pl.col("requests") / pl.col("days"))
    return (
        _days(span)
        .join(pl.DataFrame({"hour": pl.int_range(24, dtype=pl.Int8, eager=True)}), how="cross")
        .join(requests, on=["weekday", "hour"], how="left")
        .with_columns(pl.col("requests").fill_null(0))
        .select("weekday", "hour", "requests", "days", per_day.alias("requests_per_day"))
        .sort("weekday", "hour")
    )


def _days(span: Span) -> pl.DataFrame:
    """How many calendar days of each ISO weekday the span touches; no rows without requests."""
    schema = {"weekday": pl.Int8, "days": pl.Int64}
    if span.first is None or span.last is None:
        return pl.DataFrame(schema=schema)
    total = (span.last.date() - span.first.date()) // timedelta(days=1) + 1
    first = span.first.isoweekday()
    days = [total // 7 + ((weekday - first) % 7 < total % 7) for weekday in range(1, 8)]
    return pl.DataFrame({"weekday": range(1, 8), "days": days}, schema=schema)


def _peak_to_mean(values: npt.NDArray[np.float64], intervals: int) -> float | None:
    """The largest value over the mean of `intervals` values, those not given being zero."""
    total = values.sum()
    return float(values.max() / (total / intervals)) if total > 0 else None


def _correlation(xs: npt.NDArray[np.float64], ys: npt.NDArray[np.float64], intervals: int) -> float | None:
    """Pearson's correlation over `intervals` pairs, those not given being (0, 0)."""
    if intervals < _LEAST_INTERVALS:
        return None
    zeros = intervals - xs.size
    mean_x, mean_y = xs.sum() / intervals, ys.sum() / intervals
    from_x, from_y = xs - mean_x, ys - mean_y
    square_x, square_y = (from_x**2).sum() + zeros * mean_x**2, (from_y**2).sum() + zeros * mean_y**2
    product = (from_x * from_y).sum() + zeros * mean_x * mean_y
    return float(product / np.sqrt(square_x * square_y)) if square_x > 0 and square_y > 0 else None
