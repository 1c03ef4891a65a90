"""The figures of `balance`: load over time and over instances, copies by load, hits by instance, latency by load."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from llmtrace.report import style, ticks
from llmtrace.report.figures.latency import load_decode, load_ttft
from llmtrace.report.units import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    from llmtrace.result import Result

    Integers = np.ndarray[tuple[int], np.dtype[np.int64]]

__all__ = ["FIGURES", "PARTS"]

DAY_MINUTES = 1_440
FOUND, SCATTERED = style.LINES[0], style.OVERALL
SHARE, HIT = "#9CA3AF", "#D55E00"
COLORS, LIGHTEST = "YlOrRd", 0.2
"""The colours of a heat map, without those that are too light to tell from white."""
SPARSE, STROKE_PT = 0.1, 0.6
"""Where less than this share of the cells of a heat map is filled, they are drawn so wide, which is four minutes."""
LEAST_SPREAD = 1
"""A scale of colours reaches over so many requests at least, so that it has two numbers."""
MOST_BARS = 40
HEADROOM = 1.06


def load(result: Result) -> Figure:
    """Requests per hour, active instances, and how uneven their load is (Figure 17 a to c of the paper)."""
    table = result.tables.get("load", pl.DataFrame())
    if table.is_empty():
        raise style.NoDataError("no request names an instance")
    balanced = bool(table["max_mean"].is_not_null().any())
    least = result.parameters["least_instances"], result.parameters["least_requests"]
    remark = f"max / mean: minutes of ≥ {least[0]} instances and ≥ {least[1]} requests"
    drawing, panels = style.figure(result, panels=3 if balanced else 2, panel_in=1.1, remark=remark if balanced else "")
    times = style.time_axis(panels[-1], table["time"])
    style.line(panels[0], times, table["requests"], style.LINES[0])
    style.dots(panels[1], times, table["instances"])
    for axes, column, label in zip(panels, ("requests", "instances"), ("Requests\nper hour", "Active\ninstances"), strict=False):
        axes.set_ylim(0, HEADROOM * float(table[column].max()))  # type: ignore[arg-type]
        style.count_axis(axes, label)
    if balanced:
        style.dots(panels[2], times, table["max_mean"])
        panels[2].set_ylabel("Max / mean load\nof instances")
        panels[2].set_ylim(bottom=0.98)
    return drawing


def heat_map(result: Result) -> Figure:
    """Requests per instance and minute in the busiest 24 hours, instances by first request (Figure 17d)."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator

    table = result.tables.get("heat_map", pl.DataFrame())
    if table.is_empty():
        raise style.NoDataError("no request names an instance, or nothing was asked for that shows it")
    low, high = (float(result.scalars[f"heat_map_p{percent}_requests"] or 1) for percent in (5, 99))  # type: ignore[arg-type]
    remark = "instances by first request; white: none, colours from p5 to p99 of the other cells"
    drawing, (axes,) = style.figure(result, panel_in=2.3, remark=remark)
    # Requests are whole, percentiles of few cells are not.
    low, high = math.floor(low), math.ceil(high)
    norm = LogNorm(low, max(high, low + LEAST_SPREAD), clip=True)
    rows = int(table["row"].max())  # type: ignore[arg-type]
    mesh = _cells(axes, rows, table["row"].to_numpy(), _minutes(result, table), table["requests"].to_numpy(), norm)
    axes.set_xlim(0, DAY_MINUTES / 60)
    axes.set_ylim(0.5, rows + 0.5)
    axes.invert_yaxis()
    axes.set_xticks(range(0, 25, 4))
    axes.set_xlabel(f"Hours from {_start(result)} on")
    axes.set_ylabel("Instance")
    axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    axes.grid(visible=False)
    _color_bar(axes, mesh, clipped=bool(table["requests"].max() > norm.vmax))  # type: ignore[operator]
    return drawing


