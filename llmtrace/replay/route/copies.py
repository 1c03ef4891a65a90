"""Copies of objects on instances, and the order in which each instance evicts them, for kernels.

A copy is a row of `rows`: its object on one instance, whether it is in that instance's cache or was once. All copies of an object
hang on a chain from `heads`, so that a look-up costs as much as there are copies, not instances; those in a cache stand in a
queue of their instance, the one that is evicted first last. Rows are taken from a pool, and given back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.kernels import kernel

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

__all__ = [
    "ABSENT",
    "FRONT",
    "HAND",
    "HEAD",
    "INSTANCE",
    "MARK",
    "MOST",
    "NEXT",
    "NONE",
    "OBJECT",
    "SIZE",
    "TAIL",
    "Copies",
    "add",
    "drop",
    "find",
    "give_back",
    "grown",
    "is_full",
    "let_go",
    "new_copies",
    "place_behind",
    "place_first",
    "take_out",
    "taken_bytes",
]

NONE = -1
ABSENT = -1
"""The size of a copy that is in no cache."""
NEXT, INSTANCE, SIZE, MOST, FRONT, BACK, OBJECT, MARK = range(8)
"""Columns of `rows`: next copy of the object, instance, size in its cache, largest size it ever had there, neighbours in the
queue, object (`NONE` if no request will ask for it any more), whether it was used since it was last passed over. Together half a
cache line."""
HEAD, TAIL, HAND = 0, 1, 2
"""Columns of `ends`; the hand is the copy that SIEVE looks at next."""
_FREE, _TAKEN = 0, 1
_FIRST_ROWS = 1 << 12


class Copies(NamedTuple):
    """All copies.

    Attributes:
        rows: int32 of shape (room, 8), a row per copy.
        heads: int32 of shape (objects,), the first copy of each object.
        ends: int32 of shape (instances, 3), the first and last copy of each queue, and its hand.
        pool: int64 of shape (2,), the first row that was given back, and how many rows were ever taken.
    """

    rows: Any
    heads: Any
    ends: Any
    pool: Any


def new_copies(objects: int, instances: int) -> Copies:
    """No copies."""
    rows = np.empty((_FIRST_ROWS, 8), np.int32)
    return Copies(rows, np.full(objects, NONE, np.int32), np.full((instances, 3), NONE, np.int32), np.array([NONE, 0]))


def grown(copies: Copies, room: int) -> Copies:
    """The same copies with room for so many more at least."""
    rows = np.empty((max(2 * copies.rows.shape[0], copies.rows.shape[0] + room), 8), np.int32)
    rows[: copies.rows.shape[0]] = copies.rows
    return copies._replace(rows=rows)


def taken_bytes(copies: Copies) -> int:
    """Bytes of the copies, without those for which there is room only."""
    return int(copies.pool[_TAKEN] * copies.rows[:1].nbytes + copies.heads.nbytes + copies.ends.nbytes)


@kernel
def is_full(copies: Copies, wanted: int) -> Any:
    """Whether there may be no room for so many more copies."""
    return copies.pool[_TAKEN] + wanted > copies.rows.shape[0] and (wanted > 1 or copies.pool[_FREE] == NONE)


@kernel
def find(copies: Copies, one: int, instance: int) -> Any:
    """The row of an object's copy on an instance, `NONE` if there never was one."""
    row = copies.heads[one]
    while row != NONE and copies.rows[row, INSTANCE] != instance:
        row = copies.rows[row, NEXT]
    return np.int64(row)


@kernel
def add(copies: Copies, one: int, instance: int) -> Any:
    """A new copy, in no cache yet; there must be room."""
    row = copies.pool[_FREE]
    if row == NONE:
        row = copies.pool[_TAKEN]
        copies.pool[_TAKEN] += 1
    else:
        copies.pool[_FREE] = copies.rows[row, NEXT]
    copies.rows[row, NEXT] = copies.heads[one]
    copies.rows[row, INSTANCE] = instance
    copies.rows[row, SIZE] = ABSENT
    copies.rows[row, MOST] = 0
    copies.rows[row, OBJECT] = one
    copies.heads[one] = row
    return row


@kernel
def give_back(copies: Copies, row: int) -> None:
    """Let a row that is on no chain and in no queue be taken again."""
    copies.rows[row, NEXT] = copies.pool[_FREE]
    copies.pool[_FREE] = row


@kernel
def let_go(copies: Copies, first: int, is_bounded: bool) -> None:  # noqa: FBT001 - a kernel has no keyword arguments
    """Let the copies of an object that has ended, this one the first, go when they are evicted, or at once if none ever is."""
    row: Any = np.int64(first)
    while row != NONE:
        after = np.int64(copies.rows[row, NEXT])
        copies.rows[row, OBJECT] = NONE
        if copies.rows[row, SIZE] == ABSENT:
            give_back(copies, row)
        elif not is_bounded:
            take_out(copies, row)
            give_back(copies, row)
        row = after


@kernel
def place_first(copies: Copies, row: int) -> None:
    """Put a copy that is in no queue first in that of its instance."""
    instance = copies.rows[row, INSTANCE]
    head = copies.ends[instance, HEAD]
    copies.rows[row, FRONT] = NONE
    copies.rows[row, BACK] = head
    copies.rows[row, MARK] = 0
    copies.ends[instance, HEAD] = row
    if head == NONE:
        copies.ends[instance, TAIL] = row
    else:
        copies.rows[head, FRONT] = row


@kernel
def place_behind(copies: Copies, row: int, front: int) -> None:
    """Put a copy that is in no queue behind one that is in its instance's."""
    back = copies.rows[front, BACK]
    copies.rows[row, FRONT] = front
    copies.rows[row, BACK] = back
    copies.rows[row, MARK] = 0
    copies.rows[front, BACK] = row
    if back == NONE:
        copies.ends[copies.rows[row, INSTANCE], TAIL] = row
    else:
        copies.rows[back, FRONT] = row


@kernel
def take_out(copies: Copies, row: int) -> None:
    """Take a copy out of the queue that it is in."""
    instance, front, back = copies.rows[row, INSTANCE], copies.rows[row, FRONT], copies.rows[row, BACK]
    if front == NONE:
        copies.ends[instance, HEAD] = back
    else:
        copies.rows[front, BACK] = back
    if back == NONE:
        copies.ends[instance, TAIL] = front
    else:
        copies.rows[back, FRONT] = front


@kernel
def drop(copies: Copies, row: int) -> Any:
    """Evict a copy: its size. One that nobody will ask for any more is forgotten."""
    size = np.int64(copies.rows[row, SIZE])
    take_out(copies, row)
    copies.rows[row, SIZE] = ABSENT
    if copies.rows[row, OBJECT] == NONE:
        give_back(copies, row)
    return size
