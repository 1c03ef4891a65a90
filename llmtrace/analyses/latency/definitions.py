"""One sentence per number of `latency`, with its unit: the definitions that its result carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmtrace.analyses.latency import by_load, grids
from llmtrace.analyses.latency.measures import IN_TIME, LONGEST_S, MEASURES, SHORT_S
from llmtrace.analyses.latency.tables import PERCENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFINITIONS"]

_SECOND = "the requests that begin on the same instance in the same second of the clock"


def _percentiles(stem: str, percents: tuple[int, ...], meaning: str) -> dict[str, str]:
    return {f"{stem}_p{percent}_s": f"{percent}th percentile, in seconds: {meaning}." for percent in percents}


_SCALARS = {
    "requests": "Number of requests, failed ones included.",
    "failed_requests": 'Number of requests whose status is known and not "ok"; null where no status is known.',
    "ttft_requests": "Requests with a time to first token (TTFT) above zero, those known not to have streamed left out.",
    "duration_requests": "Requests with a duration above zero.",
    "timed_requests": f"Requests with both, whose duration is not shorter than the TTFT, up to {LONGEST_S:,} s (Figure 3).",
    **{
        name: sentence
        for measure, described in MEASURES.items()
        if measure.endswith("_s")
        for name, sentence in _percentiles(measure.removesuffix("_s"), (50, 90, 99), described.meaning).items()
    },
    "prefill_share_p50": f"Median over requests, 0 to 1: {MEASURES['prefill_share'].meaning}.",
    "prefill_time_ratio": "Sum of the TTFTs over the sum of the durations of timed requests, 0 to 1: long requests weigh more.",
    "instance_seconds": "Pairs of an instance and a second of the clock in which a request begins there; null without instances.",
    "requests_per_instance_second": "Mean requests of such a pair.",
    "interval_s": "Width of the intervals of over_time, in seconds.",
    "alone_ratio": "Share of the requests on known instances that are the only one to begin there in their second, 0 to 1.",
}

_MEASURE = "What is described: " + "; ".join(f"{name}, {measure.meaning}" for name, measure in MEASURES.items()) + "."
_DESCRIBED = {
    "measure": _MEASURE,
    "requests": "Requests that have it.",
    "mean": "Mean, in seconds (of prefill_share none).",
    "min": "Smallest value, exact to the step: a microsecond, of tpot_s a nanosecond, of prefill_share a millionth.",
    **{
        f"p{percent}": f"Value that {percent} % of them do not exceed, interpolated linearly between ranks."
        for percent in PERCENTS
    },
    "max": "Largest value, exact to the step.",
}
_CDF = {
    "model": "A model named with --highlight, else one of the three with most requests; null for all requests.",
    "measure": _MEASURE,
    "cumulative_ratio": "Share of the requests that have it, 0 to 1.",
    "value": "Value that this share does not exceed, in seconds (of prefill_share none).",
}
_OVER_TIME = {
    "time": "Start of the interval.",
    **{
        f"{name.removesuffix('_s')}_requests": f"Requests of the interval that have it: {MEASURES[name].meaning}."
        for name in IN_TIME
    },
    **{
        column: sentence
        for name in IN_TIME
        for column, sentence in _percentiles(name.removesuffix("_s"), (50, 90, 99), MEASURES[name].meaning).items()
    },
}
_CELL = {
    "input_tokens": "Lowest input tokens of the cell; it spans --input-step of them.",
    "output_tokens": "Lowest output tokens of the cell; it spans --output-step of them.",
}
_DURATION_CELL = f"requests of the cell with input and output tokens and a duration above zero and below {SHORT_S} s (Figure 4a)"
_TTFT_CELL = f"requests of the cell with a TTFT above zero and below {SHORT_S} s (Figure 4b)"
_HEXAGON = "Load at the centre of the hexagon, in tokens per second: input and output tokens of all " + _SECOND
_TTFT_HEXAGON, _DECODE_HEXAGON = "TTFT of its requests (Figure 18a)", "decode time of its requests, at least 0 (Figure 18b)"
_LOAD = {
    "load_from_tokens_per_s": (
        f"Lowest load of the band, in tokens per second: input and output tokens of all {_SECOND}; 0 where these are zero or not "
        "known."
    ),
    "load_to_tokens_per_s": "Load from which on the next band counts; null where there is none.",
    "instance_seconds": "Pairs of an instance and a second with such a load.",
    "requests": "Requests that begin in them.",
    "ttft_requests": "Those with a TTFT above zero.",
    **_percentiles("ttft", (50, 90, 99), f"TTFT of these; null where fewer than {by_load.LEAST_REQUESTS}"),
    "tpot_requests": "Those with a decode time per output token.",
    **_percentiles(
        "tpot", (50, 90, 99), f"decode time per output token of these; null where fewer than {by_load.LEAST_REQUESTS}"
    ),
}
_ENOUGH_IN_CELL, _ENOUGH_IN_HEXAGON = f"at least {grids.LEAST_REQUESTS}", f"at least {by_load.LEAST_REQUESTS}"

_TABLES = {
    "latencies": _DESCRIBED,
    "cdf": _CDF,
    "by_model": {"model": "The model; null where not known.", **_DESCRIBED},
    "over_time": _OVER_TIME,
    "duration_grid": {
        **_CELL,
        "requests": f"Number of {_DURATION_CELL}; {_ENOUGH_IN_CELL}.",
        **_percentiles("duration", (50, 90), "duration of these"),
    },
    "ttft_grid": {
        **_CELL,
        "requests": f"Number of {_TTFT_CELL}; {_ENOUGH_IN_CELL}.",
        **_percentiles("ttft", (50, 90), "TTFT of these"),
    },
    "load": _LOAD,
    "load_ttft": {
        "load_tokens_per_s": f"{_HEXAGON}.",
        "input_tokens": "Input tokens of a request at the centre of the hexagon.",
        "requests": f"Requests in the hexagon with a TTFT above zero; {_ENOUGH_IN_HEXAGON}.",
        **_percentiles("ttft", (50, 90), _TTFT_HEXAGON),
    },
    "load_decode": {
        "load_tokens_per_s": f"{_HEXAGON}.",
        "output_tokens": "Output tokens of a request at the centre of the hexagon.",
        "requests": (
            f"Requests in the hexagon with a TTFT and a duration above zero, up to {LONGEST_S:,} s; {_ENOUGH_IN_HEXAGON}."
        ),
        **_percentiles("decode", (50, 90), _DECODE_HEXAGON),
    },
}

DEFINITIONS: Mapping[str, str] = {
    **_SCALARS,
    **{f"{table}.{column}": sentence for table, columns in _TABLES.items() for column, sentence in columns.items()},
}
"""Scalar, or `table.column`, to the sentence that defines it."""
