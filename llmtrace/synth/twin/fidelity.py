"""Fidelity: how much a twin is like its original, by the numbers of the measuring commands and by whole distributions."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.synth.draws import Floats
    from llmtrace.synth.twin.study import Study

__all__ = ["MARGINS", "compared", "distances"]

MARGINS = ("input_tokens", "output_tokens", "gap_us", "hit_ratio")
"""Distributions that are compared, in the order in which a study has them: gaps are those between all arrivals."""


def distances(original: Study, twin: Study) -> dict[str, float | None]:
    """Kolmogorov-Smirnov distances between original and twin: the largest difference of their cumulative shares.

    Taken at the borders of bins of about 3 % width (hit ratios: at most 0.03), exact below 64; what differs within a bin is not
    seen. None where one of them has no values.
    """
    found: dict[str, float | None] = {}
    for place, name in enumerate(MARGINS):
        one, other = (_margin(study, place) for study in (original, twin))
        size = max(one.size, other.size)
        shares = [np.cumsum(np.pad(each, (0, size - each.size))) / max(each.sum(), 1) for each in (one, other)]
        found[name] = float(np.abs(shares[0] - shares[1]).max()) if one.sum() and other.sum() else None
    return found


def compared(original: Mapping[str, Mapping[str, Any]], twin: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Scalars by command, those of the original beside the twin's, with the twin's as a multiple of the original's.

    >>> compared({"stats": {"requests": 4}}, {"stats": {"requests": 6}})
    {'stats': {'requests': {'original': 4, 'twin': 6, 'ratio': 1.5}}}
    """
    return {
        command: {name: _side_by_side(value, twin[command].get(name)) for name, value in scalars.items()}
        for command, scalars in original.items()
    }


def _side_by_side(original: object, twin: object) -> dict[str, Any]:
    told = {"original": _plain(original), "twin": _plain(twin)}
    if isinstance(original, int | float) and isinstance(twin, int | float) and original:
        told["ratio"] = twin / original
    return told


def _plain(value: object) -> object:
    return f"{value.isoformat()}Z" if isinstance(value, date) else value


def _margin(study: Study, place: int) -> Floats:
    model, _, value = study.counts["margin"].unpacked()
    mine = model == place
    return np.bincount(value[mine], study.counts["margin"].counts[mine]).astype(np.float64)
