"""The figures of `reuse-time`: what a time to live covers and keeps in vain, and how reuse times spread over users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.report import style, ticks
from llmtrace.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from llmtrace.result import Result

__all__ = ["FIGURES"]

ANCHORS_S = {60.0: "1 min", 3_600.0: "1 h", 43_200.0: "12 h"}
"""The times that the paper points at."""
BOX_IN = 0.4
"""The height of a model's box, with room for its name and how many users it has."""
UNITS_S = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
BAND_ROOM = 10**0.3
"""How far the axis of the bands reaches beyond them, as in the paper."""
HALF_A_BAND = 0.1
"""How far the band of a month reaches to either side if there is no other one."""
BANDS = (("p10_s", "p90_s", "#CFE3F1"), ("p25_s", "p75_s", "#8FBEDD"))


def coverage(result: Result) -> Figure:
    """The share of gaps that a TTL covers, with and without zero gaps (Figure 15 of the paper)."""
    table = _coverage(result, "covered_ratio_all")
    zero, least = result.scalars.get("zero_gap_ratio"), result.parameters.get("min_gaps")
    share = f"zero gaps ({zero:.2%} of all) count in the dashed line only" if isinstance(zero, float) else ""
    drawing, (axes,) = style.figure(result, remark=f"solid: positive gaps of keys that have at least {least}; {share}")
    times = table["ttl_s"].to_numpy()
    lines = [style.line(axes, times, table["covered_ratio_all"], style.OVERALL)]
    names = ["all gaps of all keys"]
    if table["covered_ratio"].null_count() < table.height:
        lines.insert(0, style.line(axes, times, table["covered_ratio"], style.LINES[0]))
        names.insert(0, "positive gaps of eligible keys")
    _point_at_anchors(axes, table, "covered_ratio" if len(lines) > 1 else "covered_ratio_all")
    _ttl_axis(axes, table)
    style.share_axis(axes, "Share of gaps covered")
    style.legend(drawing, lines, names)
    return drawing


def tokens(result: Result) -> Figure:
    """The share of requests and of input tokens that a TTL covers, and the token-seconds that it retains to reuse and in vain."""
    table = _coverage(result, "covered_requests_ratio")
    has_tokens = table["retained_token_seconds"].null_count() < table.height and table["retained_token_seconds"].sum() > 0
    drawing, panels = style.figure(result, panels=2 if has_tokens else 1, panel_in=1.5 if has_tokens else 1.9)
    times = table["ttl_s"].to_numpy()
    lines = [style.line(panels[0], times, table["covered_requests_ratio"], style.LINES[0])]
    names = ["requests"]
    if table["covered_input_tokens_ratio"].null_count() < table.height:
        lines.append(style.line(panels[0], times, table["covered_input_tokens_ratio"], style.LINES[1]))
        names.append("input tokens")
    style.share_axis(panels[0], "Share of all\ncovered")
    if has_tokens:
        reused = table["retained_token_seconds"] - table["wasted_token_seconds"]
        lines.append(style.line(panels[1], times, reused, style.LINES[2]))
        lines.append(style.line(panels[1], times, table["wasted_token_seconds"], style.LINES[3]))
        names += ["retained and reused", "retained in vain"]
        style.log_axis(panels[1], "Token-seconds", prefixes=True, vertical=True)
    _ttl_axis(panels[-1], table)
    style.legend(drawing, lines, names)
    return drawing


