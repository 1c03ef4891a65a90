"""What a reader of `sessions` must know besides the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmtrace.replay.sessions.tally import BITS, BITS_BY_MODEL
from llmtrace.replay.sessions.tracker import LEFT_OUT
from llmtrace.summaries.histogram import relative_error
from llmtrace.wording import worded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from llmtrace.replay.sessions.tracker import Reconstruction, SessionTracker
    from llmtrace.result import Scalar

__all__ = ["notes"]

_TRUTHS = {"session": "the trace's own sessions", "block_hashes": "the blocks that prompts begin with"}


def notes(
    tracker: SessionTracker,
    rule: Reconstruction | None,
    scalars: Mapping[str, Scalar],
    tables: Mapping[str, pl.DataFrame],
    highlight: Sequence[str],
) -> tuple[str, ...]:
    """The sentences that apply, the weightiest first."""
    found = [
        _how(tracker, rule),
        *(_judged(*row) for row in tables["quality"].select("truth", "precision", "recall", "possible_ratio").iter_rows()),
        *(worded(sentence, tracker.left_out[reason]) for reason, sentence in LEFT_OUT.items() if tracker.left_out[reason]),
        "" if "model" in tracker.key else "Sessions are not confined to a model, so there are no numbers by model.",
        _unknown(highlight, tables["by_model"]) if "model" in tracker.key else "",
        _bounds(scalars),
    ]
    return tuple(sentence for sentence in found if sentence)


def _how(tracker: SessionTracker, rule: Reconstruction | None) -> str:
    if rule is None:
        return "Sessions are the trace's own; what turns have in common is taken from their lengths alone."
    limit = "without a time limit" if rule.max_gap_s is None else f"at most {rule.max_gap_s:g} s before"
    return (
        f"Sessions are reconstructed from lengths alone: a request continues the one, among the last {rule.k} of its "
        f"{' and '.join(tracker.key)} and {limit}, of the same endpoint whose input and output are the most below its own input."
    )


def _judged(truth: str, precision: float | None, recall: float | None, possible: float | None) -> str:
    if precision is None or recall is None or possible is None:
        return ""
    return (
        f"Judged by {_TRUTHS[truth]}, {precision:.1%} of the links found are right, and {recall:.1%} of the true ones are found; "
        f"{possible:.1%} could be."
    )


def _unknown(highlight: Sequence[str], by_model: pl.DataFrame) -> str:
    """What to compare that is not there; a name that was mistyped, mostly."""
    known = set(by_model["model"])
    unknown = [name for name in dict.fromkeys(highlight) if name not in known]
    return f"No session is of {' or of '.join(map(repr, unknown))} (--highlight)." if unknown else ""


def _bounds(scalars: Mapping[str, Scalar]) -> str:
    if scalars["gap_p50_s"] is None:
        return ""
    return (
        f"Quantiles of gaps are within {relative_error(BITS):.3%}, by model within {relative_error(BITS_BY_MODEL):.1%}; all else "
        "is exact."
    )
