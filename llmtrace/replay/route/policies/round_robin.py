"""Round robin: the instances in turn, whatever is asked and however busy they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.route.policy import implement

if TYPE_CHECKING:
    from llmtrace.replay.route.view import View

__all__ = ["RoundRobin", "new"]


class RoundRobin(NamedTuple):
    """The instance that is next."""

    turn: Any


def new(instances: int, users: int) -> RoundRobin:
    """Begin with the first instance."""
    return RoundRobin(np.zeros(1, np.int64))


def _choose(policy: RoundRobin, view: View, key: int, input_tokens: int) -> Any:
    chosen = policy.turn[0]
    policy.turn[0] = 0 if chosen + 1 == view.load.size else chosen + 1
    return chosen


implement(RoundRobin, _choose)
