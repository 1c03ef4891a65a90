"""What a reader of `cache` must know besides the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.replay.cache.like import DEFINITIONS
from llmtrace.replay.cache.policies.lrb import BATCH
from llmtrace.replay.cache.simulate import ORACLE, TTL
from llmtrace.wording import counted, either

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.replay.cache.requests import Requests
    from llmtrace.result import Scalar

__all__ = ["notes"]

_LEFT_OUT = {
    "failed_requests": "{count} that failed",
    "no_input_requests": "{count} without known input tokens",
    "too_large_requests": "{count} of more than 2,147,483,647 tokens",
    "no_key_requests": "{count} of unknown user, model or output tokens",
    "no_session_requests": "{count} without a session",
    "no_block_requests": "{count} without block hashes",
}
_MIB = 2**20


def notes(
    requests: Requests,
    scalars: Mapping[str, Scalar],
    parameters: Mapping[str, object],
    tokens: Sequence[int],
    curve: pl.DataFrame,
) -> tuple[str, ...]:
    """The sentences that apply, the weightiest first.

    Args:
        requests: what was replayed.
        scalars: what was found.
        parameters: what was asked for.
        tokens: the capacities.
        curve: the table of policies and capacities.
    """
    if not requests.counts.get("replayed_requests"):
        return _nothing(requests)
    found = [
        _like(parameters),
        _accounting(scalars, requests),
        _sessions(parameters),
        _left_out(requests),
        _warmup(parameters),
        _blocks(requests),
        _small(requests, tokens),
        _oracle(parameters, requests),
        _ttl(parameters),
        _learning(curve),
        _held(requests),
    ]
    return tuple(sentence for sentence in found if sentence)


def _like(parameters: Mapping[str, object]) -> str:
    tool = parameters["like"]
    return f"like: {DEFINITIONS[tool]}" if isinstance(tool, str) else ""


def _nothing(requests: Requests) -> tuple[str, ...]:
    return (f"No request can be replayed: {', '.join(_reasons(requests)) or 'there is none'}.",)


def _accounting(scalars: Mapping[str, Scalar], requests: Requests) -> str:
    full, prefix = scalars["ideal_token_hit_ratio_full"], scalars["ideal_token_hit_ratio"]
    if not isinstance(full, float) or not isinstance(prefix, float):
        return ""
    object_ = "sessions" if requests.block_tokens is None else "blocks"
    return (
        f"Even without bound a cache of {object_} saves {prefix:.1%} of the input tokens; counted in full, as the paper does, "
        f"hits have {full:.1%}. The former (prefix) is compute that is saved, the latter (full) also counts what is new in a "
        "request that hits."
    )


def _sessions(parameters: Mapping[str, object]) -> str:
    if not parameters["reconstruct"]:
        return ""
    return "Sessions are reconstructed from users, models, endpoints and lengths (see llmtrace sessions): a guess, not a record."


def _left_out(requests: Requests) -> str:
    reasons = _reasons(requests)
    if not reasons:
        return ""
    total = requests.counts["requests"]
    return f"Left out of {counted(total, 'request')}: {', '.join(reasons)}."


def _reasons(requests: Requests) -> list[str]:
    return [text.format(count=f"{requests.counts[name]:,}") for name, text in _LEFT_OUT.items() if requests.counts.get(name)]


def _warmup(parameters: Mapping[str, object]) -> str:
    share = parameters["warmup"]
    if not isinstance(share, float) or not share:
        return "Ratios are over all requests: the cache is empty at first (--warmup 0), which lowers them."
    return f"The first {100 * share:.4g} % of the requests warm the cache (--warmup) and count in no ratio."


def _blocks(requests: Requests) -> str:
    wrong = requests.counts.get("other_blocks_requests", 0)
    if not wrong or requests.block_tokens is None:
        return ""
    has, which = either(wrong, "has", "have"), f"{wrong:,} of {counted(requests.counts['replayed_requests'], 'request')}"
    return (
        f"{which} {has} more or fewer blocks than input tokens fill, at {requests.block_tokens:,} a block: is --block-size right?"
    )


def _small(requests: Requests, tokens: Sequence[int]) -> str:
    largest = int(requests.input_tokens.max(initial=0))
    below = sum(one < largest for one in tokens)
    if not below:
        return ""
    what = "" if below < len(tokens) else f"; --capacity takes larger ones, such as {10 * largest}"
    return (
        f"{below} of {counted(len(tokens), 'capacity', 'capacities')} {either(below, 'is', 'are')} smaller than the longest "
        f"request, of {largest:,} tokens{what}."
    )


def _oracle(parameters: Mapping[str, object], requests: Requests) -> str:
    policies = parameters["policies"]
    if not isinstance(policies, list) or ORACLE not in policies:
        return ""
    if requests.block_tokens is not None:
        return "oracle is the better of Belady's rule over all blocks and over leaves alone; no real cache knows what comes."
    return (
        "oracle is, ratio by ratio, the better of Belady's rule and its greedy form for sizes that differ (belady, belady-size); "
        "no real cache knows what comes, and for sizes that differ it is no proven bound."
    )


def _ttl(parameters: Mapping[str, object]) -> str:
    policies = parameters["policies"]
    return f"ttl is LRU that forgets what was not used for {parameters['ttl']}." if TTL in list(policies or []) else ""  # type: ignore[call-overload]


def _learning(curve: pl.DataFrame) -> str:
    """Whether the policy that learns ever did."""
    if "trainings" not in curve.columns:
        return ""
    found = curve.drop_nulls("trainings")
    trained, windows = found.filter(pl.col("trainings") > 0), found["window_uses"].to_list()
    reach = f"lrb looks back {_range(windows)} uses"
    needs = f"{BATCH:,} labels, which training takes"
    if trained.is_empty():
        return f"{reach}. Its model was never trained, for want of {needs}: it is lru to the last digit."
    trainings = trained["trainings"].to_list()
    times = f"{_range(trainings)} {either(max(trainings), 'time', 'times')}"
    if trained.height == found.height:
        return f"{reach}. Its model was trained {times}."
    return (
        f"{reach}. Its model was trained {times} at {trained.height} of {found.height} capacities; at the others never, for want "
        f"of {needs}: there it is lru to the last digit."
    )


def _range(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _held(requests: Requests) -> str:
    number = requests.counts["replayed_requests"]
    return f"The replay held {requests.held_bytes / _MIB:,.1f} MiB, {requests.held_bytes / number:,.0f} bytes a request."
