"""What a reader of `reuse-time` must know besides the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmtrace.analyses.reuse_time.eligible import ENOUGH_REQUESTS
from llmtrace.summaries import profiles, ttl
from llmtrace.summaries.histogram import relative_error
from llmtrace.wording import counted, either

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from llmtrace.analyses.base import State
    from llmtrace.result import Scalar

__all__ = ["notes"]


def notes(
    by: Sequence[str], min_gaps: int, state: State, scalars: Mapping[str, Scalar], tables: Mapping[str, pl.DataFrame]
) -> tuple[str, ...]:
    """The sentences that apply, the weightiest first."""
    found = [
        _eligible(by, min_gaps, scalars),
        _zero(scalars),
        _unknown(by, scalars),
        _tokens(state),
        _months(tables["by_month"], state),
        _models(by, tables["by_model"]),
        _bounds(scalars),
    ]
    return tuple(sentence for sentence in found if sentence)


def _eligible(by: Sequence[str], min_gaps: int, scalars: Mapping[str, Scalar]) -> str:
    busy = f", of users with more than {ENOUGH_REQUESTS - 1} requests" if "user" in by else ""
    which = f"with at least {counted(min_gaps, 'positive gap')}{busy}"
    if not _count(scalars, "eligible_keys"):
        return f"No {_key(by)} {which} is in the trace: numbers without the suffix _all are null."
    eligible, keys = _count(scalars, "eligible_keys"), counted(_count(scalars, "keys"), "key")
    return (
        f"Numbers without the suffix _all are over the positive gaps of {eligible:,} of {keys} ({_key(by)}), "
        f"{either(eligible, 'the one', 'those')} {which}; every gap counts once, so busy keys weigh more."
    )


def _zero(scalars: Mapping[str, Scalar]) -> str:
    zero, gaps, share = _count(scalars, "zero_gaps"), _count(scalars, "gaps_all"), scalars["within_1s_all"]
    if not zero or not isinstance(share, float):
        return ""
    positive = gaps - zero
    others = f", {(round(share * gaps) - zero) / positive:.1%} of those above zero" if positive else ""
    which = f"{zero:,} of {counted(gaps, 'gap')} {either(zero, 'is', 'are')} zero, requests of one key at one instant"
    return f"{which}: {share:.1%} of all gaps lie within a second{others}."


def _unknown(by: Sequence[str], scalars: Mapping[str, Scalar]) -> str:
    requests = _count(scalars, "requests")
    unknown = requests - _count(scalars, "keyed_requests")
    if not unknown:
        return ""
    which = f"{unknown:,} of {counted(requests, 'request')} {either(unknown, 'has', 'have')} no known {_key(by)}"
    return f"{which}: no TTL covers {either(unknown, 'it, and it retains', 'them, and they retain')} nothing."


def _tokens(state: State) -> str:
    totals = state["totals"].row(0, named=True)
    unknown = totals["requests"] - totals["tokens_known"]
    if not unknown:
        return ""
    has, which = either(unknown, "has", "have"), f"{unknown:,} of {counted(totals['requests'], 'request')}"
    return f"{which} {has} failed or {has} no known tokens: {either(unknown, 'it retains', 'they retain')} nothing."


def _months(by_month: pl.DataFrame, state: State) -> str:
    if state["visitors"].is_empty():
        return "The trace names no users: by_month is empty."
    partial = int(by_month["partial"].sum())
    if not partial:
        return ""
    months = f"{partial} of {counted(by_month.height, 'month')}"
    return f"The trace covers {months} in by_month only in part: long gaps do not fit into {either(partial, 'it', 'those')}."


def _models(by: Sequence[str], by_model: pl.DataFrame) -> str:
    if set(by) != {"user", "model"}:
        return "by_model is about users and models, and empty for another key than --by user,model."
    missing = by_model.filter(by_model["requests"] == 0)["model"].to_list()
    return f"No request goes to {', '.join(map(repr, missing))}." if missing else ""


def _bounds(scalars: Mapping[str, Scalar]) -> str:
    if not scalars["gaps_all"]:
        return ""
    return (
        f"Shares are exact; quantiles of gaps are within {relative_error(ttl.BITS):.3%}, those in by_month and by_model within "
        f"{relative_error(profiles.BITS):.1%}."
    )


def _count(scalars: Mapping[str, Scalar], name: str) -> int:
    """A scalar that is a count; where there is nothing to count, 0."""
    value = scalars[name]
    return value if isinstance(value, int) else 0


def _key(by: Sequence[str]) -> str:
    """A key in words.

    >>> _key(["user", "model"]), _key(["user", "model", "session"])
    ('user and model', 'user, model and session')
    """
    *others, last = by
    return f"{', '.join(others)} and {last}" if others else last
