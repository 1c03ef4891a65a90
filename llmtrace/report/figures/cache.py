"""The figures of `cache`: hit ratios against capacity, what single requests find, and what idle gaps and reuse are like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from llmtrace.report import style
from llmtrace.report.units import aligned
from llmtrace.wording import either

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from llmtrace.result import Result

__all__ = ["FIGURES"]

ORACLE, IDEAL = "oracle", "ideal"
KNOWING = ("#222222", (0, (4, 1.6)), "x")
"""The line of what knows what comes: dashed, as in the paper."""
BOUND = ("#888888", (0, (1, 1.2)), "")
"""The line of a cache without bound."""
FEW = 4
"""Distributions that can be told apart in one panel."""
FIRST = ("lru", ORACLE)
"""Those that are drawn before others where not all can be."""
LOWEST_SHARE = 1e-5
LOWEST_TOP = 0.05
"""An axis of ratios that are all lower ends there."""
GAPS = {0: "< 1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3_600: "1 h", 86_400: "≥ 1 d"}
NOTHING = "no request could be replayed"


def curve(result: Result) -> Figure:
    """Token hit ratio against capacity by policy, in full (Figure 16 of the paper) and by prefix."""
    table = _known(result, "curve")
    sized = table.filter(pl.col("capacity_tokens").is_not_null())
    if sized.is_empty():
        raise style.NoDataError("no capacity was replayed")
    drawing, panels = style.figure(result, panels=2, panel_in=1.55, remark=_counted(result))
    names = sized["policy"].unique(maintain_order=True).to_list()
    lines: list[Any] = []
    for axes, how in zip(panels, ("in full", "by prefix"), strict=True):
        column = f"token_hit_ratio_{how.split()[-1]}"
        lines = _by_policy(axes, sized, names, column)
        bound = table.filter(pl.col("policy") == IDEAL)[column]
        lines += [axes.axhline(value, color=BOUND[0], linestyle=BOUND[1], linewidth=1.0) for value in bound.drop_nulls()]
        axes.set_ylabel(f"Token hit ratio\n{how}")
        axes.set_ylim(0, min(1.03, 1.1 * max(table[column].to_numpy().max(), LOWEST_TOP)))
    style.log_axis(panels[-1], "Capacity (tokens)", prefixes=True)
    style.legend(drawing, lines, [*names, IDEAL])
    return drawing


def lru_curve(result: Result) -> Figure:
    """LRU at every capacity, by stack distances, with all three ratios."""
    table = _known(result, "lru_curve")
    enough = result.scalars.get("lru_90_capacity_tokens")
    remark = f"line: 90 % of ideal by prefix at {_tokens(enough)}" if isinstance(enough, int) else ""
    drawing, (axes,) = style.figure(result, remark=remark)
    columns = {
        "request_hit_ratio": "requests",
        "token_hit_ratio_full": "tokens in full",
        "token_hit_ratio_prefix": "tokens by prefix",
    }
    capacities = table["capacity_tokens"].to_numpy()
    lines = [
        style.line(axes, capacities, table[column], look, marked=True)
        for column, look in zip(columns, style.LINES[:3], strict=True)
    ]
    if isinstance(enough, int):
        axes.axvline(enough, color="#999999", linewidth=0.8, zorder=1)
    style.log_axis(axes, "Capacity of LRU (tokens)", prefixes=True)
    style.share_axis(axes, "Hit ratio")
    axes.set_ylim(0, 1.03)
    style.legend(drawing, lines, list(columns.values()))
    return drawing


def histogram(result: Result) -> Figure:
    """The share of requests in each bin of their hit ratio by policy, at one capacity: beside that of `hit-dist`."""
    table, names, remark = _at_one_capacity(result, "histogram")
    drawing, (axes,) = style.figure(result, remark=remark)
    lines, least = [], 1.0
    for name, (color, dashes, _) in zip(names, _looks(names), strict=True):
        rows = table.filter(pl.col("policy") == name)
        shares = rows["requests_ratio"].to_numpy()[:-1].copy()
        # Requests that find all of their input are drawn in the last bin.
        shares[-1] += rows["requests_ratio"][-1]
        edges = np.append(rows["hit_ratio_from"].to_numpy()[:-1], 1.0)
        lines.append(axes.stairs(shares, edges, color=color, linestyle=dashes, linewidth=1.1, baseline=None))
        least = min(least, float(shares[shares > 0].min(initial=1.0)))
    axes.set_xlabel("Hit ratio of a request (bins of 0.02)")
    axes.set_xlim(-0.01, 1.01)
    style.log_axis(axes, "Share of requests", prefixes=False, vertical=True)
    axes.set_ylim(max(LOWEST_SHARE, least / 2), 1)
    style.legend(drawing, lines, names)
    return drawing


def by_gap(result: Result) -> Figure:
    """What policies hit of what a cache without bound would, by the time since the last use, at one capacity."""
    table, names, remark = _at_one_capacity(result, "by_gap")
    names = [name for name in names if name != IDEAL]
    if not names:
        raise style.NoDataError("no capacity was replayed")
    if table["reusable_tokens"].sum() == 0:
        raise style.NoDataError("nothing is reused")
    drawing, (axes,) = style.figure(result, remark=remark)
    lines = []
    for name, look in zip(names, _looks(names), strict=True):
        rows = table.filter(pl.col("policy") == name)
        lines.append(style.line(axes, np.arange(float(rows.height)), rows["token_hit_ratio"], look))
    axes.set_xlabel("Time since the last use (from)")
    axes.set_xticks(range(len(GAPS)), list(GAPS.values()))
    style.share_axis(axes, "Share of reusable\ntokens hit")
    axes.set_ylim(-0.02, 1.03)
    style.legend(drawing, lines, names)
    return drawing


def reuse_skew(result: Result) -> Figure:
    """The share of all reuse that the most reused sessions or blocks make."""
    table = _known(result, "reuse_skew")
    if table["reuses_ratio"].null_count() == table.height:
        raise style.NoDataError("nothing is reused")
    what = result.parameters.get("object", "object")
    drawing, (axes,) = style.figure(result)
    style.line(axes, (table["objects_ratio"] * 100).to_numpy(), table["reuses_ratio"], style.LINES[0])
    style.log_axis(axes, f"Most reused {what}s (% of all)", prefixes=False)
    style.share_axis(axes, "Share of reuses")
    axes.set_ylim(0, 1.03)
    return drawing


FIGURES: Mapping[str, Callable[[Result], Figure]] = {
    "curve": curve,
    "lru_curve": lru_curve,
    "histogram": histogram,
    "by_gap": by_gap,
    "reuse_skew": reuse_skew,
}


def _known(result: Result, name: str) -> pl.DataFrame:
    """A table of replayed requests.

    Raises:
        NoDataError: if none was.
    """
    table = result.tables.get(name, pl.DataFrame())
    if table.is_empty() or not result.scalars.get("replayed_requests"):
        raise style.NoDataError(NOTHING)
    return table


def _counted(result: Result) -> str:
    """Which requests ratios are over."""
    share = result.parameters.get("warmup")
    return f"after a warm-up of {100 * share:.4g} % of the requests" if share else "from an empty cache on"


def _by_policy(axes: Axes, table: pl.DataFrame, names: Sequence[str], column: str) -> list[Any]:
    """A line of each policy's ratios against capacity."""
    curves = [table.filter(pl.col("policy") == name) for name in names]
    return [
        style.line(axes, rows["capacity_tokens"].to_numpy(), rows[column], look)
        for rows, look in zip(curves, _looks(names), strict=True)
    ]


