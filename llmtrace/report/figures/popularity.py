"""The figures of `popularity`: rank and frequency, concentration, what models and users are like, and when they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.report import hexbins, style
from llmtrace.report.figures.rasters import model_access, user_access

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from numpy.typing import NDArray

    from llmtrace.result import Result

    Floats = NDArray[np.float64]
    Points = tuple[pl.Series, pl.Series, pl.Series | None]

__all__ = ["FIGURES"]

GRID_OF_MODELS, GRID_OF_USERS, GRID_OF_LENGTHS = 22, 24, 24
"""Hexagons across, as in the paper."""
LEAST_GAPS = 100
"""Figure 5a shows models with at least so many positive gaps."""
LOOKS = {("model", "requests"): 0, ("model", "tokens"): 1, ("user", "requests"): 2, ("user", "tokens"): 3}
FIT = "#222222"
FEW_RANKS = 8
"""Fewer ranks have a tick each."""


def rank_frequency(result: Result) -> Figure:
    """The share of the model, and of the user, of each rank, by requests and by tokens, and Zipf's law fitted to it."""
    curves = _curves(result)
    kinds = [of for of in ("model", "user") if any(kind == of for kind, _ in curves)]
    drawing, panels = style.figure(result, panels=len(kinds), panel_in=1.55 if len(kinds) > 1 else 1.9, remark=_exponents(result))
    lines: list[Line2D] = []
    for axes, kind in zip(panels, kinds, strict=True):
        shown = [by for by in ("requests", "tokens") if (kind, by) in curves]
        lines = [_ranked(axes, curves[kind, by], LOOKS["model", by], "ratio") for by in shown]
        lines += _fitted(axes, curves[kind, "requests"])
        style.log_share_axis(axes, f"Share of the {kind}")
    _rank_axis(panels[-1], curves)
    names = [f"by {by}" for of, by in curves if of == kinds[-1]]
    style.legend(drawing, lines, [*names, "c·rank⁻ˢ, by requests"][: len(lines)])
    return drawing


def concentration(result: Result) -> Figure:
    """The share of requests, and of tokens, that the models (or users) up to each rank have together."""
    curves = _curves(result)
    drawing, (axes,) = style.figure(result)
    lines = [_ranked(axes, curve, LOOKS[kind], "cumulative_ratio") for kind, curve in curves.items()]
    _rank_axis(axes, curves)
    axes.set_xlabel("Models or users with most")
    style.share_axis(axes, "Share of all, together")
    style.legend(drawing, lines, [f"{by} by {of}" for of, by in curves])
    return drawing


def model_breadth(result: Result) -> Figure:
    """How many models have so many requests from so many users (Figure 5a of the paper)."""
    table = result.tables.get("models", pl.DataFrame(schema={"positive_gaps": pl.Int64}))
    shown = table.filter(pl.col("positive_gaps") >= LEAST_GAPS)
    shown = shown.filter(pl.col("users") > 0) if shown.height else shown
    if shown.is_empty():
        raise style.NoDataError(f"no model has at least {LEAST_GAPS} positive gaps, and users")
    remark = f"models with at least {LEAST_GAPS} positive gaps"
    points = shown["requests"], shown["users"], None
    return _hexagons(result, points, "model", GRID_OF_MODELS, ("Requests of the model", "Users of the model"), remark)


def user_breadth(result: Result) -> Figure:
    """How many users have so many requests to so many models (Figure 5b)."""
    table = result.tables.get("user_breadth", pl.DataFrame())
    if table.is_empty():
        raise style.NoDataError("no user has more than 10 requests, to more than one model")
    remark = "users with more than 10 requests and more than one model"
    points = table["requests"], table["models"], table["users"]
    return _hexagons(result, points, "user", GRID_OF_USERS, ("Requests of the user", "Models of the user"), remark)


def model_lengths(result: Result) -> Figure:
    """How many models have such a median input and output (Figure 6, models)."""
    table = result.tables.get("models", pl.DataFrame(schema={"median_input_tokens": pl.Float64}))
    shown = table.filter(pl.col("median_input_tokens").is_not_null())
    if shown.is_empty():
        raise style.NoDataError("no model has requests with input and output tokens")
    return _lengths(result, (shown["median_input_tokens"], shown["median_output_tokens"], None), "model", "")


def user_lengths(result: Result) -> Figure:
    """The same for users with more than 10 requests (Figure 6, users)."""
    table = result.tables.get("user_lengths", pl.DataFrame())
    if table.is_empty():
        raise style.NoDataError("no user with more than 10 requests has input and output tokens")
    points = table["median_input_tokens"], table["median_output_tokens"], table["users"]
    return _lengths(result, points, "user", "users with more than 10 requests")


