"""One sentence per number of `route`, with its unit: the definitions that its result carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.replay.route.question import Question

__all__ = ["definitions"]

_FOUND = {
    "session": "the smaller of its prompt and what the instance holds of its session",
    "block": "the leading blocks of its prompt that the instance holds, as far as its prompt goes",
}
_RATE = (
    "a request's rate is its prompt less what was found, plus its answer, over its duration; an instance's is the sum of those "
    "in "
    "flight, averaged over samples a minute apart"
)


def definitions(question: Question) -> Mapping[str, str]:
    """Scalar, or `table.column`, to the sentence that defines it."""
    kind = question.object or "session"
    things = f"{kind}s"
    cells = _tradeoff(kind, things, question)
    tables = {"tradeoff": cells, "largest": {name: cells[name] for name in _OF_LARGEST}, "load": _LOAD}
    scalars = {**_scalars(kind, things), **(_HANDED_OVER if question.decode is not None else {})}
    if question.search:
        tables["searched"] = _searched(cells)
        tables["pareto"] = {name: sentence for name, sentence in tables["searched"].items() if name != "is_on_front"}
        scalars |= {
            "recommended_policy": (
                "The weights on the Pareto front with the least imbalance of those that give up at most --give-up of the best "
                "hit "
                "ratio on it."
            ),
            "recommended_token_hit_ratio": "Its token_hit_ratio, 0 to 1.",
            "recommended_imbalance_ratio": "Its imbalance_ratio.",
            "best_searched_token_hit_ratio": "The highest token_hit_ratio of all weights that were tried, 0 to 1.",
        }
    columns = {f"{table}.{column}": sentence for table, defined in tables.items() for column, sentence in defined.items()}
    return {**scalars, **columns}


def _scalars(kind: str, things: str) -> dict[str, str]:
    return {
        "requests": "Number of requests, also those that are not routed.",
        "routed_requests": "Number of requests that are routed; the notes say why others are not.",
        "policies": "Number of policies, the same one with other parameters counted again.",
        "sessions_or_blocks": f"Number of distinct {things}.",
        "users": "Number of distinct users; null if the trace names none.",
        "input_tokens": "Prompt tokens of the routed requests.",
        "working_set_tokens": f"Tokens of all {things}, each at its largest: what one instance would need to hold all.",
        "ideal_token_hit_ratio": "token_hit_ratio of one instance whose cache has no limit: no router can find more.",
        "samples": "Number of samples of the load, a minute apart from the first arrival to the last.",
        "largest_instances": "Instances of the largest cells, which tables largest and load, the notes and a search are about.",
        "largest_capacity_tokens": "Their capacity in tokens; null without limit.",
        "best_policy": "The policy with the highest token_hit_ratio there; of several the one with the least imbalance_ratio.",
        "best_token_hit_ratio": "Its token_hit_ratio, 0 to 1.",
        "most_even_policy": "The policy with the lowest imbalance_ratio there.",
        "least_imbalance_ratio": "Its imbalance_ratio.",
    }


_HANDED_OVER = {
    "decode_instances": "Number of instances that decode.",
    "decode_imbalance_ratio": (
        "imbalance_ratio of decode instances, whose requests' rates are prompt and answer over decoding time."
    ),
    "decode_jain": "Jain's index of the same loads.",
    "decode_cv": "Coefficient of variation of the same loads.",
    "transferred_tokens": "Prompt tokens whose cache goes from a prefill to a decode instance: all of them.",
    "transferred_bytes": "The same in bytes, at --kv-bytes-per-token; null without.",
    "mean_transfer_s": "Seconds that one link of --link-gbps takes for the cache of a request, on average.",
    "links_in_use": "Links that are in use on average: seconds of all transfers over seconds between first and last hand-over.",
}
_OF_LARGEST = ("policy", "token_hit_ratio", "request_hit_ratio", "imbalance_ratio", "replication", "jain", "cv")
_LOAD = {
    "policy": "The policy, on the largest number of instances with the largest caches.",
    "time": "First sample of an interval, dates to the second; there are at most 96 intervals of whole minutes.",
    "mean_tokens_per_s": f"Mean rate of an instance in the interval's samples, in tokens a second: {_RATE}.",
    "max_tokens_per_s": "Rate of the instance with the highest rate in the interval.",
    "min_tokens_per_s": "Rate of the instance with the lowest.",
    "imbalance_ratio": "Highest over mean rate in the interval, less 1; null if nothing was in flight.",
}


def _tradeoff(kind: str, things: str, question: Question) -> dict[str, str]:
    entry = "largest turn, prompt and answer" if kind == "session" else "block"
    move = "that another instance held beyond what the chosen one did"
    return {
        "policy": "How an instance is chosen, with the parameters that are not its defaults.",
        "instances": "Number of instances; with --prefill those that compute prompts.",
        "capacity_tokens": "What each instance's cache may hold, in tokens; null without limit.",
        "token_hit_ratio": f"Prompt tokens found over prompt tokens, 0 to 1; of a request is found {_FOUND[kind]}.",
        "request_hit_ratio": "Share of the requests of which something is found, 0 to 1.",
        "replication": (
            f"Physical over logical tokens: over all {things}, the sum over instances of the {entry} ever held there, over that "
            "of the one instance that held most; evicted ones count too. At least 1."
        ),
        "imbalance_ratio": f"Highest over mean load of instances, less 1: {_RATE}.",
        "jain": (
            "Jain's index of these loads: (sum)² / (instances · sum of squares), 1 if all are equal, 1 / instances if one has "
            "all."
        ),
        "cv": "Coefficient of variation of these loads: population standard deviation over mean.",
        "max_min": "Highest over lowest load; null if an instance has none.",
        "instances_per_session": f"Mean number of instances that ever held a {kind}.",
        "imbalance_requests_ratio": "Most requests of an instance over their mean, less 1.",
        "requests_in_flight": "Mean number of requests in flight on an instance, over samples a minute apart.",
        "users_per_instance": "Mean number of distinct users that an instance served; null if the trace names none.",
        "moved_turns": "Number of requests served elsewhere than the request before in their session.",
        "moved_turns_ratio": "The same over all requests that are not the first of their session, 0 to 1.",
        "moved_sessions_ratio": (
            "Share of the sessions with several requests that were ever served elsewhere than before, 0 to 1."
        ),
        "elsewhere_requests": f"Requests with prompt tokens {move}.",
        "elsewhere_tokens": f"Prompt tokens {move}: what could be moved instead of computed.",
        "token_hit_ratio_with_moves": "token_hit_ratio if they were moved, 0 to 1.",
        "moved_bytes": "Bytes of elsewhere_tokens in the cache, at --kv-bytes-per-token; null without.",
        "move_s": f"Seconds that one link of {question.link_gbps:g} Gbit/s takes to carry them; null without.",
        "recompute_s": (
            f"Seconds that one instance takes to compute them, at {question.speeds.prefill_tokens_per_s:g} tokens a second."
        ),
    }


def _searched(defined: Mapping[str, str]) -> dict[str, str]:
    return {
        "policy": "The policy score with the weights that are tried.",
        "alpha": "Weight of the share of the prompt that an instance holds.",
        "beta": "Weight of its load over the largest.",
        "gamma": "Weight of its requests in flight over the most.",
        "delta": "Weight of making another copy.",
        **{name: defined[name] for name in _OF_LARGEST[1:]},
        "is_on_front": "Whether no other weights hit as much with less imbalance, or more with as little.",
        "is_recommended": "Whether these are recommended_policy.",
    }
