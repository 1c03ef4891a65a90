"""Deployments: the router, the caches and the instances of one model, and how requests pass through them.

Router and caches are those of the `replay` package: the policy `threshold`, which follows the cache unless queues are uneven,
and one LRU cache of conversations on each instance, in which the system prompts of applications stand as conversations too. What
is found is what the instance holds of the conversation so far, else of the system prompt. An instance works through the input
that it has not cached one request after another, so that a burst queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from llmtrace.replay.kernels import kernel
from llmtrace.replay.route import sessions
from llmtrace.replay.route.copies import NONE, TAIL, is_full
from llmtrace.replay.route.eviction import LRU, evict
from llmtrace.replay.route.policies import threshold
from llmtrace.replay.route.policy import choose
from llmtrace.replay.route.store import look_up, serve
from llmtrace.replay.route.view import View, clear, new_view, one_of_least
from llmtrace.synth.flights import AT, END, WEIGHT, Flights, depart, land, new_flights, with_room

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmtrace.replay.route.copies import Copies
    from llmtrace.replay.route.policies.threshold import Threshold
    from llmtrace.replay.route.sessions import Sessions
    from llmtrace.synth.arrivals import Requests
    from llmtrace.synth.draws import Floats, Ints

__all__ = ["CACHE_BLOCK_TOKENS", "Asked", "Chance", "Deployment", "Machines", "Served", "Work", "empty", "new_deployment", "run"]

CACHE_BLOCK_TOKENS = 16
"""Cached tokens come in whole blocks of this many, and at least one token is always computed."""
_LONGEST_WAIT_US = 30_000_000
_HOURS = 24
_HOUR_US = 3_600_000_000
_DAY_US = _HOURS * _HOUR_US
_CROWDING = 0.1
"""How much slower an answer is for each `_CROWD` requests in flight beside it, `_MOST_CROWDS` times that at most."""
_CROWD = 16
_MOST_CROWDS = 4.0


class Served(NamedTuple):
    """Columns of requests after service, in their order; a request that failed has only a duration, and -1 as its instance."""

    instance: Ints
    cached_tokens: Ints
    ttft_ms: Ints
    duration_ms: Ints


class Chance(NamedTuple):
    """What is drawn for each request: time before any work, and a factor on the work."""

    overhead_us: Floats
    jitter: Floats


class Work(NamedTuple):
    """Requests sorted by time, what chance adds to each, and what becomes of them."""

    requests: Requests
    chance: Chance
    served: Served


class Asked(NamedTuple):
    """Requests as caches see them, each as two: its application's prompt, and its conversation (`replay.route.sessions`)."""

    session: NDArray[np.int32]
    is_last: NDArray[np.bool_]
    input_tokens: NDArray[np.int32]
    held_tokens: NDArray[np.int32]


class Machines(NamedTuple):
    """The instances of a model.

    Attributes:
        names: int64 of shape (places,), the number of the instance in each place.
        free_us: int64 of shape (places,), when it is through with the input that waits for it.
        up: int64 of shape (24,), places that are up in each hour of the day.
        speeds: float64 of shape (2,), microseconds per token of input and of output.
        caches: whether they keep prefixes.
    """

    names: Ints
    free_us: Ints
    up: Ints
    speeds: Floats
    caches: bool


class Deployment(NamedTuple):
    """A model's deployment: the router's rule and what it sees, the caches, what is in flight, and the instances."""

    policy: Threshold
    seen: View
    store: Sessions
    flights: Flights
    machines: Machines


def new_deployment(places: int, cache_tokens: int, speeds_us: tuple[float, float], uneven: float, seed: int) -> Deployment:
    """A deployment that is idle and empty.

    Args:
        places: instances at a time, at most.
        cache_tokens: what the cache of each one holds; 0 for none.
        speeds_us: microseconds per token of input and of output.
        uneven: by how many requests in flight two instances may differ before the cache no longer decides.
        seed: of what the router draws.
    """
    view = new_view(places, cache_tokens, seed)
    return Deployment(
        policy=threshold.new(places, 0, abs=uneven),
        # A request is looked up twice, for its prompt and for its conversation.
        seen=view._replace(holders=np.zeros(2 * places, np.int32)),
        store=sessions.new(places, LRU),
        flights=new_flights(),
        machines=Machines(
            names=np.zeros(places, np.int64),
            free_us=np.zeros(places, np.int64),
            up=np.ones(_HOURS, np.int64),
            speeds=np.array(speeds_us),
            caches=cache_tokens > 0,
        ),
    )


