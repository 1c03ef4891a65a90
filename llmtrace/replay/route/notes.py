"""What a reader of `route` must know besides the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmtrace.replay.route.rules import BY_USER
from llmtrace.wording import counted, either, worded

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from llmtrace.replay.route.answer import Found
    from llmtrace.replay.route.question import Question
    from llmtrace.result import Scalar

__all__ = ["notes"]

FEW_SAMPLES = 60
"""An hour: with fewer samples the mean load of an instance is mostly chance."""
IDLE = 1.0
"""Mean requests in flight on an instance below which most instances are idle at most times."""
_FEWEST = 0.001
_NAMED = 4


def notes(question: Question, found: Found, scalars: Mapping[str, Scalar], compared: pl.DataFrame) -> tuple[str, ...]:
    """The sentences that apply, the weightiest first.

    Args:
        question: what was asked for.
        found: what was replayed.
        scalars: what was found.
        compared: the rows of the largest cells.
    """
    left_out = [worded(sentence, count) for sentence, count in found.known.remarks.items()]
    if not found.known.extent.requests:
        return ("No request can be routed.", *left_out)
    sentences = [
        _recommended(scalars, compared, question),
        _compared(scalars, compared),
        _sessions(question, found),
        _durations(question, found),
        _handed_over(question, found),
        _idle(compared),
        _samples(found),
        _models(found),
        _users(question, found),
        _moves(question),
    ]
    return (*(sentence for sentence in sentences if sentence), *left_out)


def _where(scalars: Mapping[str, Scalar]) -> str:
    capacity = scalars["largest_capacity_tokens"]
    caches = "caches without limit" if capacity is None else f"caches of {counted(int(str(capacity)), 'token')}"
    return f"On {counted(int(str(scalars['largest_instances'])), 'instance')} with {caches}"


def _recommended(scalars: Mapping[str, Scalar], compared: pl.DataFrame, question: Question) -> str:
    policy = scalars.get("recommended_policy")
    if policy is None:
        return "There is no load to weigh against hits: no weights are recommended." if question.search else ""
    others = "; ".join(_told(row) for row in compared.head(_NAMED).iter_rows(named=True))
    taken = {name: scalars[f"recommended_{name}"] for name in ("policy", "token_hit_ratio", "imbalance_ratio")}
    return (
        f"Recommended: {_told(taken)}. {_where(scalars)} these weights are the most even of those that give up at most "
        f"{question.tolerance:.3g} of the best hit ratio, {scalars['best_searched_token_hit_ratio']:.4f}; beside them {others}."
    )


def _told(row: Mapping[str, object]) -> str:
    hit, uneven = row["token_hit_ratio"], row["imbalance_ratio"]
    of_hits = "hits of unknown share" if hit is None else f"{hit:.1%} of tokens hit"
    return f"{row['policy']}, {of_hits}" + ("" if uneven is None else f", imbalance {uneven:.1%}")


def _compared(scalars: Mapping[str, Scalar], compared: pl.DataFrame) -> str:
    best, even = scalars["best_policy"], scalars["most_even_policy"]
    if compared.height == 1 or best is None:
        return ""
    rows = {row["policy"]: row for row in compared.iter_rows(named=True)}
    ideal = scalars["ideal_token_hit_ratio"]
    bound = "" if ideal is None else f"; no router can hit more than {ideal:.1%}"
    most = f"{_where(scalars)} most is found by {_told(rows[best])}"
    if not rows[best]["token_hit_ratio"]:
        most = f"{_where(scalars)} no policy finds anything"
    return f"{most}; most even is {_told(rows[even])}{bound}." if even not in {None, best} else f"{most}{bound}."


def _sessions(question: Question, found: Found) -> str:
    if question.object == "block":
        return (
            f"Instances hold blocks of {question.block_tokens:,} tokens of prompts. What an answer adds is found only if a later "
            "prompt has it in its blocks and was computed before."
        )
    if found.gatherer.is_given:
        return (
            "Sessions are those of the trace; a turn finds what its session left, as far as its prompt goes, even if the prompt "
            "was rewritten on the way."
        )
    return (
        "Sessions are reconstructed from token counts, as llmtrace sessions does: hits are an estimate. Policies do not see "
        "them; they see how much of a prompt an instance holds."
    )


def _durations(question: Question, found: Found) -> str:
    if found.gatherer.has_durations:
        return "A request is in flight as long as was logged, however much of it is found."
    speeds = question.speeds
    return (
        f"The trace logs no durations: a request is taken to be in flight for its prompt at {speeds.prefill_tokens_per_s:,g} "
        f"tokens/s and its answer at {speeds.decode_tokens_per_s:,g} tokens/s (--prefill-tokens-per-s, --decode-tokens-per-s)."
    )


def _handed_over(question: Question, found: Found) -> str:
    if question.prefill is None:
        return ""
    when = "as logged" if found.gatherer.has_first_tokens else f"estimated at {question.speeds.prefill_tokens_per_s:,g} tokens/s"
    decode = question.decode or 0
    return (
        f"{counted(question.prefill, 'instance')} {either(question.prefill, 'computes', 'compute')} prompts until the first "
        f"token, {when}, and {counted(decode, 'other')} {either(decode, 'decodes', 'decode')}; the policy chooses among the "
        "former, load among the latter. Prefill instances hold prompts, not answers."
    )


def _idle(compared: pl.DataFrame) -> str:
    busy = compared["requests_in_flight"].max()
    if not isinstance(busy, float) or busy >= IDLE:
        return ""
    few = f"{busy:.2g}" if busy >= _FEWEST else f"less than {_FEWEST:g}"
    return (
        f"An instance has {few} requests in flight on average: most are idle at most times, so that imbalance is that of "
        "single requests, and load-first, and what falls back to it, draws among the first three."
    )


def _samples(found: Found) -> str:
    samples = found.known.extent.samples
    if samples >= FEW_SAMPLES:
        return ""
    return f"Loads are averages of {counted(samples, 'sample')} a minute apart: so few say little about imbalance."


def _models(found: Found) -> str:
    if found.known.models <= 1:
        return ""
    return f"All instances serve all {found.known.models:,} models here; take one with --model to route as its replicas do."


def _users(question: Question, found: Found) -> str:
    if found.gatherer.knows_users and found.known.extent.users:
        return ""
    asked = any(rule.policy in BY_USER for rule in question.rules)
    return "" if asked else "The trace names no users: sticky is left out, and how many users an instance serves is not known."


def _moves(question: Question) -> str:
    if question.kv_bytes is not None:
        return ""
    return "What it costs to move caches is not known without the bytes of a token: --kv-bytes-per-token or --kv-model."
