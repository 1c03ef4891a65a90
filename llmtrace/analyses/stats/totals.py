"""The scalars of `stats`: totals over the whole trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.analyses.stats import lengths
from llmtrace.summaries import distinct, sums

if TYPE_CHECKING:
    from llmtrace.analyses.base import State
    from llmtrace.analyses.stats.rates import Overview
    from llmtrace.result import Scalar
    from llmtrace.summaries.intervals import Interval
    from llmtrace.summaries.span import Span

__all__ = ["CACHED_COLUMNS", "scalars"]

CACHED_COLUMNS = ("input_tokens", "cached_tokens")
"""What is summed over the requests of which both are known, for `cached_to_input_ratio`."""

_SUMMED = ("failed_requests", "input_tokens", "output_tokens", "cached_tokens", "streamed_requests")


def scalars(state: State, span: Span, interval: Interval, overview: Overview) -> dict[str, Scalar]:
    """Every scalar, in reading order; None is "not known"."""
    total = state["rates"].select(pl.exclude("time").sum())
    summed = total.select(sums.known_sum(column) for column in _SUMMED).row(0, named=True)
    means = total.select(sums.known_mean(column) for column in _SUMMED).row(0, named=True)
    cached = state["cached"].row(0, named=True)
    medians = lengths.medians(state)
    seconds = span.seconds
    return {
        "requests": span.requests,
        "failed_requests": summed["failed_requests"],
        "users": distinct.overall(state["distinct_users"]),
        "models": distinct.overall(state["distinct_models"]),
        "instances": distinct.overall(state["distinct_instances"]),
        "sessions": distinct.overall(state["distinct_sessions"]),
        "input_tokens": summed["input_tokens"],
        "output_tokens": summed["output_tokens"],
        "cached_tokens": summed["cached_tokens"],
        "first_timestamp": span.first,
        "last_timestamp": span.last,
        "span_s": seconds,
        "interval_s": interval.seconds,
        "requests_per_s": _ratio(span.requests, seconds),
        "input_tokens_per_s": _ratio(summed["input_tokens"], seconds),
        "output_tokens_per_s": _ratio(summed["output_tokens"], seconds),
        "input_tokens_per_request": means["input_tokens"],
        "output_tokens_per_request": means["output_tokens"],
        "median_input_tokens": medians["input_tokens"],
        "median_output_tokens": medians["output_tokens"],
        "peak_to_mean_requests": overview.peak_to_mean_requests,
        "peak_to_mean_tokens": overview.peak_to_mean_tokens,
        "output_to_input_ratio": _ratio(summed["output_tokens"], summed["input_tokens"]),
        "cached_to_input_ratio": _ratio(cached["cached_tokens"], cached["input_tokens"]),
        "stream_ratio": means["streamed_requests"],
        "rate_correlation": overview.rate_correlation,
    }


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    """The quotient; None where a side is not known or the denominator is zero."""
    return None if numerator is None or not denominator else numerator / denominator
