"""The figures of `route`: hits, copies and imbalance by capacity and by number of instances, load over time, and weights."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from llmtrace.report import style
from llmtrace.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from llmtrace.result import Result

__all__ = ["FIGURES"]

COPIES_AT_TOKENS = 25_000
"""The capacity at which the paper shows replication by number of instances; here the nearest one that was replayed."""
FLAT = 0.2
"""Of the height of all points, below which the front has a panel of its own."""
NARROW = 3.0
"""An axis of imbalances that reaches less than so many times from end to end is linear."""
PERCENT = 100.0
LINE_IN = 0.12
"""The height of a line of a legend, two policies wide."""
MOST_LINES = 4
"""Lines over time that can be told apart."""


def hit_by_capacity(result: Result) -> Figure:
    """Share of prompt tokens found, by the capacity of an instance's cache, on the largest number of instances (Figure 20a)."""
    drawing, axes, lines = _by_capacity(result, "token_hit_ratio")
    style.share_axis(axes, "Token hit ratio")
    ideal = result.scalars.get("ideal_token_hit_ratio")
    if isinstance(ideal, float):
        bound = axes.axhline(ideal, color=style.OVERALL[0], linestyle=style.OVERALL[1], linewidth=0.8, zorder=1)
        lines["unlimited cache"] = bound
    _name(drawing, lines)
    return drawing


def replication_by_capacity(result: Result) -> Figure:
    """Physical over logical tokens by the capacity of an instance's cache, on the largest number of instances (Figure 20b)."""
    drawing, axes, lines = _by_capacity(result, "replication")
    _from_one(axes)
    _name(drawing, lines)
    return drawing


def replication_by_instances(result: Result) -> Figure:
    """Physical over logical tokens by number of instances, at the capacity nearest to the paper's (Figure 20c)."""
    drawing, axes, lines = _by_instances(result, "replication", _nearest(result))
    _from_one(axes)
    _name(drawing, lines)
    return drawing


def imbalance_by_instances(result: Result) -> Figure:
    """How far the busiest instance lies above the mean, by number of instances, at the largest capacity (Figure 20d)."""
    drawing, axes, lines = _by_instances(result, "imbalance_ratio", result.scalars.get("largest_capacity_tokens"))
    _imbalance_axis(axes, "y")
    _name(drawing, lines)
    return drawing


def load_over_time(result: Result) -> Figure:
    """The mean load of an instance over time, and how far the busiest lies above it, by policy."""
    table = result.tables.get("load", pl.DataFrame())
    if table.is_empty() or not (table["mean_tokens_per_s"] > 0).any():
        raise style.NoDataError("nothing was in flight at any sample")
    policies = table["policy"].n_unique()
    remark = _largest(result) + (f", the first {MOST_LINES} of {policies} policies" if policies > MOST_LINES else "")
    drawing, (above, below) = style.figure(result, panels=2, panel_in=1.3, remark=remark)
    lines: dict[str, Line2D] = {}
    for policy, look in islice(_looks(table), MOST_LINES):
        shown = table.filter(pl.col("policy") == policy)
        times = style.time_axis(below, shown["time"])
        lines[policy] = style.line(above, times, shown["mean_tokens_per_s"], look, marked=True)
        style.line(below, times, shown["imbalance_ratio"] * PERCENT, look, marked=True)
    style.count_axis(above, "Mean load of an\ninstance (tokens/s)")
    _imbalance_axis(below, "y", "Imbalance (%)")
    _name(drawing, lines)
    return drawing


