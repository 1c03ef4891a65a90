"""One sentence per number of `popularity`, with its unit: the definitions that its result carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ACCESS", "DEFINITIONS"]

_NAMED = "of the requests that name one, failed ones included"
_TOKENS = "known input and output tokens, those of failed requests left out"
_GINI = "Gini's coefficient: half the mean absolute difference of two {0}s, over the mean; 0 where all have the same"
_ZIPF = "Exponent s of c·rank⁻ˢ fitted to {0} by rank (table zipf); null with fewer than 10 ranks to fit or equal amounts"


def _of(what: str) -> dict[str, str]:
    return {
        f"gini_{what}s": f"{_GINI.format(what)}; of requests.",
        f"gini_{what}s_tokens": f"The same of {_TOKENS}.",
        f"zipf_{what}s": f"{_ZIPF.format('requests')}.",
        f"zipf_{what}s_tokens": f"{_ZIPF.format('tokens')}.",
    }


_SCALARS = {
    "requests": "Number of requests, failed ones included.",
    "users": "Number of distinct known users.",
    "models": "Number of distinct known models.",
    "pairs": "Number of distinct pairs of a known user and a known model.",
    "top1_user_share": f"Share of the user with most requests {_NAMED}, 0 to 1.",
    "top10_user_share": f"Share of the ten users with most requests {_NAMED}, 0 to 1.",
    "users_for_90": "The fewest users that make 90 % of the requests that name one.",
    **_of("user"),
    "median_models_per_user": "Median number of models of a user.",
    "single_model_users_ratio": "Share of the users that use one model only, 0 to 1.",
    "top1_model_share": f"Share of the model with most requests {_NAMED}, 0 to 1.",
    "top10_model_share": f"Share of the ten models with most requests {_NAMED}, 0 to 1.",
    "models_for_90": "The fewest models that get 90 % of the requests that name one.",
    **_of("model"),
    "median_users_per_model": "Median number of users of a model.",
    "one_user_models_ratio": (
        "Share of the models with at least 100 requests of which one user makes more than half of those that name a user, 0 to 1."
    ),
}

_MEDIANS = {
    f"median_{side}_tokens": (
        f"Median {side} tokens of the {{0}}'s requests that did not fail and of which input and output tokens are positive."
    )
    for side in ("input", "output")
}
_TIMES = {
    "first_timestamp": "Time of the {0}'s earliest request.",
    "last_timestamp": "Time of the {0}'s latest request.",
}


def _entity(what: str, columns: Mapping[str, str]) -> dict[str, str]:
    shared = {
        "rank": f"Place of the {what} by requests, from 1; ties by name.",
        what: f"The {what}.",
        "requests": "Its requests, failed ones included.",
        "requests_ratio": f"Their share of the requests that name a {what}, 0 to 1.",
        "input_tokens": "Sum of its known input tokens, in tokens; failed requests left out.",
        "output_tokens": "Sum of its known output tokens, in tokens; failed requests left out.",
        "tokens_ratio": f"Its share of the {_TOKENS}, of all {what}s, 0 to 1.",
    }
    others = {name: sentence.format(what) for name, sentence in {**_MEDIANS, **_TIMES}.items()}
    return {**shared, **columns, **others}


_MODELS = _entity(
    "model",
    {
        "users": "Distinct known users of the model; null where none of its requests names one.",
        "users_for_90": "The fewest users that make 90 % of its requests that name a user.",
        "top_user_ratio": "Share of the user with most requests to it, of its requests that name a user, 0 to 1.",
        "positive_gaps": "Positive gaps between consecutive requests to the model: one less than its different times of arrival.",
    },
)
_USERS = _entity(
    "user",
    {
        "models": "Distinct known models of the user; null where none of its requests names one.",
        "top_model": "The model that the user sends most requests to; of several the first by name.",
        "top_model_ratio": "Its share of the user's requests that name a model, 0 to 1.",
    },
)

_SPREAD = {
    "of": "What is ranked: models or users.",
    "by": "What by: requests (failed ones included), or known input and output tokens (those of failed requests left out).",
    "entities": "How many models or users there are; by tokens, those of which some are known.",
}

_CONCENTRATION = {
    **_SPREAD,
    "total": "Requests or tokens of all of them together.",
    "gini": "Gini's coefficient: half the mean absolute difference of two of them, over the mean; 0 where all have the same.",
    **{f"top{count}_ratio": f"Share of the {count} with most, 0 to 1." for count in (1, 10, 100)},
    **{f"top_{percent}_percent_ratio": f"Share of the {percent} % with most, rounded up, 0 to 1." for percent in (1, 10)},
    **{f"needed_for_{percent}": f"The fewest that have {percent} % together." for percent in (50, 90, 99)},
}

_ZIPF_TABLE = {
    **_SPREAD,
    "exponent": (
        "s of c·rank⁻ˢ, by least squares of log amount against log rank with weights 1/rank; null with fewer than 10 "
        "ranks or equal amounts."
    ),
    "first_rank": "First rank of the fit.",
    "last_rank": "Last rank of the fit: the last with at least 10 requests, or with the tokens of 10 mean requests.",
    "r_squared": "Share of the variance of log amount that the line explains, with the same weights, 0 to 1.",
    "head_exponent": "The same exponent over the first half of the logarithmic axis: ranks up to the square root of the last.",
    "tail_exponent": "The same exponent over the second half: ranks from the square root of the last on.",
}

_RANK_FREQUENCY = {
    "of": _SPREAD["of"],
    "by": _SPREAD["by"],
    "rank": "Rank, from 1; every one up to 100, then 32 to the decade, and the last.",
    "ratio": "Share of the model or user of that rank, 0 to 1.",
    "cumulative_ratio": "Share of all up to that rank together, 0 to 1.",
    "fitted_ratio": "What the fitted law gives that rank; null beyond the ranks of the fit.",
}

_CELL = "middle of a cell at most 6.25 % wide, exact below 32"
_USER_BREADTH = {
    "requests": f"Requests of a user, more than 10: {_CELL}.",
    "models": f"Distinct models of the user, more than 1: {_CELL}.",
    "users": "Users in the cell.",
}
_USER_LENGTHS = {
    **{
        f"median_{side}_tokens": f"Median {side} tokens of a user with more than 10 requests: {_CELL}."
        for side in ("input", "output")
    },
    "users": "Users in the cell.",
}

_TABLES = {
    "models": _MODELS,
    "users": _USERS,
    "concentration": _CONCENTRATION,
    "zipf": _ZIPF_TABLE,
    "rank_frequency": _RANK_FREQUENCY,
    "user_breadth": _USER_BREADTH,
    "user_lengths": _USER_LENGTHS,
}

DEFINITIONS: Mapping[str, str] = {
    **_SCALARS,
    **{f"{table}.{column}": sentence for table, columns in _TABLES.items() for column, sentence in columns.items()},
}
"""Scalar, or `table.column`, to the sentence that defines it."""


def _raster(of: str, other: str) -> dict[str, str]:
    return {
        "rank": f"Place of the {of} by requests in the trace.",
        of: f"The {of} whose raster it is.",
        "row": f"Row of the raster: place of the {other} in the order of first requests in it, from 1.",
        other: f"The {other} of the row.",
        "time": "Time of the first request of the row in a step of time.",
        "elapsed_s": "Time from the beginning of the raster to that, in seconds.",
        "requests": "Requests of the row in the step, failed ones included.",
    }


_RASTERS = {
    "of": "Whose accesses are shown: a user's or a model's.",
    "rank": "Its place by requests in the trace.",
    "name": "Its name.",
    "start": "When the raster begins: the first request.",
    "end": "When it ends, at the latest with the trace.",
    "span_s": "Time from its beginning to its end, in seconds.",
    "step_s": "Length of a step of time, in seconds: requests of one row in one step are one dot.",
    "requests": "Requests within the raster, those of rows that are not shown included.",
    "entities": "Distinct known models of the user (or users of the model) within the raster.",
    "rows": "How many of them are shown: all, or a sample of 800.",
}
_ACCESS_TABLES = {"rasters": _RASTERS, "user_access": _raster("user", "model"), "model_access": _raster("model", "user")}

ACCESS: Mapping[str, str] = {
    f"{table}.{column}": sentence for table, columns in _ACCESS_TABLES.items() for column, sentence in columns.items()
}
"""The same for the tables of rasters."""
