"""Instances that evict by policies of `cache` that keep more than a queue: S3-FIFO, ARC, GDSF, LFU, LHD.

They do what `cache` does (`llmtrace.replay.cache.loops`), each instance with a state of its own: a use of something in the cache
is a hit, whatever it grows by; anything else comes in if it is no larger than the cache and the policy lets it, after others have
been evicted; and what outgrew the cache may go itself. So a session that is larger than the cache does not stay, as it does where
a queue is all that is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.cache.policy import evict, hit, insert, miss
from llmtrace.replay.kernels import kernel
from llmtrace.replay.route import blocks, sessions
from llmtrace.replay.route.copies import ABSENT, INSTANCE, MOST, NONE, SIZE, add, find, is_full
from llmtrace.replay.route.eviction import LRU
from llmtrace.replay.route.fleets import new_fleet, of_instance, with_slots
from llmtrace.replay.route.slots import (
    FEWEST,
    SLOT,
    USES,
    Slots,
    end,
    have_room,
    new_slots,
    release,
    settle,
    slot_of,
    sweep,
    widened,
)
from llmtrace.replay.route.store import has_room, implement, look_up
from llmtrace.replay.route.view import CAPACITY

if TYPE_CHECKING:
    from llmtrace.replay.route.blocks import Blocks
    from llmtrace.replay.route.sessions import Sessions
    from llmtrace.replay.route.stream import Stream
    from llmtrace.replay.route.view import View

__all__ = ["RuledBlocks", "RuledSessions", "new_blocks", "new_sessions"]


class RuledSessions(NamedTuple):
    """Sessions on instances.

    Attributes:
        base: where they are.
        slots: what the policies know as objects.
        fleet: the states of the policies.
    """

    base: Sessions
    slots: Slots
    fleet: Any

    def fed(self, stream: Stream) -> RuledSessions:
        """The same caches before the next slab."""
        return self._replace(base=self.base.fed(stream))

    def more(self, now: int) -> RuledSessions:
        """The same caches with room for request `now`."""
        base = self.base.more(now) if is_full(self.base.copies, 1) else self.base
        return RuledSessions(base, *_with_room(self.slots, self.fleet, base.copies, 1))

    def closed(self) -> Any:
        """What `spread` is when all sessions have ended."""
        return self.base.closed()


class RuledBlocks(NamedTuple):
    """Blocks on instances; the attributes are those of `RuledSessions`."""

    base: Blocks
    slots: Slots
    fleet: Any

    def fed(self, stream: Stream) -> RuledBlocks:
        """The same caches before the next slab."""
        return self._replace(base=self.base.fed(stream))

    def more(self, now: int) -> RuledBlocks:
        """The same caches with room for request `now`."""
        wanted = int(self.base.offsets[now + 1] - self.base.offsets[now])
        base = self.base.more(now) if is_full(self.base.copies, wanted) else self.base
        return RuledBlocks(base, *_with_room(self.slots, self.fleet, base.copies, wanted))

    def closed(self) -> Any:
        """What `spread` is in the end."""
        return self.base.closed()


def new_sessions(policy: str, instances: int, *, capacity: int, objects: int) -> RuledSessions:
    """Empty caches of sessions.

    Args:
        policy: one of `fleets.MAKERS`.
        instances: how many.
        capacity: tokens that each may hold.
        objects: how many sessions there are in all.
    """
    fleet = new_fleet(policy, instances, FEWEST, capacity=capacity, objects=objects)
    return RuledSessions(sessions.new(instances, LRU), new_slots(instances), fleet)


def new_blocks(policy: str, instances: int, block_tokens: int, *, capacity: int, objects: int) -> RuledBlocks:
    """Empty caches of blocks; `capacity` is in tokens, and the others as of `new_sessions`."""
    fleet = new_fleet(policy, instances, FEWEST, capacity=capacity // block_tokens, objects=objects)
    return RuledBlocks(blocks.new(block_tokens, instances, LRU), new_slots(instances), fleet)


def _with_room(slots: Slots, fleet: Any, copies: Any, wanted: int) -> tuple[Slots, Any]:
    """Slots and states with so many slots free on every instance."""
    if have_room(slots, wanted):
        return slots, fleet
    sweep(copies, slots, fleet)
    slots.least[0] = 0
    count = slots.held.shape[1]
    # If few became free, another sweep would be due soon.
    if have_room(slots, max(wanted, count // 4)):
        return slots, fleet
    count = max(2 * count, count + wanted)
    return widened(slots, count), with_slots(fleet, count)


def _has_room(store: RuledSessions, now: int) -> Any:
    return has_room(store.base, now) and have_room(store.slots, 1)


def _has_room_for_blocks(store: RuledBlocks, now: int) -> Any:
    return has_room(store.base, now) and have_room(store.slots, store.base.offsets[now + 1] - store.base.offsets[now])


def _look_up(store: Any, view: View, now: int) -> Any:
    look_up(store.base, view, now)


def _serve(store: RuledSessions, view: View, now: int, instance: int) -> Any:
    base = store.base
    copies, one = base.copies, base.session[now]
    row = find(copies, one, instance)
    if row == NONE:
        row = add(copies, one, instance)
        copies.rows[row, SLOT] = NONE
    held = max(copies.rows[row, SIZE], base.held_tokens[now])
    copies.rows[row, MOST] = max(copies.rows[row, MOST], held)
    _use(store, view, row, held)
    if base.is_last[now]:
        end(copies, store.slots, sessions.count(copies, base.spread, one))


@kernel
def _use(store: RuledSessions, view: View, row: int, size: int) -> None:
    """Use a session that has this size then: `cache`'s `replay_objects` for one request."""
    copies, slots, capacity = store.base.copies, store.slots, view.facts[CAPACITY]
    instance = copies.rows[row, INSTANCE]
    policy, held = of_instance(store.fleet, instance), slots.held[instance]
    now, slot = slots.counts[instance, USES], slot_of(copies, slots, row)
    slots.counts[instance, USES] += 1
    was = held[slot]
    incoming = 0
    if was != ABSENT:
        hit(policy, now, slot, was, size)
        _hold(store, view, instance, slot, size)
    elif size <= capacity and miss(policy, now, slot, size):
        incoming = size
    else:
        settle(copies, slots, policy, instance, slot)
        return
    victim = 0
    while view.used[instance] + incoming > capacity and victim != NONE:
        victim = evict(policy, now, incoming, held, None)
        if victim != NONE:
            view.used[instance] -= held[victim]
            release(copies, slots, policy, instance, victim)
    if was == ABSENT and victim != NONE:
        insert(policy, now, slot, size)
        _hold(store, view, instance, slot, size)
    elif was == ABSENT:
        settle(copies, slots, policy, instance, slot)


