"""What a reader must know to read the numbers of `latency` rightly."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from llmtrace.analyses.latency import by_load, grids, tables
from llmtrace.analyses.latency.measures import LONGEST_S
from llmtrace.summaries import loads
from llmtrace.summaries.histogram import exact_below, relative_error
from llmtrace.wording import counted, either

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from llmtrace.analyses.base import State
    from llmtrace.analyses.latency.grids import Grid
    from llmtrace.result import Scalar

__all__ = ["notes"]

_OFTEN = 0.5


def notes(
    state: State, closed: Mapping[str, pl.DataFrame], scalars: Mapping[str, Scalar], grid: Grid, standing_out: pl.DataFrame
) -> tuple[str, ...]:
    """Complete sentences, none where there are no requests.

    Args:
        state: that of the whole trace.
        closed: its loads, every second closed.
        scalars: those of the result.
        grid: the one of the tables.
        standing_out: the models of the table `cdf`.
    """
    counts = {**state["requests"].row(0, named=True), **state["left_out"].row(0, named=True)}
    if not counts["requests"]:
        return ()
    found = [
        _absent(counts),
        _streamed(counts, scalars),
        _not_streamed(counts),
        _zero(counts),
        _late(counts),
        _long(counts),
        _unplaced(counts),
        _alone(scalars),
        *(_grid(state, grid, name) for name in grids.GRIDS),
        *(_hexagons(closed, name) for name in by_load.HEXAGONS),
        _missing(standing_out),
        _bounds(counts),
    ]
    return tuple(sentence for sentence in found if sentence)


def _absent(counts: Mapping[str, int]) -> str:
    known = {"ttft_s": "known_ttft", "duration_s": "known_duration", "instance": "known_instance"}
    absent = [name for name, count in known.items() if not counts[count]]
    return f"The trace does not say {', '.join(absent)}: what rests on that is null or left out, not zero." if absent else ""


def _streamed(counts: Mapping[str, int], scalars: Mapping[str, Scalar]) -> str:
    served, timed = counts["requests"] - counts["failed"], scalars["ttft_requests"]
    if not isinstance(timed, int) or not timed or timed == served:
        return ""
    which = f"{timed:,} of {counted(served, 'request')} that did not fail {either(timed, 'has', 'have')} a TTFT"
    return f"{which}, which a server can measure of streamed answers only: every number but those of duration_s is of these."


def _not_streamed(counts: Mapping[str, int]) -> str:
    left = counts["not_streamed"]
    if not left:
        return ""
    one, many = "request has a TTFT though it did", "requests have a TTFT though they did"
    return f"{counted(left, one, many)} not stream. It is left out: the first token came with the last."


def _zero(counts: Mapping[str, int]) -> str:
    names = {"TTFT": counts["zero_ttft"], "duration": counts["zero_duration"]}
    zero = [
        counted(count, f"request has a {name}", f"requests have a {name}") + " of zero" for name, count in names.items() if count
    ]
    return f"{' and '.join(zero)}, which is taken as not measured." if zero else ""


def _late(counts: Mapping[str, int]) -> str:
    late = counts["late_ttft"]
    if not late:
        return ""
    which = counted(late, "request has a TTFT above its duration: it has", "requests have a TTFT above their duration: they have")
    return f"{which} neither decode time nor prefill share."


def _long(counts: Mapping[str, int]) -> str:
    long = counts["too_long"]
    if not long:
        return ""
    which = f"{counted(long, 'request')} took longer than {LONGEST_S:,} s, and {either(long, 'is', 'are')} taken as that"
    return f"{which}. {either(long, 'It has', 'They have')} no decode time."


def _unplaced(counts: Mapping[str, int]) -> str:
    unknown = counts["requests"] - counts["known_instance"]
    if not unknown or not counts["known_instance"]:
        return ""
    which = f"{unknown:,} of {counted(counts['requests'], 'request')} {either(unknown, 'names', 'name')} no instance"
    return f"{which}: {either(unknown, 'it is', 'they are')} in no table on load."


def _alone(scalars: Mapping[str, Scalar]) -> str:
    alone = scalars["alone_ratio"]
    if not isinstance(alone, float) or alone < _OFTEN:
        return ""
    return f"{alone:.1%} of the requests on known instances begin alone in their second: their load is their own tokens."


def _grid(state: State, grid: Grid, name: str) -> str:
    beyond, few = grids.left_out(state["grids"], name)
    reach = f"{grid.input_step * grid.input_bins:,} input or {grid.output_step * grid.output_bins:,} output tokens"
    left = [f"{counted(beyond, 'request')} from {reach} on"] if beyond else []
    left += [f"{counted(few, 'request')} in cells of fewer than {grids.LEAST_REQUESTS}"] if few else []
    return f"{name} leaves out {' and '.join(left)}." if left else ""


def _hexagons(closed: Mapping[str, pl.DataFrame], name: str) -> str:
    few = by_load.left_out(closed, name)
    return f"{name} leaves out {counted(few, 'request')} in hexagons of fewer than {by_load.LEAST_REQUESTS}." if few else ""


def _missing(standing_out: pl.DataFrame) -> str:
    missing = standing_out.filter(standing_out["key"].is_null())["model"].to_list()
    return f"No request goes to {', '.join(map(repr, missing))}." if missing else ""


def _bounds(counts: Mapping[str, int]) -> str:
    if not counts["known_ttft"] and not counts["known_duration"]:
        return ""
    bits = {"overall": tables.BITS, "in cells": grids.BITS, "per model and interval": tables.BITS_BY_MODEL, "by load": loads.BITS}
    within = ", ".join(f"{scope} within {ceil(relative_error(found) * 1e5) / 1e3:g}%" for scope, found in bits.items())
    return f"Percentiles are exact below {exact_below(tables.BITS) / 1e3:g} ms overall and lower elsewhere; above, {within}."
