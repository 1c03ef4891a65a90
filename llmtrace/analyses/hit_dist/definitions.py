"""One sentence per number of `hit-dist`, with its unit: the definitions that its result carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmtrace.analyses.hit_dist import latency, lengths, shape, users
from llmtrace.summaries.hit_lengths import LONGEST_TTFT_S

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["definitions"]

_MEASURED = "Requests with a hit ratio: not failed, cached tokens logged, input above zero."
_INPUT = "Sum of input tokens of requests with a hit ratio, in tokens."
_CACHED = "Sum of cached tokens of the same requests, in tokens."
_OF_TOKENS = "Hit ratio of tokens, 0 to 1: sum of cached over sum of input tokens, so that long requests weigh more."
_MEAN = "Mean over requests of cached over input tokens, 0 to 1, so that every request weighs the same."
_BIMODALITY = (
    "Sarle's coefficient (skewness² + 1) / (kurtosis + 3(n-1)²/((n-2)(n-3))) of the hit ratios, skewness and excess kurtosis "
    "bias-corrected: 1 for two values and nothing between, 0.556 for a uniform distribution, a third for a normal one"
)
_DEPTH = (
    f"How far the valley between the two highest humps lies below the lesser one, 0 to 1, in bins of {1 / shape.BINS:g}: "
    "1 if it is empty"
)
_GROUP_SHAPE = f"null with {lengths.FEWEST} requests or fewer"
_ENOUGH = f"null with fewer than {latency.FEWEST} requests"
_TTFT_REQUESTS = (
    f"Requests with a hit ratio and a TTFT above zero and below {LONGEST_TTFT_S} s, but for those known not to stream, whose "
    "TTFT is the duration."
)
_PERCENTS = (10, 25, 50, 75, 90)


def definitions(zero_at: float, full_at: float, *, per_user: bool) -> dict[str, str]:
    """Scalar, or `table.column`, to the sentence that defines it."""
    shares = {
        "share_zero": f"Share of requests with a hit ratio of at most {zero_at:g}, 0 to 1.",
        "share_full": f"Share of requests with a hit ratio of at least {full_at:g}, 0 to 1.",
    }
    described = {
        "measured_requests": _MEASURED,
        "input_tokens": _INPUT,
        "cached_tokens": _CACHED,
        "mean_request_hit_ratio": _MEAN,
        "token_hit_ratio": _OF_TOKENS,
        **shares,
    }
    tables: dict[str, Mapping[str, str]] = {
        "by_input_length": _by_input_length(described),
        "histogram": _HISTOGRAM,
        "cdf": _CDF,
        "by_model": {
            "model": "The model; null where not known.",
            "requests": "Requests to the model, with and without a hit ratio.",
            **described,
            **_group_shape(0.005),
        },
        "by_user": _by_user(described),
        "user_grid": _USER_GRID,
        "ttft_by_hit": _TTFT_BY_HIT,
        "ttft_saved": _TTFT_SAVED,
    }
    if per_user:
        tables["users"] = {"user": "The user.", "requests": "Requests of the user, with and without a hit ratio.", **described}
    of_tables = {f"{name}.{column}": text for name, columns in tables.items() for column, text in columns.items()}
    return {**_SCALARS, **described, **shares, **of_tables}


def _by_input_length(described: Mapping[str, str]) -> dict[str, str]:
    numbers = {name: text for name, text in described.items() if name != "measured_requests"}
    return {
        "input_tokens_from": "Lowest input tokens of the band, in tokens.",
        "input_tokens_to": "Where the next band begins; null for the last.",
        "requests": "Requests with a hit ratio in the band.",
        "requests_ratio": "Their share of all requests with a hit ratio, 0 to 1.",
        **numbers,
        **_group_shape(0.0005),
    }


def _group_shape(within: float) -> dict[str, str]:
    return {
        **{
            f"hit_ratio_p{percent}": f"Hit ratio that {percent} % of these requests do not exceed, within {within:g}."
            for percent in (10, 50, 90)
        },
        "bimodality": f"{_BIMODALITY}; {_GROUP_SHAPE}.",
        "valley_depth": f"{_DEPTH}; {_GROUP_SHAPE}, or where there is one hump only.",
    }


def _by_user(described: Mapping[str, str]) -> dict[str, str]:
    kept = ("measured_requests", "input_tokens", "cached_tokens", "mean_request_hit_ratio", "token_hit_ratio")
    return {
        "requests_from": "Fewest requests with a hit ratio that a user of this class has.",
        "requests_to": "Most of them.",
        "users": "Known users of the class.",
        **{name: described[name] for name in kept},
        **{
            f"{name}_p{percent}": f"The user's own {words} that {percent} % of the users do not exceed."
            for name, words in (("mean_request_hit_ratio", "mean of hit ratios"), ("token_hit_ratio", "hit ratio of tokens"))
            for percent in _PERCENTS
        },
    }


_SCALARS = {
    "requests": "Number of requests, failed ones included.",
    "measured_requests": _MEASURED,
    "measured_ratio": "Their share of all requests, 0 to 1; every other number is about them alone.",
    "unlogged_requests": "Requests that did not fail and whose cached tokens are not logged: left out, never taken as zero.",
    "failed_requests": 'Requests whose status is known and not "ok", left out; null where no status is known.',
    "no_input_requests": "Requests with logged cached tokens, but without known input tokens or with none, left out.",
    "first_logged_timestamp": "First arrival of a request with a hit ratio.",
    "last_logged_timestamp": "Last arrival of a request with a hit ratio.",
    "models": "Known models with a request that has a hit ratio; null if there is none.",
    "users": "Known users with a request that has a hit ratio; null if there is none.",
    "median_hit_ratio": "Hit ratio that half of the requests do not exceed, within 0.0005.",
    "bimodality": f"{_BIMODALITY}.",
    "valley_depth": f"{_DEPTH}; null where there is one hump only.",
    "lower_mode": "Middle of the bin of the hump at lower hit ratios; null where there is one hump only.",
    "valley": "Middle of the lowest bin between the two humps.",
    "upper_mode": "Middle of the bin of the hump at higher hit ratios.",
    "lesser_mode_share": "Share of requests on the lesser hump's side of the valley, 0 to 1: how much the second hump matters.",
    "ttft_requests": _TTFT_REQUESTS,
    "compared_requests": (
        "Those of them that hit at least a tenth of their input, in cells of length and ratio that have a median to compare with."
    ),
    "ttft_saved_s": (
        "How much shorter the median TTFT of their cells is than that of requests of the same length that hit less than a tenth, "
        "weighted by requests, in seconds."
    ),
    "ttft_saved_ratio": "The same as a share of the median TTFT without hits, 0 to 1, weighted by requests.",
}
_HISTOGRAM = {
    "hit_ratio_from": "Lowest hit ratio of the bin.",
    "hit_ratio_to": "Where the next bin begins; the last row holds requests whose whole input was cached.",
    "requests": "Requests with a hit ratio in the bin.",
    "requests_ratio": "Their share of all requests with a hit ratio, 0 to 1.",
    "input_tokens": "Sum of their input tokens, in tokens.",
    "input_tokens_ratio": "Its share of all input tokens, 0 to 1: the distribution weighted by tokens.",
    "cached_tokens": "Sum of their cached tokens, in tokens.",
    "cached_tokens_ratio": "Its share of all cached tokens, 0 to 1: where the hits come from.",
}
_CDF = {
    "scope": "What the curve is over: all requests, those of a group of input_length, or of a model.",
    "name": "The group or the model; null for all requests.",
    "hit_ratio": "A hit ratio.",
    "cumulative_ratio": "Share of these requests whose hit ratio is at most that, 0 to 1.",
    "cumulative_tokens_ratio": "Share of these requests' input tokens that are in such requests, 0 to 1; null by model.",
}
_USER_GRID = {
    "requests_from": f"Fewest requests with a hit ratio; only users with more than {users.FEWEST} are there.",
    "requests_to": "Most of them.",
    "hit_ratio_from": "Lowest mean of the user's hit ratios.",
    "hit_ratio_to": "Where the next row of the grid begins; the last holds 1 too.",
    "users": "Known users with so many requests and such a mean.",
}
_TTFT_BY_HIT = {
    "input_tokens_from": "Lowest input tokens of the cell, in tokens.",
    "input_tokens_to": "Where the next column begins; null for the last.",
    "hit_ratio_from": "Lowest hit ratio of the cell.",
    "hit_ratio_to": "Where the next row begins; the last holds requests whose whole input was cached.",
    "requests": _TTFT_REQUESTS,
    "ttft_mean_s": f"Mean TTFT, in seconds; {_ENOUGH}.",
    "ttft_p50_s": f"Median TTFT, in seconds; {_ENOUGH}.",
    "ttft_p95_s": f"TTFT that 95 % do not exceed, in seconds; {_ENOUGH}.",
    "saved_s": "Median TTFT of requests of the same length that hit less than a tenth, minus that of the cell, in seconds.",
    "saved_ratio": "The same over the median without hits; negative where hits are slower.",
}
_TTFT_SAVED = {
    "input_tokens_from": "Lowest input tokens, in tokens.",
    "input_tokens_to": "Where the next row begins; null for the last.",
    "requests": "Requests of that length with a hit ratio and a TTFT.",
    "requests_without_hit": "Those that hit less than a tenth of their input.",
    "requests_with_hit": "Those that hit nine tenths or more.",
    "ttft_without_hit_p50_s": f"Median TTFT of those that hit less than a tenth, in seconds; {_ENOUGH}.",
    "ttft_with_hit_p50_s": f"Median TTFT of those that hit nine tenths or more, in seconds; {_ENOUGH}.",
    "saved_s": "The first minus the second, in seconds.",
    "saved_ratio": "The same over the first.",
}
