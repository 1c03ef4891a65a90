"""One sentence per number of `reuse-time`, with its unit: the definitions that its result carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmtrace.analyses.reuse_time.coverage import ANCHORS_S
from llmtrace.summaries.months import PERCENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFINITIONS"]

_ELIGIBLE = "the positive gaps of eligible keys"
_ALL = "all gaps of all keys, zero ones included"


def _of_gaps(suffix: str, gaps: str) -> dict[str, str]:
    return {
        f"gaps{suffix}": f"Number of gaps between consecutive requests of a key: {gaps}.",
        **{
            f"{name}_s{suffix}": f"Length that {name[1:]} % of the gaps do not exceed, in seconds, over {gaps}."
            for name in ("p50", "p90", "p99")
        },
        **{
            f"within_{name}{suffix}": f"Share of gaps of at most {seconds:g} s, 0 to 1, over {gaps}."
            for name, seconds in ANCHORS_S.items()
        },
    }


_SCALARS = {
    "requests": "Number of requests, failed ones included.",
    "keyed_requests": "Requests of which every column of the key is known.",
    "keys": "Number of distinct keys.",
    "eligible_keys": (
        "Keys with at least --min-gaps positive gaps and, if the user is part of the key, a user with more than 10 requests, of "
        "whatever tokens and models."
    ),
    **_of_gaps("", _ELIGIBLE),
    **_of_gaps("_all", _ALL),
    "zero_gaps": "Gaps of length zero: requests of a key at the same instant as the one before.",
    "zero_gap_ratio": "Zero gaps over all gaps.",
}

_COVERAGE = {
    "ttl_s": "Time to live: how long something is retained after a request of its key, in seconds.",
    "covered_ratio": f"Share of gaps of at most the TTL, 0 to 1, over {_ELIGIBLE} (Figure 15 of the paper).",
    "covered_ratio_all": f"Share of gaps of at most the TTL, 0 to 1, over {_ALL}.",
    "covered_requests": "Requests whose key was seen at most the TTL before.",
    "covered_requests_ratio": "Those over all requests, also first ones and ones without a known key.",
    "covered_input_tokens_ratio": "Input tokens of those requests over the input tokens of all; what is not known is left out.",
    "retained_token_seconds": (
        "Tokens times the time they are retained, in token-seconds: input and output tokens of each request with a known key, "
        "from its arrival to the next of its key, to the end of the TTL or to the end of the trace, whichever comes first."
    ),
    "wasted_token_seconds": "The part of it that ends without a next request of the key: the TTL or the trace ends first.",
    "wasted_ratio": "Wasted over retained token-seconds.",
    "mean_retained_tokens": "Retained token-seconds over the span of the trace: tokens that are retained on average.",
}

_BY_MONTH = {
    "month": "Start of the calendar month, in UTC.",
    "users": "Users with more than 10 requests in all and at least --min-gaps positive gaps in the month.",
    **{
        f"p{percent}_s": (
            f"Median over those users of the length that {percent} % of a user's positive gaps do not exceed, in seconds; these "
            "are between consecutive requests of the user in the same month, whatever the model."
        )
        for percent in PERCENTS
    },
    "span_ratio": "Share of the month between the first and the last arrival of the trace, 0 to 1.",
    "partial": "Whether that is less than 0.95.",
}

_BOX = {
    "min_s": "The shortest median positive gap of an eligible user to the model, in seconds.",
    **{
        f"p{percent}_s": f"Median positive gap that {percent} % of the eligible users do not exceed, in seconds."
        for percent in (5, 25, 50, 75, 95)
    },
    "max_s": "The longest of these medians, in seconds.",
}

_TABLES = {
    "anchors": _COVERAGE,
    "coverage": _COVERAGE,
    "by_month": _BY_MONTH,
    "by_model": {
        "model": "A model named with --highlight, else one of the three with most requests.",
        "requests": "Requests to the model.",
        "users": "Eligible users: keys of a user and the model that are eligible.",
        **_BOX,
    },
}

DEFINITIONS: Mapping[str, str] = {
    **_SCALARS,
    **{f"{table}.{column}": sentence for table, columns in _TABLES.items() for column, sentence in columns.items()},
}
"""Scalar, or `table.column`, to the sentence that defines it."""
