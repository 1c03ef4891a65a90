"""What a reader of `popularity` must know besides the numbers."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.analyses.popularity.concentration import LEAST
from llmtrace.analyses.popularity.entities import BITS_BY_MODEL
from llmtrace.summaries.histogram import exact_below, relative_error
from llmtrace.summaries.usage import USER_BITS
from llmtrace.wording import counted, either

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.analyses.popularity.concentration import Spread
    from llmtrace.analyses.popularity.entities import Entities

__all__ = ["notes"]

BENT = 0.5
"""Head and tail exponents that differ by more belong to a curve, not to a line."""
FEW = 10
"""Top shares among fewer entities are about these entities, not about a law."""


def notes(entities: Entities, spreads: Sequence[Spread], tables: Mapping[str, pl.DataFrame]) -> tuple[str, ...]:
    """The sentences that apply, the weightiest first; none without requests."""
    if not entities.requests:
        return ()
    found = [
        *(_unknown(entities, frame, what) for frame, what in ((entities.users, "user"), (entities.models, "model"))),
        _listed(entities, tables["users"]),
        _tokens(entities),
        _fits(spreads),
        _bent(spreads),
        _few(entities),
        _bounds(entities),
    ]
    return tuple(sentence for sentence in found if sentence)


def _unknown(entities: Entities, frame: pl.DataFrame, what: str) -> str:
    named = int(frame["requests"].sum())
    if named == entities.requests:
        return ""
    if not named:
        return f"The trace names no {what}: all about {what}s is empty or null, not zero."
    unnamed = entities.requests - named
    return (
        f"{unnamed:,} of {entities.requests:,} requests {either(unnamed, 'names', 'name')} no {what}: shares of {what}s are over "
        f"the {named:,} that do."
    )


def _listed(entities: Entities, users: pl.DataFrame) -> str:
    if users.height == entities.users.height:
        return ""
    return (
        f"The table users lists the {users.height:,} of {entities.users.height:,} users with most requests, --per-user lists "
        "all; every other number is over all users."
    )


def _tokens(entities: Entities) -> str:
    """Said where models or users have no part in what is said about tokens."""
    silent = [
        f"{count:,} of {frame.height:,} {what}s"
        for frame, what in ((entities.models, "model"), (entities.users, "user"))
        if (count := frame["tokens"].null_count())
    ]
    return f"No tokens are known of {' and '.join(silent)}: they have no part in shares of tokens." if silent else ""


def _fits(spreads: Sequence[Spread]) -> str:
    """To which ranks lines are fitted by requests."""
    fitted = [
        f"{one.of}s from rank 1 to {one.fit.last_rank:,} of {one.entities:,}"
        for one in spreads
        if one.by == "requests" and one.fit.last_rank is not None
    ]
    if not fitted:
        return ""
    return (
        f"Zipf exponents by requests are fitted to {' and '.join(fitted)}, those with at least {LEAST} requests, with equal "
        "weight for equal stretches of log rank."
    )


def _bent(spreads: Sequence[Spread]) -> str:
    bent = [
        f"{one.of}s by {one.by} (head {one.fit.head_exponent:.2f}, tail {one.fit.tail_exponent:.2f})"
        for one in spreads
        if one.fit.head_exponent is not None
        and one.fit.tail_exponent is not None
        and abs(one.fit.head_exponent - one.fit.tail_exponent) > BENT
    ]
    return f"One exponent does not describe {', '.join(bent)}: the curve bends." if bent else ""


def _few(entities: Entities) -> str:
    few = [
        counted(frame.height, what)
        for frame, what in ((entities.models, "model"), (entities.users, "user"))
        if 0 < frame.height < FEW
    ]
    if not few:
        return ""
    verb = "is" if few[0].startswith("1 ") else "are"
    return f"There {verb} only {' and '.join(few)}: top shares and Gini coefficients say little about so few."


def _bounds(entities: Entities) -> str:
    """Which medians are not exact, and within what they are."""
    bounds = [
        f"of {what}s within {ceil(relative_error(bits) * 1_000) / 10:g}% from {exact_below(bits):,} tokens up"
        for frame, what, bits in ((entities.models, "model", BITS_BY_MODEL), (entities.users, "user", USER_BITS))
        if _beyond(frame, bits)
    ]
    if not bounds:
        return ""
    return f"Median tokens are exact for small values, {' and '.join(bounds)}."


def _beyond(frame: pl.DataFrame, bits: int) -> bool:
    medians = pl.max_horizontal("median_input_tokens", "median_output_tokens")
    return bool(frame.select((medians >= exact_below(bits)).any()).item())
