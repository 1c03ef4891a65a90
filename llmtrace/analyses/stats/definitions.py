"""One sentence per number of `stats`, with its unit: the definitions that its result carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFINITIONS"]

_FAILED = "failed requests count as requests, their tokens nowhere"

_SCALARS = {
    "requests": "Number of requests, failed ones included.",
    "failed_requests": 'Number of requests whose status is known and not "ok"; null where no status is known.',
    "users": "Number of distinct known users.",
    "models": "Number of distinct known models.",
    "instances": "Number of distinct known instances.",
    "sessions": "Number of distinct known sessions.",
    "input_tokens": f"Sum of known input tokens, in tokens; {_FAILED}.",
    "output_tokens": f"Sum of known output tokens, in tokens; {_FAILED}.",
    "cached_tokens": f"Sum of known cached tokens, in tokens; {_FAILED}; null where none were logged.",
    "first_timestamp": "Time of the earliest arrival.",
    "last_timestamp": "Time of the latest arrival.",
    "span_s": "Time from the first to the last arrival, in seconds.",
    "interval_s": "Width of the intervals of rates, in seconds.",
    "requests_per_s": "Requests over span_s, per second; null where the span is zero.",
    "input_tokens_per_s": "Input tokens over span_s, in tokens per second; null where the span is zero.",
    "output_tokens_per_s": "Output tokens over span_s, in tokens per second; null where the span is zero.",
    "input_tokens_per_request": "Mean input tokens of the requests that have them, in tokens.",
    "output_tokens_per_request": "Mean output tokens of the requests that have them, in tokens.",
    "median_input_tokens": "Median input tokens of the requests that have them, in tokens.",
    "median_output_tokens": "Median output tokens of the requests that have them, in tokens.",
    "peak_to_mean_requests": "Requests of the busiest interval over the mean of all intervals, empty ones included.",
    "peak_to_mean_tokens": (
        "Input and output tokens of the interval with most over the mean of all intervals, empty ones included; "
        "intervals with requests of which no tokens are known are left out."
    ),
    "output_to_input_ratio": "Sum of output tokens over sum of input tokens.",
    "cached_to_input_ratio": "Sum of cached tokens over sum of input tokens, both over the requests of which both are known.",
    "stream_ratio": "Share of streamed requests among those of which it is known, 0 to 1.",
    "rate_correlation": (
        "Pearson correlation of requests and of input and output tokens per interval, empty ones included; "
        "null with fewer than 3 intervals or where either does not vary."
    ),
}

_RATES = {
    "time": "Start of the interval.",
    "requests": "Requests that arrived in the interval, failed ones included.",
    "failed_requests": 'Requests whose status is known and not "ok".',
    "input_tokens": "Sum of known input tokens, in tokens.",
    "output_tokens": "Sum of known output tokens, in tokens.",
    "cached_tokens": "Sum of known cached tokens, in tokens.",
    "requests_per_s": "Requests over the interval's width, per second.",
    "input_tokens_per_s": "Input tokens over the interval's width, in tokens per second.",
    "output_tokens_per_s": "Output tokens over the interval's width, in tokens per second.",
    "cached_tokens_per_s": "Cached tokens over the interval's width, in tokens per second.",
    "tokens_per_request": "Mean input tokens plus mean output tokens, each of the requests that have them, in tokens.",
    "users": "Distinct known users.",
    "models": "Distinct known models.",
    "instances": "Distinct known instances.",
}

_LENGTHS = {
    "column": "What is described: input, output or cached tokens, or the ratio of output to input tokens of a request.",
    "requests": "Requests that did not fail and have a value (for the ratio: both tokens, and input above zero).",
    "mean": "Mean value, in tokens (for the ratio: none).",
    "min": "Smallest value, exact.",
    **{
        f"p{percent}": f"Value that {percent} % of the requests do not exceed, interpolated linearly between ranks."
        for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99)
    },
    "max": "Largest value, exact.",
}

_CDF = {
    "model": "One of the three models with most requests, or null for all requests.",
    "column": "Input or output tokens, or the ratio of output to input tokens of a request.",
    "cumulative_ratio": "Share of the requests with a positive value, 0 to 1.",
    "value": "Value that this share does not exceed, in tokens (for the ratio: none).",
}

_ENDPOINTS = {
    "time": "Start of the interval.",
    "endpoint": "The kind of call; null where not known.",
    "requests": "Requests to the endpoint in the interval.",
    "requests_ratio": "Their share of all requests in the interval, 0 to 1.",
}

_STREAMING = {
    "time": "Start of the interval.",
    "known_requests": "Requests of which it is known whether they streamed.",
    "streamed_requests": "Requests that streamed.",
    "stream_ratio": "Streamed over known requests, 0 to 1.",
}

_HOUR_OF_WEEK = {
    "weekday": "ISO weekday, 1 Monday to 7 Sunday.",
    "hour": "Hour of the day, 0 to 23, in UTC.",
    "requests": "Requests in that hour of that weekday, over the whole trace.",
    "days": "Calendar days of that weekday from the first to the last arrival, partial days at the edges included.",
    "requests_per_day": "Requests over days; null where the span has no such weekday.",
}

_TABLES = {
    "rates": _RATES,
    "lengths": _LENGTHS,
    "lengths_by_model": {"model": "The model; null where not known.", **_LENGTHS},
    "length_cdf": _CDF,
    "endpoints": _ENDPOINTS,
    "streaming": _STREAMING,
    "hour_of_week": _HOUR_OF_WEEK,
}

DEFINITIONS: Mapping[str, str] = {
    **_SCALARS,
    **{f"{table}.{column}": sentence for table, columns in _TABLES.items() for column, sentence in columns.items()},
}
"""Scalar, or `table.column`, to the sentence that defines it."""