@kernel
def _hold(store: RuledSessions, view: View, instance: int, slot: int, size: int) -> None:
    """Note the size of what is in a slot."""
    slots = store.slots
    view.used[instance] += size - max(slots.held[instance, slot], 0)
    slots.held[instance, slot] = size
    store.base.copies.rows[slots.rows[instance, slot], SIZE] = size


def _serve_blocks(store: RuledBlocks, view: View, now: int, instance: int) -> Any:
    base = store.base
    start, stop = base.offsets[now], base.offsets[now + 1]
    if base.block_tokens <= view.facts[CAPACITY]:
        _use_blocks(store, view, start, stop, instance)
    for place in range(start, stop):
        if base.is_last[place]:
            one = base.ids[place]
            first = base.copies.heads[one]
            base.copies.heads[one] = NONE
            end(base.copies, store.slots, first)


@kernel
def _use_blocks(store: RuledBlocks, view: View, start: int, stop: int, instance: int) -> None:
    """Use the blocks of a prompt, first those that are there: `cache`'s `replay_blocks` for one request."""
    base, slots = store.base, store.slots
    rows, policy = base.copies.rows, of_instance(store.fleet, instance)
    last = slots.counts[instance, USES] + stop - start - 1
    slots.counts[instance, USES] += stop - start
    for place in range(stop - start - 1, -1, -1):
        row: Any = blocks.copy_of(base, base.ids[start + place], instance)
        base.rows[place], base.behind[place] = row, rows[row, SIZE]
        if rows[row, SIZE] != ABSENT:
            hit(policy, last - place, _slot(rows, row), 1, 1)
    for place in range(stop - start - 1, -1, -1):
        if base.behind[place] == ABSENT and rows[base.rows[place], SIZE] == ABSENT:
            _let_in(store, view, base.rows[place], instance, last - place)


@kernel
def _slot(rows: Any, row: int) -> Any:
    return np.int64(rows[row, SLOT])


@kernel
def _let_in(store: RuledBlocks, view: View, row: int, instance: int, now: int) -> None:
    """Let a block in, if the policy wants."""
    copies, slots, tokens = store.base.copies, store.slots, store.base.block_tokens
    policy, slot = of_instance(store.fleet, instance), slot_of(copies, slots, row)
    victim: Any = np.int64(NONE)
    comes_in = miss(policy, now, slot, 1)
    if comes_in and view.used[instance] + tokens > view.facts[CAPACITY]:
        victim = evict(policy, now, 1, slots.held[instance], None)
        comes_in = victim != NONE
        if comes_in:
            view.used[instance] -= tokens
            release(copies, slots, policy, instance, victim)
    if comes_in:
        insert(policy, now, slot, 1)
        slots.held[instance, slot] = 1
        copies.rows[row, SIZE] = tokens
        view.used[instance] += tokens
    else:
        settle(copies, slots, policy, instance, slot)


implement(RuledSessions, has_room=_has_room, look_up=_look_up, serve=_serve)
implement(RuledBlocks, has_room=_has_room_for_blocks, look_up=_look_up, serve=_serve_blocks)
