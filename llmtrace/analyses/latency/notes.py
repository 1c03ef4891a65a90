"""What a reader must know to read the numbers of `latency` rightly."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from llmtrace.analyses.latency import by_load, grids, tables
from llmtrace.analyses.latency.measures import LONGEST_S
from llmtrace.summaries import loads
from llmtrace.summaries.histogram import exact_below, relative_error

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
    counted = {**state["requests"].row(0, named=True), **state["left_out"].row(0, named=True)}
    if not counted["requests"]:
        return ()
    found = [
        _absent(counted),
        _streamed(counted, scalars),
        _not_streamed(counted),
        _zero(counted),
        _late(counted),
        _long(counted),
        _unplaced(counted),
        _alone(scalars),
        *(_grid(state, grid, name) for name in grids.GRIDS),
        *(_hexagons(closed, name) for name in by_load.HEXAGONS),
        _missing(standing_out),
        _bounds(counted),
    ]
    return tuple(sentence for sentence in found if sentence)


def _absent(counted: Mapping[str, int]) -> str:
    known = {"ttft_s": "known_ttft", "duration_s": "known_duration", "instance": "known_instance"}
    absent = [name for name, count in known.items() if not counted[count]]
    return f"The trace does not say {', '.join(absent)}: what rests on that is null or left out, not zero." if absent else ""


def _streamed(counted: Mapping[str, int], scalars: Mapping[str, Scalar]) -> str:
    served, timed = counted["requests"] - counted["failed"], scalars["ttft_requests"]
    if not timed or timed == served:
        return ""
    return (
        f"{timed:,} of {served:,} requests that did not fail have a TTFT, which a server can measure of streamed answers only: "
        "every number but those of duration_s is of these."
    )


def _not_streamed(counted: Mapping[str, int]) -> str:
    if not counted["not_streamed"]:
        return ""
    return (
        f"{counted['not_streamed']:,} requests have a TTFT though they did not stream. It is left out: their first token came "
        "with the last."
    )


def _zero(counted: Mapping[str, int]) -> str:
    found = {"TTFT": counted["zero_ttft"], "duration": counted["zero_duration"]}
    zero = [f"{count:,} requests have a {name} of zero" for name, count in found.items() if count]
    return f"{' and '.join(zero)}, which is taken as not measured." if zero else ""


def _late(counted: Mapping[str, int]) -> str:
    if not counted["late_ttft"]:
        return ""
    return f"{counted['late_ttft']:,} requests have a TTFT above their duration: they have neither decode time nor prefill share."


def _long(counted: Mapping[str, int]) -> str:
    return (
        f"{counted['too_long']:,} requests took longer than {LONGEST_S:,} s, and are taken as that."
        if counted["too_long"]
        else ""
    )


def _unplaced(counted: Mapping[str, int]) -> str:
    unknown = counted["requests"] - counted["known_instance"]
    if not unknown or not counted["known_instance"]:
        return ""
    return f"{unknown:,} of {counted['requests']:,} requests name no instance: they are in no table on load."


def _alone(scalars: Mapping[str, Scalar]) -> str:
    alone = scalars["alone_ratio"]
    if not isinstance(alone, float) or alone < _OFTEN:
        return ""
    return f"{alone:.1%} of the requests on known instances begin alone in their second: their load is their own tokens."


def _grid(state: State, grid: Grid, name: str) -> str:
    beyond, few = grids.left_out(state["grids"], name)
    reach = f"{grid.input_step * grid.input_bins:,} input or {grid.output_step * grid.output_bins:,} output tokens"
    left = [f"{beyond:,} requests from {reach} on"] if beyond else []
    left += [f"{few:,} in cells of fewer than {grids.LEAST_REQUESTS}"] if few else []
    return f"{name} leaves out {' and '.join(left)}." if left else ""


def _hexagons(closed: Mapping[str, pl.DataFrame], name: str) -> str:
    few = by_load.left_out(closed, name)
    return f"{name} leaves out {few:,} requests in hexagons of fewer than {by_load.LEAST_REQUESTS}." if few else ""


def _missing(standing_out: pl.DataFrame) -> str:
    missing = standing_out.filter(standing_out["key"].is_null())["model"].to_list()
    return f"No request goes to {', '.join(map(repr, missing))}." if missing else ""


def _bounds(counted: Mapping[str, int]) -> str:
    if not counted["known_ttft"] and not counted["known_duration"]:
        return ""
    bits = {"overall": tables.BITS, "in cells": grids.BITS, "per model and interval": tables.BITS_BY_MODEL, "by load": loads.BITS}
    within = ", ".join(f"{scope} within {ceil(relative_error(found) * 1e5) / 1e3:g}%" for scope, found in bits.items())
    return f"Percentiles are exact below {exact_below(tables.BITS) / 1e3:g} ms overall and lower elsewhere; above, {within}."
