"""Curves that several commands draw: distributions of all requests and of groups of them, and series with gaps."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.report import style

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["band", "distributions", "with_breaks"]

ALONE_PT = 1.6
"""How wide a band is between two gaps."""


def distributions(
    drawing: Figure,
    axes: Axes,
    curves: pl.DataFrame,
    *,
    by: str,
    value: str,
    labels: Callable[[Sequence[str]], list[str]] = style.names,
    from_zero: bool = False,
) -> None:
    """All requests dashed in grey, the groups over them: the share of requests that have at most so much, with a legend.

    Args:
        drawing: the figure.
        axes: its axes; the x axis is left to the caller.
        curves: `by`, `value` and `cumulative_ratio`, ascending within a group.
        by: the column of groups; null for all requests.
        value: the column of values.
        labels: what the legend calls groups.
        from_zero: whether every curve begins at nothing, so that the share of those who have nothing is seen as a step.
    """
    groups = curves[by].drop_nulls().unique(maintain_order=True).to_list()
    looks = [style.OVERALL, *(style.LINES[place % len(style.LINES)] for place in range(len(groups)))]
    lines = []
    for group, look in zip([None, *groups], looks if groups else style.LINES[:1], strict=True):
        curve = curves.filter(pl.col(by).eq_missing(pl.lit(group, pl.String)))
        values, shares = ([*[0.0] * from_zero, *curve[column]] for column in (value, "cumulative_ratio"))
        lines.append(style.line(axes, np.array(values), pl.Series(shares), look, marked=bool(groups)))
    style.share_axis(axes, "Share of requests")
    style.legend(drawing, lines, ["all requests", *labels(groups)])


def band(axes: Axes, x: NDArray[np.float64], low: pl.Series, high: pl.Series, color: str) -> None:
    """Fill what lies between two series, behind all lines; what is null is a gap, and values between two gaps a bar."""
    bottom, top = (side.cast(pl.Float64).to_numpy() for side in (low, high))
    axes.fill_between(x, bottom, top, color=color, linewidth=0.3, zorder=1)
    alone = style.isolated(low)
    if alone:
        axes.vlines(x[alone], bottom[alone], top[alone], color=color, linewidth=ALONE_PT, zorder=1)


def with_breaks(table: pl.DataFrame, step_s: float) -> pl.DataFrame:
    """The table with a row of nulls after every row that the next one does not follow within a step, so that a line breaks there.

    >>> with_breaks(pl.DataFrame({"time": [0.0, 60.0, 180.0], "rate": [1, 2, 3]}), 60).rows()
    [(0.0, 1), (60.0, 2), (120.0, None), (180.0, 3)]
    """
    step = step_s if table["time"].dtype.is_numeric() else timedelta(seconds=step_s)
    last = table.filter(pl.col("time").diff().shift(-1) > step * 1.5)
    return pl.concat([table, last.select(pl.col("time") + step)], how="diagonal").sort("time")
