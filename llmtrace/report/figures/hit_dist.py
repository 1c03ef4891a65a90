"""The figures of `hit-dist`: how hit ratios are distributed, over lengths, models and users, and what hits save in TTFT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.report import hexbins, style, ticks
from llmtrace.report.curves import distributions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from llmtrace.result import Result

    Floats = NDArray[np.float64]

__all__ = ["FIGURES"]

GRID = 40
"""Hexagons across, as in the paper."""
FEWEST_OF_MODEL = 100
"""Models with more requests are shown, as in the paper."""
WIDEST_CELL = 32_000
"""The heat map shows inputs up to there, as in the paper."""
NO_TTFT = "no group of 200 requests with a hit ratio has a TTFT"
LEAST_RANGE = 2.0
"""Colours span so many times the shortest TTFT at least, so that cells that hardly differ look alike."""
LOWEST_SHARE = 1e-5
"""A logarithmic axis of shares reaches no further down, and else half as far again as the lowest share."""


def histogram(result: Result) -> Figure:
    """The share of requests, and of input tokens, in each bin of the hit ratio; the paper says two humps and shows none."""
    table = _known(result, "histogram", "requests_ratio", "no request has a hit ratio")
    drawing, (axes,) = style.figure(result, remark=_humps(result))
    edges = np.append(table["hit_ratio_from"].to_numpy()[:-1], 1.0)
    bins = _with_whole(table)
    lines = [
        axes.stairs(bins[name].to_numpy(), edges, color=color, linestyle=dashes, linewidth=1.1, baseline=None)
        for name, (color, dashes, _) in zip(("requests_ratio", "input_tokens_ratio"), style.LINES[:2], strict=True)
    ]
    _ratio_axis(axes, "Hit ratio of a request (bins of 0.02)")
    style.log_axis(axes, "Share", prefixes=False, vertical=True)
    shares = pl.concat([bins["requests_ratio"], bins["input_tokens_ratio"]]).drop_nulls()
    axes.set_ylim(max(LOWEST_SHARE, float(shares.filter(shares > 0).to_numpy().min()) / 2), 1)
    style.legend(drawing, lines, ["of requests", "of input tokens"])
    return drawing


def cdf_by_input_length(result: Result) -> Figure:
    """The share of requests up to each hit ratio, over all and by input length (Figure 13a of the paper)."""
    return _cdf(result, "input_length", lambda names: [f"{name} tokens" for name in names])


def cdf_by_model(result: Result) -> Figure:
    """The same for the highlighted models (Figure 13b)."""
    return _cdf(result, "model", style.names)


def models(result: Result) -> Figure:
    """How many models have so many requests and such a mean hit ratio (Figure 13c)."""
    table = result.tables.get("by_model", pl.DataFrame(schema={"model": pl.String, "measured_requests": pl.Int64}))
    shown = table.filter(pl.col("measured_requests") > FEWEST_OF_MODEL, pl.col("model").is_not_null())
    if shown.is_empty():
        raise style.NoDataError(f"no model has more than {FEWEST_OF_MODEL} requests with a hit ratio")
    counts = np.ones(shown.height)
    return _hexagons(result, "model", shown["measured_requests"].to_numpy(), shown["mean_request_hit_ratio"].to_numpy(), counts)


def users(result: Result) -> Figure:
    """The same for users with more than 10 requests (Figure 13d)."""
    table = result.tables.get("user_grid", pl.DataFrame())
    if table.is_empty():
        raise style.NoDataError("no user has more than 10 requests with a hit ratio")
    middles = [table.select(pl.mean_horizontal(f"{side}_from", f"{side}_to")).to_series() for side in ("requests", "hit_ratio")]
    return _hexagons(result, "user", middles[0].to_numpy(), middles[1].to_numpy(), table["users"].to_numpy())


def ttft_by_hit(result: Result) -> Figure:
    """The median TTFT by input length and hit ratio (Figure 4c)."""
    table = _known(result, "ttft_by_hit", "ttft_p50_s", NO_TTFT).filter(pl.col("input_tokens_to") <= WIDEST_CELL)
    if table["ttft_p50_s"].null_count() == table.height:
        raise style.NoDataError(f"no cell up to {WIDEST_CELL:,} input tokens has 200 requests with a TTFT")
    drawing, (axes,) = style.figure(result, panel_in=2.1, remark="cells of ≥ 200 requests")
    width = int(table["input_tokens_to"][0]) - int(table["input_tokens_from"][0])
    grid = np.full((11, WIDEST_CELL // width), np.nan)
    places = (table["hit_ratio_from"] * 10).round().cast(pl.Int64).to_numpy(), (table["input_tokens_from"] // width).to_numpy()
    grid[places] = table["ttft_p50_s"].cast(pl.Float64).to_numpy()
    _heat_map(axes, grid, np.arange(grid.shape[1] + 1) * width)
    axes.set_xlabel("Input tokens")
    axes.set_xticks(
        range(0, WIDEST_CELL + 1, 8_000), [f"{tick // 1_000} k" if tick else "0" for tick in range(0, WIDEST_CELL + 1, 8_000)]
    )
    axes.set_ylabel("Hit ratio")
    axes.set_yticks([0, 2, 4, 6, 8, 10.5], ["0", "0.2", "0.4", "0.6", "0.8", "whole\ninput"])
    return drawing


def ttft_saved(result: Result) -> Figure:
    """The median TTFT of requests of the same length, with hardly any hit and with nearly all of the input hit."""
    table = _known(result, "ttft_saved", "ttft_with_hit_p50_s", NO_TTFT)
    drawing, (axes,) = style.figure(result)
    upper = table["input_tokens_to"].fill_null(table["input_tokens_from"] * 2)
    lengths = ((table["input_tokens_from"] + upper) / 2).to_numpy()
    columns = ("ttft_without_hit_p50_s", "ttft_with_hit_p50_s")
    lines = [style.line(axes, lengths, table[name], look) for name, look in zip(columns, style.LINES[:2], strict=True)]
    style.log_axis(axes, "Input tokens", prefixes=True)
    style.log_axis(axes, "Median TTFT (s)", prefixes=False, vertical=True)
    style.legend(drawing, lines, ["less than 0.1 hit", "0.9 or more hit"])
    return drawing


FIGURES: Mapping[str, Callable[[Result], Figure]] = {
    "histogram": histogram,
    "cdf_by_input_length": cdf_by_input_length,
    "cdf_by_model": cdf_by_model,
    "models": models,
    "users": users,
    "ttft_by_hit": ttft_by_hit,
    "ttft_saved": ttft_saved,
}


def _known(result: Result, name: str, column: str, reason: str) -> pl.DataFrame:
    """A table of which a column is known somewhere.

    Raises:
        NoDataError: if it is not, for this reason.
    """
    table = result.tables.get(name, pl.DataFrame())
    if table.is_empty() or table[column].null_count() == table.height:
        raise style.NoDataError(reason)
    return table


def _humps(result: Result) -> str:
    """The shares at both ends with their thresholds, and the two measures of bimodality."""
    ends = (("share_zero", "at most", "zero_at"), ("share_full", "at least", "full_at"))
    words = [
        f"{result.scalars[name]:.1%} of requests {side} {result.parameters[at]:g}"
        for name, side, at in ends
        if isinstance(result.scalars.get(name), float)
    ]
    measures = (("bimodality", "Sarle"), ("valley_depth", "valley depth"))
    words += [f"{word} {result.scalars[name]:.2f}" for name, word in measures if isinstance(result.scalars.get(name), float)]
    return "; ".join(words)


def _with_whole(table: pl.DataFrame) -> pl.DataFrame:
    """The bins, those that hit all of their input in the last one."""
    last = table.height - 2
    place = pl.int_range(pl.len()).clip(upper_bound=last).alias("place")
    return table.group_by(place, maintain_order=True).agg(pl.col("requests_ratio", "input_tokens_ratio").sum())


def _cdf(result: Result, scope: str, labels: Callable[[Sequence[str]], list[str]]) -> Figure:
    """All requests dashed in grey, the groups of a scope over them; every curve starts at 0, so that hits of nothing are seen."""
    table = result.tables.get("cdf", pl.DataFrame(schema={"scope": pl.String}))
    curves = table.filter(pl.col("scope").is_in(["all", scope]))
    if curves.filter(pl.col("scope") == scope).is_empty():
        raise style.NoDataError(f"no request of a known {scope.replace('_', ' ')} has a hit ratio")
    drawing, (axes,) = style.figure(result)
    distributions(drawing, axes, curves, by="name", value="hit_ratio", labels=labels, from_zero=True)
    _ratio_axis(axes, "Hit ratio of a request (cached / input tokens)")
    return drawing


def _hexagons(result: Result, what: str, requests: NDArray[np.number], ratios: Floats, counts: NDArray[np.number]) -> Figure:
    """How many of something lie in each hexagon of requests and mean hit ratio."""
    drawing, (axes,) = style.figure(result, panel_in=2.1)
    within = hexbins.limits(requests), (0.0, 1.0)
    hexbins.counted(axes, (requests, ratios, counts), f"{what.capitalize()}s", grid=GRID, within=within, linear=True)
    style.log_axis(axes, f"Requests of a {what} (with a hit ratio)", prefixes=True, whole=True)
    style.share_axis(axes, f"Mean hit ratio of a {what}")
    axes.set_ylim(-0.02, 1.02)
    return drawing


def _heat_map(axes: Axes, grid: Floats, edges: NDArray[np.int64]) -> None:
    """A cell per column and row, coloured by the logarithm of its TTFT."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    low, high = float(np.nanmin(grid)), float(np.nanmax(grid))
    colors = LogNorm(low, max(high, low * LEAST_RANGE))
    mesh = axes.pcolormesh(edges, np.arange(len(grid) + 1), grid, cmap="YlOrRd", norm=colors, rasterized=True)
    axes.grid(visible=False)
    axes.patch.set(facecolor="white", edgecolor="#C8C8C8", hatch="////", linewidth=0)
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02)
    bar.set_label("Median TTFT (s)")
    bar.outline.set_visible(False)
    ticks.of_powers(bar.ax.yaxis)
    bar.ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())


def _ratio_axis(axes: Axes, label: str) -> None:
    axes.set_xlabel(label)
    axes.set_xlim(-0.01, 1.01)
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1])
