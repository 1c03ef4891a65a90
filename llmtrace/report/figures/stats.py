"""The figures of `stats`: how much, when, of what kind, and how long."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.report import style
from llmtrace.report.caption import is_relative
from llmtrace.report.curves import distributions
from llmtrace.report.units import per

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from llmtrace.result import Result

__all__ = ["FIGURES"]

DAY_S = 86_400
ENDPOINTS = 5
"""The busiest are drawn by name; two or more beyond them as one line."""
MODELS = 3
"""How many models stand out beside all requests, as in the paper."""
SPIKE = 2.0
"""A cell this many times the 98th percentile of cells does not stretch the colour scale."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def requests(result: Result) -> Figure:
    """Requests per interval over time, and those that failed (Figure 1a of the paper)."""
    rates = _rates(result)
    drawing, (axes,) = style.figure(result)
    times = style.time_axis(axes, rates["time"])
    lines = [style.line(axes, times, rates["requests"], style.LINES[0])]
    if _known(rates, "failed_requests") and rates["failed_requests"].sum() > 0:
        lines.append(style.line(axes, times, rates["failed_requests"], style.LINES[1]))
        style.legend(drawing, lines, ["all", "failed"])
    style.count_axis(axes, f"Requests per {_interval(result)}")
    return drawing


def tokens(result: Result) -> Figure:
    """Input tokens, the cached ones among them, and output tokens per interval (Figure 1b)."""
    rates = _rates(result)
    if not _known(rates, "input_tokens") and not _known(rates, "output_tokens"):
        raise style.NoDataError("no request has token counts")
    drawing, (above, below) = style.figure(result, panels=2, panel_in=1.35)
    times = style.time_axis(below, rates["time"])
    lines = [style.line(above, times, rates["input_tokens"], style.LINES[0])]
    if _known(rates, "cached_tokens"):
        lines.append(style.line(above, times, rates["cached_tokens"], style.LINES[1]))
        style.legend(drawing, lines, ["all input", "cached input"])
    style.line(below, times, rates["output_tokens"], style.LINES[0])
    style.count_axis(above, f"Input tokens\nper {_interval(result)}")
    style.count_axis(below, f"Output tokens\nper {_interval(result)}")
    return drawing


def rates(result: Result) -> Figure:
    """Requests and tokens per interval, each relative to its own mean, over the tokens per request: do the two move together?"""
    table = _rates(result).with_columns(tokens=pl.col("input_tokens") + pl.col("output_tokens"))
    if not _known(table, "tokens") or not table["tokens"].sum():
        raise style.NoDataError("no request has token counts")
    drawing, (above, below) = style.figure(result, panels=2, panel_in=1.35)
    times = style.time_axis(below, table["time"])
    relative = [table[name] / table[name].mean() for name in ("requests", "tokens")]
    lines = [style.line(above, times, one, look) for one, look in zip(relative, style.LINES[:2], strict=True)]
    style.legend(drawing, lines, ["requests", "input + output tokens"])
    style.relative_axis(above, f"Per {_interval(result)},\nrelative to mean")
    style.dots(below, times, table["tokens_per_request"])
    style.count_axis(below, "Tokens\nper request")
    return drawing


def active_models(result: Result) -> Figure:
    """Distinct models, and distinct users, per interval (Figure 1c)."""
    rates = _rates(result)
    columns = [name for name in ("models", "users") if _known(rates, name)]
    if not columns:
        raise style.NoDataError("the trace names neither models nor users")
    drawing, panels = style.figure(result, panels=len(columns), panel_in=1.35 if len(columns) > 1 else 1.9)
    times = style.time_axis(panels[-1], rates["time"])
    for axes, name in zip(panels, columns, strict=True):
        style.line(axes, times, rates[name], style.LINES[0])
        style.count_axis(axes, f"Active {name}\nper {_interval(result)}")
    return drawing


def endpoints(result: Result) -> Figure:
    """Requests per interval by endpoint, the busiest first (Figure 1d)."""
    table = result.tables.get("endpoints", pl.DataFrame())
    if table.is_empty() or not _known(table, "endpoint"):
        raise style.NoDataError("the trace names no endpoints")
    series = _by_endpoint(table, _rates(result)["time"])
    drawing, (axes,) = style.figure(result)
    times = style.time_axis(axes, series["time"])
    columns = series.columns[1:]
    looks = style.LINES[: len(columns)]
    lines = [style.line(axes, times, series[name], look, marked=True) for name, look in zip(columns, looks, strict=True)]
    style.legend(drawing, lines, style.names(columns))
    style.count_axis(axes, f"Requests per {_interval(result)}")
    return drawing


def hour_of_week(result: Result) -> Figure:
    """Mean requests in every hour of the week, Monday at the top (Figure 1e, without the artifact's off-by-one weekday)."""
    if is_relative(result):
        raise style.NoDataError("a relative clock has no days of the week")
    table = result.tables.get("hour_of_week", pl.DataFrame())
    span = result.scalars.get("span_s")
    if table.is_empty() or not isinstance(span, (int, float)) or span < DAY_S:
        raise style.NoDataError("the trace covers less than a day")
    grid = np.full((7, 24), np.nan)
    grid[table["weekday"].to_numpy() - 1, table["hour"].to_numpy()] = table["requests_per_day"].to_numpy()
    drawing, (axes,) = style.figure(result)
    _heat_map(axes, grid)
    axes.set_xlabel("Hour of day (UTC)")
    axes.set_yticks(np.arange(7) + 0.5, WEEKDAYS)
    return drawing


