"""Ticks of logarithmic axes: few enough to read, at numbers that people name, and never fewer than two."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axis import Axis
    from matplotlib.ticker import Locator

__all__ = ["of_durations", "of_powers", "powers"]

NARROW = 5
"""An axis that reaches less than so many times from end to end has even steps."""
MOST, FACTORS = 7, ((1, 2, 3, 5), (1, 2, 5), (1,))
"""So many numbers can be read; the first of these multiples of powers of ten that are no more stand on an axis."""
LEAST = 2
"""A single number does not tell how far it is to the next one."""
ROUNDING = 1e-9
"""An end that is a tick may be off by so much of it."""
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
UNITS_S = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (0.001, "ms"))


def of_powers(axis: Axis, *, whole: bool = False) -> None:
    """Ticks as in `powers`, of what the axis spans when it is drawn; those of a count are whole numbers."""

    def major(low: float, high: float) -> list[float]:
        return powers(low, high, whole=whole)

    def minor(low: float, high: float) -> list[float]:
        return _between(low, high, whole=whole)

    axis.set_major_locator(_locator(major))
    axis.set_minor_locator(_locator(minor))


def powers(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Powers of ten between two numbers; 2, 3 and 5 times these too where there are few; even steps where there is hardly one.

    >>> powers(0.5, 10_000), powers(3, 90), powers(1.4, 3.2, whole=True)
    ([1.0, 10.0, 100.0, 1000.0, 10000.0], [3.0, 5.0, 10.0, 20.0, 30.0, 50.0], [2.0, 3.0])
    """
    if high < NARROW * low:
        from matplotlib.ticker import MaxNLocator

        return _within(low, high, MaxNLocator(MOST, steps=[1, 2, 5, 10], integer=whole).tick_values(low, high), whole=whole)
    choices = [_within(low, high, _multiples(low, high, factors), whole=whole) for factors in FACTORS]
    return next((found for found in choices if len(found) <= MOST), choices[-1][:: len(choices[-1]) // MOST + 1])


def of_durations(axis: Axis, low_s: float, high_s: float) -> None:
    """Lengths of time between two others, on an axis in seconds."""
    left_out = NOT_ON_LONG_S if high_s > LONG * low_s else ()
    named = {at: text for at, text in DURATIONS_S.items() if low_s <= at <= high_s and at not in left_out}
    if len(named) < LEAST:
        size, symbol = next((unit for unit in UNITS_S if high_s >= 2 * unit[0]), UNITS_S[-1])
        named = {at * size: f"{at:g} {symbol}" for at in powers(low_s / size, high_s / size)}
    axis.set_ticks(list(named), list(named.values()))
    axis.set_ticks([], minor=True)


def _between(low: float, high: float, *, whole: bool) -> list[float]:
    """Where small ticks without numbers stand: at multiples of powers of ten, or at these themselves where there are many."""
    if high < NARROW * low:
        return []
    return _within(low, high, _multiples(low, high, range(2, 10) if high < 10.0**MOST * low else (1,)), whole=whole)


def _multiples(low: float, high: float, factors: Sequence[int]) -> list[float]:
    """Multiples of the powers of ten around two numbers."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [float(f"{factor}e{exponent}") for exponent in exponents for factor in factors]


def _within(low: float, high: float, found: Sequence[float], *, whole: bool) -> list[float]:
    inside = [float(tick) for tick in found if low * (1 - ROUNDING) <= tick <= high * (1 + ROUNDING)]
    return [tick for tick in inside if tick.is_integer()] if whole else inside


def _locator(ticks: Callable[[float, float], list[float]]) -> Locator:
    """Places ticks by a function of both ends of the axis."""
    from matplotlib.ticker import LogLocator

    class Within(LogLocator):
        def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
            return ticks(min(vmin, vmax), max(vmin, vmax))

    return Within()