def by_month(result: Result) -> Figure:
    """The gaps of a user month by month, the median over users of each percentile (Figure 14a)."""
    from matplotlib.patches import Patch

    table = result.tables.get("by_month", pl.DataFrame())
    if table.is_empty():
        raise style.NoDataError("no user has enough gaps in a month")
    partial = int(table["partial"].sum())
    remark = f"hollow: {counted(partial, 'partial month')}" if partial else ""
    drawing, (axes,) = style.figure(result, remark=remark)
    times = style.time_axis(axes, table["month"])
    alone = table.height == 1
    if alone and not table["month"].dtype.is_numeric():
        axes.set_xticks(times, [f"{table['month'][0]:%Y-%m}"])
    places = np.concatenate([times - HALF_A_BAND, times + HALF_A_BAND]) if alone else times
    for low, high, color in BANDS:
        bottom, top = (np.repeat(table[name].to_numpy(), 2 if alone else 1) for name in (low, high))
        axes.fill_between(places, bottom, top, color=color, linewidth=0, zorder=1)
    line = style.line(axes, times, table["p50_s"], (style.LINES[0][0], "-", ""))
    whole = ~table["partial"].to_numpy()
    for some, face in ((whole, style.LINES[0][0]), (~whole, "white")):
        axes.plot(times[some], table["p50_s"].to_numpy()[some], "o", color=style.LINES[0][0], markerfacecolor=face)
    style.log_axis(axes, "Gap of a user", prefixes=False, vertical=True)
    limits = float(table["p10_s"].to_numpy().min()) / BAND_ROOM, float(table["p90_s"].to_numpy().max()) * BAND_ROOM
    axes.set_ylim(*limits)
    ticks.of_durations(axes.yaxis, *limits)
    patches = [Patch(color=color, linewidth=0) for _, _, color in reversed(BANDS)]
    style.legend(drawing, [line, *patches], ["p50", "p25 to p75", "p10 to p90"])
    return drawing


def by_model(result: Result) -> Figure:
    """The median gap of a user to a model, as a box over users for each highlighted model (Figure 14b)."""
    table = result.tables.get("by_model", pl.DataFrame(schema={"users": pl.Int64})).filter(pl.col("users") > 0)
    if table.is_empty():
        raise style.NoDataError("no highlighted model has users with enough gaps")
    panel_in = 0.6 + BOX_IN * table.height
    drawing, (axes,) = style.figure(result, panel_in=panel_in, remark="box: p25 to p75 of users; whiskers: p5 to p95")
    size, symbol = next(unit for unit in UNITS_S if 2 * unit[0] <= max(float(table["p95_s"].to_numpy().max()), 2))
    labels = style.names(table["model"].to_list())
    boxes = [
        {
            "med": row["p50_s"] / size,
            "q1": row["p25_s"] / size,
            "q3": row["p75_s"] / size,
            "whislo": row["p5_s"] / size,
            "whishi": row["p95_s"] / size,
            "label": f"{label}\n{counted(row['users'], 'user')}",
        }
        for label, row in zip(labels, table.iter_rows(named=True), strict=True)
    ]
    axes.bxp(
        boxes,
        orientation="horizontal",
        showfliers=False,
        widths=0.5,
        patch_artist=True,
        boxprops={"facecolor": BANDS[1][2], "linewidth": 0.7},
        medianprops={"color": style.LINES[1][0], "linewidth": 1.2},
        whiskerprops={"linewidth": 0.7},
        capprops={"linewidth": 0.7},
    )
    axes.grid(visible=False, axis="y")
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel(f"Median gap of a user ({symbol})")
    return drawing


FIGURES: Mapping[str, Callable[[Result], Figure]] = {
    "coverage": coverage,
    "tokens": tokens,
    "by_month": by_month,
    "by_model": by_model,
}


def _coverage(result: Result, column: str) -> pl.DataFrame:
    """The table `coverage`.

    Raises:
        NoDataError: if it is empty, has a single TTL, or a column of it is not known.
    """
    table = result.tables.get("coverage", pl.DataFrame())
    if table.is_empty() or table[column].null_count() == table.height:
        raise style.NoDataError("no key comes back")
    if table.height == 1:
        raise style.NoDataError("no key comes back later than the shortest TTL")
    return table


def _point_at_anchors(axes: Axes, table: pl.DataFrame, column: str) -> None:
    """A thin line at each anchor, and the share there beside it."""
    shown = table.filter(pl.col("ttl_s").is_in(list(ANCHORS_S)))
    for ttl_s, share in shown.select("ttl_s", column).iter_rows():
        axes.axvline(ttl_s, color="#999999", linewidth=0.5, zorder=1)
        words = f"{ANCHORS_S[ttl_s]}\n{share:.0%}"
        axes.annotate(words, (ttl_s, share), (2, -3), textcoords="offset points", ha="left", va="top", fontsize=style.CAPTION_PT)


def _ttl_axis(axes: Axes, table: pl.DataFrame) -> None:
    style.log_axis(axes, "Time to live (TTL)", prefixes=False)
    limits = float(table["ttl_s"][0]), float(table["ttl_s"][-1])
    axes.set_xlim(*limits)
    ticks.of_durations(axes.xaxis, *limits)
