"""The figures of `evolution`: models, lengths and users from period to period."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from llmtrace.report import style
from llmtrace.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from llmtrace.result import Result

    Floats = NDArray[np.float64]

__all__ = ["FIGURES", "PARTS"]

BANDS = (("p10", "p90", "#CFE3F1"), ("p25", "p75", "#8FBEDD"))
STACK = (
    *("#08306B", "#6BAED6", "#B2570C", "#FDD49E", "#00441B", "#A1D99B", "#6A1B6B", "#E5B8E0", "#67000D", "#FCAE91"),
    *("#3F3F3F", "#BDBDBD"),
)
"""Colours of stacked models, dark and light in turn, so that neighbours differ in grey too; then from the first on again."""
OTHERS = "#ECECEC"
HATCH = "//////"
"""Over the bars of periods that the trace covers in part."""
MOST_NUMBERS = 14
"""A heat map of so many columns at most has its numbers in it."""
DARK = 0.55
"""From this share of the scale on, the number in a cell is white."""
MOST_NUMBERED, NUMBERED_ONCE, NUMBERED_FROM = 20, 60, 0.075
"""Up to so many stacked bars have a number each, or one a model; and shares have room for it from there on."""
LEVELS = {"moderate": 0.1, "major": 0.25}
LEAST_INDEX, BELOW = 0.3, 0.03
"""How far the axis of the index reaches at least; and how far an axis below the least value, so that marks there are whole."""
MONTHS = {"month": "1mo", "quarter": "3mo", "year": "12mo"}
MOST_LABELS, MOST_UPRIGHT, NUMBER_PT = 24, 2, 5.0
MONTH_LENGTH = 8
"""How long the name of a month is, with the mark of a partial one."""
LEGEND_IN = 0.9
"""What the names of models may take of the height of a figure; for more of them it is higher."""
DAY_S = 86_400
WORDS = {"month": "month", "quarter": "quarter", "year": "year", "1w": "week", "1d": "day", "1h": "hour", "1m": "minute"}


def model_mix(result: Result) -> Figure:
    """The share of each of the busiest models in requests and in tokens, period by period (Figure 10 of the paper)."""
    table = _table(result, "model_share", "the trace names no models")
    has_tokens = table["tokens_ratio"].null_count() < table.height
    remark = _partial(table, "hatched")
    drawing, panels = style.figure(result, panels=2 if has_tokens else 1, panel_in=1.5 if has_tokens else 2.0, remark=remark)
    edges = style.time_axis(panels[-1], _edges(result, table["time"].unique(maintain_order=True)))
    places, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    handles: list[Artist] = []
    for axes, column in zip(panels, ("requests_ratio", "tokens_ratio"), strict=False):
        handles = _stacked(axes, places, widths, table, column)
        style.share_axis(axes, f"Share of {column.removesuffix('_ratio')}")
        axes.grid(visible=False, axis="x")
        axes.set_xlim(edges[0], edges[-1])
    labels = style.names([model or "" for model in table["model"].unique(maintain_order=True)])
    ranks = table.unique("model", maintain_order=True)["rank"]
    numbered = [label if rank is None else f"{rank} {label}" for rank, label in zip(ranks, labels, strict=True)]
    style.legend(drawing, handles, numbered)
    for legend in drawing.legends:
        more_in = legend.get_window_extent().height / drawing.dpi - LEGEND_IN
        drawing.set_figheight(drawing.get_figheight() + max(0, more_in))
    return drawing


def tokens(result: Result) -> Figure:
    """Percentiles of input and output tokens, period by period (Figure 11)."""
    table = _table(result, "tokens_by_month", "no request has input and output tokens").filter(pl.col("requests") > 0)
    if table.is_empty():
        raise style.NoDataError("no request has input and output tokens")
    return _bands(result, table, "per request", logarithmic=True)


def cohorts(result: Result) -> Figure:
    """The median lengths of users by the period in which they came first, as bands over users (Figure 12)."""
    table = _table(result, "cohorts", "the trace names no users").filter(pl.col("eligible_users") > 0)
    if table.is_empty():
        raise style.NoDataError("no user has more than 10 requests and medians above one token")
    drawing = _bands(result, table, "of a user (median)", logarithmic=False)
    label = drawing.axes[-1].get_xlabel()
    drawing.axes[-1].set_xlabel(
        label.replace("Time since", "User's first request, since the").replace("Time", "User's first request"),
        # In the middle it would run into a date in the right corner, which a cohort alone does not have.
        loc="left" if table.height > 1 else "center",
    )
    return drawing


def active(result: Result) -> Figure:
    """Models and users that are active in each period, and those of them that are new."""
    table = _table(result, "active", "there are no requests")
    if table.height == 1:
        raise style.NoDataError("there is one period only")
    columns = [name for name in ("models", "users") if table[name].null_count() < table.height]
    if not columns:
        raise style.NoDataError("the trace names neither models nor users")
    panel_in = 1.35 if len(columns) > 1 else 1.9
    drawing, panels = style.figure(result, panels=len(columns), panel_in=panel_in, remark=_partial(table))
    times = style.time_axis(panels[-1], table["time"])
    lines: list[Artist] = []
    for axes, name in zip(panels, columns, strict=True):
        lines = [
            _marked(axes, times, table[column], table["partial"], look)
            for column, look in zip((name, f"new_{name}"), style.LINES, strict=False)
        ]
        style.count_axis(axes, f"Active {name}\n{_per(result)}")
        _room_below(axes, 0)
    style.legend(drawing, lines, ["all", "new"])
    return drawing


def retention(result: Result) -> Figure:
    """The share of each cohort's users that are active in each period from their own on."""
    whole = _table(result, "retention", "the trace names no users")
    table = whole.filter(pl.col("age") > 0)
    if table["retained_ratio"].count() == 0:
        raise style.NoDataError("no user can come back in another period")
    rows, columns = (table[name].unique().sort() for name in ("cohort_time", "time"))
    grid = np.full((rows.len(), columns.len()), np.nan)
    grid[rows.search_sorted(table["cohort_time"]), columns.search_sorted(table["time"])] = table["retained_ratio"].to_numpy()
    partial = {*whole.filter("partial")["time"]} & {*rows, *columns}
    remark = f"*: {counted(len(partial), 'partial period')}" if partial else ""
    called = [[f"{label}*" if time in partial else label for time, label in _labels(result, times)] for times in (rows, columns)]
    # Labels of columns stand upright, below the map: those longer than of months would take from its height.
    more_in = style.LETTER_PT / 72 * max(0, max(map(len, called[1])) - MONTH_LENGTH)
    drawing, (axes,) = style.figure(result, panel_in=min(max(1.7, 1.3 + 0.14 * rows.len()), 3.0) + more_in, remark=remark)
    _heat_map(axes, grid, called[0], called[1], "Users that are active (%)")
    axes.set_ylabel("First request")
    axes.set_xlabel("Active")
    return drawing


