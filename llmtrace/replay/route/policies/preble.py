"""Preble's E2: exploit what is held if it outweighs the rest of the prompt, else explore where the request costs least.

- Exploit: if an instance holds more of the prompt than is left to compute, of those that hold most the least loaded one takes it,
  unless its load and what it has left to compute are more than `balance` times the same of the least loaded instance of all: then
  that one takes it.
- Explore: otherwise the instance with the lowest sum of its load, the tokens of the prompt it would have to compute, and the
  tokens it would have to evict for them; any of equal ones.

Srivatsa, He, Abhyankar, Li, Zhang: "Preble: Efficient Distributed Prompt Scheduling for LLM Serving", ICLR 2025, arXiv
2407.00023. There the load is the GPU time of what was assigned in the last minutes, evictions weigh by how often they hit, and a
prefix that is asked for too often is copied ahead; here everything is tokens, the load is what is in flight, and nothing is
copied ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.kernels import kernel
from llmtrace.replay.route.policy import implement
from llmtrace.replay.route.view import BEST, CAPACITY, HOLDERS, one_of_least

if TYPE_CHECKING:
    from llmtrace.replay.route.view import View

__all__ = ["Preble", "new"]


class Preble(NamedTuple):
    """How many times the work of the least loaded instance that of another may be, and room for what each would cost."""

    balance: Any
    costs: Any


def new(instances: int, users: int, *, balance: float = 2.0) -> Preble:
    """The policy with this bound.

    Args:
        instances: how many.
        users: how many users there are; they do not matter.
        balance: how many times the work on the least loaded instance that on one that holds most of the prompt may be.
    """
    return Preble(np.array([balance]), np.zeros(instances, np.int64))


def _choose(policy: Preble, view: View, key: int, input_tokens: int) -> Any:
    if view.facts[BEST] * 2 > input_tokens:
        holder, light = _least_loaded_holder(view), one_of_least(view, view.load)
        there = view.load[holder] + input_tokens - view.found[holder]
        return light if there > policy.balance[0] * (view.load[light] + input_tokens - view.found[light]) else holder
    for one in range(view.load.size):
        missed = np.int64(input_tokens) - view.found[one]
        evicted = min(view.used[one], max(0, view.used[one] + missed - view.facts[CAPACITY]))
        policy.costs[one] = view.load[one] + missed + evicted
    return one_of_least(view, policy.costs)


@kernel
def _least_loaded_holder(view: View) -> int:
    """Of the instances that hold most of the prompt the least loaded, the first of equal ones."""
    best = -1
    for place in range(view.facts[HOLDERS]):
        one = view.holders[place]
        if view.found[one] < view.facts[BEST]:
            continue
        if best == -1 or view.load[one] < view.load[best] or (view.load[one] == view.load[best] and one < best):
            best = one
    return best


implement(Preble, _choose)
