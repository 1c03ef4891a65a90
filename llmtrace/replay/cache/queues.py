"""Doubly linked queues over dense object numbers, for kernels.

An object stands in one queue of a set at most. `links` has for each object the one before it (nearer the head) and the one
behind it; `ends` has for each queue its head and its tail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    import numpy.typing as npt

    Links = npt.NDArray[np.int32]

__all__ = ["BACK", "FRONT", "HEAD", "NONE", "TAIL", "new_queues", "push", "unlink"]

NONE = -1
"""No object."""
FRONT, BACK = 0, 1
"""The columns of `links`: the neighbour nearer the head, and the one nearer the tail."""
HEAD, TAIL = 0, 1
"""The columns of `ends`."""


def new_queues(objects: int, queues: int = 1, *, more: int = 0) -> tuple[Links, Links]:
    """Empty queues for objects numbered from 0: `links` and `ends`.

    `links` has `more` columns for what else is known of an object, 0 at first: what is beside the links comes from memory with
    them.
    """
    links = np.full((objects, 2 + more), NONE, np.int32)
    links[:, 2:] = 0
    return links, np.full((queues, 2), NONE, np.int32)


@kernel
def push(links: Links, ends: Links, queue: int, one: int) -> None:
    """Put an object that is in no queue at the head of one."""
    head = ends[queue, HEAD]
    links[one, FRONT] = NONE
    links[one, BACK] = head
    ends[queue, HEAD] = one
    if head == NONE:
        ends[queue, TAIL] = one
    else:
        links[head, FRONT] = one


@kernel
def unlink(links: Links, ends: Links, queue: int, one: int) -> None:
    """Take an object out of the queue that it is in."""
    front, back = links[one, FRONT], links[one, BACK]
    if front == NONE:
        ends[queue, HEAD] = back
    else:
        links[front, BACK] = back
    if back == NONE:
        ends[queue, TAIL] = front
    else:
        links[back, FRONT] = front