def switching(result: Result) -> Figure:
    """The share of users with another main model than in the period before."""
    table = _table(result, "switching", "there is one period only").filter(pl.col("users") > 0)
    if table.is_empty():
        raise style.NoDataError("no user with a known model is active in two periods that follow each other")
    if table.height == 1:
        raise style.NoDataError("there is one pair of such periods only, of which switched_ratio is the number")
    remark = _partial(table, of=("pair with a partial period", "pairs with a partial period"))
    drawing, (axes,) = style.figure(result, remark=remark)
    times = style.time_axis(axes, table["time"])
    _marked(axes, times, table["switched_ratio"], table["partial"], style.LINES[0])
    style.share_axis(axes, "Share of users with\nanother main model")
    _room_below(axes, 0)
    return drawing


def transitions(result: Result) -> Figure:
    """From which main model to which one users turn, from a period to the next."""
    table = _table(result, "transitions", "no user with a known model is active in two periods that follow each other")
    ranks = dict(_table(result, "model_share", "").select("model", "rank").unique(maintain_order=True).iter_rows())
    called = [model for model in ranks if model in {*table["from_model"], *table["to_model"]}]
    grid = np.zeros((len(called), len(called)))
    for before, after, ratio in table.select("from_model", "to_model", "users_ratio").iter_rows():
        grid[called.index(before), called.index(after)] += ratio
    drawing, (axes,) = style.figure(result, panel_in=min(1.7 + 0.1 * len(called), 3.4))
    # Names beside the rows alone: below the columns too they would leave the map no room.
    numbers = [str(ranks[model] or model) for model in called]
    rows = [f"{name}  {ranks[model]}" if ranks[model] else name for model, name in zip(called, style.names(called), strict=True)]
    _heat_map(axes, np.where(grid.sum(axis=1, keepdims=True) > 0, grid, np.nan), rows, numbers, "Users with the model (%)")
    axes.set_ylabel("Main model in a period")
    axes.set_xlabel("In the next one")
    return drawing