def input_tokens_cdf(result: Result) -> Figure:
    """The distribution of input tokens per request, over all and in the busiest models (Figure 2a)."""
    return _cdf(result, "input_tokens", "Input tokens per request", prefixes=True)


def output_tokens_cdf(result: Result) -> Figure:
    """The distribution of output tokens per request (Figure 2b)."""
    return _cdf(result, "output_tokens", "Output tokens per request", prefixes=True)


def ratio_cdf(result: Result) -> Figure:
    """The distribution of output over input tokens of a request (Figure 2c)."""
    return _cdf(result, "output_to_input_ratio", "Output tokens / input tokens of a request", prefixes=False)


FIGURES: Mapping[str, Callable[[Result], Figure]] = {
    "requests": requests,
    "tokens": tokens,
    "rates": rates,
    "active_models": active_models,
    "endpoints": endpoints,
    "hour_of_week": hour_of_week,
    "input_tokens_cdf": input_tokens_cdf,
    "output_tokens_cdf": output_tokens_cdf,
    "ratio_cdf": ratio_cdf,
}


def _rates(result: Result) -> pl.DataFrame:
    """Requests and tokens per interval.

    Raises:
        NoDataError: if there is no request.
    """
    table = result.tables.get("rates", pl.DataFrame())
    if table.is_empty():
        raise style.NoDataError("there are no requests")
    interval = result.scalars.get("interval_s")
    return _with_gaps_empty(table, interval) if isinstance(interval, (int, float)) else table


def _with_gaps_empty(table: pl.DataFrame, interval_s: float) -> pl.DataFrame:
    """The table with a row of zeros at both ends of every gap, so that a line through it shows that nothing came.

    A table of very many intervals holds only those with requests.
    """
    step = interval_s if table["time"].dtype.is_numeric() else timedelta(seconds=interval_s)
    far = pl.col("time").diff() > step * 1.5
    before = table.filter(far.shift(-1)).select(pl.col("time") + step)
    after = table.filter(far).select(pl.col("time") - step)
    if after.is_empty():
        return table
    known = [name for name in table.columns if name != "time" and _known(table, name)]
    empty = pl.concat([before, after]).unique().with_columns(pl.lit(0).cast(table[name].dtype).alias(name) for name in known)
    return pl.concat([table, empty], how="diagonal").sort("time")


def _known(table: pl.DataFrame, column: str) -> bool:
    return column in table.columns and table[column].null_count() < table.height


def _interval(result: Result) -> str:
    interval = result.scalars.get("interval_s")
    return per(interval) if isinstance(interval, (int, float)) else "interval"


def _by_endpoint(table: pl.DataFrame, times: pl.Series) -> pl.DataFrame:
    """A column of requests for each endpoint on every interval; no row of the table means no request."""
    named = table.with_columns(pl.col("endpoint").fill_null("not named"))
    order = named.group_by("endpoint").agg(pl.col("requests").sum()).sort(["requests", "endpoint"], descending=[True, False])
    shown = order["endpoint"].head(ENDPOINTS if order.height > ENDPOINTS + 1 else order.height).to_list()
    rest = f"{order.height - len(shown)} others"
    columns = [*shown, rest] if order.height > len(shown) else shown
    grouped = named.with_columns(pl.when(pl.col("endpoint").is_in(shown)).then("endpoint").otherwise(pl.lit(rest)))
    wide = grouped.pivot("endpoint", index="time", values="requests", aggregate_function="sum")
    return times.to_frame().join(wide, on="time", how="left", maintain_order="left").select("time", pl.col(columns).fill_null(0))


def _heat_map(axes: Axes, grid: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> None:
    """Draw a row per weekday and a column per hour; a single burst does not use up the colour scale."""
    top, usual = np.nanmax(grid), np.nanpercentile(grid, 98)
    clipped = bool(usual > 0 and top > SPIKE * usual)
    mesh = axes.pcolormesh(np.arange(25), np.arange(8), grid, cmap="YlOrRd", vmax=usual if clipped else top, rasterized=True)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xticks(np.arange(0, 25, 3))
    axes.tick_params(left=False)
    axes.set_facecolor("#E8E8E8")
    axes.spines[:].set_visible(False)
    style.color_bar(axes, mesh, "Requests per hour (mean)", clipped=clipped)


def _cdf(result: Result, column: str, label: str, *, prefixes: bool) -> Figure:
    """All requests dashed in grey, the busiest models over them; the share of requests at most as long."""
    table = result.tables.get("length_cdf", pl.DataFrame(schema={"model": pl.String, "column": pl.String, "value": pl.Float64}))
    curves = table.filter(pl.col("column") == column, pl.col("value").is_not_null())
    if curves.is_empty():
        raise style.NoDataError(f"no request has a known {column}")
    models = curves["model"].drop_nulls().unique(maintain_order=True).head(MODELS).to_list()
    drawing, (axes,) = style.figure(result)
    style.log_axis(axes, label, prefixes=prefixes)
    shown = curves.filter(pl.col("model").is_null() | pl.col("model").is_in(models))
    distributions(drawing, axes, shown, by="model", value="value")
    return drawing
