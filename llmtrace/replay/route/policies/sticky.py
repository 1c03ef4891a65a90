"""Sticky: the instance that served the user's request before; a user's first request as load first.

As the routing experiment of "A Year in LLM Serving" (arXiv 2608.13573) has it. A request that names no user is a first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.route.policy import NOBODY, implement
from llmtrace.replay.route.view import least_loaded

if TYPE_CHECKING:
    from llmtrace.replay.route.view import View

__all__ = ["Sticky", "new"]


class Sticky(NamedTuple):
    """The instance of each user, -1 before the first request."""

    homes: Any


def new(instances: int, users: int) -> Sticky:
    """Nobody has been here."""
    return Sticky(np.full(users, -1, np.int32))


def _choose(policy: Sticky, view: View, key: int, input_tokens: int) -> Any:
    if key == NOBODY:
        return least_loaded(view)
    if policy.homes[key] == -1:
        policy.homes[key] = least_loaded(view)
    return np.int64(policy.homes[key])


implement(Sticky, _choose)
