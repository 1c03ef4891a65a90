"""Which keys count in the distributions of Figures 14b and 15, settled when the whole trace is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llmtrace.summaries import returns

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars as pl

    from llmtrace.analyses.base import State
    from llmtrace.summaries.trails import Limits

__all__ = ["ENOUGH_REQUESTS", "Eligible", "settle"]

ENOUGH_REQUESTS = 11
"""What a user needs: more than 10 requests, whatever their tokens and models."""


@dataclass(frozen=True)
class Eligible:
    """The keys that count.

    Attributes:
        keys: per key (row of the table `pairs`) whether it does.
        cells: the table `cells`, with their positive gaps as `released`.
    """

    keys: npt.NDArray[np.bool_]
    cells: pl.DataFrame


def settle(state: State, min_gaps: int, limits: Limits) -> Eligible:
    """The eligible keys of a whole trace.

    Args:
        state: its state.
        min_gaps: positive gaps that a key needs.
        limits: those of the state; where the threshold is more than `min_gaps`, the user is the outer key.
    """
    positive = state["pairs"]["positive"].to_numpy()
    keys = positive >= limits.threshold
    late = (positive >= min_gaps) & ~keys
    if late.any():
        keys |= late & _of_busy_users(state)
    return Eligible(keys, returns.released(state, keys, limits.limit))


def _of_busy_users(state: State) -> npt.NDArray[np.bool_]:
    """Per key whether its user has enough requests; `outer` and `visitors` hold the same users in the same order."""
    busy = (state["visitors"]["requests"] >= ENOUGH_REQUESTS).to_numpy()
    found: npt.NDArray[np.bool_] = np.repeat(busy, state["outer"]["pairs"].to_numpy())
    return found
