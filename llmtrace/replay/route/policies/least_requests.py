"""Least requests: the instance with the fewest requests in flight, any of equal ones.

What proxies call least connections. All requests weigh alike, be they of ten tokens or of a hundred thousand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.route.policy import implement
from llmtrace.replay.route.view import one_of_least

if TYPE_CHECKING:
    from llmtrace.replay.route.view import View

__all__ = ["LeastRequests", "new"]


class LeastRequests(NamedTuple):
    """Nothing to remember."""

    nothing: Any


def new(instances: int, users: int) -> LeastRequests:
    """The policy has no state."""
    return LeastRequests(np.zeros(0, np.int64))


def _choose(policy: LeastRequests, view: View, key: int, input_tokens: int) -> Any:
    return one_of_least(view, view.queue)


implement(LeastRequests, _choose)
