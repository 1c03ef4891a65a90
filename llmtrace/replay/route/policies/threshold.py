"""Threshold: to where most of the prompt is held, unless the instances are out of balance.

They are out of balance if the longest queue is longer than the shortest by more than `abs` requests and by more than `rel` times:
then to the shortest queue. Otherwise to the instance that holds most of the prompt if that is more than `match` of it, and if it
is not, to the shortest queue too, any of equal ones. Queues are requests in flight.

The rule of SGLang's cache-aware router, with the defaults of its gateway; there the prefixes are kept in a tree of the router's
own that approximates the caches, here the caches are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.route.policy import implement
from llmtrace.replay.route.view import BEST, largest, most_reusable, one_of_least, smallest

if TYPE_CHECKING:
    from llmtrace.replay.route.view import View

__all__ = ["Threshold", "new"]

_MATCH, _ABSOLUTE, _RELATIVE = range(3)


class Threshold(NamedTuple):
    """The three bounds."""

    bounds: Any


def new(instances: int, users: int, *, match: float = 0.3, abs: float = 64.0, rel: float = 1.5) -> Threshold:  # noqa: A002
    """The policy with these bounds.

    Args:
        instances: how many.
        users: how many users there are; they do not matter.
        match: the share of the prompt that must be held for it to count.
        abs: by how many requests queues may differ.
        rel: how many times the shortest queue the longest may be.
    """
    return Threshold(np.array([match, abs, rel]))


def _choose(policy: Threshold, view: View, key: int, input_tokens: int) -> Any:
    least, most = smallest(view.queue), largest(view.queue)
    is_uneven = most - least > policy.bounds[_ABSOLUTE] and most > policy.bounds[_RELATIVE] * least
    if not is_uneven and view.facts[BEST] > policy.bounds[_MATCH] * input_tokens:
        return most_reusable(view)
    return one_of_least(view, view.queue)


implement(Threshold, _choose)