def drift(result: Result) -> Figure:
    """How far the lengths of a period's requests are from those of the reference: population stability index and mean factor."""
    table = _table(result, "drift", "no request has input and output tokens")
    if table["is_reference"].all():
        raise style.NoDataError("one period alone has lengths: there is nothing to compare it with")
    levels = ", ".join(f"{name} from {level}" for name, level in LEVELS.items())
    noise = table.filter(pl.col("psi_level") == "noise").height
    within = f"; {noise:,} of {counted(table.filter(~pl.col('is_reference')).height, 'point')} are noise" if noise else ""
    remark = f"vertical: {_reference(table)}, which others are compared with; dashed: {levels}{within}"
    remarks = [remark, *filter(None, [_partial(table)])]
    drawing, panels = style.figure(result, panels=2, panel_in=1.35, remark="; ".join(remarks))
    lines: list[Artist] = []
    for side, look in zip(("input", "output"), style.LINES, strict=False):
        own = table.filter(pl.col("column") == f"{side}_tokens").with_columns(factor=10 ** pl.col("wasserstein_log10"))
        times = style.time_axis(panels[-1], own["time"])
        for axes, column in zip(panels, ("psi", "factor"), strict=True):
            line = _marked(axes, times, own[column], own["partial"], look)
            axes.axvline(times[own["is_reference"].to_numpy()][0], color="#999999", linewidth=0.6, zorder=1)
        lines.append(line)
    panels[0].set_ylim(top=1.1 * max(float(table["psi"].to_numpy().max()), LEAST_INDEX))
    _room_below(panels[0], 0)
    panels[0].set_ylabel("Population\nstability index")
    for level in LEVELS.values():
        panels[0].axhline(level, color="#999999", linewidth=0.6, linestyle=(0, (3, 2)), zorder=1)
    _room_below(panels[1], 1)
    panels[1].set_ylabel("Mean factor\nbetween ranks")
    style.legend(drawing, lines, ["input tokens", "output tokens"])
    return drawing


FIGURES: Mapping[str, Callable[[Result], Figure]] = {
    "model_mix": model_mix,
    "tokens": tokens,
    "cohorts": cohorts,
    "active": active,
    "retention": retention,
    "switching": switching,
    "transitions": transitions,
    "drift": drift,
}
PARTS: Mapping[str, str] = dict.fromkeys(("cohorts", "retention", "switching", "transitions"), "users")


def _table(result: Result, name: str, reason: str) -> pl.DataFrame:
    """A table of the result.

    Raises:
        NoDataError: if it is empty; with the reason.
    """
    table = result.tables.get(name, pl.DataFrame())
    if table.is_empty():
        raise style.NoDataError(reason)
    return table


def _partial(table: pl.DataFrame, mark: str = "hollow", of: tuple[str, str] = ("partial period", "partial periods")) -> str:
    """What marks the periods drawn that are covered in part, and how many these are; empty without any."""
    partial = table.filter("partial")["time"].n_unique()
    return f"{mark}: {counted(partial, *of)}" if partial else ""


def _per(result: Result) -> str:
    """`per month`, `per day`, `per 6h`."""
    interval = str(result.scalars.get("interval"))
    return f"per {WORDS.get(interval, interval)}"


def _edges(result: Result, starts: pl.Series) -> pl.Series:
    """Where periods begin, and where the last of them ends; on a relative clock, which has no months, within three days."""
    interval, is_relative = str(result.scalars.get("interval")), starts.dtype.is_numeric()
    moments = ((starts * 1e6).cast(pl.Int64) if is_relative else starts).cast(pl.Datetime("us"))
    edges = pl.concat([moments, moments[-1:].dt.offset_by(MONTHS.get(interval, interval))])
    return edges.to_physical() / 1e6 if is_relative else edges


def _stacked(axes: Axes, places: Floats, widths: Floats, table: pl.DataFrame, column: str) -> list[Artist]:
    """Stack the shares of models, the busiest at the bottom; a handle of each for the legend."""
    from matplotlib.patches import Patch

    partial = table.group_by("time", maintain_order=True).agg(pl.col("partial").first())["partial"].to_numpy()
    models = table.group_by("rank", "model", maintain_order=True).agg(pl.col(column).fill_null(0))
    bottom = np.zeros(places.size)
    handles: list[Artist] = []
    edge = {"edgecolor": "white", "linewidth": 0.4} if places.size <= style.MARKED_UP_TO else {"linewidth": 0}
    for number, (rank, _, shares) in enumerate(models.iter_rows()):
        color = OTHERS if rank is None else STACK[number % len(STACK)]
        axes.bar(places, shares, widths, bottom, color=color, **edge)
        if rank is not None:
            _number(axes, places, bottom, np.where(partial, 0, shares), rank)
        bottom += np.array(shares)
        handles.append(Patch(facecolor=color, edgecolor="#999999", linewidth=0.3))
    axes.bar(places[partial], bottom[partial], widths[partial], fill=False, hatch=HATCH, edgecolor="#FFFFFF", linewidth=0)
    return handles


def _number(axes: Axes, places: Floats, bottom: Floats, shares: Floats, rank: int) -> None:
    """Write the rank of a model into its bars that have room for it; where bars are narrow, into the highest alone."""
    if places.size > NUMBERED_ONCE:
        return
    shown = np.arange(places.size) if places.size <= MOST_NUMBERED else np.array([shares.argmax()])
    color = "white" if (rank - 1) % 2 == 0 else "#222222"
    for place in shown[shares[shown] >= NUMBERED_FROM]:
        middle = places[place], bottom[place] + shares[place] / 2
        axes.text(*middle, str(rank), color=color, ha="center", va="center", fontsize=NUMBER_PT)


