"""Many replays of one stream at a time, policies by capacities, each reduced at once to what is told of it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from llmtrace.replay.cache import accounting, gaps
from llmtrace.replay.cache.accounting import Hits
from llmtrace.replay.cache.policies import lrb
from llmtrace.replay.cache.policies.ttl import expire
from llmtrace.replay.cache.policy import ABSENT
from llmtrace.replay.cache.replay import check_leaves, play, replay
from llmtrace.replay.cache.room import at_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from llmtrace.replay.cache.gaps import Classes
    from llmtrace.replay.cache.requests import Requests
    from llmtrace.replay.cache.stream import Sizes

    Integers = npt.NDArray[np.int64]

__all__ = ["BINS", "IDEAL", "LRB", "ORACLE", "TTL", "Learning", "Outcome", "Run", "Settings", "simulate"]

BINS = 50
"""Bins of the histogram of hit ratios; one more holds requests that found all of their input, as in `hit-dist`."""
IDEAL, LRB, ORACLE, TTL = "ideal", "lrb", "oracle", "ttl"
"""Beside the policies of `replay`: a cache without bound, one that learns, the best that is known for a cache that knows the
stream, and LRU with a time to live."""
_WITHOUT_BOUND = 2**62


class Run(NamedTuple):
    """A policy at a capacity in tokens; None is without bound."""

    policy: str
    capacity_tokens: int | None


@dataclass(frozen=True)
class Settings:
    """What all runs share.

    Attributes:
        first: the first request that counts; those before it warm the cache.
        ttl_us: the time to live of the policy `ttl`.
        leaves_only: whether of blocks only those may go that no block in the cache continues.
    """

    first: int = 0
    ttl_us: int = 0
    leaves_only: bool = False


class Learning(NamedTuple):
    """How often a model was trained in a replay, and on a memory window of how many uses."""

    trainings: int
    window: int


@dataclass(frozen=True)
class Outcome:
    """What is told of a run.

    Attributes:
        run: the run.
        hits: sums over the requests that count.
        histogram: a row per bin of the hit ratio: requests, their input tokens, and those that need not be computed.
        gap_tokens: tokens that need not be computed, by the class of the idle gap before.
        learning: of a policy that learns.
    """

    run: Run
    hits: Hits
    histogram: Integers
    gap_tokens: Integers
    learning: Learning | None = None


class _Replay(NamedTuple):
    """A run that one replay makes."""

    policy: str
    capacity_tokens: int | None
    leaves_only: bool


def simulate(requests: Requests, runs: Sequence[Run], settings: Settings, threads: int | None = None) -> dict[Run, Outcome]:
    """Replay every run, several at once.

    Args:
        requests: what is replayed.
        runs: policies of `replay.POLICIES`, and `ideal`, `lrb`, `oracle` and `ttl`.
        settings: what they share.
        threads: runs at once, if memory has room for them; the number of processors by default.

    Raises:
        InputError: if it has no room for one.
    """
    parts = {run: _parts(run, requests, settings) for run in runs}
    wanted = list(dict.fromkeys(part for found in parts.values() for part in found))
    workers = at_once(requests, [part.policy for part in wanted], threads or os.cpu_count() or 1)
    _prepare(requests, wanted)
    one = partial(_outcome, requests, gaps.classes(requests), settings)
    with ThreadPoolExecutor(workers, thread_name_prefix="llmtrace-replay") as pool:
        futures = [pool.submit(one, part) for part in _longest_first(wanted)]
        try:
            outcomes = dict(zip(_longest_first(wanted), (future.result() for future in futures), strict=True))
        finally:
            for future in futures:
                future.cancel()
    return {run: _best([outcomes[part] for part in found], run) for run, found in parts.items()}


def _parts(run: Run, requests: Requests, settings: Settings) -> list[_Replay]:
    """The replays that a run needs: an oracle two, of which the better one counts."""
    if run.policy != ORACLE:
        return [_Replay(*run, settings.leaves_only and run.policy not in {IDEAL, TTL})]
    if requests.block_tokens is None:
        return [_Replay(name, run.capacity_tokens, leaves_only=False) for name in ("belady", "belady-size")]
    both = (False, True) if requests.stream.is_chained else (False,)
    return [_Replay("belady", run.capacity_tokens, leaves_only) for leaves_only in both]


def _prepare(requests: Requests, wanted: Iterable[_Replay]) -> None:
    """Work out what several replays need of the stream, so that no two threads do."""
    stream = requests.stream
    if any(one.policy.startswith("belady") for one in wanted):
        _ = stream.nexts, stream.forward
    if any(one.leaves_only for one in wanted):
        _ = stream.is_chained


def _longest_first(wanted: Iterable[_Replay]) -> list[_Replay]:
    """Replays that take longest begin first, so that no thread is left with one of them at the end."""
    slow = (LRB, "belady-size", "lhd", "gdsf", "arc", "belady")
    return sorted(wanted, key=lambda one: slow.index(one.policy) if one.policy in slow else len(slow))


def _outcome(requests: Requests, classes: Classes, settings: Settings, one: _Replay) -> Outcome:
    found, learning = _found(requests, settings, one)
    if requests.block_tokens is None:
        reused = accounting.reused_of_objects(found, requests.input_tokens, requests.input_tokens)
        is_hit = found != ABSENT
    else:
        reused = accounting.reused_of_blocks(found, requests.input_tokens, requests.block_tokens)
        is_hit = found > 0
    tokens, first = requests.input_tokens, settings.first
    return Outcome(
        Run(one.policy, one.capacity_tokens),
        accounting.count(is_hit[first:], tokens[first:], reused[first:]),
        _histogram(reused[first:], tokens[first:]),
        gaps.tally(requests, classes, found, reused, first),
        learning,
    )


def _found(requests: Requests, settings: Settings, one: _Replay) -> tuple[Sizes, Learning | None]:
    stream = requests.stream
    capacity = _WITHOUT_BOUND if one.capacity_tokens is None else one.capacity_tokens // requests.unit_tokens
    if one.policy == LRB:
        check_leaves(stream, leaves_only=one.leaves_only)
        learner = lrb.new(stream, capacity)
        found = play(stream, learner, capacity, leaves_only=one.leaves_only, pause=partial(lrb.learn, learner))
        return found, Learning(lrb.trainings(learner), lrb.window(learner))
    # Without a bound nothing is evicted, and all policies are one.
    policy = "fifo" if one.policy == IDEAL else "lru" if one.policy == TTL else one.policy
    found = replay(stream, policy, capacity, leaves_only=one.leaves_only)
    return (expire(stream, requests.times_us, found, settings.ttl_us) if one.policy == TTL else found), None


def _best(outcomes: Sequence[Outcome], run: Run) -> Outcome:
    """Of several replays the most that any counts; the distributions are those of the one with most tokens by prefix."""
    best = max(outcomes, key=lambda one: one.hits.prefix_tokens)
    return replace(best, run=run, hits=Hits(*(max(values) for values in zip(*(one.hits for one in outcomes), strict=True))))


@njit(nogil=True, cache=True)
def _histogram(reused: Sizes | Integers, tokens: Sizes) -> Integers:
    """Requests, input tokens and reused tokens by ⌊50 · reused / input⌋, in whole numbers."""
    found = np.zeros((BINS + 1, 3), np.int64)
    for request in range(tokens.size):
        place = BINS * np.int64(reused[request]) // tokens[request]
        found[place, 0] += 1
        found[place, 1] += tokens[request]
        found[place, 2] += reused[request]
    return found
