"""What a reader must know to read the numbers of `stats` rightly."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.analyses.stats import lengths, rates
from llmtrace.summaries import distinct
from llmtrace.summaries.histogram import exact_below, relative_error
from llmtrace.summaries.intervals import microseconds
from llmtrace.summaries.ratios import MILLION
from llmtrace.wording import counted, either

if TYPE_CHECKING:
    from llmtrace.analyses.base import State
    from llmtrace.analyses.stats.rates import Overview
    from llmtrace.summaries.intervals import Interval
    from llmtrace.summaries.span import Span

__all__ = ["notes"]

_FEW_REQUESTS = 100
_COVERED, _ONE_PERCENT = 0.95, 0.01
_APART_FACTOR = 1.5
_APART_CORRELATION = 0.8


def notes(state: State, span: Span, interval: Interval, overview: Overview) -> tuple[str, ...]:
    """Complete sentences, none where there are no requests."""
    if not span.requests:
        return ()
    found = [
        _absent(state),
        _few(span),
        _partial(span, interval),
        _many(interval, overview),
        _apart(overview),
        _bound(state),
    ]
    return tuple(sentence for sentence in found if sentence)


def _absent(state: State) -> str:
    counted = state["rates"]
    known = {
        "input_tokens": counted["input_tokens_known"].sum(),
        "output_tokens": counted["output_tokens_known"].sum(),
        "cached_tokens": counted["cached_tokens_known"].sum(),
        **{name: distinct.overall(state[f"distinct_{name}s"]) for name in ("user", "model", "instance", "session")},
        "endpoint": state["endpoint_names"].height,
        "stream": counted["streamed_requests_known"].sum(),
        "status": counted["failed_requests_known"].sum(),
    }
    absent = [name for name, found in known.items() if not found]
    return f"The trace does not say {', '.join(absent)}: what rests on that is null or left out, not zero." if absent else ""


def _few(span: Span) -> str:
    if span.requests >= _FEW_REQUESTS:
        return ""
    requests = f"{either(span.requests, 'is', 'are')} only {counted(span.requests, 'request')}"
    return f"There {requests}: p1 and p99 say hardly more than the minimum and the maximum."


def _partial(span: Span, interval: Interval) -> str:
    """How much of the first and the last interval the trace covers, where it is less than 95 %."""
    if span.first is None or span.last is None:
        return ""
    if interval.count(span.first, span.last) == 1:
        return f"The whole trace lies within one interval ({interval}): its rates per second read too low."
    first, last = ((microseconds(time) - interval.origin_us) % interval.width_us for time in (span.first, span.last))
    covered = {"first": 1 - first / interval.width_us, "last": last / interval.width_us}
    low = [f"the {name} interval to {_percent(share)}" for name, share in covered.items() if share < _COVERED]
    return f"The trace covers {' and '.join(low)} only: the rates there read too low." if low else ""


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= _ONE_PERCENT else "less than 1%"


def _many(interval: Interval, overview: Overview) -> str:
    if overview.intervals <= rates.MOST_ROWS:
        return ""
    return f"Of {overview.intervals:,} intervals of {interval}, `rates` keeps only those with requests; ratios are over all."


def _apart(overview: Overview) -> str:
    """Said if the two peak-to-mean ratios differ by more than a factor of 1.5, or if the correlation is below 0.8."""
    requests, tokens, correlation = overview.peak_to_mean_requests, overview.peak_to_mean_tokens, overview.rate_correlation
    if requests is None or tokens is None or correlation is None:
        return ""
    factor = max(requests / tokens, tokens / requests)
    if factor <= _APART_FACTOR and correlation >= _APART_CORRELATION:
        return ""
    return (
        f"Requests and tokens move apart: the peak interval is {requests:.2f} times the mean for requests and {tokens:.2f} times "
        f"for tokens, and their correlation over intervals is {correlation:.2f}. Plan capacity from tokens, not from requests."
    )


def _bound(state: State) -> str:
    """Which percentiles are not exact, and within what they are."""
    bounds = []
    for table, bits, scope in (("lengths", lengths.BITS, "overall"), ("lengths_by_model", lengths.BITS_BY_MODEL, "per model")):
        limit = exact_below(bits)
        if state[table].select((pl.col("max") >= limit).any()).item():
            within = ceil(relative_error(bits) * 100_000) / 1000
            bounds.append(f"{scope} within {within:g}% from {limit:,} tokens (ratio: {limit / MILLION:.4f}) up")
    return f"Percentiles are exact for small values, {' and '.join(bounds)}." if bounds else ""
