"""LHD, least hit density: of a sample, the object goes that promises the fewest hits for the room and time that it takes.

Ages are counted in uses of the cache since the object's last use. For every age, and for classes of objects by how soon they were
used the time before, the cache counts how many were hit at that age and how many evicted. Of an object of some age, the
probability of a hit divided by the time that it is expected to stay is its hit density; divided by its size it is its rank. Every
`_PERIOD` uses the counts lose a tenth of their weight, the densities are computed anew, and until the eighth time ages are given
a unit in which they fit the table. Before the first, an object is worth less the older it is. The lowest rank of `_SAMPLE`
objects drawn at random goes. So hit counts depend on the draws, which start from a fixed seed, and differ a little from those of
other simulators.

Beckmann, Chen, Cidon: "LHD: improving cache hit rate by maximizing hit density", NSDI 2018.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.policy import implement
from llmtrace.replay.draws import SEED, below, new_draws
from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Stream

__all__ = ["LHD", "new"]

_AGES, _CLASSES, _SAMPLE, _PERIOD, _DECAY, _UNIT_ROUNDS = 4096, 16, 32, 1 << 15, 0.9, 8
_OVERFLOW_SHARE = 0.01
_HITS, _EVICTIONS, _DENSITIES = 0, 1, 2
_CACHED, _UNTIL, _ROUNDS, _SHIFT = 0, 1, 2, 3
"""Counts: objects in the cache, uses until densities are computed, how often they were, and the power of two of an age unit."""


class LHD(NamedTuple):
    """The cached objects in an array and their places in it; per object last use and last ages; the table by class and age."""

    members: Any
    places: Any
    used: Any
    ages: Any
    table: Any
    counts: Any
    random: Any


def new(stream: Stream, capacity: int) -> LHD:
    """An empty LHD cache."""
    objects = stream.objects
    table = np.zeros((3, _CLASSES, _AGES))
    table[_DENSITIES] = np.arange(1, _CLASSES + 1)[:, None] / np.arange(1, _AGES + 1)
    counts = np.array([0, _PERIOD, 0, max(int(objects).bit_length() - 9, 0)])
    places, ages = np.zeros(objects, np.int32), np.zeros((objects, 2), np.int32)
    return LHD(np.empty(objects, np.int32), places, np.zeros(objects, np.int64), ages, table, counts, new_draws(SEED))


@kernel
def _age(policy: LHD, now: int, one: int) -> Any:
    return min((now - policy.used[one]) >> policy.counts[_SHIFT], _AGES - 1)


@kernel
def _class(policy: LHD, one: int) -> int:
    """The class of an object: 0 where its last two ages reach the table's end, one more for every halving."""
    age = policy.ages[one, 0] + policy.ages[one, 1]
    if age == 0:
        return _CLASSES - 1
    place = 0
    while age < _AGES and place < _CLASSES - 1:
        age *= 2
        place += 1
    return place


@kernel
def _use(policy: LHD, now: int, one: int, age: int, before: int) -> None:
    policy.ages[one, 0], policy.ages[one, 1], policy.used[one] = age, before, now
    policy.counts[_UNTIL] -= 1
    if policy.counts[_UNTIL] == 0:
        policy.counts[_UNTIL] = _PERIOD
        policy.counts[_ROUNDS] += 1
        if policy.counts[_ROUNDS] <= _UNIT_ROUNDS:
            _coarsen(policy)
        _model(policy)


@kernel
def _coarsen(policy: LHD) -> None:
    """Double the unit of ages if more than a hundredth of what happened did at the last age."""
    table, last, overflow, total = policy.table, _AGES - 1, 0.0, 0.0
    for kind in (_HITS, _EVICTIONS):
        for group in range(_CLASSES):
            overflow += table[kind, group, last]
            for age in range(_AGES):
                total += table[kind, group, age]
    if overflow <= _OVERFLOW_SHARE * total:
        return
    policy.counts[_SHIFT] += 1
    for kind in (_HITS, _EVICTIONS):
        for group in range(_CLASSES):
            for age in range(_AGES):
                both = 2 * age
                table[kind, group, age] = table[kind, group, both] + table[kind, group, both + 1] if both < _AGES else 0.0


@kernel
def _model(policy: LHD) -> None:
    """Hit densities from the counts: hits at this age and later, over the ages spent by all that got this far."""
    table = policy.table
    for group in range(_CLASSES):
        hits, ends, spent = 0.0, 0.0, 0.0
        for age in range(_AGES - 1, -1, -1):
            hits += table[_HITS, group, age]
            ends += table[_HITS, group, age] + table[_EVICTIONS, group, age]
            spent += ends
            table[_DENSITIES, group, age] = hits / spent if spent > 0 else 0.0
            table[_HITS, group, age] *= _DECAY
            table[_EVICTIONS, group, age] *= _DECAY


def _hit(policy: LHD, now: int, one: int, was: int, size: int) -> None:
    age = _age(policy, now, one)
    policy.table[_HITS, _class(policy, one), age] += 1
    _use(policy, now, one, age, policy.ages[one, 0])


def _miss(policy: LHD, now: int, one: int, size: int) -> bool:
    return True


@kernel
def _sample(policy: LHD, now: int, held: Any, pinned: Any) -> Any:
    """The object of lowest rank among those drawn that are not pinned; draws go on until there is one."""
    victim: Any = -1
    lowest, drawn = np.inf, 0
    while drawn < _SAMPLE or victim == -1:
        one: Any = np.int64(policy.members[below(policy.random, policy.counts[_CACHED])])
        drawn += 1
        if pinned is not None and pinned[one] > 0:
            continue
        rank = policy.table[_DENSITIES, _class(policy, one), _age(policy, now, one)] / max(held[one], 1)
        if rank < lowest:
            victim, lowest = one, rank
    return victim


def _evict(policy: LHD, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    victim = _sample(policy, now, held, pinned)
    policy.table[_EVICTIONS, _class(policy, victim), _age(policy, now, victim)] += 1
    policy.counts[_CACHED] -= 1
    place, moved = policy.places[victim], policy.members[policy.counts[_CACHED]]
    policy.members[place], policy.places[moved] = moved, place
    return victim


def _insert(policy: LHD, now: int, one: int, size: int) -> None:
    place = policy.counts[_CACHED]
    policy.members[place], policy.places[one] = one, place
    policy.counts[_CACHED] += 1
    _use(policy, now, one, 0, _AGES)


implement(LHD, hit=_hit, miss=_miss, evict=_evict, insert=_insert)
