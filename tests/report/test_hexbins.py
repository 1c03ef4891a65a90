from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from llmtrace.report import hexbins, style
from llmtrace.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray


def drawn(x: NDArray[np.float64], y: NDArray[np.float64], many: NDArray[np.int64] | None = None) -> tuple[Axes, Axes]:
    """The axes of the hexagons and of their scale of colours."""
    with style.look():
        drawing, (axes,) = style.figure(Result("popularity", {}, {}, {}, ""), panel_in=2.1)
        hexbins.counted(axes, (x, y, many), "Users", grid=20, within=(hexbins.limits(x), hexbins.limits(y)))
        style.save(drawing, "png")
    return axes, drawing.axes[1]


def numbers(bar: Axes) -> list[str]:
    low, high = bar.get_ylim()
    shown = zip(bar.get_yticks(), bar.get_yticklabels(), strict=True)
    return [text.get_text() for at, text in shown if low <= at <= high and text.get_text()]


@pytest.mark.parametrize("values", [[1.0], [2.0], [3.0, 3.0], [7.0, 900.0]])
def test_an_axis_reaches_beyond_its_values_and_to_the_next_whole_number(values: list[float]) -> None:
    low, high = hexbins.limits(np.array(values))
    assert low < min(values)
    assert high > max(values) + 1
    assert high >= 1.9 * low


def test_a_single_key_is_a_hexagon_not_a_sliver() -> None:
    axes, _ = drawn(np.array([64.2]), np.array([3.44]))
    [mesh] = [artist for artist in axes.collections if isinstance(artist, PolyCollection)]
    corners = axes.transAxes.inverted().transform(axes.transData.transform(np.asarray(mesh.get_paths()[0].vertices)))
    width, height = np.ptp(corners, axis=0)
    assert 0.03 < width < 0.08
    assert 0.03 < height < 0.15


@pytest.mark.parametrize("top", [1, 2, 9])
def test_few_are_counted_one_by_one(top: int) -> None:
    places = np.repeat([10.0, 1_000.0], [1, top])
    axes, bar = drawn(places, places)
    assert numbers(bar) == [str(count) for count in range(1, top + 1)]
    assert not len(bar.get_yticks(minor=True))
    colors = {tuple(color) for color in axes.collections[0].get_facecolor()}  # type: ignore[arg-type]
    assert len(colors) == min(top, 2)


def test_many_have_a_scale_of_colours_up_to_the_most() -> None:
    places = np.array([10.0, 100.0, 1_000.0])
    _, bar = drawn(places, places, np.array([1, 3, 40]))
    assert bar.get_ylim() == (1, 40)
    assert numbers(bar) == ["1", "2", "3", "5", "10", "20", "30"]
