from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from matplotlib.figure import Figure

from llmtrace.report import ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes_of(low: float, high: float) -> Axes:
    axes = Figure(figsize=(3.5, 2)).subplots()
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    return axes


def shown(axes: Axes) -> list[float]:
    low, high = axes.get_xlim()
    return [float(tick) for tick in axes.get_xticks() if low <= tick <= high]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1, 4, [1, 1.5, 2, 2.5, 3, 3.5, 4]),
        (0.9, 60, [1, 2, 5, 10, 20, 50]),
        (1, 10_000, [1, 10, 100, 1_000, 10_000]),
    ],
)
def test_a_short_axis_has_even_steps_a_longer_one_powers(low: float, high: float, expected: list[float]) -> None:
    axes = axes_of(low, high)
    ticks.of_powers(axes.xaxis, (low, high))
    assert shown(axes) == pytest.approx(expected)


@pytest.mark.parametrize("decades", range(1, 19))
def test_no_axis_has_more_ticks_than_can_be_read(decades: int) -> None:
    axes = axes_of(0.5, 10.0**decades)
    ticks.of_powers(axes.xaxis, axes.get_xlim())
    assert 2 <= len(shown(axes)) <= ticks.MOST


def test_durations_have_the_names_of_people() -> None:
    axes = axes_of(0.5, 100_000)
    ticks.of_durations(axes.xaxis, *axes.get_xlim())
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d"]
    assert not len(axes.get_xticks(minor=True))


def test_a_long_axis_of_durations_leaves_some_out() -> None:
    axes = axes_of(0.001, 40_000_000)
    ticks.of_durations(axes.xaxis, *axes.get_xlim())
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        *("1 ms", "0.1 s", "1 s", "1 min", "1 h", "1 d", "30 d", "1 y"),
    ]


@pytest.mark.parametrize(("low", "high"), [(0.01, 0.011), (0.02, 0.5), (1e-4, 900)])
def test_round_numbers_lie_within_and_are_few(low: float, high: float) -> None:
    found = ticks.round_numbers(low, high)
    assert len(found) <= ticks.MOST
    assert all(low <= tick <= high for tick in found)
    assert found == sorted(set(found))