def pareto(result: Result) -> Figure:
    """All weights that a search tried: hits against imbalance, those that nothing beats as a line, and the recommended ones."""
    if "searched" not in result.tables:
        raise style.NotAskedError("it takes --search")
    shown = result.tables["searched"].drop_nulls(["imbalance_ratio", "token_hit_ratio"])
    if shown.is_empty():
        raise style.NoDataError("there is no load")
    others, (lowest, highest) = _others(result), _reach(shown.filter("is_on_front"))
    everything, _ = _reach(shown, others)
    is_flat = 0 < highest - lowest < FLAT * (highest - everything)
    drawing, panels = style.figure(result, panels=1 + is_flat, panel_in=1.7 if is_flat else 2.4, remark=_largest(result))
    for axes in panels:
        marks = _weightings(axes, shown, others)
        axes.set_ylabel("Token hit ratio")
    if is_flat:
        margin = (highest - lowest) / 4
        panels[1].set_ylim(lowest - margin, highest + margin)
        panels[1].set_ylabel("Token hit ratio,\nnear the front")
    _imbalance_axis(panels[-1], "x")
    _name(drawing, marks)
    return drawing


def _reach(*tables: pl.DataFrame) -> tuple[float, float]:
    """The lowest and the highest hit ratio."""
    hits = [hit for table in tables for hit in table["token_hit_ratio"].to_list()]
    return min(hits), max(hits)


def _weightings(axes: Axes, shown: pl.DataFrame, others: pl.DataFrame) -> dict[str, Any]:
    """Draw all weights that were tried, and other policies."""
    marks: dict[str, Any] = {}
    marks["Pareto front"] = axes.plot(
        *_points(shown.filter("is_on_front")),
        color=style.LINES[0][0],
        marker="o",
        markersize=3,
        linewidth=1.1,
        drawstyle="steps-post",
        zorder=3,
    )[0]
    marks["other weights"] = axes.plot(
        *_points(shown.filter(~pl.col("is_on_front"))), color="#999999", marker="o", markersize=2, linestyle="", zorder=2
    )[0]
    marks["recommended"] = axes.plot(
        *_points(shown.filter("is_recommended")),
        color="#222222",
        marker="*",
        markersize=8,
        markerfacecolor="white",
        linestyle="",
        zorder=5,
    )[0]
    for (policy, look), row in zip(_looks(others), others.iter_rows(named=True), strict=True):
        marks[policy] = axes.plot(
            [row["imbalance_ratio"] * PERCENT],
            [row["token_hit_ratio"]],
            color=look[0],
            marker=look[2],
            markersize=5,
            markeredgecolor="#222222",
            markeredgewidth=0.5,
            linestyle="",
            zorder=4,
        )[0]
    return marks


FIGURES: Mapping[str, Callable[[Result], Figure]] = {
    "hit_by_capacity": hit_by_capacity,
    "replication_by_capacity": replication_by_capacity,
    "replication_by_instances": replication_by_instances,
    "imbalance_by_instances": imbalance_by_instances,
    "load_over_time": load_over_time,
    "pareto": pareto,
}


def _by_capacity(result: Result, column: str) -> tuple[Figure, Axes, dict[str, Any]]:
    instances = result.scalars.get("largest_instances")
    table = _tradeoff(result, column).filter(pl.col("instances") == instances).drop_nulls("capacity_tokens")
    if table["capacity_tokens"].n_unique() < 2:  # noqa: PLR2004
        raise style.NoDataError("there are no two capacities to compare")
    drawing, (axes,) = style.figure(result, panel_in=_height_in(table), remark=_fleet(instances))
    style.log_axis(axes, "Capacity of each cache (tokens)", prefixes=True)
    return drawing, axes, _lines(axes, table, "capacity_tokens", column)


def _by_instances(result: Result, column: str, capacity: object) -> tuple[Figure, Axes, dict[str, Any]]:
    held = pl.col("capacity_tokens").is_null() if capacity is None else pl.col("capacity_tokens") == capacity
    table = _tradeoff(result, column).filter(held)
    if table["instances"].n_unique() < 2:  # noqa: PLR2004
        raise style.NoDataError("there are no two numbers of instances to compare")
    drawing, (axes,) = style.figure(result, panel_in=_height_in(table), remark=_caches(capacity))
    axes.set_xlabel("Instances")
    axes.set_xticks(table["instances"].unique().sort().to_list())
    return drawing, axes, _lines(axes, table, "instances", column)


