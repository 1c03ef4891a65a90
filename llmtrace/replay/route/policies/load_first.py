"""Load first: one of the three least loaded instances, at random, whatever they hold.

As the routing experiment of "A Year in LLM Serving" (arXiv 2608.13573) has it; it spreads a burst over three instances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.route.policy import implement
from llmtrace.replay.route.view import least_loaded

if TYPE_CHECKING:
    from llmtrace.replay.route.view import View

__all__ = ["LoadFirst", "new"]


class LoadFirst(NamedTuple):
    """Nothing to remember."""

    nothing: Any


def new(instances: int, users: int) -> LoadFirst:
    """The policy has no state."""
    return LoadFirst(np.zeros(0, np.int64))


def _choose(policy: LoadFirst, view: View, key: int, input_tokens: int) -> Any:
    return least_loaded(view)


implement(LoadFirst, _choose)
