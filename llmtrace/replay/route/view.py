"""What a router sees when a request comes: every instance's load, and how much of the prompt it holds.

A router does not see how long the answer will be, when it will be complete, or to which session the request belongs. Loads are of
requests that were routed before and are not complete.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from llmtrace.replay.draws import below, new_draws
from llmtrace.replay.kernels import kernel

__all__ = [
    "BEST",
    "CAPACITY",
    "HOLDERS",
    "UNLIMITED",
    "View",
    "clear",
    "largest",
    "least_loaded",
    "most_reusable",
    "new_view",
    "note",
    "one_of_least",
    "smallest",
]

HOLDERS, BEST, CAPACITY = 0, 1, 2
"""Places in `facts`: instances that hold some of the prompt, the most tokens that one of them holds, tokens a cache may hold."""
UNLIMITED = 1 << 62
"""A capacity that no trace reaches."""
_AMONG = 3
"""Of how many least loaded instances one is drawn, so that a burst does not hit one instance."""


class View(NamedTuple):
    """What is known of N instances.

    Attributes:
        load: int64 of shape (N,), the load in flight, in tokens or requests.
        queue: int64 of shape (N,), requests in flight.
        used: int64 of shape (N,), tokens in the cache.
        found: int32 of shape (N,), tokens of the prompt in the cache.
        holders: int32 of shape (N,), the instances whose `found` is not zero, in no order.
        facts: int64 of shape (3,), see `HOLDERS`, `BEST`, `CAPACITY`.
        draws: uint64 of shape (1,), the state of the random numbers.
    """

    load: Any
    queue: Any
    used: Any
    found: Any
    holders: Any
    facts: Any
    draws: Any


def new_view(instances: int, capacity: int, seed: int) -> View:
    """Idle instances with empty caches."""
    load, queue, used = np.zeros((3, instances), np.int64)
    found, holders = np.zeros((2, instances), np.int32)
    return View(load, queue, used, found, holders, np.array([0, 0, capacity]), new_draws(seed))


@kernel
def note(view: View, instance: int, tokens: int) -> None:
    """Note that an instance holds so many tokens of the prompt, if any."""
    if tokens > 0:
        view.found[instance] = tokens
        view.holders[view.facts[HOLDERS]] = instance
        view.facts[HOLDERS] += 1
        view.facts[BEST] = max(view.facts[BEST], tokens)


@kernel
def clear(view: View) -> None:
    """Forget what is held of the prompt."""
    for place in range(view.facts[HOLDERS]):
        view.found[view.holders[place]] = 0
    view.facts[HOLDERS] = 0
    view.facts[BEST] = 0


@kernel
def most_reusable(view: View) -> int:
    """The instance that holds most of the prompt, the first of equal ones; -1 if none holds any."""
    best = -1
    for place in range(view.facts[HOLDERS]):
        one = view.holders[place]
        if view.found[one] == view.facts[BEST] and (best == -1 or one < best):
            best = one
    return best


@kernel
def least_loaded(view: View) -> int:
    """One of the three least loaded instances, drawn at random; of equally loaded ones the first are the least loaded."""
    least, second, third = -1, -1, -1
    for one in range(view.load.size):
        if least == -1 or view.load[one] < view.load[least]:
            least, second, third = one, least, second
        elif second == -1 or view.load[one] < view.load[second]:
            second, third = one, second
        elif third == -1 or view.load[one] < view.load[third]:
            third = one
    drawn = below(view.draws, min(_AMONG, view.load.size))
    if drawn == 0:
        return least
    return second if drawn == 1 else third


@kernel
def one_of_least(view: View, numbers: Any) -> int:
    """An instance with the least number; of several one is drawn, so that idle instances share what comes."""
    best, equal = 0, 1
    for one in range(1, numbers.size):
        if numbers[one] < numbers[best]:
            best, equal = one, 1
        elif numbers[one] == numbers[best]:
            equal += 1
    drawn = below(view.draws, equal) if equal > 1 else 0
    one = best
    while drawn > 0:
        one += 1
        drawn -= numbers[one] == numbers[best]
    return one


@kernel
def largest(numbers: Any) -> Any:
    """The largest of the loads or queues; zero at least."""
    most = np.int64(0)
    for number in numbers:
        most = max(most, number)
    return most


@kernel
def smallest(numbers: Any) -> Any:
    """The smallest of the loads or queues."""
    least = numbers[0]
    for number in numbers:
        least = min(least, number)
    return least
