"""One sentence per number of `evolution`, with its unit: the definitions that its result carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmtrace.analyses.evolution.lengths import PERCENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFINITIONS"]

_PARTIAL = "Whether the trace covers less than 0.95 of the period."
_TIME = "Start of the period."
_SAMPLED = "requests that did not fail and have positive input and output tokens"

_SCALARS = {
    "requests": "Number of requests, failed ones included.",
    "interval": "What a period is: month, quarter, year, or a width such as 1w, 1d or 6h.",
    "periods": "Number of periods from the first arrival to the last, empty ones included.",
    "partial_periods": "Periods of which the trace covers less than 0.95.",
    "months": "Number of calendar months that the trace touches.",
    "models": "Number of distinct known models, names that were merged counted once; null where none is known.",
    "users": "Number of distinct known user ids; null where none is known.",
    "first_time": (
        f"Start of the first whole period with {_SAMPLED}, or with any requests where no request is such; of the first such "
        "period if none is whole."
    ),
    "last_time": "Start of the last such period.",
    "top_model_first": "The model with most requests in the period of first_time.",
    "top_model_last": "The same in the period of last_time.",
    "input_median_first": f"Median input tokens of a request in the period of first_time, in tokens, over {_SAMPLED}.",
    "input_median_last": "The same in the period of last_time.",
    "output_median_first": f"Median output tokens of a request in the period of first_time, in tokens, over {_SAMPLED}.",
    "output_median_last": "The same in the period of last_time.",
    "input_psi_last": (
        "Population stability index of input tokens in the period of last_time against the reference (see drift), "
        "that of first_time; null where they are one."
    ),
    "output_psi_last": "The same of output tokens.",
    "retained_ratio_1": (
        "Share of users that are active in the period after that in which they came first, 0 to 1, over all cohorts of which "
        "both periods are whole."
    ),
    "switched_ratio": (
        "Share of users with another main model than in the period before, 0 to 1, over all pairs of periods that follow each "
        "other."
    ),
}

_ACTIVE = {
    "time": _TIME,
    "requests": "Requests in the period, failed ones included.",
    "input_tokens": "Sum of known input tokens, in tokens; those of failed requests count nowhere.",
    "output_tokens": "Sum of known output tokens, in tokens; those of failed requests count nowhere.",
    "models": "Distinct known models with a request in the period.",
    "new_models": "Those without a request in any earlier period of the trace.",
    "effective_models": (
        "1 over the sum of squared shares of requests: so many equally busy models would make requests as concentrated."
    ),
    "users": "Distinct known users with a request in the period.",
    "new_users": "Those whose first request, by the trace or by --cohorts, lies in the period.",
    "covered_ratio": "Share of the period between the first and the last arrival of the trace, 0 to 1.",
    "partial": _PARTIAL,
}

_MODEL_SHARE = {
    "time": _TIME,
    "rank": "Place of the model by requests in the whole trace, 1 the busiest; null for all others together.",
    "model": "One of the busiest models, or Others for all others together, models without a name among them.",
    "models": "Distinct known models that the row stands for in the period: 1 or 0, or how many of all others have requests.",
    "requests": "Requests to them in the period, failed ones included.",
    "requests_ratio": "Their share of all requests in the period, 0 to 1; null without requests.",
    "tokens": "Sum of their known input and output tokens, in tokens; those of failed requests count nowhere.",
    "tokens_ratio": "Their share of all known tokens in the period, 0 to 1; null where none are known.",
    "partial": _PARTIAL,
}

_LENGTHS = {
    "time": "Start of the period: there is a row per interval, of whatever width.",
    "requests": f"Number of {_SAMPLED}.",
    **{
        f"p{percent}_{side}_tokens": f"{side.capitalize()} tokens that {percent} % of them do not exceed, in tokens."
        for side in ("input", "output")
        for percent in PERCENTS
    },
    "partial": _PARTIAL,
}

_COHORTS = {
    "time": "Start of the period in which the users of the cohort came first, by the trace or by --cohorts.",
    "users": "Distinct known users of the cohort.",
    "eligible_users": "Those with more than 10 requests of any kind and with medians of input and of output tokens above 1.",
    **{
        f"p{percent}_{side}_tokens": (
            f"Median {side} tokens of a user that {percent} % of the eligible users do not exceed, in tokens."
        )
        for side in ("input", "output")
        for percent in PERCENTS
    },
    "partial": "Whether the trace covers less than 0.95 of that period.",
}

_RETENTION = {
    "cohort_time": "Start of the period in which the users of the cohort came first.",
    "time": _TIME,
    "age": "Periods from the one to the other, 0 in the cohort's own; null where that lies outside of the trace.",
    "cohort_users": (
        "Users of the cohort that are active in its own period or in any later one: all of them; null where its own lies outside "
        "of the trace."
    ),
    "users": "Users of the cohort that are active in the period.",
    "retained_ratio": "Users over cohort_users, 0 to 1.",
    "requests": "Requests of the cohort's users in the period.",
    "requests_ratio": "Their share of all requests of known users in the period, 0 to 1.",
    "partial": _PARTIAL,
}

_SWITCHING = {
    "time": _TIME,
    "users": "Users with a known main model in the period and in the one before: the model with most of the user's requests.",
    "switched_users": "Those whose main model is another one than before.",
    "switched_ratio": "Switched users over users, 0 to 1; null without users.",
    "partial": "Whether the trace covers less than 0.95 of the period or of the one before.",
}

_TRANSITIONS = {
    "from_model": "Main model in a period: one of the busiest models, or Others.",
    "to_model": "Main model of the same user in the next period.",
    "users": "Users that turn from the one to the other, or stay, over all pairs of periods that follow each other.",
    "switched_users": (
        "Those with different main models: all of them, or from Others to Others those that turn to another one of these."
    ),
    "users_ratio": "Users over all users with that main model in the earlier period, 0 to 1.",
}

_DRIFT = {
    "time": _TIME,
    "column": "Input or output tokens of a request.",
    "requests": f"Number of {_SAMPLED} in the period.",
    "is_reference": "Whether the period is the one that others are compared with: the first whole one, or the first.",
    "psi": (
        "Population stability index: sum of (p - q) ln(p / q) over the ranges between the deciles of the reference, p and q "
        "being the shares of requests in it in the period and in the reference, half a request added to each count; a range in "
        "which neither has requests is left out."
    ),
    "psi_level": (
        "What the index is called: noise where ks is not above ks_noise, so that chance may be all of it; else stable below 0.1, "
        "moderate below 0.25, major from there on; null for the reference."
    ),
    "wasserstein_log10": (
        "Wasserstein-1 distance of the decimal logarithms of tokens: the mean distance between equal ranks; 0.3 is a factor of 2."
    ),
    "geometric_mean_ratio": "Geometric mean of tokens over that of the reference: above 1, requests have grown longer.",
    "ks": (
        "Two-sample Kolmogorov-Smirnov distance: the largest difference between the shares of requests up to any length, 0 to 1."
    ),
    "ks_noise": (
        "What that distance exceeds once in twenty times between two samples of these sizes from one distribution, requests "
        "taken as independent."
    ),
    "partial": _PARTIAL,
}

_TABLES = {
    "active": _ACTIVE,
    "model_share": _MODEL_SHARE,
    "tokens_by_month": _LENGTHS,
    "cohorts": _COHORTS,
    "retention": _RETENTION,
    "switching": _SWITCHING,
    "transitions": _TRANSITIONS,
    "drift": _DRIFT,
}

DEFINITIONS: Mapping[str, str] = {
    **_SCALARS,
    **{f"{table}.{column}": sentence for table, columns in _TABLES.items() for column, sentence in columns.items()},
}
"""Scalar, or `table.column`, to the sentence that defines it."""
