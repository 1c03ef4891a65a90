"""One sentence per number of `cache`, with its unit: the definitions that its result carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["definitions"]

_WHAT = {
    "session": "a session, one object that grows with each of its requests",
    "block": "a block, one of the equal pieces that prompts are cut into",
}
_SIZES = {
    "session": "the sum of the sizes of sessions at their first requests, in tokens",
    "block": "distinct blocks times the tokens of a block, so that a cache of this size has room for all",
}
_PREFIX = {
    "session": "a request counts with the tokens that its session left in the cache, as far as its own input goes",
    "block": "a request counts with its leading blocks in the cache, a block only if all before it are there",
}
_REQUEST_HIT = {"session": "whose session is in the cache", "block": "whose first block is in the cache"}


def definitions(what: str, *, warmup: float, policies: Sequence[str]) -> Mapping[str, str]:
    """Scalar, or `table.column`, to the sentence that defines it.

    Args:
        what: `session` or `block`.
        warmup: the share of requests that is not counted.
        policies: those that were replayed.
    """
    over = "over all replayed requests" if not warmup else f"over the last {1 - warmup:.4g} of the replayed requests"
    ratios = {
        "request_hit_ratio": f"Share of requests {_REQUEST_HIT[what]}, 0 to 1, {over}.",
        "token_hit_ratio_full": (
            f"Input tokens of such requests over input tokens, 0 to 1, {over}: a hit counts as if nothing of the request had to "
            "be computed, as in the paper's eviction figure."
        ),
        "token_hit_ratio_prefix": f"Input tokens that need not be computed over input tokens, 0 to 1, {over}: {_PREFIX[what]}.",
    }
    return {
        **_scalars(what, ratios, over),
        **{f"curve.{name}": sentence for name, sentence in {**_CURVE, **ratios}.items()},
        **{f"lru_curve.{name}": sentence for name, sentence in ratios.items()},
        "lru_curve.capacity_tokens": "Capacity in tokens, from the largest request on, by stack distances and not by replays.",
        **{f"by_capacity.{name}": f"token_hit_ratio_prefix of {name} at the capacity." for name in policies},
        "by_capacity.capacity_tokens": _CURVE["capacity_tokens"],
        **{f"{table}.{name}": _CURVE[name] for table in ("histogram", "by_gap") for name in ("policy", "capacity_tokens")},
        **{f"histogram.{name}": sentence for name, sentence in _HISTOGRAM.items()},
        **{f"by_gap.{name}": sentence for name, sentence in _gaps(what, over).items()},
        **{f"like.{name}": sentence for name, sentence in _LIKE.items()},
        **{f"reuse_skew.{name}": sentence for name, sentence in _skew(what).items()},
    }


_CURVE = {
    "policy": "What decides which goes; ideal is a cache without bound, oracle the better of two that know what comes.",
    "capacity_tokens": "Capacity in tokens; null without bound.",
    "capacity_ratio": "Capacity over the working set.",
    "capacity_blocks": "Capacity in blocks.",
    "capacity_gib": "Capacity in GiB, at the bytes per token that were given.",
    "hit_requests": "Requests that hit.",
    "trainings": "Of lrb: how often its model was trained; with 0 it is LRU, use by use.",
    "window_uses": (
        "Of lrb: its memory window, in uses of the cache: how far back it looks, and the time to the next use that is as good as "
        "never."
    ),
    "reused_tokens": "Input tokens that need not be computed, the numerator of token_hit_ratio_prefix.",
}
_LIKE = {
    "tool": "The tool that prints the number; a note has its definition.",
    "policy": "Its policy, by its own name.",
    "capacity_tokens": _CURVE["capacity_tokens"],
    "capacity_blocks": "Capacity in blocks; null without bound.",
    "hit_ratio": "The number that it prints, 0 to 1, unrounded.",
    "remark": "What the number hides.",
}
_HISTOGRAM = {
    "hit_ratio_from": "Least ratio of the bin: tokens of a request that need not be computed over its input tokens.",
    "hit_ratio_to": "The ratio that the bin reaches up to; the last row has requests that need not compute anything.",
    "requests": "Requests in the bin.",
    "requests_ratio": "Those over all that are counted.",
    "input_tokens": "Their input tokens.",
    "input_tokens_ratio": "Those over the input tokens of all that are counted.",
    "cached_tokens": "Tokens of theirs that need not be computed.",
    "cached_tokens_ratio": "Those over the same of all that are counted.",
}


def _scalars(what: str, ratios: Mapping[str, str], over: str) -> dict[str, str]:
    plural = f"{what}s"
    return {
        "requests": "Number of requests, also those that cannot be replayed.",
        "replayed_requests": "Requests that are replayed: successful ones of known input and object.",
        "counted_requests": "Those that ratios are over, after the warm-up.",
        "sessions_or_blocks": f"Distinct {plural}; the object of the cache is {_WHAT[what]}.",
        "uses": f"Uses of {plural} by the requests that are replayed.",
        "input_tokens": f"Input tokens {over}.",
        "working_set_tokens": f"Working set, which shares are of: {_SIZES[what]}.",
        "ideal_request_hit_ratio": f"Without bound: {ratios['request_hit_ratio']}",
        "ideal_token_hit_ratio": f"Without bound, by prefix: {ratios['token_hit_ratio_prefix']}",
        "ideal_token_hit_ratio_full": f"Without bound, in full: {ratios['token_hit_ratio_full']}",
        "lru_90_capacity_tokens": (
            "Least capacity of lru_curve, in tokens, at which LRU has 90 % of the ideal token_hit_ratio_prefix."
        ),
        "top10_reuse_ratio": f"Share of reuses that the most reused 10 % of the {plural} make, 0 to 1; all requests count.",
    }


def _gaps(what: str, over: str) -> dict[str, str]:
    return {
        "gap_from_s": f"Least time since the last use of the {what}, in seconds.",
        "gap_to_s": "The time that the class ends before, in seconds; null for the last one.",
        "reusable_tokens": f"Tokens after such a gap that a cache without bound would have, {over}.",
        "hit_tokens": "Those that the policy has.",
        "token_hit_ratio": "Those over reusable_tokens.",
    }


def _skew(what: str) -> dict[str, str]:
    return {
        "objects_ratio": f"Share of the distinct {what}s, the most reused ones first.",
        "objects": "How many that are, rounded up.",
        "reuses": f"Their reuses: uses of a {what} after its first one, over all replayed requests.",
        "reuses_ratio": "Those over all reuses.",
    }
