"""What a reader of `evolution` must know besides the numbers."""

from __future__ import annotations

from datetime import datetime
from math import ceil, floor
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.analyses.evolution.lengths import LEVELS, NOISE
from llmtrace.analyses.evolution.rotation import turnovers
from llmtrace.summaries import usage
from llmtrace.summaries.histogram import exact_below, relative_error
from llmtrace.summaries.intervals import DAY, microseconds
from llmtrace.summaries.periods import Periods
from llmtrace.wording import counted, either

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.analyses.base import State
    from llmtrace.analyses.evolution.analysis import Evolution
    from llmtrace.analyses.evolution.cohorts import FirstSeen
    from llmtrace.analyses.evolution.grid import Grid
    from llmtrace.summaries.span import Span

__all__ = ["notes"]

MOST_NAMED = 4
"""So many moments are named."""
LEAST_PERCENT = 0.01
DATED_FROM = datetime(1973, 3, 3)
"""Times before are elapsed ones of a relative clock, taken to begin with 1970."""


def notes(
    analysis: Evolution, span: Span, grid: Grid, state: State, seen: FirstSeen, tables: Mapping[str, pl.DataFrame]
) -> tuple[str, ...]:
    """The sentences that apply, the weightiest first."""
    found = [
        _rotating(analysis, span, state),
        *_side_table(analysis, seen, state["users"].height),
        _undated(span, analysis.interval),
        _partial(grid),
        _first(analysis, grid, state),
        _unnamed(state),
        _anonymous(analysis, state),
        _others(tables["model_share"], analysis.top),
        _reference(tables["drift"], grid),
        _noise(tables["drift"]),
        _unsampled(span, tables["tokens_by_month"]),
        _bounds(tables),
    ]
    return tuple(sentence for sentence in found if sentence)


def _rotating(analysis: Evolution, span: Span, state: State) -> str:
    """User ids that were made anew at some moment make new users of old ones."""
    users = state["users"]
    moments = turnovers(users["first_us"].to_numpy(), users["last_us"].to_numpy())
    if not moments.size or span.first is None:
        return ""
    days = [f"{(int(us) - microseconds(span.first)) / DAY.width_us:.1f}" for us in moments]
    after = ", ".join([*days[:MOST_NAMED], *(["..."] if len(days) > MOST_NAMED else [])])
    what = f"Hardly any user id is seen both before and after {after} days from the first request, as if ids were made anew then."
    if analysis.cohorts is not None:
        return (
            f"{what} Cohorts are those of the side table; but where ids change, a user counts twice among the active ones, and "
            "switching breaks off."
        )
    return (
        f"{what} Everybody counts as a new user then: new_users and cohorts are too large, retention and switching break off. "
        "Give a table of when users came first with --cohorts FILE."
    )


def _side_table(analysis: Evolution, seen: FirstSeen, users: int) -> list[str]:
    if analysis.cohorts is None or seen.known is None:
        return []
    source = analysis.cohorts.source
    found = [f"{source} says of {seen.known:,} of {counted(users, 'user')} when they came first; of the others the trace does."]
    if seen.vague:
        found.append(
            f"Of {counted(seen.vague, 'user')} {source} gives a time with parts of several periods: they are taken to have come "
            "at its beginning."
        )
    if seen.late:
        have = counted(seen.late, "user has", "users have")
        found.append(f"{have} requests before the time that {source} gives; these count.")
    return found


def _undated(span: Span, interval: str) -> str:
    """Said of periods of a calendar where there is none."""
    of_calendar = Periods.parse(interval).months or interval.endswith("w")
    if span.first is None or span.first >= DATED_FROM or not of_calendar:
        return ""
    return (
        "The trace has no dates: its periods are those of a clock that begins with 1970, and stand as the time from the first "
        "request to their start, negative where the trace begins within one. --epoch TIME, when the clock stood at zero, gives "
        "real ones."
    )


def _partial(grid: Grid) -> str:
    """Said of the first and the last period; one alone is nothing to compare."""
    if grid.size == 1:
        return "The whole trace lies within one period: there is nothing to compare."
    shares = {name: grid.covered[place] for name, place in (("first", 0), ("last", -1)) if grid.size and grid.partial[place]}
    if not shares:
        return ""
    covered = " and ".join(f"the {name} period to {_rounded_down(share)}" for name, share in shares.items())
    return f"The trace covers {covered} only: counts there are low, and shares are those of a part of it."


