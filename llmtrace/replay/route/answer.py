"""What was found by replaying cells, as a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from llmtrace.replay.route.cell import UNLIMITED
from llmtrace.replay.route.definitions import definitions
from llmtrace.replay.route.loop import HIT_TOKENS
from llmtrace.replay.route.measures import Moving, imbalance, load, tradeoff
from llmtrace.replay.route.notes import notes
from llmtrace.replay.route.rules import defaults
from llmtrace.replay.route.search import pareto, recommended
from llmtrace.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.replay.route.cell import Outcome
    from llmtrace.replay.route.gather import Gatherer
    from llmtrace.replay.route.passes import Known
    from llmtrace.replay.route.question import Question
    from llmtrace.result import Scalar

__all__ = ["Found", "answer"]

_SHOWN = ("policy", "token_hit_ratio", "request_hit_ratio", "imbalance_ratio", "replication", "jain", "cv")


class Found(NamedTuple):
    """What was replayed, and what it gave.

    Attributes:
        known: how much there is.
        gatherer: what has gathered the requests.
        ideal: one instance without limit.
        outcomes: the cells; the last is the largest of its policy.
        tried: the cells of a search.
        handed_over: what became of the requests on decode instances.
    """

    known: Known
    gatherer: Gatherer
    ideal: Outcome
    outcomes: Sequence[Outcome]
    tried: Sequence[Outcome]
    handed_over: Outcome | None


def answer(question: Question, found: Found) -> Result:
    """The result."""
    moving = Moving(question.kv_bytes, question.link_gbps, question.speeds.prefill_tokens_per_s)
    largest = found.outcomes[-1].cell
    at_largest = [
        one
        for one in found.outcomes
        if (one.cell.instances, one.cell.capacity_tokens) == (largest.instances, largest.capacity_tokens)
    ]
    compared = tradeoff(at_largest, found.known.extent, moving)
    tables = {
        "tradeoff": tradeoff(found.outcomes, found.known.extent, moving),
        "largest": compared.select(_SHOWN),
        "load": load(at_largest, found.known.extent, to_second=found.gatherer.is_dated),
    }
    scalars = {**_scalars(question, found), **_reference(found, compared), **_handed_over(found, moving)}
    if question.search:
        tables["searched"] = _searched(found, moving, question.tolerance)
        tables["pareto"] = tables["searched"].filter("is_on_front").drop("is_on_front")
        scalars |= _recommendation(tables["searched"])
    return Result(
        command=question.name,
        parameters=question.parameters,
        scalars=scalars,
        tables=tables,
        primary="tradeoff",
        notes=notes(question, found, scalars, compared),
        definitions=definitions(question),
        shown=tuple(name for name in ("largest", "pareto") if name in tables and found.outcomes[1:]),
    )


def _scalars(question: Question, found: Found) -> dict[str, Scalar]:
    extent = found.known.extent
    routed, tokens = extent.requests, extent.input_tokens
    return {
        "requests": found.known.total,
        "routed_requests": routed,
        "policies": len(question.rules),
        "sessions_or_blocks": found.ideal.objects,
        "users": extent.users if found.gatherer.knows_users else None,
        "input_tokens": tokens if routed else None,
        "working_set_tokens": found.ideal.logical_tokens if routed else None,
        "ideal_token_hit_ratio": int(found.ideal.books.counts[HIT_TOKENS]) / tokens if tokens else None,
        "samples": extent.samples,
    }


def _reference(found: Found, compared: pl.DataFrame) -> dict[str, Scalar]:
    """The largest cells: as how many instances of which capacity they have, and who hits most and is most even there."""
    cell = found.outcomes[-1].cell
    best = compared.drop_nulls("token_hit_ratio").sort(
        "token_hit_ratio", "imbalance_ratio", descending=[True, False], nulls_last=True, maintain_order=True
    )
    even = compared.drop_nulls("imbalance_ratio").sort("imbalance_ratio", maintain_order=True)
    return {
        "largest_instances": cell.instances,
        "largest_capacity_tokens": None if cell.capacity_tokens == UNLIMITED else cell.capacity_tokens,
        "best_policy": best["policy"][0] if best.height else None,
        "best_token_hit_ratio": best["token_hit_ratio"][0] if best.height else None,
        "most_even_policy": even["policy"][0] if even.height else None,
        "least_imbalance_ratio": even["imbalance_ratio"][0] if even.height else None,
    }


def _searched(found: Found, moving: Moving, give_up: float) -> pl.DataFrame:
    """A row for each weighting that was tried, by imbalance."""
    usual = defaults("score")
    weights = pl.DataFrame([{**usual, **dict(one.cell.rule.parameters)} for one in found.tried], schema=list(usual))
    tried = pl.concat([tradeoff(found.tried, found.known.extent, moving).select(_SHOWN), weights], how="horizontal")
    ranked = pareto(tried)
    taken = recommended(ranked, give_up)["policy"].to_list()
    return ranked.select(*_SHOWN, "is_on_front", pl.col("policy").is_in(taken).alias("is_recommended"), *usual)


def _recommendation(searched: pl.DataFrame) -> dict[str, Scalar]:
    names = ("policy", "token_hit_ratio", "imbalance_ratio")
    taken = searched.filter("is_recommended")
    best: Scalar = searched["token_hit_ratio"].max()  # type: ignore[assignment]
    return {
        **{f"recommended_{name}": taken[name][0] if taken.height else None for name in names},
        "best_searched_token_hit_ratio": best,
    }


def _handed_over(found: Found, moving: Moving) -> dict[str, Scalar]:
    """What goes from prefill to decode instances, and how even those are; nothing where instances do both."""
    if found.handed_over is None:
        return {}
    outcome, extent = found.handed_over, found.known.handed
    requests, tokens = extent.requests, extent.input_tokens
    unequal = imbalance(outcome.books.rates.sum(axis=0))
    seconds, size = moving.seconds(tokens), moving.bytes(tokens)
    span_s = float(extent.last_us - extent.first_us) / 1e6
    return {
        "decode_instances": outcome.cell.instances,
        "decode_imbalance_ratio": unequal["imbalance_ratio"],
        "decode_jain": unequal["jain"],
        "decode_cv": unequal["cv"],
        "transferred_tokens": tokens,
        "transferred_bytes": size,
        "mean_transfer_s": None if seconds is None or not requests else seconds / requests,
        "links_in_use": None if seconds is None or not span_s else seconds / span_s,
    }
