"""Power of two choices: of two different instances drawn at random the less loaded one, the first drawn of equal ones.

Mitzenmacher: "The power of two choices in randomized load balancing", IEEE Transactions on Parallel and Distributed Systems
12(10), 2001. Two instances are nearly as good as all, and need no look at the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.draws import below
from llmtrace.replay.route.policy import implement

if TYPE_CHECKING:
    from llmtrace.replay.route.view import View

__all__ = ["PowerOfTwo", "new"]


class PowerOfTwo(NamedTuple):
    """Nothing to remember."""

    nothing: Any


def new(instances: int, users: int) -> PowerOfTwo:
    """The policy has no state."""
    return PowerOfTwo(np.zeros(0, np.int64))


def _choose(policy: PowerOfTwo, view: View, key: int, input_tokens: int) -> Any:
    first = below(view.draws, view.load.size)
    if view.load.size == 1:
        return first
    second = below(view.draws, view.load.size - 1)
    second += second >= first
    return second if view.load[second] < view.load[first] else first


implement(PowerOfTwo, _choose)
