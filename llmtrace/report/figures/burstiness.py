"""The figures of `burstiness`: dispersion over time scales, load and burstiness of keys, burstiness over time, fitted gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.report import hexbins, style, ticks
from llmtrace.report.curves import with_breaks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from llmtrace.result import Result

__all__ = ["FIGURES"]

GRID = 32
"""Hexagons across, as in the paper."""
WINDOW_S = 300
FITS = {"exponential": "exponential", "gamma": "gamma", "weibull": "Weibull", "lognormal": "lognormal"}
ENOUGH_WINDOWS = 10
"""The variance of fewer says little."""
ROOM = 1.08
"""How far an axis reaches beyond the highest value, which would be cut in half otherwise."""
ALIKE = 1.01
"""The axis of gaps that lie less than so many times apart reaches so far beyond them, so that its numbers can be told apart."""
LOWEST = 0.2
"""How far a survival function is drawn below the last empirical value that is not zero, as a share of it."""


def dispersion(result: Result) -> Figure:
    """Variance over mean of the requests of a window, against its width; a Poisson stream stays at 1."""
    table = result.tables.get("dispersion", pl.DataFrame())
    shown = table.filter(pl.col("index_of_dispersion") > 0) if table.height else table
    if shown.is_empty():
        raise style.NoDataError("the trace does not cover two windows, or its requests do not vary")
    few = shown.filter(pl.col("windows") < ENOUGH_WINDOWS)
    drawing, (axes,) = style.figure(result, remark=f"hollow: fewer than {ENOUGH_WINDOWS} windows" if few.height else "")
    style.log_axis(axes, "Width of the window", prefixes=False)
    measured = style.line(axes, shown["window_s"].to_numpy(), shown["index_of_dispersion"], style.LINES[0], marked=True)
    if few.height:
        color, _, marker = style.LINES[0]
        places = few["window_s"].to_numpy(), few["index_of_dispersion"].to_numpy()
        axes.plot(*places, marker, color=color, markerfacecolor="white")
    poisson = _poisson(axes)
    ticks.of_durations(axes.xaxis, *axes.get_xlim())
    style.log_axis(axes, "Index of dispersion", prefixes=False, vertical=True)
    style.legend(drawing, [measured, poisson], ["this trace", "Poisson stream"])
    return drawing


def load_and_cv(result: Result) -> Figure:
    """How many keys have which mean load and which mean coefficient of variation in their valid hours (Figure 9a)."""
    table = _hours(result)
    drawing, (axes,) = style.figure(result, panel_in=2.25)
    points = table["mean_requests_per_hour"].to_numpy(), table["cv_mean"].to_numpy(), None
    hexbins.counted(axes, points, f"{_key(result).capitalize()}s", grid=GRID, within=_reach(table))
    _load_axes(axes, table)
    style.legend(drawing, [_mark("h"), _poisson(axes)], [f"{_key(result)}s", "Poisson stream"])
    return drawing


def load_and_lag1(result: Result) -> Figure:
    """The same, a dot for each key, coloured by how each of its positive gaps depends on the one before (Figure 9b)."""
    table = _hours(result).filter(pl.col("lag1_spearman").is_not_null())
    if table.is_empty():
        raise style.NoDataError("no key has gaps that vary")
    below = pl.col("lag1_spearman") < 0
    some_below = not table.filter(below).is_empty()
    drawing, (axes,) = style.figure(result, panel_in=2.25, remark="triangles: below zero" if some_below else "")
    dots = _coloured_dots(axes, table.filter(~below), "o")
    if some_below:
        # Both ends of the colours are equally dark in grey.
        _coloured_dots(axes, table.filter(below), "v")
    _load_axes(axes, table)
    style.color_bar(axes, dots, "Lag-1 Spearman of positive gaps,\nacross hours", clipped=False)
    style.legend(drawing, [_mark("o"), _poisson(axes)], [f"a {_key(result)}", "Poisson stream"])
    return drawing


def cv_over_time(result: Result) -> Figure:
    """Rate, and coefficient of variation of the gaps, in windows of 5 minutes, as ServeGen reports them."""
    table = result.tables.get("cv_windows", pl.DataFrame())
    if table.is_empty() or table["cv"].null_count() == table.height:
        raise style.NoDataError("no window of 5 minutes has gaps that vary")
    shown = with_breaks(table, WINDOW_S)
    drawing, (above, below) = style.figure(result, panels=2, panel_in=1.35)
    times = style.time_axis(below, shown["time"])
    style.line(above, times, shown["requests_per_s"], style.LINES[0])
    measured = style.line(below, times, shown["cv"], style.LINES[0])
    above.set_ylabel("Requests/s\nper 5 min")
    below.set_ylabel("CV of all gaps\nwithin 5 min")
    style.legend(drawing, [measured, _poisson(below)], ["this trace", "Poisson stream"])
    for axes, column in ((above, "requests_per_s"), (below, "cv")):
        # Gaps that are all alike have a coefficient of zero.
        axes.set_ylim(0, ROOM * float(shown[column].drop_nulls().to_numpy().max()) or 1)
    return drawing


def survival(result: Result) -> Figure:
    """The share of positive gaps that are longer, measured and by the fitted distributions."""
    table = result.tables.get("survival", pl.DataFrame())
    shown = table.filter(pl.col("empirical") > 0) if table.height else table
    if shown.is_empty():
        raise style.NoDataError("there are no two different positive gaps")
    drawing, (axes,) = style.figure(result, panel_in=2.1, remark=_zeros(result))
    gaps = shown["gap_s"].to_numpy()
    style.log_axis(axes, "Gap between requests, across hours (s)", prefixes=False)
    if gaps[-1] < ALIKE * gaps[0]:
        axes.set_xlim(gaps[0] / ALIKE, gaps[-1] * ALIKE)
    lines = [style.line(axes, gaps, shown["empirical"], ("#222222", "-", ""))]
    fitted = [name for name in FITS if shown[name].null_count() < shown.height]
    looks = style.LINES[: len(fitted)]
    lines += [
        style.line(axes, gaps, shown[name], (color, dashes, "")) for name, (color, dashes, _) in zip(fitted, looks, strict=True)
    ]
    style.log_axis(axes, "Share of positive gaps\nthat are longer", prefixes=False, vertical=True)
    axes.set_ylim(LOWEST * float(shown["empirical"].to_numpy().min()), 1.3)
    style.legend(drawing, lines, ["measured", *(FITS[name] for name in fitted)])
    return drawing


FIGURES: Mapping[str, Callable[[Result], Figure]] = {
    "dispersion": dispersion,
    "load_and_cv": load_and_cv,
    "load_and_lag1": load_and_lag1,
    "cv_over_time": cv_over_time,
    "survival": survival,
}


def _key(result: Result) -> str:
    by = str(result.parameters.get("by", "key"))
    return "key" if by == "all" else by


def _hours(result: Result) -> pl.DataFrame:
    """The keys that have an hourly coefficient of variation above zero, which a logarithmic axis can show.

    Raises:
        NoDataError: if there is none.
    """
    table = result.tables.get("by_hour", pl.DataFrame())
    shown = table.filter(pl.col("cv_mean") > 0) if table.height else table
    if shown.is_empty():
        raise style.NoDataError(f"no {_key(result)} has more than 100 requests and 5 hours with at least 10 requests")
    return shown


def _coloured_dots(axes: Axes, keys: pl.DataFrame, marker: str) -> PathCollection:
    return axes.scatter(
        keys["mean_requests_per_hour"].to_numpy(),
        keys["cv_mean"].to_numpy(),
        c=keys["lag1_spearman"].to_numpy(),
        s=7,
        marker=marker,
        cmap="coolwarm",
        vmin=-1,
        vmax=1,
        edgecolors="#555555",
        linewidths=0.15,
        rasterized=keys.height > style.RASTER_FROM,
    )


def _poisson(axes: Axes) -> Line2D:
    """The line of a Poisson stream, of which dispersion and coefficient of variation are 1."""
    return axes.axhline(1, color=style.OVERALL[0], linestyle=style.OVERALL[1], linewidth=0.8)


def _mark(marker: str) -> Line2D:
    """What stands for marks of many colours in a legend."""
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], linestyle="", marker=marker, color="#DDDDDD", markeredgecolor="#555555", markersize=4, markeredgewidth=0.4
    )


def _zeros(result: Result) -> str:
    """Which share of the gaps is not positive, for the caption; of a clock with jitter the gaps are not those of the stamps."""
    share = result.scalars.get("tie_share")
    if not isinstance(share, float) or not share or result.parameters.get("jitter") is not None:
        return ""
    return f"zero gaps ({100 * share:.3g}% of all) are left out"


def _reach(keys: pl.DataFrame) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ends of both axes of load and burstiness: the coefficient of a Poisson stream is always seen."""
    return hexbins.limits(keys["mean_requests_per_hour"].to_numpy()), hexbins.limits(np.append(keys["cv_mean"].to_numpy(), 1))


def _load_axes(axes: Axes, keys: pl.DataFrame) -> None:
    style.log_axis(axes, "Mean requests per hour (valid hours)", prefixes=True)
    style.log_axis(axes, "Mean CV of positive gaps\nwithin clock hours", prefixes=False, vertical=True)
    across, upwards = _reach(keys)
    axes.set_xlim(*across)
    axes.set_ylim(*upwards)
