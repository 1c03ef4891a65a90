"""Instances that hold whole sessions.

A session in a cache is as large as its largest turn so far, prompt and answer. A turn finds the smaller of that and its prompt.
The session is then held with the turn, and others are evicted until the cache is not over its capacity; a session that alone is
larger evicts all others and stays. A turn finds what an earlier one left even if that is not complete yet. These are the rules
of the routing experiment of "A Year in LLM Serving" (arXiv 2608.13573).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.kernels import kernel
from llmtrace.replay.route.copies import (
    ABSENT,
    INSTANCE,
    MOST,
    NEXT,
    NONE,
    SIZE,
    TAIL,
    Copies,
    add,
    find,
    grown,
    is_full,
    let_go,
    new_copies,
    place_first,
)
from llmtrace.replay.route.eviction import evict, is_alone, use
from llmtrace.replay.route.memory import at_least
from llmtrace.replay.route.store import implement
from llmtrace.replay.route.view import CAPACITY, note

if TYPE_CHECKING:
    from llmtrace.replay.route.stream import Stream
    from llmtrace.replay.route.view import View

__all__ = ["Sessions", "count", "new"]

_PHYSICAL, _LOGICAL, _COPIES, _OBJECTS = range(4)


class Sessions(NamedTuple):
    """Sessions on instances.

    Attributes:
        copies: where they are.
        order: the order of eviction, one of `eviction.ORDERS`.
        is_bounded: whether a session that nobody will ask for any more takes room from others.
        session: int32, the place of the session of each request of the slab.
        is_last: whether a request is the last of its session.
        input_tokens: int32, its prompt.
        held_tokens: int32, what is held of it when it is complete.
        spread: int64 of shape (4,), over the sessions that ended: the sum over instances of the most tokens ever held there; the
            most of any one instance; instances that ever held them; and how many sessions there were.
    """

    copies: Copies
    order: int
    is_bounded: bool
    session: Any
    is_last: Any
    input_tokens: Any
    held_tokens: Any
    spread: Any

    def fed(self, stream: Stream) -> Sessions:
        """The same caches before the next slab."""
        return self._replace(
            copies=self.copies._replace(heads=at_least(self.copies.heads, stream.sessions, NONE)),
            session=stream.session,
            is_last=stream.is_last,
            input_tokens=stream.requests.input_tokens,
            held_tokens=stream.held_tokens,
        )

    def more(self, now: int) -> Sessions:
        """The same caches with room for request `now`."""
        del now
        return self._replace(copies=grown(self.copies, 1))

    def closed(self) -> Any:
        """What `spread` is when all sessions have ended."""
        for one in np.flatnonzero(self.copies.heads != NONE):
            count(self.copies, self.spread, int(one))
        return self.spread


def new(instances: int, order: int, *, is_bounded: bool = True) -> Sessions:
    """Empty caches."""
    nothing = np.zeros(0, np.int32)
    flags, spread = np.zeros(0, np.bool_), np.zeros(4, np.int64)
    return Sessions(new_copies(0, instances), order, is_bounded, nothing, flags, nothing, nothing, spread)


def _has_room(store: Sessions, now: int) -> Any:
    return not is_full(store.copies, 1)


def _look_up(store: Sessions, view: View, now: int) -> Any:
    rows, tokens = store.copies.rows, store.input_tokens[now]
    row = store.copies.heads[store.session[now]]
    while row != NONE:
        note(view, rows[row, INSTANCE], min(rows[row, SIZE], tokens))
        row = rows[row, NEXT]


def _serve(store: Sessions, view: View, now: int, instance: int) -> Any:
    copies, one = store.copies, store.session[now]
    row = find(copies, one, instance)
    if row == NONE:
        row = add(copies, one, instance)
    _hold(store, view, row, store.held_tokens[now])
    if store.is_last[now]:
        _end(store, one)


@kernel
def _hold(store: Sessions, view: View, row: int, tokens: int) -> None:
    """Put a session into its instance's cache, or let it grow there, and evict what does not fit with it."""
    copies, order, capacity = store.copies, store.order, view.facts[CAPACITY]
    rows, instance = copies.rows, copies.rows[row, INSTANCE]
    was = rows[row, SIZE]
    held = max(was, tokens)
    rows[row, MOST] = max(rows[row, MOST], held)
    if was == ABSENT:
        while view.used[instance] + held > capacity and copies.ends[instance, TAIL] != NONE:
            view.used[instance] -= evict(copies, order, instance)
        place_first(copies, row)
        rows[row, SIZE] = held
        view.used[instance] += held
        return
    use(copies, order, row)
    rows[row, SIZE] = held
    view.used[instance] += held - was
    while view.used[instance] > capacity and not is_alone(copies, instance):
        view.used[instance] -= evict(copies, order, instance)


@kernel
def _end(store: Sessions, one: int) -> None:
    """Account for a session that has ended; its copies go when they are evicted, or at once if none ever is."""
    let_go(store.copies, count(store.copies, store.spread, one), store.is_bounded)


@kernel
def count(copies: Copies, spread: Any, one: int) -> Any:
    """Take the copies of a session off their chain, and count how many there are and how much they ever held; the first."""
    most: Any = np.int64(0)
    first: Any = np.int64(copies.heads[one])
    row: Any = first
    copies.heads[one] = NONE
    while row != NONE:
        spread[_PHYSICAL] += copies.rows[row, MOST]
        spread[_COPIES] += 1
        most = max(most, np.int64(copies.rows[row, MOST]))
        row = np.int64(copies.rows[row, NEXT])
    spread[_LOGICAL] += most
    spread[_OBJECTS] += 1
    return first


implement(Sessions, has_room=_has_room, look_up=_look_up, serve=_serve)
