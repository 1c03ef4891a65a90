"""What a cache is asked for: a stream of uses, of objects or of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.uint32]
    Sizes = npt.NDArray[np.int32]
    Ones = npt.NDArray[np.int8]
    Offsets = npt.NDArray[np.int64]

__all__ = ["NEVER", "Stream", "of_blocks", "of_objects"]

NEVER = -1
"""The position of a next use that there is none of."""


@dataclass(frozen=True)
class Stream:
    """Uses in order.

    Attributes:
        ids: the object of each use, dense numbers from 0.
        sizes: its size at that use, in tokens; 1 for blocks.
        objects: how many objects there are.
        offsets: where the blocks of each request begin, and where the last end; they stand from the last block of the prompt to
            the
            first. None for objects, of which each request uses one.
    """

    ids: Ids
    sizes: Sizes | Ones
    objects: int
    offsets: Offsets | None = None

    @cached_property
    def forward(self) -> Ids:
        """The ids, the blocks of each request from the first of the prompt to the last."""
        return self.ids if self.offsets is None else _turned(self.ids, self.offsets)

    @cached_property
    def nexts(self) -> Sizes:
        """For each use the position of the next one of the same object in `forward`, `NEVER` if there is none.

        So of the blocks that a request will use, the last of the prompt is the one whose next use is farthest.
        """
        nexts = _nexts(self.forward, self.objects)
        return nexts if self.offsets is None else _turned(nexts, self.offsets)

    @cached_property
    def is_chained(self) -> bool:
        """Whether every block stands behind the same one in all prompts, so that it stands for the whole prefix before it."""
        return self.offsets is None or _is_chained(self.ids, self.offsets, self.parents)

    @cached_property
    def parents(self) -> Sizes:
        """For each block the one before it in its prompt, -1 for the first of a prompt.

        The ids of blocks stand for the whole prefix, so that each has one parent; where a trace breaks that rule, the first one
        counts.
        """
        if self.offsets is None:
            return np.full(self.objects, NEVER, np.int32)
        return _parents(self.ids, self.offsets, self.objects)


def of_objects(ids: Ids, sizes: Sizes, objects: int | None = None) -> Stream:
    """A stream of whole objects, such as sessions that grow.

    >>> of_objects(np.array([0, 1, 0], np.uint32), np.array([5, 3, 9], np.int32)).nexts
    array([ 2, -1, -1], dtype=int32)
    """
    return Stream(ids, sizes, int(ids.max(initial=0)) + 1 if objects is None else objects)


def of_blocks(ids: Ids, offsets: Offsets, objects: int | None = None) -> Stream:
    """A stream of blocks.

    Args:
        ids: the blocks of all requests, from the first block of each prompt to the last.
        offsets: where those of each request begin, and where the last end.
        objects: how many there are, if known.

    >>> of_blocks(np.array([0, 1, 0, 2], np.uint32), np.array([0, 2, 4])).ids
    array([1, 0, 2, 0], dtype=uint32)
    """
    backward = _turned(ids, offsets)
    count = int(ids.max(initial=0)) + 1 if objects is None else objects
    return Stream(backward, np.ones(ids.size, np.int8), count, offsets)


@njit(nogil=True, cache=True)
def _turned(values: Ids | Sizes, offsets: Offsets) -> Any:
    """The values with those of every request turned round."""
    turned = np.empty_like(values)
    for request in range(offsets.size - 1):
        start, stop = offsets[request], offsets[request + 1]
        for row in range(start, stop):
            turned[start + stop - 1 - row] = values[row]
    return turned


@njit(nogil=True, cache=True)
def _nexts(ids: Ids, objects: int) -> Sizes:
    nexts, later = np.empty(ids.size, np.int32), np.full(objects, NEVER, np.int32)
    for row in range(ids.size - 1, -1, -1):
        nexts[row] = later[ids[row]]
        later[ids[row]] = row
    return nexts


@njit(nogil=True, cache=True)
def _parents(ids: Ids, offsets: Offsets, objects: int) -> Sizes:
    unknown = -2
    parents = np.full(objects, unknown, np.int32)
    for request in range(offsets.size - 1):
        parent = NEVER
        for row in range(offsets[request + 1] - 1, offsets[request] - 1, -1):
            if parents[ids[row]] == unknown:
                parents[ids[row]] = parent
            parent = ids[row]
    return parents


@njit(nogil=True, cache=True)
def _is_chained(ids: Ids, offsets: Offsets, parents: Sizes) -> bool:
    for request in range(offsets.size - 1):
        for row in range(offsets[request], offsets[request + 1]):
            parent = NEVER if row + 1 == offsets[request + 1] else np.int64(ids[row + 1])
            if parents[ids[row]] != parent:
                return False
    return True
