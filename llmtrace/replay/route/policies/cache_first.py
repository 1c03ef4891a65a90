"""Cache first: the instance that holds most of the prompt, the first of equal ones; if none holds any, as load first.

As the routing experiment of "A Year in LLM Serving" (arXiv 2608.13573) has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.route.policy import implement
from llmtrace.replay.route.view import least_loaded, most_reusable

if TYPE_CHECKING:
    from llmtrace.replay.route.view import View

__all__ = ["CacheFirst", "new"]


class CacheFirst(NamedTuple):
    """Nothing to remember."""

    nothing: Any


def new(instances: int, users: int) -> CacheFirst:
    """The policy has no state."""
    return CacheFirst(np.zeros(0, np.int64))


def _choose(policy: CacheFirst, view: View, key: int, input_tokens: int) -> Any:
    best = most_reusable(view)
    return least_loaded(view) if best == -1 else best


implement(CacheFirst, _choose)
