"""The figures of `latency`: distributions by model, medians over input and output tokens, latency against load, and over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.report import style, ticks
from llmtrace.report.curves import band, distributions, with_breaks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    from llmtrace.result import Result

__all__ = ["FIGURES"]

BANDS = (("p90", "p99", "#CFE3F1"), ("p50", "p90", "#8FBEDD"))
PERCENTS = (50, 90, 99)
MILLI = 1_000
CORNERS = ((0.0, 1 / 3), (-1 / 2, 1 / 6), (-1 / 2, -1 / 6), (0.0, -1 / 3), (1 / 2, -1 / 6), (1 / 2, 1 / 6))
"""The corners of a hexagon around its centre, in steps of its lattice."""
PREFILL_BELOW_S = 300
LEAST_SPREAD = 1.01
"""A scale of colours reaches at least so many times from end to end."""
FRAME = 0.02
"""Room around hexagons, as a share of the axis."""


def duration_cdf(result: Result) -> Figure:
    """The distribution of the time from arrival to last token, over all and in highlighted models (Figure 3a of the paper)."""
    timed = _curves(result, "timed_duration_s")
    if timed.height:
        return _cdf(result, timed, "Duration (s)", remark="requests with a TTFT only")
    return _cdf(result, _curves(result, "duration_s"), "Duration (s)")


def prefill_share_cdf(result: Result) -> Figure:
    """The distribution of the share that prefill has of a request's duration (Figure 3b)."""
    curves = _curves(result, "prefill_share")
    return _cdf(result, curves, "TTFT / duration of a request", logarithmic=False, remark=f"durations below {PREFILL_BELOW_S} s")


def ttft_cdf(result: Result) -> Figure:
    """The distribution of the time to first token."""
    return _cdf(result, _curves(result, "ttft_s"), "Time to first token (s)")


def tpot_cdf(result: Result) -> Figure:
    """The distribution of the decode time per output token."""
    curves = _curves(result, "tpot_s").with_columns(pl.col("value") * MILLI)
    return _cdf(result, curves, "Decode time per output token (ms)")


def duration_grid(result: Result) -> Figure:
    """The median duration by input and output tokens (Figure 4a)."""
    return _grid(result, "duration_grid", "duration_p50_s", "Median duration (s)")


def ttft_grid(result: Result) -> Figure:
    """The median time to first token by input and output tokens (Figure 4b)."""
    return _grid(result, "ttft_grid", "ttft_p50_s", "Median TTFT (s)")


def load_ttft(result: Result) -> Figure:
    """The tail of the time to first token by the load of the instance and input tokens (Figure 18a)."""
    return _hexagons(result, "load_ttft", ("input_tokens", "ttft_p90_s", "ttft_s"), ("Input tokens of a request", "P90 TTFT (s)"))


def load_decode(result: Result) -> Figure:
    """The tail of the decode time by the load of the instance and output tokens (Figure 18b)."""
    names = "output_tokens", "decode_p90_s", "decode_s"
    return _hexagons(result, "load_decode", names, ("Output tokens of a request", "P90 decode time (s)"))


def load(result: Result) -> Figure:
    """Median and tail of the times to the first and per output token, by the load of the instance alone."""
    table = result.tables.get("load", pl.DataFrame())
    if table.height:
        table = table.filter(pl.col("load_from_tokens_per_s") > 0, pl.col("load_to_tokens_per_s").is_not_null())
    found = _shown(table, ("ttft", "tpot"))
    if not found:
        raise style.NoDataError("no band of loads has enough requests on known instances")
    remark = f"bands of ≥ {result.parameters['least_in_hexagon']} requests"
    drawing, panels = style.figure(result, panels=len(found), panel_in=1.35 if len(found) > 1 else 1.9, remark=remark)
    low, high = (table[f"load_{end}_tokens_per_s"].cast(pl.Float64).to_numpy() for end in ("from", "to"))
    for axes, (name, (label, per_second)) in zip(panels, found.items(), strict=True):
        columns = [table[f"{name}_p{percent}_s"] * per_second for percent in PERCENTS]
        lines = [style.line(axes, np.sqrt(low * high), column, look) for column, look in zip(columns, style.LINES, strict=False)]
        style.log_axis(axes, label, prefixes=False, vertical=True)
    style.log_axis(panels[-1], "Load of the instance (tokens/s)", prefixes=True)
    style.legend(drawing, lines, [f"p{percent}" for percent in PERCENTS])
    return drawing


