"""Ticks of logarithmic axes: few enough to read, at numbers that people name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axis import Axis

__all__ = ["of_durations", "of_powers", "round_numbers"]

NARROW, WIDE, MOST = 5, 100, 7
"""An axis that reaches less than `NARROW` times from end to end has even steps, one up to `WIDE` times ticks at 2 and 5 too."""
CLOSE = 8
"""Numbers that are less than so many times apart have 3 and 7 between them too."""
DURATIONS_S: Mapping[float, str] = {
    0.001: "1 ms",
    0.01: "10 ms",
    0.1: "0.1 s",
    1: "1 s",
    10: "10 s",
    60: "1 min",
    600: "10 min",
    3_600: "1 h",
    21_600: "6 h",
    86_400: "1 d",
    2_592_000: "30 d",
    31_536_000: "1 y",
}
NOT_ON_LONG_S = (0.01, 10, 600, 21_600)
LONG = 10**8
"""An axis that reaches so many times from end to end has no room for all of them."""


def of_powers(axis: Axis, limits: tuple[float, float], most: int = MOST) -> None:
    """Powers of ten; 2 and 5 times these too where there are few; even steps where there is hardly one."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    ratio = limits[1] / limits[0]
    if ratio < NARROW:
        axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if ratio < WIDE else LogLocator(numticks=most))


def of_durations(axis: Axis, low_s: float, high_s: float) -> None:
    """Lengths of time between two others, on an axis in seconds."""
    left_out = NOT_ON_LONG_S if high_s > LONG * low_s else ()
    named = {at: text for at, text in DURATIONS_S.items() if low_s <= at <= high_s and at not in left_out}
    axis.set_ticks(list(named), list(named.values()))
    axis.set_ticks([], minor=True)


def round_numbers(low: float, high: float) -> list[float]:
    """Round numbers between two others, close together where these are.

    >>> round_numbers(0.19, 0.6), round_numbers(0.1, 30)
    ([0.2, 0.3, 0.5], [0.1, 0.5, 2.0, 10.0])
    """
    steps = (1, 2, 3, 5, 7) if high < CLOSE * low else (1, 2, 5)
    found = [float(f"{step}e{power}") for power in range(-6, 4) for step in steps]
    inside = [tick for tick in found if low <= tick <= high]
    return inside[:: 1 + (len(inside) - 1) // MOST]
