"""Service: which instance takes each request, what it has cached, and how long it takes.

Requests pass in order of arrival. Each model has a pool of instances, of which more are up when there is more to do. A user's
requests go to the same instance while it answers promptly, else to the less busy of two others. An instance works through the
input that it has not cached one request after another, so that a burst queues. It remembers recent conversations and system
prompts in a small table where a newcomer evicts what stood in its place, so that hits are whole or nothing, as in a real prefix
cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from llmtrace.synth.draws import between, draw, stream

if TYPE_CHECKING:
    from llmtrace.synth.arrivals import Requests
    from llmtrace.synth.draws import Floats, Ints
    from llmtrace.synth.population import Models, Population
    from llmtrace.synth.rates import Block
    from llmtrace.synth.workload import Workload

__all__ = ["Served", "Service"]

CACHE_BLOCK_TOKENS = 16
"""Cached tokens come in whole blocks of this many, and at least one token is always computed."""
_PURPOSE = 5
_ENTRIES = 64
_MANY_MODELS = 1_000_003
_LONGEST_WAIT_US = 60_000_000
_HOUR_US = 3_600_000_000
_DAY_US = 86_400_000_000
_SHIFT_DAYS = 4
_CROWDING = 0.15


class Served(NamedTuple):
    """Columns of requests after service, in their order; a request that failed has only a duration, and -1 as its instance."""

    instance: Ints
    cached_tokens: Ints
    ttft_ms: Ints
    duration_ms: Ints


class _Fleet(NamedTuple):
    """State that is carried through the trace: when an instance is free, its cache entries, and each user's last instance."""

    free_us: Ints
    key: Ints
    tokens: Ints
    ready_us: Ints
    used_us: Ints
    home: Ints


class _Shift(NamedTuple):
    """What stays the same for one block: instances up per model and hour, and the profile's numbers in microseconds."""

    day: int
    up: Ints
    system_tokens: Ints
    overhead_us: Floats
    jitter: Floats
    keep_us: int
    patience_us: int


class Service:
    """Serves the requests of a workload, block after block."""

    def __init__(self, workload: Workload, people: Population) -> None:
        """All instances idle and empty."""
        self.workload, self.population = workload, people
        shape = (workload.instances, _ENTRIES)
        self._fleet = _Fleet(
            free_us=np.zeros(workload.instances, np.int64),
            key=np.zeros(shape, np.int64),
            tokens=np.zeros(shape, np.int64),
            ready_us=np.zeros(shape, np.int64),
            used_us=np.zeros(shape, np.int64),
            home=np.full(workload.users, -1, np.int64),
        )
        profile = workload.profile
        self._overhead_us, self._jitter = profile.overhead_s.table(1e6), profile.jitter.table()

    def serve(self, requests: Requests, block: Block) -> Served:
        """What becomes of requests that arrive in a block, sorted by time and not before those served last."""
        profile = self.workload.profile
        shift = _Shift(
            day=block.day,
            up=self._up(block.day),
            system_tokens=self.population.system_tokens,
            overhead_us=self._overhead_us,
            jitter=self._jitter,
            keep_us=int(profile.keep_s * 1e6),
            patience_us=int(profile.patience_s * 1e6),
        )
        served = Served(*(np.zeros(requests.time_us.size, np.int64) for _ in Served._fields))
        rng = stream(self.workload.seed, _PURPOSE, block.index)
        _serve(rng, shift, self.population.models, self._fleet, requests, served)
        return served

    def _up(self, day: int) -> Ints:
        """Instances up, hours x models: of each pool in proportion to the day's volume, the model's appeal and the hour."""
        profile, models = self.workload.profile, self.population.models
        busy = between(profile.volume, self.workload.progress(day)) / max(profile.volume)
        appeal = self.population.appeals(day, profile.rise_days) / models.appeal
        hours = np.array(profile.hours) / max(profile.hours)
        wanted = np.outer(hours, models.pool_size * appeal * busy)
        return np.clip(wanted.astype(np.int64), 1, models.pool_size)


