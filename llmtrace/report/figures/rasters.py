"""Access rasters of `popularity`: a dot for when a user goes to which model, or which user comes to a model (Figures 7 and 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from llmtrace.report import style
from llmtrace.report.units import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from llmtrace.result import Result

__all__ = ["model_access", "user_access"]

UNITS_S = ((86_400, "days"), (3_600, "h"), (60, "min"), (1, "s"))
PANEL_IN = {1: 2.0, 2: 1.6}
LOWEST_PANEL_IN = 1.3
SMALLEST_DOT, LARGEST_DOT = 0.7, 2.2
"""Diameters in points."""
ROWS_IN_POINTS = 170.0
"""What the rows of a panel share, about."""


def user_access(result: Result) -> Figure:
    """When a user goes to which model: a row per model, in the order of first requests (Figure 7 of the paper)."""
    return _rasters(result, "user", "model")


def model_access(result: Result) -> Figure:
    """When which user comes to a model: a row per user, in the order of first requests (Figure 8)."""
    return _rasters(result, "model", "user")


def _rasters(result: Result, of: str, other: str) -> Figure:
    dots = result.tables.get(f"{of}_access", pl.DataFrame())
    if dots.is_empty():
        raise style.NoDataError(f"no {of} is chosen, by --{of} NAME or --{of}-rank N, or the trace does not name its {other}s")
    rasters = result.tables["rasters"].filter(pl.col("of") == of, pl.col("rows") > 0).rows(named=True)
    panel_in = PANEL_IN.get(len(rasters), LOWEST_PANEL_IN)
    drawing, panels = style.figure(result, panels=len(rasters), panel_in=panel_in, remark=_remark(rasters, other))
    longest_s = max(raster["span_s"] for raster in rasters)
    size_s, unit = _unit(longest_s)
    for axes, raster in zip(panels, rasters, strict=True):
        _draw(axes, dots.filter(pl.col("rank") == raster["rank"]), raster, size_s)
        axes.set_title(_title(raster, other), loc="left", pad=2)
        axes.set_ylabel(f"{other.capitalize()}, by first use")
    panels[-1].set_xlabel(f"Time since the {of}'s first request ({unit})")
    panels[-1].set_xlim(-0.01 * longest_s / size_s, 1.01 * longest_s / size_s)
    return drawing


def _draw(axes: Axes, dots: pl.DataFrame, raster: dict[str, Any], size_s: float) -> None:
    """A dot per row and step of time; colours tell neighbouring rows apart, places tell all of them."""
    from matplotlib.ticker import MaxNLocator

    rows = dots["row"].to_numpy()
    colors = np.array([color for color, _, _ in style.LINES])[(rows - 1) % len(style.LINES)]
    diameter = min(max(ROWS_IN_POINTS / raster["rows"], SMALLEST_DOT), LARGEST_DOT)
    axes.scatter(dots["elapsed_s"].to_numpy() / size_s, rows, s=diameter**2, c=colors, linewidths=0, rasterized=True)
    axes.set_ylim(raster["rows"] + 0.5 + 0.02 * raster["rows"], 0.5 - 0.02 * raster["rows"])
    ticks = MaxNLocator(5, integer=True, min_n_ticks=1).tick_values(1, raster["rows"])
    axes.set_yticks([tick for tick in ticks if 1 <= tick <= raster["rows"]])
    axes.grid(visible=False, axis="y")


def _unit(span_s: float) -> tuple[int, str]:
    """The unit in which a span has at least two to show."""
    return next((unit for unit in UNITS_S if span_s >= 2 * unit[0]), UNITS_S[-1])


def _title(raster: dict[str, Any], other: str) -> str:
    [name] = style.names([raster["name"]])
    shown = f"{raster['rows']:,} of " if raster["rows"] < raster["entities"] else ""
    people = f"{shown}{raster['entities']:,} {other}{'s' if raster['entities'] != 1 else ''}"
    return f"{name} (rank {raster['rank']:,}): {number(raster['requests'])} requests, {people}"


def _remark(rasters: list[dict[str, Any]], other: str) -> str:
    if all(raster["rows"] == raster["entities"] for raster in rasters):
        return ""
    return f"rows: a sample of the {other}s"
