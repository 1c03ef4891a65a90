"""First-in first-out queues over dense object numbers, for kernels: each object stands in one at most once.

`ring` has a row per queue, of as many places as there are objects, and `span` the place of the oldest and how many there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    import numpy.typing as npt

    Ring = npt.NDArray[np.uint32]
    Span = npt.NDArray[np.int64]

__all__ = ["OLDEST", "QUEUED", "append", "new_rings", "take"]

OLDEST, QUEUED = 0, 1
"""The columns of `span`."""


def new_rings(objects: int, queues: int = 1) -> tuple[Ring, Span]:
    """Empty queues: `ring` and `span`."""
    return np.empty((queues, objects), np.uint32), np.zeros((queues, 2), np.int64)


@kernel
def append(ring: Ring, span: Span, queue: int, one: int) -> None:
    """Put an object last."""
    place = span[queue, OLDEST] + span[queue, QUEUED]
    if place >= ring.shape[1]:
        place -= ring.shape[1]
    ring[queue, place] = one
    span[queue, QUEUED] += 1


@kernel
def take(ring: Ring, span: Span, queue: int) -> Any:
    """Take the oldest object out of a queue that has one."""
    place = span[queue, OLDEST]
    one = np.int64(ring[queue, place])
    span[queue, OLDEST] = 0 if place + 1 == ring.shape[1] else place + 1
    span[queue, QUEUED] -= 1
    return one