def over_time(result: Result) -> Figure:
    """Median and tail of the times to the first token, to the last, and per output token, over time."""
    from matplotlib.patches import Patch

    table = result.tables.get("over_time", pl.DataFrame())
    found = _shown(table, ("ttft", "duration", "tpot"))
    if not found:
        raise style.NoDataError("no request has a latency")
    interval_s = result.scalars.get("interval_s")
    shown = with_breaks(table, interval_s) if isinstance(interval_s, (int, float)) else table
    drawing, panels = style.figure(result, panels=len(found), panel_in=1.25 if len(found) > 1 else 1.9)
    times = style.time_axis(panels[-1], shown["time"])
    for axes, (name, (label, per_second)) in zip(panels, found.items(), strict=True):
        columns = {f"p{percent}": shown[f"{name}_p{percent}_s"].cast(pl.Float64) * per_second for percent in PERCENTS}
        for low, high, color in BANDS:
            band(axes, times, columns[low], columns[high], color)
        line = style.line(axes, times, columns["p50"], (style.LINES[0][0], "-", "o"))
        style.log_axis(axes, label, prefixes=False, vertical=True)
    patches = [Patch(color=color, linewidth=0) for _, _, color in reversed(BANDS)]
    style.legend(drawing, [line, *patches], ["p50", "p50 to p90", "p90 to p99"])
    return drawing


FIGURES: Mapping[str, Callable[[Result], Figure]] = {
    "duration_cdf": duration_cdf,
    "prefill_share_cdf": prefill_share_cdf,
    "ttft_cdf": ttft_cdf,
    "tpot_cdf": tpot_cdf,
    "duration_grid": duration_grid,
    "ttft_grid": ttft_grid,
    "load_ttft": load_ttft,
    "load_decode": load_decode,
    "load": load,
    "over_time": over_time,
}


def _positive(table: pl.DataFrame, column: str) -> bool:
    """Whether a column has values that a logarithmic axis can show."""
    return column in table.columns and bool((table[column] > 0).any())


def _curves(result: Result, measure: str) -> pl.DataFrame:
    schema = {"model": pl.String, "measure": pl.String, "cumulative_ratio": pl.Float64, "value": pl.Float64}
    return result.tables.get("cdf", pl.DataFrame(schema=schema)).filter(pl.col("measure") == measure)


def _cdf(result: Result, curves: pl.DataFrame, label: str, *, logarithmic: bool = True, remark: str = "") -> Figure:
    """All requests dashed in grey, the models over them; the share of requests that take at most so long."""
    if curves.is_empty():
        raise style.NoDataError("no request has this latency")
    named = curves["model"].drop_nulls().unique(maintain_order=True).to_list()
    models = named[: len(style.LINES)]
    few = f"{len(models)} of {len(named)} models" if len(models) < len(named) else ""
    drawing, (axes,) = style.figure(result, remark=" · ".join(words for words in (remark, few) if words))
    shown = curves.filter(pl.col("model").is_null() | pl.col("model").is_in(models))
    distributions(drawing, axes, shown, by="model", value="value")
    if logarithmic and _positive(curves, "value"):
        style.log_axis(axes, label, prefixes=False)
    else:
        axes.set_xlabel(label)
        axes.set_xlim(0, None if logarithmic else 1)
    return drawing


def _grid(result: Result, name: str, column: str, label: str) -> Figure:
    """A cell per step of input and output tokens, coloured by what its requests took."""
    from matplotlib.ticker import EngFormatter

    table = result.tables.get(name, pl.DataFrame())
    if table.is_empty():
        raise style.NoDataError("no cell of input and output tokens has enough requests")
    across, upwards = (_edges(table[f"{side}_tokens"], result.parameters[f"{side}_step"]) for side in ("input", "output"))
    cells = np.full((upwards.size - 1, across.size - 1), np.nan)
    rows, columns = (
        np.searchsorted(along, table[tokens].to_numpy())
        for along, tokens in ((upwards, "output_tokens"), (across, "input_tokens"))
    )
    cells[rows, columns] = table[column].to_numpy()
    drawing, (axes,) = style.figure(result, panel_in=2.1, remark=f"cells of ≥ {result.parameters['least_in_cell']} requests")
    mesh = axes.pcolormesh(across, upwards, cells, cmap="YlOrRd", norm=_norm(table[column]), rasterized=True)
    for axis, tokens in ((axes.xaxis, "Input tokens"), (axes.yaxis, "Output tokens")):
        axis.set_label_text(tokens)
        axis.set_major_formatter(EngFormatter(sep=" "))
    axes.grid(visible=False)
    axes.set_facecolor("#E8E8E8")
    _color_bar(axes, mesh, label)
    return drawing