def _height_in(table: pl.DataFrame) -> float:
    """The height of a panel whose legend names the policies of a table."""
    return 1.8 + LINE_IN * max(0, table["policy"].n_unique() - 4) / 2


def _tradeoff(result: Result, column: str) -> pl.DataFrame:
    """The cells for which a number is known.

    Raises:
        NoDataError: if it is known for none.
    """
    table = result.tables["tradeoff"].drop_nulls(column)
    if table.is_empty():
        raise style.NoDataError(f"{column} is not known")
    return table


def _lines(axes: Axes, table: pl.DataFrame, x: str, y: str) -> dict[str, Any]:
    scale = PERCENT if y == "imbalance_ratio" else 1.0
    lines = {}
    for policy, look in _looks(table):
        shown = table.filter(pl.col("policy") == policy).sort(x)
        lines[policy] = style.line(axes, shown[x].cast(pl.Float64).to_numpy(), shown[y] * scale, look)
    return lines


def _looks(table: pl.DataFrame) -> Iterator[tuple[str, tuple[str, Any, str]]]:
    """Each policy with a look of its own: as many as there are, and then their colours with other dashes and markers."""
    count = len(style.LINES)
    for place, policy in enumerate(table["policy"].unique(maintain_order=True).to_list()):
        turn = place // count
        look = tuple(style.LINES[(place + step * turn) % count][part] for part, step in enumerate((0, 1, 2)))
        yield policy, (look[0], look[1], look[2])


def _others(result: Result) -> pl.DataFrame:
    """The cells of other policies that are as large as those of the search."""
    instances, capacity = result.scalars.get("largest_instances"), result.scalars.get("largest_capacity_tokens")
    held = pl.col("capacity_tokens").is_null() if capacity is None else pl.col("capacity_tokens") == capacity
    return result.tables["tradeoff"].filter(pl.col("instances") == instances, held).drop_nulls("imbalance_ratio")


def _points(table: pl.DataFrame) -> tuple[Any, Any]:
    return (table["imbalance_ratio"] * PERCENT).to_numpy(), table["token_hit_ratio"].to_numpy()


def _nearest(result: Result) -> object:
    """The capacity nearest to the paper's, by ratio; None if there is none but without limit."""
    known = result.tables["tradeoff"]["capacity_tokens"].drop_nulls().unique().sort().to_list()
    return min(known, key=lambda tokens: abs(math.log(tokens / COPIES_AT_TOKENS)), default=None)


def _caches(capacity: object) -> str:
    return f"caches of {counted(capacity, 'token')}" if isinstance(capacity, int) else "caches without limit"


def _fleet(instances: object) -> str:
    return counted(instances, "instance") if isinstance(instances, int) else ""


def _largest(result: Result) -> str:
    instances = result.scalars.get("largest_instances")
    return f"{_fleet(instances)}, {_caches(result.scalars.get('largest_capacity_tokens'))}"


def _from_one(axes: Axes) -> None:
    axes.set_ylabel("Replication\n(physical/logical tokens)")
    axes.set_ylim(bottom=min(0.98, axes.get_ylim()[0]))


def _imbalance_axis(axes: Axes, side: str, label: str = "Imbalance\n(max/mean - 1, %)") -> None:
    """An axis of imbalances: logarithmic where they reach far, as sticky policies are up to a hundred times less even."""
    lines = [np.asarray(line.get_xdata() if side == "x" else line.get_ydata(), np.float64) for line in axes.get_lines()]
    known = [value for line in lines for value in line.tolist() if value > 0]
    if known and max(known) > NARROW * min(known):
        style.log_axis(axes, label.replace("\n", " ") if side == "x" else label, prefixes=True, vertical=side == "y")
    elif side == "x":
        axes.set_xlabel(label.replace("\n", " "))
    else:
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)


def _name(drawing: Figure, lines: Mapping[str, Any]) -> None:
    style.legend(drawing, list(lines.values()), style.names(list(lines)))
