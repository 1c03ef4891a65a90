"""Figures: one module per command, each a list of drawings by name.

A drawing is a function from a result to a matplotlib figure. It takes every number from the result and computes no statistics.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from llmtrace.report import style

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from matplotlib.figure import Figure

    from llmtrace.result import Result

__all__ = ["figures", "names"]

_MODULES = {
    "balance": "llmtrace.report.figures.balance",
    "burstiness": "llmtrace.report.figures.burstiness",
    "cache": "llmtrace.report.figures.cache",
    "evolution": "llmtrace.report.figures.evolution",
    "hit-dist": "llmtrace.report.figures.hit_dist",
    "latency": "llmtrace.report.figures.latency",
    "popularity": "llmtrace.report.figures.popularity",
    "reuse-time": "llmtrace.report.figures.reuse_time",
    "route": "llmtrace.report.figures.route",
    "sessions": "llmtrace.report.figures.sessions",
    "stats": "llmtrace.report.figures.stats",
}


def names(command: str) -> tuple[str, ...]:
    """The names of all figures that a command may draw, in order; none for a command without figures."""
    return tuple(_drawings(command))


def figures(result: Result, log: Callable[[str], None]) -> Iterator[tuple[str, Figure]]:
    """The figures of a result by name. One whose data the result does not have is not drawn, and `log` hears why.

    One that takes an option which was not given, or shows what was to be left out, is left out in silence.
    """
    skipped = _of_parts(result.command, result.parameters.get("skip", ()))
    for name, draw in _drawings(result.command).items():
        if name in skipped:
            continue
        try:
            with style.look():
                figure = draw(result)
        except style.NotAskedError:
            continue
        except style.NoDataError as reason:
            log(f"Figure {name} is not drawn: {reason}")
        else:
            yield name, figure


def _drawings(command: str) -> Mapping[str, Callable[[Result], Figure]]:
    if command not in _MODULES:
        return {}
    drawings: Mapping[str, Callable[[Result], Figure]] = import_module(_MODULES[command]).FIGURES
    return drawings


def _of_parts(command: str, skipped: Collection[str]) -> set[str]:
    """The names of the figures that show these parts of an analysis; a module with such figures has their parts by name."""
    if not skipped:
        return set()
    parts: Mapping[str, str] = getattr(import_module(_MODULES[command]), "PARTS", {})
    return {name for name, part in parts.items() if part in skipped}
