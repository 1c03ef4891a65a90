"""LRB, learning relaxed Belady: of a sample, the object goes whose next use a model predicts to be farthest away.

Time is counted in uses that the policy is told of. The memory window is a number of uses: what was not used within it is beyond
the boundary up to which it matters which object goes. While anything in the cache is beyond the window, the least recently used
object goes. Else `SAMPLE` objects of the cache are drawn at random, and of those the one goes whose predicted time to its next
use is longest; of equal ones the first drawn.

What the model knows of an object, in the cache or not, are its age, the times between its last uses as far as the window goes
back, its size at its last use, and counters of its uses that halve every 2^10, 2^11, ... uses of anything. From the first
eviction on, an object that was used within the window is drawn at random at every use, all with the same chance, and what is
known of it is noted. The note gets its label, the logarithm of the time to its next use, when the object is used again. If the
object leaves the window instead, the label is the logarithm of twice the window. Whenever there are `BATCH` labels, a
gradient-boosted regressor of LightGBM is trained on these alone, and replaces the one before. Until the first time this is LRU,
use by use: so it is LRU on every trace that is too short for `BATCH` labels.

The authors tune the window to a trace. Here it follows from what the cache has seen: the least power of two that is at least
`WINDOW_FILLS` times the uses that it takes to fill the empty cache, and at least `LEAST_WINDOW`. In the middle of a request
nothing is trained: labels beyond the `BATCH` that come before its end are dropped.

Song, Berger, Li, Lloyd: "Learning relaxed Belady for content distribution network caching", NSDI 2020.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from llmtrace.replay.cache.policies import lru
from llmtrace.replay.cache.policy import evict, hit, implement, insert
from llmtrace.replay.cache.queues import NONE
from llmtrace.replay.cache.trees import grow, lightgbm, new_trees, predict
from llmtrace.replay.draws import SEED, below, new_draws
from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    from llmtrace.replay.cache.stream import Ids, Ones, Sizes, Stream

__all__ = ["BATCH", "LEAST_WINDOW", "LRB", "SAMPLE", "WINDOW_FILLS", "learn", "new", "trainings", "window", "window_of"]

SAMPLE = 64
BATCH = 1 << 17
WINDOW_FILLS, LEAST_WINDOW = 8, 1 << 12
ASKED = "--policy lrb"
_GAPS, _COUNTERS, _FIRST_HALVING = 31, 10, 10
_AGE, _SIZE, _FIRST_GAP = 0, 1, 2
_FIRST_COUNTER = _FIRST_GAP + _GAPS
_FEATURES = _FIRST_COUNTER + _COUNTERS
_DRAWS = 8
"""At a use so many places of the window are drawn until one is the last use of an object."""
_CLOCK, _WINDOW, _CACHED, _OLD, _LABELS, _TRAININGS, _EVICTS = range(7)
"""Counts: uses so far; the window; objects in the cache; those beyond the window; labels; trainings; whether any was evicted."""


class LRB(NamedTuple):
    """The state of the policy.

    Attributes:
        lru: that of LRU.
        members: the objects in the cache.
        places: where each stands in `members`, `NONE` outside the cache.
        last: when each object was used last, `NONE` before.
        sizes: its size then.
        counters: its counters then.
        uses: the object of each of the last uses, by time modulo the length.
        before: the use before each of them of the same object, `NONE` if there is none.
        notes: when each object was noted last, `NONE` without a note that waits for its label.
        notes_before: the one before each of the last notes of the same object, by time as `uses`.
        features, labels: the batch, as far as it is labelled.
        sample, predicted: the features of what is drawn for eviction, and the model's word on it.
        drawn: those objects.
        trees: the model.
        counts: see `_CLOCK`.
        random: the state of the draws.
    """

    lru: Any
    members: Any
    places: Any
    last: Any
    sizes: Any
    counters: Any
    uses: Any
    before: Any
    notes: Any
    notes_before: Any
    features: Any
    labels: Any
    sample: Any
    predicted: Any
    drawn: Any
    trees: Any
    counts: Any
    random: Any


def new(stream: Stream, capacity: int, *, memory: int | None = None, batch: int = BATCH) -> LRB:
    """An empty LRB cache.

    Args:
        stream: what will be used.
        capacity: what the cache may hold.
        memory: the memory window in uses; as the module says if None.
        batch: labels per training.

    Raises:
        UsageError: if LightGBM cannot be used.
    """
    lightgbm(ASKED)
    objects, reach = stream.objects, window_of(stream, capacity) if memory is None else memory
    # A note is at most a window old when it is labelled, and the uses that count for it a window more.
    ring = 1 << min(2 * reach - 1, stream.ids.size).bit_length()
    none = [np.full(objects, NONE, np.int32) for _ in range(3)]
    return LRB(
        lru=lru.new(stream, capacity),
        members=np.empty(objects, np.int32),
        places=none[0],
        last=none[1],
        sizes=np.zeros(objects, np.int32),
        counters=np.zeros((objects, _COUNTERS), np.float32),
        uses=np.zeros(ring, np.int32),
        before=np.full(ring, NONE, np.int32),
        notes=none[2],
        notes_before=np.full(ring, NONE, np.int32),
        features=np.empty((batch, _FEATURES), np.float32),
        labels=np.empty(batch, np.int64),
        sample=np.empty((SAMPLE, _FEATURES), np.float32),
        predicted=np.empty(SAMPLE),
        drawn=np.empty(SAMPLE, np.int64),
        trees=new_trees(),
        counts=np.array([0, reach, 0, 0, 0, 0, 0]),
        random=new_draws(SEED),
    )


def window_of(stream: Stream, capacity: int) -> int:
    """The memory window in uses: a power of two.

    >>> from llmtrace.replay.cache.stream import of_objects
    >>> window_of(of_objects(np.arange(9_000, dtype=np.uint32), np.full(9_000, 5, np.int32)), 4_000)
    8192
    """
    fill = _fill(stream.ids, stream.sizes, stream.objects, capacity)
    return max(LEAST_WINDOW, 1 << (WINDOW_FILLS * fill - 1).bit_length())


@njit(nogil=True, cache=True)
def _fill(ids: Ids, sizes: Sizes | Ones, objects: int, capacity: int) -> int:
    """How many uses bring more than the capacity into a cache, or all there are."""
    held, used = np.zeros(objects, np.int32), 0
    for now in range(ids.size):
        used += np.int64(sizes[now]) - held[ids[now]]
        held[ids[now]] = sizes[now]
        if used > capacity:
            return now + 1
    return max(ids.size, 1)


def learn(policy: LRB) -> None:
    """Train on the batch, and begin a new one."""
    count = policy.counts[_LABELS]
    grow(policy.trees, policy.features[:count], np.log(policy.labels[:count]), ASKED)
    policy.counts[_LABELS] = 0
    policy.counts[_TRAININGS] += 1


def trainings(policy: LRB) -> int:
    """How often the model was trained."""
    return int(policy.counts[_TRAININGS])


def window(policy: LRB) -> int:
    """The memory window in uses."""
    return int(policy.counts[_WINDOW])


def _pauses(policy: LRB) -> Any:
    return policy.counts[_LABELS] == policy.labels.size


@kernel
def _slowest(age: int) -> Any:
    """What is left of the slowest counter after some uses; its square is what is left of the next one, which halves in half."""
    return 0.5 ** (age / (1 << (_FIRST_HALVING + _COUNTERS - 1)))


@kernel
def _describe(policy: LRB, one: int, then: int, row: Any) -> None:
    """Fill a row with what was known of an object at a time since its last use."""
    window, mask = policy.counts[_WINDOW], policy.uses.size - 1
    use: Any = np.int64(policy.last[one])
    age = then - use
    row[_AGE], row[_SIZE] = age, policy.sizes[one]
    # A time that is not known is longer than all that are.
    row[_FIRST_GAP:_FIRST_COUNTER] = 2 * window
    for place in range(_FIRST_GAP, _FIRST_COUNTER):
        earlier: Any = np.int64(policy.before[use & mask])
        if earlier == NONE or then - earlier >= window:
            break
        row[place] = use - earlier
        use = earlier
    decay = _slowest(age)
    for place in range(_COUNTERS - 1, -1, -1):
        row[_FIRST_COUNTER + place] = policy.counters[one, place] * decay
        decay *= decay


@kernel
def _label(policy: LRB, one: int, now: int, distance: int) -> None:
    """Label the open notes of an object: with the time to now, or with a distance that is given if not 0."""
    counts, mask = policy.counts, policy.uses.size - 1
    note: Any = np.int64(policy.notes[one])
    policy.notes[one] = NONE
    while note != NONE and counts[_LABELS] < policy.labels.size:
        _describe(policy, one, note, policy.features[counts[_LABELS]])
        policy.labels[counts[_LABELS]] = distance if distance > 0 else now - note
        counts[_LABELS] += 1
        note = np.int64(policy.notes_before[note & mask])


@kernel
def _forget(policy: LRB, now: int) -> None:
    """Let go of the object that leaves the window, if one does."""
    window = policy.counts[_WINDOW]
    if now < window:
        return
    one: Any = np.int64(policy.uses[(now - window) & (policy.uses.size - 1)])
    if policy.last[one] == now - window:
        _label(policy, one, now, 2 * window)
        policy.counts[_OLD] += policy.places[one] != NONE


@kernel
def _note(policy: LRB, now: int) -> None:
    """Draw an object that was used within the window, and note it."""
    counts, mask = policy.counts, policy.uses.size - 1
    span = min(counts[_WINDOW], now + 1)
    for _ in range(_DRAWS):
        use = now - below(policy.random, span)
        one: Any = np.int64(policy.uses[use & mask])
        if policy.last[one] == use:
            policy.notes_before[now & mask] = policy.notes[one]
            policy.notes[one] = now
            return


@kernel
def _use(policy: LRB, one: int, size: int) -> None:
    """Keep what is known of objects: this one is used."""
    counts, mask = policy.counts, policy.uses.size - 1
    now, last = counts[_CLOCK], policy.last[one]
    _forget(policy, now)
    _label(policy, one, now, 0)
    is_known = last != NONE and now - last < counts[_WINDOW]
    decay = _slowest(now - last) if is_known else 0.0
    for place in range(_COUNTERS - 1, -1, -1):
        policy.counters[one, place] = 1.0 + policy.counters[one, place] * decay
        decay *= decay
    policy.uses[now & mask], policy.before[now & mask] = one, last if is_known else NONE
    policy.last[one], policy.sizes[one] = now, size
    counts[_CLOCK] += 1
    if counts[_EVICTS]:
        _note(policy, now)


@kernel
def _is_old(policy: LRB, one: int) -> Any:
    """Whether an object was counted as beyond the window."""
    # The time of the last use that was told.
    return policy.counts[_CLOCK] - 1 - policy.last[one] >= policy.counts[_WINDOW]


def _hit(policy: LRB, now: int, one: int, was: int, size: int) -> None:
    hit(policy.lru, now, one, was, size)
    _use_held(policy, one, size)


@kernel
def _use_held(policy: LRB, one: int, size: int) -> None:
    last = policy.last[one]
    _use(policy, one, size)
    policy.counts[_OLD] -= policy.counts[_CLOCK] - 1 - last >= policy.counts[_WINDOW]


def _miss(policy: LRB, now: int, one: int, size: int) -> bool:
    _use(policy, one, size)
    return True


@kernel
def _farthest(policy: LRB, pinned: Any) -> Any:
    """Of a sample that is not pinned the object whose next use is predicted to be farthest away."""
    drawn, now = 0, policy.counts[_CLOCK] - 1
    while drawn < SAMPLE:
        one: Any = np.int64(policy.members[below(policy.random, policy.counts[_CACHED])])
        if pinned is None or pinned[one] <= 0:
            policy.drawn[drawn] = one
            _describe(policy, one, now, policy.sample[drawn])
            drawn += 1
    predict(policy.trees, policy.sample, SAMPLE, policy.predicted)
    return policy.drawn[np.argmax(policy.predicted)]


def _evict(policy: LRB, now: int, incoming: int, held: Any, pinned: Any) -> Any:
    policy.counts[_EVICTS] = 1
    victim: Any = np.int64(NONE)
    if policy.counts[_TRAININGS] == 0 or policy.counts[_OLD] > 0:
        victim = evict(policy.lru, now, incoming, held, pinned)
        if victim == NONE:
            return victim
    else:
        victim = _farthest(policy, pinned)
        policy.lru.last[victim] = NONE
    policy.counts[_OLD] -= _is_old(policy, victim)
    policy.counts[_CACHED] -= 1
    place, moved = policy.places[victim], policy.members[policy.counts[_CACHED]]
    policy.members[place], policy.places[moved] = moved, place
    policy.places[victim] = NONE
    return victim


def _insert(policy: LRB, now: int, one: int, size: int) -> None:
    insert(policy.lru, now, one, size)
    place = policy.counts[_CACHED]
    policy.members[place], policy.places[one] = one, place
    policy.counts[_CACHED] += 1


implement(LRB, hit=_hit, miss=_miss, evict=_evict, insert=_insert, pauses=_pauses)
