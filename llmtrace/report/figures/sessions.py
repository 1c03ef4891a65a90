"""The figures of `sessions`: how long sessions are, what their turns have in common, and how much depends on the rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.report import style, ticks
from llmtrace.report.units import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from llmtrace.result import Result

__all__ = ["FIGURES"]

ENOUGH = 30
"""Requests that a turn needs for its means to be drawn."""
BEYOND = 8.0
"""How many times the longest limit "no limit" stands to the right of it."""
NOTHING = "no request belongs to a session"
MEASURES = {
    "precision": "precision of links",
    "recall": "recall of links",
    "structural_reuse": "structural reuse",
    "single_turn_share": "sessions of one turn",
}


def lengths(result: Result) -> Figure:
    """The share of sessions of at least so many turns, of all and of the models to compare."""
    table, models = _known(result, "lengths", NOTHING), result.tables.get("lengths_by_model", pl.DataFrame())
    drawing, (axes,) = style.figure(result)
    lines, names = _of_models(axes, models, "turns", "at_least_ratio")
    lines.append(style.line(axes, table["turns"].to_numpy(), table["at_least_ratio"], style.OVERALL))
    _turn_axis(axes, "Turns of a session", int(table["turns"][-1]))
    style.log_share_axis(axes, "Share of sessions with\nat least so many turns")
    style.legend(drawing, lines, [*names, "all models" if names else "all"])
    return drawing


def gaps(result: Result) -> Figure:
    """The gaps between turns, of all and of the models to compare, and the reuse that is left if prefixes are kept so long."""
    table, models = _known(result, "gaps", "no request continues another"), result.tables.get("gaps_by_model", pl.DataFrame())
    drawing, (above, below) = style.figure(result, panels=2, panel_in=1.45)
    lines, names = _of_models(above, models, "gap_s", "cumulative_ratio")
    times = table["gap_s"].to_numpy()
    lines.append(style.line(above, times, table["covered_ratio"], style.OVERALL))
    style.share_axis(above, "Share of gaps")
    style.line(below, times, table["structural_reuse"], style.OVERALL)
    style.share_axis(below, "Input reused if\nkept so long")
    style.log_axis(below, "Gap between turns", prefixes=False)
    below.set_xlim(float(times[0]), max(float(times[-1]), 2 * float(times[0])))
    ticks.of_durations(below.xaxis, *below.get_xlim())
    style.legend(drawing, lines, [*names, "all models" if names else "all"])
    return drawing


def turns(result: Result) -> Figure:
    """How many requests there are at every turn, and their mean input and what of it is prefix."""
    table = _known(result, "turns", NOTHING)
    shown = table.filter(pl.col("requests") >= ENOUGH)
    left_out = table.height - shown.height
    remark = f"means of turns with at least {ENOUGH} requests" if left_out and shown.height else ""
    drawing, (above, below) = style.figure(result, panels=2, panel_in=1.45, remark=remark)
    lines = [style.line(above, table["turn"].to_numpy() + 1.0, table["requests"], style.OVERALL)]
    style.log_axis(above, "Requests", prefixes=True, vertical=True, whole=True)
    some = shown if shown.height else table
    for place, column in enumerate(("mean_input_tokens", "mean_prefix_tokens")):
        lines.append(style.line(below, some["turn"].to_numpy() + 1.0, some[column], style.LINES[place]))
    style.count_axis(below, "Mean tokens")
    _turn_axis(below, "Turn, the first being 1", table.height)
    style.legend(drawing, lines, ["requests", "mean input", "mean prefix"])
    return drawing


def by_model(result: Result) -> Figure:
    """Each model by its requests and by the share of its input that is prefix."""
    table = _known(result, "by_model", "sessions are not told apart by model")
    drawing, (axes,) = style.figure(result)
    style.dots(axes, table["requests"].to_numpy(), table["structural_reuse"])
    style.log_axis(axes, "Requests to a model", prefixes=True, whole=True)
    style.share_axis(axes, "Structural reuse of a model")
    return drawing


def sensitivity_k(result: Result) -> Figure:
    """What comes out if more or fewer of the last requests are looked at."""
    table = _varied(result, "k")
    drawing, (axes,) = style.figure(result)
    _measures(drawing, axes, table["k"].to_numpy().astype(np.float64), table)
    style.log_axis(axes, "Requests of a key that can be continued (K)", prefixes=False)
    axes.set_xticks(table["k"].to_list(), [str(k) for k in table["k"]])
    axes.set_xticks([], minor=True)
    return drawing


def sensitivity_max_gap(result: Result) -> Figure:
    """What comes out under time limits between a request and the one that it continues."""
    table = _varied(result, "max_gap_s")
    longest = table["max_gap_s"].max()
    beyond = BEYOND * longest if isinstance(longest, float) else 1.0
    places = table["max_gap_s"].fill_null(beyond).to_numpy()
    drawing, (axes,) = style.figure(result)
    _measures(drawing, axes, places, table)
    style.log_axis(axes, "Time limit between turns", prefixes=False)
    words = ["none" if gap is None else duration(gap).replace(" ", "\n", 1) for gap in table["max_gap_s"]]
    axes.set_xticks(places.tolist(), words)
    axes.set_xticks([], minor=True)
    return drawing


FIGURES: Mapping[str, Callable[[Result], Figure]] = {
    "lengths": lengths,
    "gaps": gaps,
    "turns": turns,
    "by_model": by_model,
    "sensitivity_k": sensitivity_k,
    "sensitivity_max_gap": sensitivity_max_gap,
}


def _known(result: Result, name: str, reason: str) -> pl.DataFrame:
    """A table that has rows.

    Raises:
        NoDataError: if it has none.
    """
    table = result.tables.get(name, pl.DataFrame())
    if table.is_empty():
        raise style.NoDataError(reason)
    return table


def _varied(result: Result, parameter: str) -> pl.DataFrame:
    tried = result.tables.get("sensitivity", pl.DataFrame())
    if tried.is_empty():
        raise style.NotAskedError("it takes --sensitivity")
    table = tried.filter(pl.col("varied") == parameter)
    if not table["sessions"].sum():
        raise style.NoDataError(NOTHING)
    return table


def _measures(drawing: Figure, axes: Axes, places: np.ndarray[tuple[int], np.dtype[np.float64]], table: pl.DataFrame) -> None:
    """A line for every measure that is known."""
    known = [name for name in MEASURES if table[name].null_count() < table.height]
    lines = [style.line(axes, places, table[name], style.LINES[list(MEASURES).index(name)]) for name in known]
    style.share_axis(axes, "Share")
    style.legend(drawing, lines, [MEASURES[name] for name in known])


def _of_models(axes: Axes, table: pl.DataFrame, x: str, y: str) -> tuple[list[Line2D], list[str]]:
    """A line for each model of a table, if it has any; and how they are called."""
    if table.is_empty():
        return [], []
    groups: Sequence[pl.DataFrame] = table.partition_by("model", maintain_order=True)
    looks = style.LINES[: len(groups)]
    lines = [style.line(axes, one[x].to_numpy(), one[y], look, marked=True) for one, look in zip(groups, looks, strict=False)]
    return lines, style.names([one["model"][0] for one in groups])[: len(lines)]


def _turn_axis(axes: Axes, label: str, most: int) -> None:
    style.log_axis(axes, label, prefixes=False, whole=True)
    limits = 0.9, max(2.0, 1.1 * most)
    axes.set_xlim(*limits)
