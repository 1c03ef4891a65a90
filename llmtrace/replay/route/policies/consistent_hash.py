"""Consistent hashing: a user, or a session, goes to the instance that follows its hash on a ring.

Each instance stands on the ring in many places, so that shares are even and one that joins or leaves moves few keys. With a
bound, an instance that has more than `bound` times its even share of the requests in flight, this one included, is passed over
for the next on the ring. A request without a key goes where its number in the trace hashes to.

Karger, Lehman, Leighton, Panigrahy, Levine, Lewin: "Consistent hashing and random trees", STOC 1997; the bound: Mirrokni, Thorup,
Zadimoghaddam: "Consistent hashing with bounded loads", SODA 2018.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.draws import mixed
from llmtrace.replay.route.policy import NOBODY, implement

if TYPE_CHECKING:
    from llmtrace.replay.route.view import View

__all__ = ["ConsistentHash", "new"]

PLACES = 128
"""Places of each instance on the ring: shares differ by about a tenth."""


class ConsistentHash(NamedTuple):
    """The ring in order: hashes and their instances; the bound, 0 for none; how many requests had no key."""

    hashes: Any
    owners: Any
    bound: Any
    unknown: Any


def new(instances: int, users: int, *, bound: float = 0.0) -> ConsistentHash:
    """A ring of instances.

    Args:
        instances: how many.
        users: how many users there are; the ring does not depend on them.
        bound: how many times its even share of requests in flight an instance may have, above 1; 0 for no bound.
    """
    places = np.arange(1, instances * PLACES + 1, dtype=np.uint64)
    hashes = np.array([mixed(place << np.uint64(32)) for place in places], np.uint64)
    order = np.argsort(hashes)
    owners = (np.arange(instances * PLACES) // PLACES).astype(np.int32)
    return ConsistentHash(hashes[order], owners[order], np.array([bound]), np.zeros(1, np.uint64))


def _choose(policy: ConsistentHash, view: View, key: int, input_tokens: int) -> Any:
    word = np.uint64(key) + np.uint64(1)
    if key == NOBODY:
        policy.unknown[0] += np.uint64(1)
        word = (policy.unknown[0] << np.uint64(1)) ^ np.uint64(1 << 63)
    place: Any = np.searchsorted(policy.hashes, mixed(word))
    place = 0 if place == policy.hashes.size else place
    if policy.bound[0] > 0:
        most = policy.bound[0] * (view.queue.sum() + 1) / view.queue.size
        while view.queue[policy.owners[place]] + 1 > np.ceil(most):
            place = 0 if place + 1 == policy.hashes.size else place + 1
    return np.int64(policy.owners[place])


implement(ConsistentHash, _choose)