def replication_by_model_load(result: Result) -> Figure:
    """Instances that serve a key, and how often its context is held, by the load of the model."""
    return _replication(result, "model", "Load of the model (tokens/s)")


def replication_by_instance_load(result: Result) -> Figure:
    """The same by the load of the model's mean active instance."""
    return _replication(result, "instance", "Load of the mean active instance (tokens/s)")


def regimes(result: Result) -> Figure:
    """The busiest hour of two users, instance by instance: share of requests, and token hit ratio there (Figure 19)."""
    from matplotlib.ticker import MaxNLocator

    table = result.tables.get("regimes", pl.DataFrame())
    if table.is_empty():
        raise style.NoDataError("no user has enough requests in an hour and a high token hit ratio")
    picks = table["pick"].unique(maintain_order=True).to_list()
    remark = f"users with ≥ {result.parameters['min_requests']} requests in an hour; dashed: high and low tier"
    drawing, panels = style.figure(result, panels=len(picks), panel_in=1.35 if len(picks) > 1 else 1.7, remark=remark)
    for axes, pick in zip(panels, picks, strict=True):
        rows = table.filter(pl.col("pick") == pick)
        bars = _bars(axes, rows.filter(_shown(rows)))
        axes.set_title(_title(rows), loc="left", pad=2)
        for tier in ("high_at", "low_at"):
            axes.axhline(result.parameters[tier], color="#555555", linewidth=0.5, linestyle="--")
    most = min(MOST_BARS, max(table.filter(pl.col("pick") == pick).height for pick in picks))
    panels[-1].set_xlim(0.4, most + 0.6)
    panels[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    panels[-1].set_xlabel("Instance, by first request")
    style.legend(drawing, bars, ["share of the user's requests", "token hit ratio"])
    return drawing


FIGURES: Mapping[str, Callable[[Result], Figure]] = {
    "load": load,
    "heat_map": heat_map,
    "replication_by_model_load": replication_by_model_load,
    "replication_by_instance_load": replication_by_instance_load,
    "load_ttft": load_ttft,
    "load_decode": load_decode,
    "regimes": regimes,
}
PARTS: Mapping[str, str] = {
    "replication_by_model_load": "replication",
    "replication_by_instance_load": "replication",
    "load_ttft": "latency",
    "load_decode": "latency",
    "regimes": "regimes",
}


def _cells(axes: Axes, height: int, rows: Integers, minutes: Integers, requests: Integers, norm: LogNorm) -> ScalarMappable:
    """A cell for each instance and minute; where few are filled each is a stroke wide enough to be seen, busier ones above."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection
    from matplotlib.colors import ListedColormap

    colors = ListedColormap(colormaps[COLORS](np.linspace(LIGHTEST, 1, 256)))
    if requests.size < SPARSE * height * DAY_MINUTES:
        order = np.argsort(requests, kind="stable")
        x, y = (minutes[order] + 0.5) / 60, rows[order]
        strokes = np.stack([np.stack([x, y - 0.5], axis=1), np.stack([x, y + 0.5], axis=1)], axis=1)
        lines = LineCollection(
            list(strokes), array=requests[order], cmap=colors, norm=norm, linewidths=STROKE_PT, capstyle="butt"
        )
        lines.set_rasterized(True)
        axes.add_collection(lines)
        return lines
    cells = np.full((height, DAY_MINUTES), np.nan)
    cells[rows - 1, minutes] = requests
    hours = np.arange(DAY_MINUTES + 1) / 60
    return axes.pcolormesh(hours, np.arange(height + 1) + 0.5, cells, cmap=colors, norm=norm, rasterized=True)


def _color_bar(axes: Axes, mesh: ScalarMappable, *, clipped: bool) -> None:
    """The scale of the colours, pointed where some cells lie beyond its end."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    bar = axes.figure.colorbar(mesh, ax=axes, extend="max" if clipped else "neither", pad=0.02)
    bar.set_label("Requests per minute")
    bar.outline.set_visible(False)
    bar.ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    ticks.of_powers(bar.ax.yaxis, whole=True)


def _start(result: Result) -> str:
    """When the day of the heat map begins, in words."""
    start = result.scalars["busiest_day_time"]
    return duration(start) if isinstance(start, (int, float)) else f"{start:%Y-%m-%d %H:%M} UTC"


def _minutes(result: Result, table: pl.DataFrame) -> Integers:
    """The minute of the day of each row."""
    start = result.scalars["busiest_day_time"]
    since = table["time"] - start
    minutes = since / 60 if table["time"].dtype.is_numeric() else since.dt.total_microseconds() / 60e6
    found: Integers = minutes.round().cast(pl.Int64).to_numpy()
    return found


def _replication(result: Result, of: str, label: str) -> Figure:
    """Three panels over one axis of loads, what was found against requests scattered over the instances of their model."""
    table = result.tables.get("replication_by_load", pl.DataFrame({"load_of": []}, {"load_of": pl.String}))
    table = table.filter(pl.col("load_of") == of)
    if table.height:
        enough = pl.col("keys") >= result.parameters["least_keys"]
        table = table.filter(enough, pl.col("load_from_tokens_per_s") > 0, pl.col("load_to_tokens_per_s").is_not_null())
    if table.is_empty():
        raise style.NoDataError("no band of loads has enough keys on known instances")
    window, by = result.parameters["window"], result.parameters["by"]
    remark = f"a key: a {by} with a model, in a window of {window}; bands of ≥ {result.parameters['least_keys']} keys"
    drawing, panels = style.figure(result, panels=3, panel_in=1.05, remark=remark)
    loads = np.sqrt(table["load_from_tokens_per_s"].cast(pl.Float64).to_numpy() * table["load_to_tokens_per_s"].to_numpy())
    for axes, name in ((panels[0], "instances_per_key"), (panels[1], "new_instance_ratio")):
        lines = [
            style.line(axes, loads, table[column], look) for column, look in ((name, FOUND), (f"scattered_{name}", SCATTERED))
        ]
    style.line(panels[2], loads, table["replication"], FOUND)
    panels[0].set_ylabel("Instances\nper key")
    panels[1].set_ylabel("New instance,\nof repeats")
    panels[2].set_ylabel("Physical /\nlogical tokens")
    for axes, floor in zip(panels, (1.0, 0.0, 1.0), strict=True):
        reach = axes.get_ylim()[1] - floor
        axes.set_ylim(floor - 0.04 * reach, floor + HEADROOM * reach)
    style.log_axis(panels[-1], label, prefixes=True)
    style.legend(drawing, lines, ["found", "if scattered over the model's active instances"])
    return drawing


def _bars(axes: Axes, rows: pl.DataFrame) -> list[Any]:
    """Two bars for each instance."""
    places = np.arange(1, rows.height + 1)
    shares = axes.bar(places - 0.2, rows["requests_ratio"].to_numpy(), 0.4, color=SHARE)
    hits = axes.bar(places + 0.2, rows["token_hit_ratio"].to_numpy(), 0.4, color=HIT)
    style.share_axis(axes, "Share")
    axes.grid(visible=False, axis="x")
    return [shares, hits]


def _shown(rows: pl.DataFrame) -> pl.Series:
    """Which instances have bars: where there are too many, those with most of the user's requests."""
    busiest = np.argsort(-rows["requests"].to_numpy(), kind="stable")[:MOST_BARS]
    return pl.Series(np.isin(np.arange(rows.height), busiest))


def _title(rows: pl.DataFrame) -> str:
    [user], requests = style.names(rows["user"].unique().to_list()), int(rows["requests"].sum())
    which = "most" if rows["pick"][0] == "top" else "fewest"
    of = f", the busiest {MOST_BARS} of {rows.height:,} instances" if rows.height > MOST_BARS else ""
    return f"{user}: {which} requests ({requests:,}){of}"
