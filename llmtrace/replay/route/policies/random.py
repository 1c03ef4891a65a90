"""Random: any instance, all alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.draws import below
from llmtrace.replay.route.policy import implement

if TYPE_CHECKING:
    from llmtrace.replay.route.view import View

__all__ = ["Random", "new"]


class Random(NamedTuple):
    """Nothing to remember."""

    nothing: Any


def new(instances: int, users: int) -> Random:
    """The policy has no state."""
    return Random(np.zeros(0, np.int64))


def _choose(policy: Random, view: View, key: int, input_tokens: int) -> Any:
    return below(view.draws, view.load.size)


implement(Random, _choose)