def _looks(names: Sequence[str]) -> list[tuple[str, Any, str]]:
    """A look for each policy: oracle and ideal have their own, the others take turns."""
    others = [name for name in names if name not in {ORACLE, IDEAL}]
    looks = {name: style.LINES[place % len(style.LINES)] for place, name in enumerate(others)}
    return [{ORACLE: KNOWING, IDEAL: style.OVERALL}.get(name) or looks[name] for name in names]


def _at_one_capacity(result: Result, name: str) -> tuple[pl.DataFrame, list[str], str]:
    """The rows of a table at the capacity where policies differ most, a few of the policies, and which capacity that is.

    Raises:
        NoDataError: if no request was replayed.
    """
    table = _known(result, name)
    size = _most_different(result.tables["curve"])
    there = table.filter(pl.col("capacity_tokens").eq(pl.lit(size, pl.Int64)) | (pl.col("policy") == IDEAL))
    named = there["policy"].unique(maintain_order=True).to_list()
    ranked = sorted(named, key=lambda one: (one != IDEAL, FIRST.index(one) if one in FIRST else len(FIRST)))
    kept = [one for one in named if one in ranked[:FEW]]
    remark = "" if size is None else f"capacity {_tokens(size)}, {_counted(result)}"
    return there, kept, remark


def _most_different(curve: pl.DataFrame) -> int | None:
    """The capacity at which the ratios by prefix lie farthest apart, the least of several; None if there is none."""
    ratio = pl.col("token_hit_ratio_prefix")
    spread = curve.drop_nulls("capacity_tokens").group_by("capacity_tokens").agg((ratio.max() - ratio.min()).alias("spread"))
    sizes = spread.sort("spread", "capacity_tokens", descending=[True, False])["capacity_tokens"]
    return int(sizes[0]) if sizes.len() else None


def _tokens(number: int) -> str:
    return f"{aligned([number])[0]} {either(number, 'token', 'tokens')}"
