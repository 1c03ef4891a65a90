"""Slots of instances: what the eviction policies of `cache` know as objects.

A copy stands in a slot of its instance while it is in the cache or the policy remembers it; then the slot is another's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.policy import remembers
from llmtrace.replay.kernels import kernel
from llmtrace.replay.route.copies import ABSENT, FRONT, INSTANCE, NEXT, NONE, OBJECT, SIZE, give_back
from llmtrace.replay.route.fleets import of_instance

if TYPE_CHECKING:
    from llmtrace.replay.route.copies import Copies

__all__ = ["FEWEST", "SLOT", "USES", "Slots", "end", "have_room", "new_slots", "release", "settle", "slot_of", "sweep", "widened"]

SLOT = FRONT
"""The column of a copy's slot, `NONE` if it has none: where the policies of `cache` evict, copies are in no queue."""
FEWEST = 64
"""Slots that an instance begins with."""
_FREE, USES = 0, 1
"""Columns of `counts`: slots that are free, and uses of the cache so far."""
_NOBODY = -2
"""The copy in a slot that is free; `NONE` in one that is not, whose copy is known no longer."""


class Slots(NamedTuple):
    """All slots.

    Attributes:
        held: int32 of shape (instances, slots), the size of what is in the cache, `ABSENT` if nothing is.
        rows: int32 of the same shape, the copy in each slot.
        free: int32 of the same shape, the slots that are free.
        counts: int64 of shape (instances, 2), see `_FREE`.
        least: int64 of shape (1,), how many slots are free on any instance at least.
    """

    held: Any
    rows: Any
    free: Any
    counts: Any
    least: Any


def new_slots(instances: int, slots: int = FEWEST) -> Slots:
    """Slots that are all free."""
    shape = (instances, slots)
    free = np.broadcast_to(np.arange(slots - 1, -1, -1, dtype=np.int32), shape).copy()
    counts = np.tile([slots, 0], (instances, 1)).astype(np.int64)
    return Slots(np.full(shape, ABSENT, np.int32), np.full(shape, _NOBODY, np.int32), free, counts, np.array([slots]))


def widened(slots: Slots, count: int) -> Slots:
    """The same slots with others behind, so many in all."""
    instances, before = slots.held.shape
    more = new_slots(instances, count)
    more.held[:, :before], more.rows[:, :before] = slots.held, slots.rows
    more.counts[:] = slots.counts
    for instance in range(instances):
        free = int(slots.counts[instance, _FREE])
        more.free[instance, :free] = slots.free[instance, :free]
        more.free[instance, free : free + count - before] = np.arange(count - 1, before - 1, -1)
    more.counts[:, _FREE] += count - before
    more.least[0] = more.counts[:, _FREE].min()
    return more


@kernel
def have_room(slots: Slots, wanted: int) -> Any:
    """Whether so many slots are free on every instance."""
    if slots.least[0] < wanted:
        least = slots.counts[0, _FREE]
        for instance in range(slots.counts.shape[0]):
            least = min(least, slots.counts[instance, _FREE])
        slots.least[0] = least
    return slots.least[0] >= wanted


@kernel
def slot_of(copies: Copies, slots: Slots, row: int) -> Any:
    """The slot of a copy, a free one if it has none; there must be one."""
    instance, slot = copies.rows[row, INSTANCE], copies.rows[row, SLOT]
    if slot == NONE:
        slots.counts[instance, _FREE] -= 1
        slots.least[0] -= 1
        slot = slots.free[instance, slots.counts[instance, _FREE]]
        slots.rows[instance, slot] = row
        copies.rows[row, SLOT] = slot
    return np.int64(slot)


@kernel
def release(copies: Copies, slots: Slots, policy: Any, instance: int, slot: int) -> None:
    """Empty the slot of what was evicted. A copy that nobody will ask for any more is forgotten."""
    row = slots.rows[instance, slot]
    slots.held[instance, slot] = ABSENT
    if row != NONE:
        copies.rows[row, SIZE] = ABSENT
        if copies.rows[row, OBJECT] == NONE:
            give_back(copies, row)
            slots.rows[instance, slot] = NONE
    settle(copies, slots, policy, instance, slot)


@kernel
def settle(copies: Copies, slots: Slots, policy: Any, instance: int, slot: int) -> None:
    """Let another have a slot in which nothing is held or remembered."""
    if slots.held[instance, slot] != ABSENT or remembers(policy, slot):
        return
    if slots.rows[instance, slot] != NONE:
        copies.rows[slots.rows[instance, slot], SLOT] = NONE
    slots.rows[instance, slot] = _NOBODY
    slots.free[instance, slots.counts[instance, _FREE]] = slot
    slots.counts[instance, _FREE] += 1


@kernel
def sweep(copies: Copies, slots: Slots, fleet: Any) -> None:
    """Settle all slots: policies forget what they remembered without a word."""
    for instance in range(slots.rows.shape[0]):
        policy = of_instance(fleet, instance)
        for slot in range(slots.rows.shape[1]):
            if slots.rows[instance, slot] != _NOBODY:
                settle(copies, slots, policy, instance, slot)


@kernel
def end(copies: Copies, slots: Slots, first: int) -> None:
    """Let the copies on a chain, of what nobody will ask for any more, go when they are evicted."""
    row: Any = np.int64(first)
    while row != NONE:
        after = np.int64(copies.rows[row, NEXT])
        copies.rows[row, OBJECT] = NONE
        if copies.rows[row, SIZE] == ABSENT:
            if copies.rows[row, SLOT] != NONE:
                slots.rows[copies.rows[row, INSTANCE], copies.rows[row, SLOT]] = NONE
            give_back(copies, row)
        row = after
