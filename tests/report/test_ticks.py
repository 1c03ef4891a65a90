from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
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
    ticks.of_powers(axes.xaxis)
    assert shown(axes) == pytest.approx(expected)


@pytest.mark.parametrize("decades", range(1, 19))
def test_no_axis_has_more_ticks_than_can_be_read(decades: int) -> None:
    axes = axes_of(0.5, 10.0**decades)
    ticks.of_powers(axes.xaxis)
    assert 2 <= len(shown(axes)) <= ticks.MOST


@given(st.floats(-6, 9), st.floats(0.02, 12))
def test_every_axis_has_two_ticks_within_its_ends(low: float, decades: float) -> None:
    ends = 10**low, 10 ** (low + decades)
    found = ticks.powers(*ends)
    assert 2 <= len(found) <= ticks.MOST + 1
    assert ends[0] * 0.999_999 <= found[0] < found[-1] <= ends[1] * 1.000_001


@given(st.integers(1, 10**9), st.floats(1, 1e6))
def test_ticks_of_counts_are_whole(least: int, times: float) -> None:
    found = ticks.powers(least / 1.4, 1.05 * (int(least * times) + 1), whole=True)
    assert len(found) >= 2
    assert all(tick == int(tick) >= 1 for tick in found)


def test_ticks_are_those_of_the_axis_as_it_is_in_the_end() -> None:
    axes = axes_of(1, 10_000)
    ticks.of_powers(axes.xaxis)
    axes.set_xlim(300, 700)
    assert shown(axes) == pytest.approx([300, 400, 500, 600, 700])
    assert not len(axes.get_xticks(minor=True))
    axes.set_xlim(700, 80)
    assert list(axes.get_xticks()) == pytest.approx([100, 200, 300, 500])
    assert list(axes.get_xticks(minor=True)) == pytest.approx([80, 90, 400, 600, 700])


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


@pytest.mark.parametrize(
    ("low_s", "high_s", "expected"),
    [
        (70, 500, ["2 min", "3 min", "5 min"]),
        (4_000, 20_000, ["2 h", "3 h", "5 h"]),
        (3, 8, ["3 s", "4 s", "5 s", "6 s", "7 s", "8 s"]),
        (0.0002, 0.0007, ["0.2 ms", "0.3 ms", "0.4 ms", "0.5 ms", "0.6 ms", "0.7 ms"]),
    ],
)
def test_a_short_axis_of_durations_has_more_than_one_tick(low_s: float, high_s: float, expected: list[str]) -> None:
    axes = axes_of(low_s, high_s)
    ticks.of_durations(axes.xaxis, *axes.get_xlim())
    assert [label.get_text() for label in axes.get_xticklabels()] == expected
