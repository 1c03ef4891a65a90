"""How many there are of something, in hexagons over two axes: dark where many are, and outlined, so that few are seen too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llmtrace.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Numbers = NDArray[np.number]

__all__ = ["counted"]

LEAST_TOP = 10
"""The colours reach so far at least."""


def counted(
    axes: Axes,
    points: tuple[Numbers, Numbers, Numbers | None],
    label: str,
    *,
    grid: int,
    extent: tuple[float, float, float, float] | None = None,
    linear: bool = False,
) -> None:
    """Draw hexagons with a logarithmic scale of colours.

    Args:
        axes: where.
        points: x, y, and how many each point stands for, if not one.
        label: what is counted.
        grid: hexagons across.
        extent: low and high end of x (its logarithm) and of y (the same, if that is not linear); those of the points without it.
        linear: whether the y axis is; else both are logarithmic.
    """
    from matplotlib.colors import LogNorm

    x, y, many = points
    mesh = axes.hexbin(
        x,
        y,
        C=np.ones(x.size) if many is None else many,
        reduce_C_function=np.sum,
        xscale="log",
        yscale="linear" if linear else "log",
        gridsize=grid,
        extent=extent,
        mincnt=1,
        cmap="viridis_r",
        edgecolors="#777777",
        linewidths=0.25,
    )
    mesh.set_norm(LogNorm(1, max(LEAST_TOP, float(np.max(np.asarray(mesh.get_array()))))))
    style.color_bar(axes, mesh, label, clipped=False)
