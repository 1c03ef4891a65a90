"""One sentence per number of `sessions`, with its unit: the definitions that its result carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFINITIONS"]

_SHARES = {"p50": "half", "p90": "90 %", "p99": "99 %"}
_REUSE = "Tokens of prefixes over input tokens, of all requests in sessions, 0 to 1: what an endless cache would save at most."


def _lengths(of: str) -> dict[str, str]:
    return {
        "single_turn_share": f"Share of sessions{of} with one request, 0 to 1.",
        "mean_turns": f"Mean number of requests in a session{of}.",
        **{
            f"last_turn_{name}": f"Last turn, from 0, that {share} of the sessions{of} do not exceed; linear between ranks."
            for name, share in _SHARES.items()
        },
        "last_turn_max": f"Last turn of the longest session{of}, counted from 0.",
    }


def _gaps(of: str) -> dict[str, str]:
    return {
        f"gap_{name}_s": f"Time that {share} of the gaps between turns{of} do not exceed, from arrival to arrival, in seconds."
        for name, share in _SHARES.items()
    }


_SCALARS = {
    "requests": "Number of requests, failed ones included.",
    "session_requests": "Requests that belong to a session: not failed, with known tokens and whatever tells whose they are.",
    "sessions": "Sessions: requests that continue none, with those that follow them; one that asks two models is two.",
    **_lengths(""),
    "last_turn_mean": "Mean of the last turn of a session, counted from 0: mean_turns less 1.",
    **{f"turn_{turn}_requests": f"Requests at turn {turn}, counted from 0." for turn in range(4)},
    "input_tokens": "Sum of input tokens of the requests in sessions.",
    "prefix_tokens": (
        "Sum of what requests have in common with the one that they continue: its input and output tokens, as far as the input "
        "of the later one goes."
    ),
    "structural_reuse": _REUSE,
    **_gaps(""),
    "link_precision": "Right links over found ones, by the best truth that the trace has (first row of quality), 0 to 1.",
    "link_recall": "Right links over true ones, by the same truth, 0 to 1.",
}

_LENGTHS = {
    "turns": "Number of requests in a session.",
    "sessions": "Sessions with so many.",
    "sessions_ratio": "Those over all sessions, 0 to 1.",
    "cumulative_ratio": "Share of sessions with so many or fewer, 0 to 1.",
    "at_least_ratio": "Share of sessions with so many or more, 0 to 1.",
}

_TABLES = {
    "turns": {
        "turn": "Position in the session, counted from 0.",
        "requests": "Requests at this turn.",
        "requests_ratio": "Those over all requests in sessions, 0 to 1.",
        "ended_sessions": "Sessions of which this is the last turn.",
        "continued_ratio": "Share of the requests at this turn that another one continues, 0 to 1.",
        "mean_input_tokens": "Mean input tokens of the requests at this turn.",
        "mean_output_tokens": "Mean output tokens of the requests at this turn.",
        "mean_prefix_tokens": "Mean tokens that they have in common with the request they continue.",
        "reuse_ratio": "Tokens of prefixes over input tokens of the requests at this turn, 0 to 1.",
    },
    "lengths": _LENGTHS,
    "gaps": {
        "gap_s": "Time between the arrivals of a request and of the one it continues, in seconds.",
        "gaps": "Gaps of at most so long.",
        "covered_ratio": "Those over all gaps, 0 to 1.",
        "prefix_covered_ratio": "Tokens of prefixes after gaps of at most so long, over those after all gaps, 0 to 1.",
        "structural_reuse": "The same over the input tokens of all requests in sessions, 0 to 1.",
    },
    "by_model": {
        "model": "The model that was asked.",
        "requests": "Requests to it that belong to a session.",
        "sessions": "Sessions with it.",
        **_lengths(" with it"),
        "structural_reuse": "Tokens of prefixes over input tokens of the requests to it in sessions, 0 to 1.",
        **_gaps(" with it"),
    },
    "lengths_by_model": {"model": "A model named with --highlight, else one of the three with most requests.", **_LENGTHS},
    "gaps_by_model": {
        "model": "A model named with --highlight, else one of the three with most requests.",
        "cumulative_ratio": "A share of the gaps between turns with it, 0 to 1.",
        "gap_s": "Time that this share of them does not exceed, in seconds.",
    },
    "quality": {
        "truth": "What links are judged by: the trace's own sessions, or the blocks that prompts have in common.",
        "true_links": "Requests of which the truth knows what they continue.",
        "found_links": "Links of the reconstruction whose both ends the truth knows.",
        "right_links": "Found links that lead to the very request that the truth names.",
        "precision": "Right links over found ones, 0 to 1.",
        "recall": "Right links over true ones, 0 to 1.",
        "related_ratio": "Share of found links within one session, or from a prompt to one that begins with it, 0 to 1.",
        "possible_ratio": "Share of true links whose earlier input and output are below the later input, 0 to 1: no rule "
        "of this kind can find more.",
    },
    "sensitivity": {
        "varied": "The parameter that was varied: k or max_gap_s.",
        "k": "How many of the last requests of the key were looked at.",
        "max_gap_s": "Time limit between a request and the one it continues, in seconds; null is none.",
        "sessions": "Sessions that come out.",
        "single_turn_share": "Share of them with one request, 0 to 1.",
        "structural_reuse": _REUSE,
        "precision": "Right links over found ones, by the best truth that the trace has, 0 to 1.",
        "recall": "Right links over true ones, by the same truth, 0 to 1.",
    },
}

DEFINITIONS: Mapping[str, str] = {
    **_SCALARS,
    **{f"{table}.{column}": sentence for table, columns in _TABLES.items() for column, sentence in columns.items()},
}
"""Scalar, or `table.column`, to the sentence that defines it."""
