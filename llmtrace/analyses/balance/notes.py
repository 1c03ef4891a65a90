"""What a reader must know to read the numbers of `balance` rightly."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from llmtrace.analyses.balance.minutes import MOST_INSTANCES, MOST_ROWS
from llmtrace.analyses.balance.models import MOST_MODELS
from llmtrace.analyses.balance.regimes import MOST_USERS
from llmtrace.analyses.latency import by_load
from llmtrace.summaries import loads
from llmtrace.summaries.fleet import LEAST_INSTANCES, LEAST_REQUESTS, MOST_TOKENS
from llmtrace.summaries.histogram import relative_error
from llmtrace.wording import counted, either

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from llmtrace.analyses.balance.analysis import Balance
    from llmtrace.result import Scalar

__all__ = ["notes"]

_FEW = 0.5


def notes(
    analysis: Balance,
    counts: Mapping[str, int],
    scalars: Mapping[str, Scalar],
    tables: Mapping[str, pl.DataFrame],
    closed: Mapping[str, pl.DataFrame],
) -> tuple[str, ...]:
    """Complete sentences, none where there are no requests.

    Args:
        analysis: what was measured.
        counts: of requests.
        scalars: those of the result.
        tables: those of the result.
        closed: the loads of seconds.
    """
    if not counts["requests"]:
        return ()
    found = [
        _unplaced(counts),
        _thin(counts, scalars),
        _keyless(analysis, counts),
        _regimes(analysis, counts, scalars),
        *_left_out(scalars, tables),
        *(_hexagons(closed, name) for name in by_load.HEXAGONS),
        _huge(counts),
        _bounds(counts),
    ]
    return tuple(sentence for sentence in found if sentence)


def _unplaced(counts: Mapping[str, int]) -> str:
    unknown = counts["requests"] - counts["placed"]
    if not unknown:
        return ""
    which = f"{unknown:,} of {counted(counts['requests'], 'request')} {either(unknown, 'names', 'name')} no instance"
    return f"{which}: {either(unknown, 'it counts', 'they count')} nowhere else."


def _thin(counts: Mapping[str, int], scalars: Mapping[str, Scalar]) -> str:
    minutes, valid = scalars["minutes"], scalars["valid_minutes"]
    if not counts["placed"] or not isinstance(minutes, int) or not isinstance(valid, int) or valid >= _FEW * minutes:
        return ""
    need = f"at least {LEAST_INSTANCES} active instances and {LEAST_REQUESTS} requests"
    return (
        f"{valid:,} of {counted(minutes, 'minute')} with requests {either(valid, 'has', 'have')} {need}: the balance is of these."
    )


def _keyless(analysis: Balance, counts: Mapping[str, int]) -> str:
    if "replication" not in analysis.kept or not counts["placed"]:
        return ""
    unknown = counts["placed"] - counts["placed_with_key"]
    if unknown == counts["placed"]:
        other = "session" if analysis.by == "user" else "user"
        return f"No request names a {analysis.by}, so nothing is known of copies; --by {other} takes another key."
    names = either(unknown, "names", "name")
    return f"{counted(unknown, 'request')} on known instances {names} no {analysis.by}: no key has them." if unknown else ""


def _regimes(analysis: Balance, counts: Mapping[str, int], scalars: Mapping[str, Scalar]) -> str:
    if "regimes" not in analysis.kept or scalars["regime_users"] or not counts["placed"]:
        return ""
    if not counts["placed_with_user"]:
        return "No request names a user, so nothing is known of users between instances."
    if not counts["logged"]:
        return "No cached tokens are logged, so nothing is known of hits by instance; that is not to say that there are none."
    need = f"{counted(analysis.min_requests, 'request')} with logged cached tokens"
    return f"No user has {need} in a clock hour: regimes is empty. --min-requests sets another number."


def _left_out(scalars: Mapping[str, Scalar], tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """Tables that would have too many rows, and those that list the first ones only."""
    by = {"load_by_minute": "minutes", "replication_by_window": "windows"}
    rows = {"load_by_minute": scalars["minutes"], "replication_by_window": scalars["windows"]}
    found = [
        f"{name} would have {rows[name]:,} rows, one for each of the {words} with requests: --all-rows gives it."
        for name, words in by.items()
        if tables[name].is_empty() and (rows[name] or 0) > MOST_ROWS  # type: ignore[operator]
    ]
    listed = (
        ("instances", scalars["instances"], MOST_INSTANCES, "tokens"),
        ("by_model", scalars["models"], MOST_MODELS, "tokens"),
        ("regime_users", scalars["regime_users"], MOST_USERS, "requests"),
    )
    found += [
        f"The table {name} lists the {most:,} of {number:,} with most {what}."
        for name, number, most, what in listed
        if isinstance(number, int) and number > most
    ]
    return found


def _hexagons(closed: Mapping[str, pl.DataFrame], name: str) -> str:
    few = by_load.left_out(closed, name)
    return f"{name} leaves out {counted(few, 'request')} in hexagons of fewer than {by_load.LEAST_REQUESTS}." if few else ""


def _huge(counts: Mapping[str, int]) -> str:
    huge, most = counts["huge"], f"{MOST_TOKENS:,} tokens"
    is_taken = either(huge, "is", "are")
    return f"{counted(huge, 'request has', 'requests have')} more than {most} and {is_taken} taken as that." if huge else ""


def _bounds(counts: Mapping[str, int]) -> str:
    if not counts["timed"]:
        return ""
    within = f"{ceil(relative_error(loads.BITS) * 1e5) / 1e3:g}%"
    return (
        f"Latencies by load are within {within}, scattered numbers and means by model within a millionth; all others are exact."
    )
