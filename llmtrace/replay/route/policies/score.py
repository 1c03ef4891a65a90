"""Score: the instance with the highest weighted sum of what it saves and what it costs.

For instance i of a request with a prompt of n tokens:

    score(i) = alpha * found(i) / n  -  beta * load(i) / largest load  -  gamma * queue(i) / longest queue  -  delta * copy(i)

`found` is what i holds of the prompt, `load` its load in flight, `queue` its requests in flight, and `copy` 1 if i holds nothing
of the prompt although another instance does: choosing it makes another copy. All four are from 0 to 1. Of equal scores one is
drawn. Only ratios of weights matter. Weighted scores are how the routers of llm-d and Dynamo
combine prefix caches and load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.route.policy import implement
from llmtrace.replay.route.view import HOLDERS, largest, one_of_least

if TYPE_CHECKING:
    from llmtrace.replay.route.view import View

__all__ = ["Score", "new"]

_ALPHA, _BETA, _GAMMA, _DELTA = range(4)


class Score(NamedTuple):
    """The four weights, and room for what each instance costs: its score with the sign turned."""

    weights: Any
    costs: Any


def new(instances: int, users: int, *, alpha: float = 1.0, beta: float = 0.5, gamma: float = 0.0, delta: float = 0.0) -> Score:
    """The policy with these weights.

    Args:
        instances: how many.
        users: how many users there are; they do not matter.
        alpha: weight of the share of the prompt that is held.
        beta: weight of the load.
        gamma: weight of the queue.
        delta: weight of another copy.
    """
    return Score(np.array([alpha, beta, gamma, delta]), np.zeros(instances))


def _choose(policy: Score, view: View, key: int, input_tokens: int) -> Any:
    weights = policy.weights
    beta = weights[_BETA] / max(1, largest(view.load))
    gamma = weights[_GAMMA] / max(1, largest(view.queue))
    alpha = weights[_ALPHA] / max(1, input_tokens)
    delta = weights[_DELTA] if view.facts[HOLDERS] > 0 else 0.0
    for one in range(view.load.size):
        cost = beta * view.load[one] + gamma * view.queue[one] - alpha * view.found[one]
        policy.costs[one] = cost + delta if view.found[one] == 0 else cost
    return one_of_least(view, policy.costs)


implement(Score, _choose)
