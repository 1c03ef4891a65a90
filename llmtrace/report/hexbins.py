"""How many there are of something, in hexagons over two axes: dark where many are, and outlined, so that few are seen too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llmtrace.report import style, ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from numpy.typing import NDArray

    Numbers = NDArray[np.number]

__all__ = ["counted", "limits"]

ROOM = 1.4
"""How far a logarithmic axis reaches beyond the outermost value, as a factor."""
BEYOND = 1.05
"""How far it reaches beyond the next whole number."""
EACH_UP_TO = 9
"""Up to so many in a hexagon each number has a colour of its own."""


def limits(values: Numbers) -> tuple[float, float]:
    """The ends of a logarithmic axis around positive values, apart even if these are all the same, and a whole number between.

    >>> limits(np.array([70, 7_000])), limits(np.array([1]))
    ((50.0, 9800.0), (0.7142857142857143, 2.1))
    """
    top = float(values.max())
    return float(values.min()) / ROOM, max(top * ROOM, (top + 1) * BEYOND)


def counted(
    axes: Axes,
    points: tuple[Numbers, Numbers, Numbers | None],
    label: str,
    *,
    grid: int,
    within: tuple[tuple[float, float], tuple[float, float]],
    linear: bool = False,
) -> None:
    """Draw hexagons, with a colour for each number while these are few, else a logarithmic scale of colours.

    Args:
        axes: where.
        points: x, y, and how many each point stands for, if not one.
        label: what is counted.
        grid: hexagons across.
        within: low and high end of the x axis and of the y axis, which hexagons fill.
        linear: whether the y axis is; else both are logarithmic.
    """
    x, y, many = points
    ends = np.log10(within[0]), np.asarray(within[1]) if linear else np.log10(within[1])
    mesh = axes.hexbin(
        x,
        y,
        C=np.ones(x.size) if many is None else many,
        reduce_C_function=np.sum,
        xscale="log",
        yscale="linear" if linear else "log",
        gridsize=grid,
        extent=(float(ends[0][0]), float(ends[0][1]), float(ends[1][0]), float(ends[1][1])),
        mincnt=1,
        cmap="viridis_r",
        edgecolors="#777777",
        linewidths=0.25,
    )
    axes.set_xlim(*within[0])
    axes.set_ylim(*within[1])
    _colored(axes, mesh, label)


def _colored(axes: Axes, mesh: ScalarMappable, label: str) -> None:
    """Colours from one to the highest count, and their scale."""
    from matplotlib.colors import BoundaryNorm, LogNorm

    top = int(np.max(np.asarray(mesh.get_array())))
    if top > EACH_UP_TO:
        mesh.set_norm(LogNorm(1, top))
        ticks.of_powers(style.color_bar(axes, mesh, label, clipped=False).ax.yaxis, whole=True)
        return
    mesh.set_norm(BoundaryNorm(np.arange(top + 1) + 0.5, mesh.cmap.N))
    bar = style.color_bar(axes, mesh, label, clipped=False)
    bar.set_ticks(range(1, top + 1))
    bar.minorticks_off()