@njit(nogil=True, cache=True)
def _serve(rng: np.random.Generator, shift: _Shift, models: Models, fleet: _Fleet, requests: Requests, served: Served) -> None:
    for row in range(requests.time_us.size):
        overhead_us = draw(shift.overhead_us, rng.random())
        jitter, first, second = draw(shift.jitter, rng.random()), rng.random(), rng.random()
        if requests.status[row] > 0:
            served.instance[row] = -1
            served.duration_ms[row] = 1 + int(overhead_us * jitter / 1000)
            continue
        instance = _route(shift, models, fleet, requests, row, first, second)
        cached = _cached(shift, fleet, requests, row, instance)
        now_us, model = requests.time_us[row], requests.model[row]
        wait_us = min(max(0, fleet.free_us[instance] - now_us), _LONGEST_WAIT_US)
        prefill_us = int((requests.input_tokens[row] - cached) * models.prefill_us[model] * jitter)
        fleet.free_us[instance] = now_us + wait_us + prefill_us
        _remember(shift, fleet, requests, row, instance)
        ttft_us = wait_us + prefill_us + overhead_us
        slowdown = 1.0 + _CROWDING * min(wait_us / shift.patience_us, 4.0)
        answer_us = (requests.output_tokens[row] - 1) * models.decode_us[model] * jitter * slowdown
        # The next turn's arrival is known already, and it waits for this turn's answer.
        pressed = min(1.0, requests.next_us[row] / (ttft_us + answer_us))
        served.instance[row], served.cached_tokens[row] = instance, cached
        served.ttft_ms[row] = int(ttft_us * pressed / 1000)
        served.duration_ms[row] = served.ttft_ms[row] + int(answer_us * pressed / 1000)


@njit(nogil=True, inline="always")
def _route(shift: _Shift, models: Models, fleet: _Fleet, requests: Requests, row: int, first: float, second: float) -> int:
    """The user's last instance while it is up, of this model's pool and prompt, else the less busy of two that are up."""
    model, user, now_us = requests.model[row], requests.user[row], requests.time_us[row]
    pool, size = models.pool_first[model], models.pool_size[model]
    up = shift.up[now_us % _DAY_US // _HOUR_US, model]
    turned = shift.day // _SHIFT_DAYS
    home = fleet.home[user]
    if pool <= home < pool + size and (home - pool - turned) % size < up and fleet.free_us[home] <= now_us + shift.patience_us:
        return int(home)
    one = pool + (turned + int(first * up)) % size
    other = pool + (turned + int(second * up)) % size
    chosen = one if fleet.free_us[one] <= fleet.free_us[other] else other
    fleet.home[user] = chosen
    return int(chosen)


@njit(nogil=True, inline="always")
def _cached(shift: _Shift, fleet: _Fleet, requests: Requests, row: int, instance: int) -> int:
    """Tokens of this input that the instance holds: the conversation so far, else the system prompt, else nothing."""
    now_us = requests.time_us[row]
    for key in (_session_key(requests, row), _app_key(requests, row)):
        entry = _entry(key)
        if _holds(shift, fleet, instance, entry, key, now_us) and fleet.ready_us[instance, entry] <= now_us:
            tokens = min(fleet.tokens[instance, entry], requests.input_tokens[row] - 1)
            return int(tokens // CACHE_BLOCK_TOKENS * CACHE_BLOCK_TOKENS)
    return 0


@njit(nogil=True, inline="always")
def _remember(shift: _Shift, fleet: _Fleet, requests: Requests, row: int, instance: int) -> None:
    """Keep the conversation, which is there once its input is through, and the system prompt, if it is not there already."""
    now_us, done_us = requests.time_us[row], fleet.free_us[instance]
    key = _app_key(requests, row)
    entry = _entry(key)
    if not _holds(shift, fleet, instance, entry, key, now_us):
        fleet.key[instance, entry], fleet.tokens[instance, entry] = key, shift.system_tokens[requests.app[row]]
        fleet.ready_us[instance, entry] = done_us
    fleet.used_us[instance, entry] = done_us
    key = _session_key(requests, row)
    entry = _entry(key)
    fleet.key[instance, entry] = key
    fleet.tokens[instance, entry] = requests.input_tokens[row] + requests.output_tokens[row]
    fleet.ready_us[instance, entry] = fleet.used_us[instance, entry] = done_us


@njit(nogil=True, inline="always")
def _holds(shift: _Shift, fleet: _Fleet, instance: int, entry: int, key: int, now_us: int) -> bool:
    return bool(fleet.key[instance, entry] == key and now_us <= fleet.used_us[instance, entry] + shift.keep_us)


@njit(nogil=True, inline="always")
def _session_key(requests: Requests, row: int) -> int:
    return int(2 * requests.session[row] + 2)


@njit(nogil=True, inline="always")
def _app_key(requests: Requests, row: int) -> int:
    return int(2 * (requests.app[row] * _MANY_MODELS + requests.model[row]) + 1)


@njit(nogil=True, inline="always")
def _entry(key: int) -> int:
    """Fibonacci hashing: the high bits of a product with the golden ratio."""
    return int((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(58))
