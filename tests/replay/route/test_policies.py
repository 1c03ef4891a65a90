"""Every policy against a slow replay in plain Python that follows the words of the paper and of each rule, request by request."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.replay.route.cell import UNLIMITED, Cell, run
from llmtrace.replay.route.policy import NOBODY
from llmtrace.replay.route.rules import POLICIES, Rule
from llmtrace.replay.route.stream import LOADS, Load, Requests, prepare
from tests.replay.route.slow_caches import CACHES

if TYPE_CHECKING:
    from collections.abc import Callable

MINUTE = 60_000_000
MASK = (1 << 64) - 1


class Request(NamedTuple):
    arrival: int
    duration: int
    session: int
    user: int | None
    prompt: int
    answer: int


class Dice:
    """SplitMix64."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, bound: int) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        return ((mixed(self.state) >> 32) * bound) >> 32


def mixed(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


class Slow:
    """The routing experiment, one request after the other, with everything looked up anew."""

    def __init__(self, trace: list[Request], cell: Cell, load: Load) -> None:
        self.trace, self.cell, self.load_of = trace, cell, load
        self.n = cell.instances
        self.ruled = [
            CACHES[cell.cache_policy](cell.capacity_tokens) for _ in range(self.n if cell.cache_policy in CACHES else 0)
        ]
        self.caches: list[dict[int, int]] = [cache.held for cache in self.ruled] or [{} for _ in range(self.n)]
        self.ever: list[dict[int, int]] = [{} for _ in range(self.n)]
        self.flying: list[tuple[int, int, int, float]] = []
        self.dice, self.turn = Dice(cell.seed), 0
        self.homes: dict[int, int] = {}
        self.unknown = 0
        self.parameters = dict(cell.rule.parameters)
        self.samples: list[list[float]] = []
        self.queue_samples: list[list[int]] = []
        self.hit_tokens = self.hit_requests = self.movable_tokens = self.movable_requests = 0
        self.served: list[Request] = []
        self.chosen: list[int] = []

    # What a router sees.

    def loads(self) -> list[int]:
        return [sum(weight for _, at, weight, _ in self.flying if at == one) for one in range(self.n)]

    def queues(self) -> list[int]:
        return [sum(1 for _, at, _, _ in self.flying if at == one) for one in range(self.n)]

    def found(self, request: Request) -> list[int]:
        return [min(cache.get(request.session, 0), request.prompt) for cache in self.caches]

    # The rules.

    def load_first(self, _request: Request) -> int:
        loads = self.loads()
        order = sorted(range(self.n), key=lambda one: (loads[one], one))
        return order[self.dice.below(min(3, self.n))]

    def round_robin(self, _request: Request) -> int:
        self.turn += 1
        return (self.turn - 1) % self.n

    def cache_first(self, request: Request) -> int:
        found = self.found(request)
        return found.index(max(found)) if max(found) > 0 else self.load_first(request)

    def sticky(self, request: Request) -> int:
        if request.user is None:
            return self.load_first(request)
        if request.user not in self.homes:
            self.homes[request.user] = self.load_first(request)
        return self.homes[request.user]

    def one_of_least(self, numbers: list[int] | list[float]) -> int:
        equal = [one for one, number in enumerate(numbers) if number == min(numbers)]
        return equal[self.dice.below(len(equal))] if len(equal) > 1 else equal[0]

    def random(self, _request: Request) -> int:
        return self.dice.below(self.n)

    def least_requests(self, _request: Request) -> int:
        return self.one_of_least(self.queues())

    def power_of_two(self, _request: Request) -> int:
        first = self.dice.below(self.n)
        if self.n == 1:
            return first
        others = [one for one in range(self.n) if one != first]
        second = others[self.dice.below(self.n - 1)]
        loads = self.loads()
        return second if loads[second] < loads[first] else first

    def consistent_hash(self, request: Request) -> int:
        ring = sorted((mixed((place + 1) << 32), place // 128) for place in range(128 * self.n))
        key = request.user if self.cell.key == "user" else request.session
        word = 0 if key is None else key + 1
        if key is None:
            self.unknown += 1
            word = (self.unknown << 1) ^ (1 << 63)
        after = [one for place, one in ring if place >= mixed(word)] + [one for _, one in ring]
        bound = self.parameters.get("bound", 0.0)
        if not bound:
            return after[0]
        queues = self.queues()
        most = math.ceil(bound * (sum(queues) + 1) / self.n)
        return next(one for one in after if queues[one] + 1 <= most)

    def score(self, request: Request) -> int:
        weights = {"alpha": 1.0, "beta": 0.5, "gamma": 0.0, "delta": 0.0, **self.parameters}
        found, loads, queues = self.found(request), self.loads(), self.queues()
        alpha = weights["alpha"] / max(1, request.prompt)
        beta, gamma = weights["beta"] / max(1, *loads), weights["gamma"] / max(1, *queues)

        def cost(one: int) -> float:
            copy = weights["delta"] if max(found) > 0 and found[one] == 0 else 0.0
            return beta * loads[one] + gamma * queues[one] - alpha * found[one] + copy

        return self.one_of_least([cost(one) for one in range(self.n)])

    def preble(self, request: Request) -> int:
        found, loads = self.found(request), self.loads()
        balance = self.parameters.get("balance", 2.0)
        if max(found) > request.prompt - max(found):
            holder = min((one for one in range(self.n) if found[one] == max(found)), key=lambda one: (loads[one], one))
            light = self.one_of_least(loads)
            work = [load + request.prompt - held for load, held in zip(loads, found, strict=True)]
            return light if work[holder] > balance * work[light] else holder
        costs = []
        for one in range(self.n):
            missed, used = request.prompt - found[one], sum(self.caches[one].values())
            evicted = min(used, max(0, used + missed - self.cell.capacity_tokens))
            costs.append(loads[one] + missed + evicted)
        return self.one_of_least(costs)

    def threshold(self, request: Request) -> int:
        bounds = {"match": 0.3, "abs": 64.0, "rel": 1.5, **self.parameters}
        queues, found = self.queues(), self.found(request)
        is_uneven = max(queues) - min(queues) > bounds["abs"] and max(queues) > bounds["rel"] * min(queues)
        if not is_uneven and max(found) > bounds["match"] * request.prompt:
            return found.index(max(found))
        return self.one_of_least(queues)

    # The replay.

    def leave(self, moment: int) -> None:
        self.flying = [flight for flight in self.flying if flight[0] > moment]

    def sample(self, moment: int) -> None:
        self.leave(moment)
        self.samples.append([sum(rate for _, at, _, rate in self.flying if at == one) for one in range(self.n)])
        self.queue_samples.append(self.queues())

    def hold(self, request: Request, one: int) -> None:
        """Put the session last in a dictionary, which is the most recently used, and evict from its beginning."""
        cache, size = self.caches[one], request.prompt + request.answer
        if self.ruled:
            size = max(cache.get(request.session, 0), size)
            self.ever[one][request.session] = max(self.ever[one].get(request.session, 0), size)
            self.ruled[one].use(request.session, size)
            return
        cache[request.session] = max(cache.pop(request.session, 0), size)
        self.ever[one][request.session] = max(self.ever[one].get(request.session, 0), cache[request.session])
        while sum(cache.values()) > self.cell.capacity_tokens and len(cache) > 1:
            del cache[next(iter(cache))]

    def run(self) -> Slow:
        rule: Callable[[Request], int] = getattr(self, self.cell.rule.policy.replace("-", "_"))
        due = self.trace[0].arrival if self.trace else 0
        for request in self.trace:
            while due <= request.arrival:
                self.sample(due)
                due += MINUTE
            self.leave(request.arrival)
            found, chosen = self.found(request), rule(request)
            cached = found[chosen]
            self.hit_tokens += cached
            self.hit_requests += cached > 0
            self.movable_tokens += max(found) - cached
            self.movable_requests += max(found) > cached
            self.hold(request, chosen)
            if request.duration > 0:
                weight = {"tokens": request.prompt + request.answer, "input": request.prompt, "requests": 1}[self.load_of]
                rate = (request.prompt - cached + request.answer) * 1e6 / request.duration
                self.flying.append((request.arrival + request.duration, chosen, weight, rate))
            self.served.append(request)
            self.chosen.append(chosen)
        return self

    # The measures.

    def replication(self) -> tuple[int, int, int, int]:
        physical = sum(sum(ever.values()) for ever in self.ever)
        sessions = {request.session for request in self.trace}
        logical = sum(max(ever.get(one, 0) for ever in self.ever) for one in sessions)
        copies = sum(len(ever) for ever in self.ever)
        return physical, logical, copies, len(sessions)

    def moves(self) -> tuple[int, int, int]:
        homes: dict[int, int] = {}
        moves, moved, turned = 0, set(), set()
        for request, chosen in zip(self.served, self.chosen, strict=True):
            if request.session in homes:
                turned.add(request.session)
                if homes[request.session] != chosen:
                    moves += 1
                    moved.add(request.session)
            homes[request.session] = chosen
        return moves, len(moved), len(turned)

    def users(self) -> list[int]:
        met = [
            (chosen, request.user) for request, chosen in zip(self.served, self.chosen, strict=True) if request.user is not None
        ]
        return [len({user for at, user in met if at == one}) for one in range(self.n)]


def requests_of(trace: list[Request]) -> Requests:
    arrival = np.array([request.arrival for request in trace], np.int64)
    return Requests(
        arrival,
        arrival + np.array([request.duration for request in trace], np.int64),
        np.array([request.session for request in trace], np.uint32),
        np.array([NOBODY if request.user is None else request.user for request in trace], np.uint32),
        np.array([request.prompt for request in trace], np.int32),
        np.array([request.answer for request in trace], np.int32),
    )


def compare(trace: list[Request], cell: Cell, load: Load = "tokens") -> None:
    """Every count is the same, and every sum of rates to the last digits."""
    slow, outcome = Slow(trace, cell, load).run(), run(prepare(requests_of(trace), load), cell)
    books = outcome.books
    expected = [slow.hit_tokens, slow.hit_requests, slow.movable_tokens, slow.movable_requests, *slow.moves()]
    assert books.counts[:7].tolist() == expected
    assert (outcome.physical_tokens, outcome.logical_tokens, outcome.copies, outcome.objects) == slow.replication()
    assert books.requests.tolist() == [slow.chosen.count(one) for one in range(cell.instances)]
    assert books.users.tolist() == slow.users()
    assert books.queues.tolist() == [sum(sample[one] for sample in slow.queue_samples) for one in range(cell.instances)]
    rates = [
        [sum(sample[one] for sample in slow.samples[first : first + books.stride]) for one in range(cell.instances)]
        for first in range(0, len(slow.samples), books.stride)
    ]
    np.testing.assert_allclose(books.rates, np.array(rates).reshape(-1, cell.instances), rtol=1e-9)


@st.composite
def traces(draw: st.DrawFn) -> list[Request]:
    """Requests whose sessions grow, shrink and overlap, with ties in time and answers of no time."""
    gaps = st.sampled_from([0, 1, 5_000_000, MINUTE // 2, MINUTE, 3 * MINUTE])
    durations = st.sampled_from([0, 1, 1_000_000, MINUTE // 2, MINUTE, 2 * MINUTE, 10 * MINUTE])
    rows = st.tuples(gaps, durations, st.integers(0, 5), st.none() | st.integers(0, 3), st.integers(0, 12), st.integers(0, 9))
    arrival, trace = 0, []
    numbers: dict[int, int] = {}
    for gap, duration, session, user, prompt, answer in draw(st.lists(rows, min_size=1, max_size=40)):
        arrival += gap
        dense = numbers.setdefault(session, len(numbers))
        trace.append(Request(arrival, duration, dense, user, prompt, answer))
    return trace


RULES = [Rule(name) for name in POLICIES] + [
    Rule("consistent-hash", (("bound", 1.25),)),
    Rule("score", (("alpha", 1.0), ("beta", 0.3), ("gamma", 0.4), ("delta", 0.2))),
    Rule("score", (("alpha", 0.0), ("beta", 0.0))),
    Rule("threshold", (("match", 0.5), ("abs", 1.0), ("rel", 1.1))),
    Rule("preble", (("balance", 1.1),)),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.label)
@given(
    traces(), st.integers(1, 6), st.sampled_from([0, 1, 7, 20, 45, UNLIMITED]), st.sampled_from(LOADS), st.integers(0, 1 << 63)
)
def test_a_cell_is_what_a_slow_replay_gives(
    rule: Rule, trace: list[Request], instances: int, capacity: int, load: Load, seed: int
) -> None:
    compare(trace, Cell(rule, instances, capacity, seed=seed), load)


@pytest.mark.parametrize(("rule", "cache"), [("round-robin", "s3fifo"), ("cache-first", "gdsf"), ("round-robin", "lfu")])
@given(traces(), st.integers(1, 3), st.sampled_from([7, 20, 45, 200, UNLIMITED]))
def test_instances_evict_as_slow_caches_do(rule: str, cache: str, trace: list[Request], instances: int, capacity: int) -> None:
    compare(trace, Cell(Rule(rule), instances, capacity, cache))


@given(traces(), st.integers(1, 4))
def test_sessions_can_be_hashed_instead_of_users(trace: list[Request], instances: int) -> None:
    compare(trace, Cell(Rule("consistent-hash"), instances, 20, key="session"))


def test_there_may_be_no_requests() -> None:
    compare([], Cell(Rule("cache-first"), 3, 20))


def test_many_sessions_need_more_room() -> None:
    """More copies than there is room for at first, on more instances than a word has bits."""
    draws = np.random.default_rng(3)
    sessions = draws.integers(0, 4000, 6000)
    dense = np.unique(sessions, return_inverse=True)[1]
    order = {one: place for place, one in enumerate(dict.fromkeys(dense.tolist()))}
    trace = [
        Request(3000 * row, int(draws.integers(1, 40_000)), order[one], one % 90, 5 + row % 7, 2)
        for row, one in enumerate(dense.tolist())
    ]
    for name in ("round-robin", "sticky"):
        compare(trace, Cell(Rule(name), 70, UNLIMITED))
