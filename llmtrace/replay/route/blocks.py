"""Instances that hold blocks of prompts, each with the hash of the whole prefix up to its end.

An instance holds the leading blocks of a prompt up to the first that is not in its cache. When it has computed the prompt it
holds all of its blocks: first those that are there are used, then the others come in, from the last block of the prompt to the
first, so that the end of a prompt is evicted before its beginning; these are the rules of
`llmtrace.replay.cache.loops.replay_blocks`. What an answer adds is not known before a later prompt has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.kernels import kernel
from llmtrace.replay.route.copies import (
    ABSENT,
    FRONT,
    INSTANCE,
    NEXT,
    NONE,
    SIZE,
    Copies,
    add,
    find,
    grown,
    is_full,
    let_go,
    new_copies,
    place_behind,
    place_first,
)
from llmtrace.replay.route.eviction import LRU, evict, use
from llmtrace.replay.route.memory import at_least
from llmtrace.replay.route.store import implement
from llmtrace.replay.route.view import CAPACITY, note

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.replay.route.stream import Stream
    from llmtrace.replay.route.view import View

    Offsets = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

__all__ = ["Blocks", "Prompts", "copy_of", "new"]


class Prompts(NamedTuple):
    """The blocks of prompts.

    Attributes:
        ids: the blocks of all requests, from the first block of each prompt to the last; dense numbers, or their places.
        offsets: where those of each request begin, and where the last end.
        block_tokens: tokens of a block; the last of a prompt may have fewer.
        is_last: whether each is the last use of its block.
        places: how many places blocks have taken so far.
    """

    ids: Any
    offsets: Offsets
    block_tokens: int
    is_last: Flags = np.zeros(0, np.bool_)
    places: int = 0


class Blocks(NamedTuple):
    """Blocks on instances.

    Attributes:
        copies: where they are.
        order: the order of eviction, one of `eviction.ORDERS`.
        is_bounded: whether a block that nobody will ask for any more takes room from others.
        ids: the places of the blocks of all requests of the slab, from the first block of each prompt to the last.
        offsets: where those of each request begin, and where the last end.
        is_last: whether each is the last use of its block.
        input_tokens: int32, the prompt of each request.
        block_tokens: tokens of a block.
        leading: int32 of shape (instances,), room: leading blocks that an instance holds.
        behind: int64, room for the longest prompt: the next block to the front that was there before.
        rows: int32, room for the longest prompt: the copy of each block.
        spread: int64 of shape (4,): copies there ever were, in tokens; blocks there are, in tokens; and the same as counts.
    """

    copies: Copies
    order: int
    is_bounded: bool
    ids: Any
    offsets: Any
    is_last: Any
    input_tokens: Any
    block_tokens: int
    leading: Any
    behind: Any
    rows: Any
    spread: Any

    def fed(self, stream: Stream) -> Blocks:
        """The same caches before the next slab."""
        prompts: Any = stream.prompts
        longest = int(np.diff(prompts.offsets).max(initial=0))
        return self._replace(
            copies=self.copies._replace(heads=at_least(self.copies.heads, prompts.places, NONE)),
            ids=prompts.ids,
            offsets=prompts.offsets,
            is_last=prompts.is_last,
            input_tokens=stream.requests.input_tokens,
            behind=at_least(self.behind, longest),
            rows=at_least(self.rows, longest),
        )

    def more(self, now: int) -> Blocks:
        """The same caches with room for request `now`."""
        return self._replace(copies=grown(self.copies, int(self.offsets[now + 1] - self.offsets[now])))

    def closed(self) -> Any:
        """What `spread` is in the end."""
        return self.spread


def new(block_tokens: int, instances: int, order: int, *, is_bounded: bool = True) -> Blocks:
    """Empty caches."""
    places, numbers, flags = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.bool_)
    leading, spread = np.zeros(instances, np.int32), np.zeros(4, np.int64)
    copies = new_copies(0, instances)
    return Blocks(
        copies, order, is_bounded, places, numbers, flags, places, block_tokens, leading, numbers.copy(), places.copy(), spread
    )


def _has_room(store: Blocks, now: int) -> Any:
    return not is_full(store.copies, store.offsets[now + 1] - store.offsets[now])


def _look_up(store: Blocks, view: View, now: int) -> Any:
    """Walk along the prompt as long as an instance holds all so far; who holds the first block is who may hold more."""
    rows, start, stop = store.copies.rows, store.offsets[now], store.offsets[now + 1]
    depth, goes_on = 0, True
    while goes_on and start + depth < stop:
        goes_on = False
        row = store.copies.heads[store.ids[start + depth]]
        while row != NONE:
            one = rows[row, INSTANCE]
            if rows[row, SIZE] != ABSENT and store.leading[one] == depth:
                store.leading[one] += 1
                goes_on = True
            row = rows[row, NEXT]
        depth += 1
    for one in range(store.leading.size):
        found: Any = np.int64(store.leading[one]) * store.block_tokens
        note(view, one, min(found, store.input_tokens[now]))
        store.leading[one] = 0


def _serve(store: Blocks, view: View, now: int, instance: int) -> Any:
    start, stop = store.offsets[now], store.offsets[now + 1]
    if store.block_tokens <= view.facts[CAPACITY]:
        _use(store, start, stop, instance)
        for place in range(stop - start - 1, -1, -1):
            if store.behind[place] != place:
                _let_in(store, view, start, place, stop - start, instance)
    for place in range(start, stop):
        if store.is_last[place]:
            _end(store, store.ids[place])


@kernel
def _use(store: Blocks, start: int, stop: int, instance: int) -> None:
    """Use the blocks that are there, from the last to the first; note for every other which of them stands next before it."""
    copies = store.copies
    for place in range(stop - start - 1, -1, -1):
        one = store.ids[start + place]
        row = copy_of(store, one, instance)
        store.rows[place] = row
        if copies.rows[row, SIZE] != ABSENT:
            use(copies, store.order, row)
    behind = NONE
    for place in range(stop - start):
        if copies.rows[store.rows[place], SIZE] != ABSENT:
            behind = place
        store.behind[place] = behind


@kernel
def copy_of(store: Blocks, one: int, instance: int) -> Any:
    """The row of a block's copy on an instance, a new one that is counted if there never was one."""
    copies = store.copies
    row = find(copies, one, instance)
    if row == NONE:
        row = np.int64(add(copies, one, instance))
        # Of a copy that stands in no queue this is the slot, and it has none.
        copies.rows[row, FRONT] = NONE
        store.spread[0] += store.block_tokens
        store.spread[2] += 1
        is_new = copies.rows[row, NEXT] == NONE
        store.spread[1] += store.block_tokens * is_new
        store.spread[3] += is_new
    return row


@kernel
def _let_in(store: Blocks, view: View, start: int, place: int, length: int, instance: int) -> None:
    """Let a block in: first in the queue, but in LRU's behind the blocks of its prompt that stand before it."""
    copies, row = store.copies, store.rows[place]
    if copies.rows[row, SIZE] != ABSENT:
        return
    if view.used[instance] + store.block_tokens > view.facts[CAPACITY]:
        view.used[instance] -= evict(copies, store.order, instance)
    front = store.behind[place]
    while front != NONE and copies.rows[store.rows[front], SIZE] == ABSENT:
        front = store.behind[front - 1] if front > 0 else NONE
    if store.order == LRU and front != NONE:
        place_behind(copies, row, store.rows[front])
    else:
        place_first(copies, row)
    copies.rows[row, SIZE] = store.block_tokens
    view.used[instance] += store.block_tokens


@kernel
def _end(store: Blocks, one: int) -> None:
    """Let the copies of a block that nobody will ask for any more go when they are evicted, or at once if none ever is."""
    first: Any = np.int64(store.copies.heads[one])
    store.copies.heads[one] = NONE
    let_go(store.copies, first, store.is_bounded)


implement(Blocks, has_room=_has_room, look_up=_look_up, serve=_serve)