def _rounded_down(share: float) -> str:
    """A share that is too small, so that it does not read as one that is not."""
    return f"{floor(100 * share)}%" if share >= LEAST_PERCENT else f"less than {LEAST_PERCENT:.0%}"


def _first(analysis: Evolution, grid: Grid, state: State) -> str:
    if grid.size <= 1 or state["users"].is_empty() or analysis.cohorts is not None:
        return ""
    return "In the first period every user and model counts as new, however long it was there before the trace."


def _unnamed(state: State) -> str:
    requests = int(state["models"]["requests"].sum())
    unnamed = int(state["models"].filter(pl.col("name").is_null())["requests"].sum())
    if not unnamed:
        return ""
    if unnamed == requests:
        return "The trace names no models: model_share, switching and transitions are empty."
    return f"{unnamed:,} of {counted(requests, 'request')} {either(unnamed, 'names', 'name')} no model: among Others."


def _anonymous(analysis: Evolution, state: State) -> str:
    if "users" in analysis.skip:
        return "Users were left out (--skip users): cohorts, retention, switching and transitions are empty."
    requests = int(state["models"]["requests"].sum())
    anonymous = requests - int(state["users"]["requests"].sum())
    if not anonymous:
        return ""
    if anonymous == requests:
        return "The trace names no users: cohorts, retention, switching and transitions are empty."
    return f"{anonymous:,} of {counted(requests, 'request')} {either(anonymous, 'names', 'name')} no user: nobody's."


def _others(shares: pl.DataFrame, top: int) -> str:
    rest, requests = shares.filter(pl.col("rank").is_null()), int(shares["requests"].sum())
    if rest.is_empty() or not requests:
        return ""
    return f"Others are all models but the {top} busiest and have {int(rest['requests'].sum()) / requests:.1%} of all requests."


def _reference(drift: pl.DataFrame, grid: Grid) -> str:
    if drift.is_empty() or grid.size == 1:
        return ""
    if drift["is_reference"].all():
        return "One period alone has lengths: drift has nothing to compare it with."
    if drift.filter("is_reference")["partial"].any():
        return "No whole period has lengths: drift is against the first one that has, of which the trace covers a part."
    if drift.filter(~pl.col("partial"))["is_reference"].all():
        return "One whole period alone has lengths, the reference of drift: input_psi_last and output_psi_last are not known."
    return ""


def _noise(drift: pl.DataFrame) -> str:
    """Said of what looks like drift where periods are too small to tell it from chance."""
    compared = drift.filter(~pl.col("is_reference"))
    loud = compared.filter(pl.col("psi_level") == NOISE, pl.col("psi") >= LEVELS["stable"])
    if loud.is_empty():
        return ""
    whole = drift.filter(~pl.col("partial"))
    last = loud.filter(pl.col("time") == (drift if whole.is_empty() else whole)["time"].max())["column"]
    scalars = " and ".join(f"{column.removesuffix('_tokens')}_psi_last" for column in last)
    among = f", {scalars} among them" if scalars else ""
    return (
        f"{loud.height:,} of {counted(compared.height, 'comparison')} of drift have a psi of {LEVELS['stable']} or more and are "
        f"noise all the same (ks is not above ks_noise){among}: too few requests to tell."
    )


def _unsampled(span: Span, lengths: pl.DataFrame) -> str:
    left = span.requests - int(lengths["requests"].sum())
    if not left:
        return ""
    return (
        f"{left:,} of {counted(span.requests, 'request')} failed or {either(left, 'has', 'have')} no positive input and output "
        "tokens: no length counts them."
    )


def _bounds(tables: Mapping[str, pl.DataFrame]) -> str:
    if not tables["tokens_by_month"]["requests"].sum():
        return ""
    whole, own = (ceil(relative_error(bits) * 100_000) / 1000 for bits in (usage.BITS, usage.USER_BITS))
    return (
        f"Counts and shares are exact. Lengths of periods, drift among them, are exact below {exact_below(usage.BITS):,} tokens "
        f"and within {whole:g}% above; medians of users are so below {exact_below(usage.USER_BITS)} tokens and within {own:g}%."
    )