def _bands(result: Result, table: pl.DataFrame, of: str, *, logarithmic: bool) -> Figure:
    """Input above, output below: the median as a line, and bands around it."""
    from matplotlib.patches import Patch

    drawing, panels = style.figure(result, panels=2, panel_in=1.35, remark=_partial(table))
    times = places = style.time_axis(panels[-1], table["time"] if table.height > 1 else _edges(result, table["time"]))
    if table.height == 1:
        # A period alone fills the axis, as there is no other one between which and it bands could reach.
        panels[-1].set_xlim(*places)
        times = places.mean(keepdims=True)
        if not table["time"].dtype.is_numeric():
            panels[-1].set_xticks(times, [table["time"][0].strftime(_form(result, "%Y-"))])
    for axes, side in zip(panels, ("input", "output"), strict=True):
        for low, high, color in BANDS:
            edges = (table[f"{percent}_{side}_tokens"].to_numpy() for percent in (low, high))
            bottom, top = (np.repeat(edge, places.size // times.size) for edge in edges)
            axes.fill_between(places, bottom, top, color=color, linewidth=0)
        line = _marked(axes, times, table[f"p50_{side}_tokens"], table["partial"], (style.LINES[0][0], "-", "o"))
        label = f"{side.capitalize()} tokens\n{of}"
        if logarithmic:
            style.log_axis(axes, label, prefixes=True, vertical=True)
        else:
            style.count_axis(axes, label)
    patches = [Patch(color=color, linewidth=0) for _, _, color in reversed(BANDS)]
    style.legend(drawing, [line, *patches], ["median", "p25 to p75", "p10 to p90"])
    return drawing


def _marked(axes: Axes, times: Floats, values: pl.Series, partial: pl.Series, look: tuple[str, Any, str]) -> Artist:
    """A line with a mark at each period while there are few; hollow, and always there, where the period is covered in part."""
    color, _, marker = look
    line, hollow = style.line(axes, times, values, look), partial.to_numpy()
    axes.plot(times[hollow], values.cast(pl.Float64).to_numpy()[hollow], marker, color=color, markerfacecolor="white")
    return line


def _room_below(axes: Axes, least: float) -> None:
    """Let the y axis begin a little below the least value that there can be, so that what lies there is seen."""
    axes.set_ylim(bottom=least - BELOW * (axes.get_ylim()[1] - least))


def _labels(result: Result, times: pl.Series) -> list[tuple[object, str]]:
    """Periods, and what to call each in short: a month, day or time; on a relative clock the days from the first request."""
    if times.dtype.is_numeric():
        return [(time, f"{time / DAY_S:.3g} d") for time in times]
    return list(zip(times, times.dt.strftime(_form(result)), strict=True))


def _form(result: Result, year: str = "") -> str:
    """How the start of a period is written: a month always with its year, any other as `year` says, to what it is exact to."""
    interval = str(result.scalars.get("interval"))
    if interval in MONTHS:
        return "%Y-%m"
    return f"{year}%m-%d" + {"d": "", "w": "", "s": " %H:%M:%S"}.get(interval[-1], " %H:%M")


def _heat_map(axes: Axes, grid: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str], label: str) -> None:
    """Shares as cells from white to dark blue, with their numbers while these fit; NaN is no cell."""
    percent = 100 * grid
    top = float(np.nanmax(percent)) or 1.0
    mesh = axes.pcolormesh(percent, cmap="Blues", vmin=0, vmax=top, rasterized=True)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    step_down, step_across = (max(1, -(-len(names) // MOST_LABELS)) for names in (rows, columns))
    axes.set_yticks(np.arange(0, len(rows), step_down) + 0.5, rows[::step_down])
    axes.set_xticks(np.arange(0, len(columns), step_across) + 0.5, columns[::step_across])
    for tick in axes.get_xticklabels():
        tick.set_rotation(90 if len(tick.get_text()) > MOST_UPRIGHT else 0)
    if len(columns) <= MOST_NUMBERS:
        for row, column in zip(*np.nonzero(~np.isnan(percent)), strict=True):
            share = percent[row, column]
            color = "white" if share > DARK * top else "#222222"
            axes.text(column + 0.5, row + 0.5, f"{share:.0f}", color=color, ha="center", va="center", fontsize=NUMBER_PT)
    style.color_bar(axes, mesh, label, clipped=False)


def _reference(table: pl.DataFrame) -> str:
    """The period that others are compared with, in words."""
    return "the first period" if table.filter("is_reference")["partial"].any() else "the first whole period"