def users_per_model(result: Result) -> Figure:
    """How many users a model has, and how few of them make 90 % of its requests; on the line all users are alike."""
    table = result.tables.get("models", pl.DataFrame(schema={"users": pl.Int64})).filter(pl.col("users") > 0)
    if table.is_empty():
        raise style.NoDataError("the trace does not say which user goes to which model")
    drawing, (axes,) = style.figure(result, panel_in=2.1)
    shown = axes.scatter(
        table["users"].to_numpy(),
        table["users_for_90"].to_numpy(),
        c=table["top_user_ratio"].to_numpy(),
        s=7,
        cmap="YlOrRd",
        vmin=0,
        vmax=1,
        edgecolors="#555555",
        linewidths=0.25,
        rasterized=table.height > style.RASTER_FROM,
    )
    low, high = hexbins.limits(np.append(table["users"].to_numpy(), 1))
    top = float(table["users"].to_numpy().max())
    line = axes.plot([1, top], [0.9, 0.9 * top], color=style.OVERALL[0], linestyle=style.OVERALL[1], linewidth=0.8)[0]
    style.log_axis(axes, "Users of the model", prefixes=True, whole=True)
    style.log_axis(axes, "Users that make 90 %\nof its requests", prefixes=True, vertical=True, whole=True)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    style.color_bar(axes, shown, "Share of the busiest user", clipped=False)
    style.legend(drawing, [shown, line], ["a model", "all users alike"])
    return drawing


FIGURES: Mapping[str, Callable[[Result], Figure]] = {
    "rank_frequency": rank_frequency,
    "concentration": concentration,
    "model_breadth": model_breadth,
    "user_breadth": user_breadth,
    "model_lengths": model_lengths,
    "user_lengths": user_lengths,
    "users_per_model": users_per_model,
    "user_access": user_access,
    "model_access": model_access,
}


def _curves(result: Result) -> dict[tuple[str, str], pl.DataFrame]:
    """The curves of the table `rank_frequency`, by what is ranked and by what.

    Raises:
        NoDataError: if there is none.
    """
    table = result.tables.get("rank_frequency", pl.DataFrame())
    if table.is_empty():
        raise style.NoDataError("the trace names neither models nor users")
    parts = table.partition_by("of", "by", as_dict=True, maintain_order=True)
    return {(str(of), str(by)): curve for (of, by), curve in parts.items()}


def _exponents(result: Result) -> str:
    """The fitted exponents, for the caption."""
    table = result.tables.get("zipf", pl.DataFrame())
    fitted = table.filter(pl.col("exponent").is_not_null()) if table.height else table
    if fitted.is_empty():
        return ""
    found: dict[str, list[str]] = {}
    for of, by, exponent, last in fitted.select("of", "by", "exponent", "last_rank").iter_rows():
        found.setdefault(of, []).append(f"{exponent:.2f} by {by} (to rank {last:,})")
    return "; ".join(f"s of {of}s {', '.join(words)}" for of, words in found.items())


def _ranked(axes: Axes, curve: pl.DataFrame, look: int, column: str) -> Line2D:
    return style.line(axes, curve["rank"].to_numpy(), curve[column], style.LINES[look], marked=True)


def _fitted(axes: Axes, curve: pl.DataFrame) -> list[Line2D]:
    """The law over the ranks that it is fitted to, if it is to any."""
    shown = curve.filter(pl.col("fitted_ratio").is_not_null())
    values = shown["rank"].to_numpy(), shown["fitted_ratio"].to_numpy()
    return axes.plot(*values, color=FIT, linestyle=(0, (4, 2)), linewidth=0.7, zorder=3) if shown.height else []


def _rank_axis(axes: Axes, curves: Mapping[tuple[str, str], pl.DataFrame]) -> None:
    style.log_axis(axes, "Rank", prefixes=True, whole=True)
    last = max(int(curve["rank"][-1]) for curve in curves.values())
    axes.set_xlim(1 / 1.1, max(last, 2) * 1.1)
    if last < FEW_RANKS:
        axes.set_xticks(range(1, last + 1))
        axes.set_xticks([], minor=True)


def _lengths(result: Result, points: Points, of: str, remark: str) -> Figure:
    x, y = (hexbins.limits(values.to_numpy()) for values in points[:2])
    ends = max(x[0], y[0]), min(x[1], y[1])
    seen = ends[0] < ends[1]
    words = " · ".join(part for part in (remark, "line: output as long as input" if seen else "") if part)
    labels = (f"Median input tokens of a {of}", f"Median output tokens\nof a {of}")
    drawing = _hexagons(result, points, of, GRID_OF_LENGTHS, labels, words)
    if seen:
        drawing.axes[0].plot(ends, ends, color=style.OVERALL[0], linestyle=style.OVERALL[1], linewidth=0.8)
    return drawing


def _hexagons(result: Result, points: Points, of: str, grid: int, labels: tuple[str, str], remark: str) -> Figure:
    """Hexagons coloured by how many there are: x, y, and how many each point stands for, if not one."""
    (x, y), many = (values.cast(pl.Float64).to_numpy() for values in points[:2]), points[2]
    drawing, (axes,) = style.figure(result, panel_in=2.1, remark=remark)
    weighted = x, y, None if many is None else many.to_numpy()
    hexbins.counted(axes, weighted, f"{of.capitalize()}s", grid=grid, within=(hexbins.limits(x), hexbins.limits(y)))
    style.log_axis(axes, labels[0], prefixes=True, whole=True)
    style.log_axis(axes, labels[1], prefixes=True, vertical=True, whole=True)
    return drawing