def _hexagons(result: Result, name: str, columns: tuple[str, str, str], labels: tuple[str, str]) -> Figure:
    """A hexagon per load and tokens, coloured by what its requests took, from p5 to p95 of all requests.

    Args:
        result: what is drawn.
        name: the table.
        columns: the tokens, what they took, and the measure whose percentiles bound the colours.
        labels: of the upward axis and of the colours.
    """
    from matplotlib.collections import PolyCollection

    tokens, took, measure = columns
    table = result.tables.get(name, pl.DataFrame())
    if table.is_empty():
        raise style.NoDataError("no hexagon has enough requests on known instances")
    remark = f"hexagons of ≥ {result.parameters['least_in_hexagon']} requests, colours from p5 to p95 of all"
    drawing, (axes,) = style.figure(result, panel_in=2.1, remark=remark)
    centres = table.select("load_tokens_per_s", tokens).to_numpy()
    corners = np.array(CORNERS) * (1, math.sqrt(3)) / result.parameters["hexagons_per_decade"]
    outlines = centres[:, np.newaxis] * 10.0**corners
    mesh = PolyCollection(
        list(outlines), array=table[took].to_numpy(), cmap="magma_r", norm=_norm(table[took], *_bounds(result, measure))
    )
    mesh.set_edgecolor("face")
    mesh.set_linewidth(0.2)
    axes.add_collection(mesh, autolim=False)
    style.log_axis(axes, "Load of the instance (tokens/s)", prefixes=True)
    style.log_axis(axes, labels[0], prefixes=True, vertical=True)
    axes.set_xlim(*_reach(outlines[..., 0]))
    axes.set_ylim(*_reach(outlines[..., 1]))
    _color_bar(axes, mesh, labels[1])
    return drawing


def _reach(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[float, float]:
    """The ends of a logarithmic axis, with some room."""
    low, high = float(values.min()), float(values.max())
    return low * (low / high) ** FRAME, high * (high / low) ** FRAME


def _bounds(result: Result, measure: str) -> tuple[float | None, float | None]:
    """The 5th and 95th percentile of all requests; None where they are not known."""
    table = result.tables.get("latencies", pl.DataFrame(schema={"measure": pl.String}))
    rows = table.filter(pl.col("measure") == measure)
    return (rows["p5"][0], rows["p95"][0]) if rows.height else (None, None)


def _shown(table: pl.DataFrame, names: tuple[str, ...]) -> dict[str, tuple[str, float]]:
    """Of these the ones that are known and not zero throughout, each with its label and how many of its units are a second."""
    labels = {"ttft": ("TTFT (s)", 1.0), "duration": ("Duration (s)", 1.0), "tpot": ("Time per output\ntoken (ms)", float(MILLI))}
    return {name: labels[name] for name in names if _positive(table, f"{name}_p99_s")}


def _norm(values: pl.Series, low: float | None = None, high: float | None = None) -> LogNorm:
    """Logarithmic colours over the values, or between the bounds that are given."""
    from matplotlib.colors import LogNorm

    positive = values.filter(values > 0).to_numpy()
    ends = (positive.min(), positive.max()) if positive.size else (1.0, 1.0)
    least, most = low or ends[0], high or ends[1]
    return LogNorm(least, max(most, least * LEAST_SPREAD))


def _color_bar(axes: Axes, mesh: ScalarMappable, label: str) -> None:
    """The scale of colours in seconds; pointed at the end beyond which there are values."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    values, (low, high) = np.asarray(mesh.get_array()), mesh.get_clim()
    below, above = np.nanmin(values) < low, np.nanmax(values) > high
    extend = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}[
        bool(below), bool(above)
    ]
    bar = axes.figure.colorbar(mesh, ax=axes, extend=extend, pad=0.02)
    bar.set_label(label)
    bar.outline.set_visible(False)
    bar.ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    ticks.of_powers(bar.ax.yaxis)


def _edges(starts: pl.Series, step: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The edges of cells from zero to the last one that is shown."""
    return np.arange(int(starts.to_numpy().max()) // step + 2, dtype=np.int64) * step