def run(deployment: Deployment, asked: Asked, heads: NDArray[np.int32], work: Work, rows: Ints) -> Deployment:
    """Serve these rows of the work, which are of the deployment's model: the deployment afterwards.

    Args:
        deployment: how it is before.
        asked: all requests of the work, as caches see them.
        heads: for each object that `asked` names, its first copy (`replay.route.copies`); changed in place.
        work: the requests; `served` is filled in.
        rows: which of them, in order of time.
    """
    store = deployment.store
    store = store._replace(copies=store.copies._replace(heads=heads), **asked._asdict())
    deployment = deployment._replace(store=store, flights=with_room(deployment.flights, rows.size))
    start = 0
    while (start := _serve(deployment, work, rows, start)) < rows.size:
        deployment = deployment._replace(store=deployment.store.more(2 * rows[start]))
    return deployment


@kernel
def empty(copies: Copies, view: View, place: int) -> None:
    """Empty the cache of an instance."""
    while copies.ends[place, TAIL] != NONE:
        view.used[place] -= evict(copies, LRU, place)


@kernel
def _serve(deployment: Deployment, work: Work, rows: Ints, start: int) -> int:
    """Serve rows from place `start` on, until there is no room for another: the place of the next one."""
    place = start
    while place < rows.size and not is_full(deployment.store.copies, 2):
        _complete(deployment.seen, deployment.flights, work.requests.time_us[rows[place]])
        if work.requests.status[rows[place]] > 0:
            _refuse(work, rows[place])
        else:
            _take(deployment, work, rows[place])
        place += 1
    return place


@kernel
def _complete(view: View, flights: Flights, now_us: int) -> None:
    """Let those leave that are complete."""
    while flights.flying[0] > 0 and flights.heap[0, END] <= now_us:
        view.queue[flights.heap[0, AT]] -= 1
        view.load[flights.heap[0, AT]] -= flights.heap[0, WEIGHT]
        land(flights)


@kernel
def _refuse(work: Work, row: int) -> None:
    work.served.instance[row] = -1
    work.served.duration_ms[row] = 1 + int(work.chance.overhead_us[row] * work.chance.jitter[row] / 1000)


@kernel
def _take(deployment: Deployment, work: Work, row: int) -> None:
    requests, view, machines = work.requests, deployment.seen, deployment.machines
    up = machines.up[requests.time_us[row] % _DAY_US // _HOUR_US]
    chosen, found = _place(deployment, requests.input_tokens[row], row, up)
    work.served.instance[row], work.served.cached_tokens[row] = machines.names[chosen], found
    end_us = _answer(view, machines, work, row, chosen)
    weight = requests.input_tokens[row] + requests.output_tokens[row]
    view.queue[chosen] += 1
    view.load[chosen] += weight
    depart(deployment.flights, end_us, chosen, weight)


@kernel
def _place(deployment: Deployment, tokens: int, row: int, up: int) -> tuple[int, int]:
    """Route a request to one of the instances that are up, and have it held there: the instance, and the tokens found."""
    view, store = deployment.seen, deployment.store
    near = View(view.load[:up], view.queue[:up], view.used, view.found, view.holders, view.facts, view.draws)
    if not deployment.machines.caches:
        return one_of_least(near, near.queue), 0
    look_up(store, view, 2 * row)
    look_up(store, view, 2 * row + 1)
    chosen = choose(deployment.policy, near, 0, tokens)
    if chosen >= up:
        chosen = one_of_least(near, near.queue)
    found = min(view.found[chosen], tokens - 1) // CACHE_BLOCK_TOKENS * CACHE_BLOCK_TOKENS
    clear(view)
    serve(store, view, 2 * row, chosen)
    serve(store, view, 2 * row + 1, chosen)
    return chosen, found


@kernel
def _answer(view: View, machines: Machines, work: Work, row: int, chosen: int) -> int:
    """Note how long a request takes on an instance: when it is complete."""
    requests, served = work.requests, work.served
    now_us, jitter = requests.time_us[row], work.chance.jitter[row]
    wait_us = min(max(0, machines.free_us[chosen] - now_us), _LONGEST_WAIT_US)
    prefill_us = int((requests.input_tokens[row] - served.cached_tokens[row]) * machines.speeds[0] * jitter)
    machines.free_us[chosen] = now_us + wait_us + prefill_us
    ttft_us = wait_us + prefill_us + work.chance.overhead_us[row]
    slowdown = 1.0 + _CROWDING * min(view.queue[chosen] / _CROWD, _MOST_CROWDS)
    answer_us = (requests.output_tokens[row] - 1) * machines.speeds[1] * jitter * slowdown
    # The next turn's arrival is known already, and it waits for this turn's answer.
    pressed = min(1.0, requests.next_us[row] / (ttft_us + answer_us))
    served.ttft_ms[row] = int(ttft_us * pressed / 1000)
    served.duration_ms[row] = served.ttft_ms[row] + int(answer_us * pressed / 1000)
    return int(now_us + served.duration_ms[row] * 1000)
