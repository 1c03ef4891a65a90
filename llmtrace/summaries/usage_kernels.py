"""Kernels of `usage`: requests dealt into lots of users, the users of each lot told apart, and what each user meets tallied.

Places are unsigned where a loop is long: of a signed one Numba asks first whether it counts from the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from llmtrace.summaries.tallies import COUNT_BITS, settle

if TYPE_CHECKING:
    from llmtrace.summaries.interning import Ids, Integers, Keys

    Table = np.ndarray[tuple[int, int], np.dtype[np.int64]]

__all__ = ["DEALT_FIELDS", "FIELD", "LOTS", "NO_CELL", "USER_FIELDS", "deal", "tally", "tell_apart"]

LOTS = 256
DEALT_FIELDS, USER_FIELDS = 3, 3
FIELD = 13
"""A packed request is its model above two cells of so many bits, all ones where lengths do not count."""
NO_CELL = (1 << FIELD) - 1

_LOT_SHIFT = np.uint64(56)
_KEY, _PACKED, _TIME = range(DEALT_FIELDS)
_REQUESTS, _FIRST, _LAST = range(USER_FIELDS)
_ONE, _CELL_BITS, _MODEL_SHIFT, _NONE = np.uint64(1), np.uint64(FIELD), np.uint64(2 * FIELD), np.uint64(NO_CELL)
_COUNT_SHIFT = np.uint64(COUNT_BITS)
_FEWEST_BITS = 6
# 2^64 over the golden ratio: the upper bits of a product with it tell even similar keys apart (Knuth, TAOCP 6.4).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@njit(nogil=True, cache=True)
def deal(keys: Keys, packed: Keys, times: Integers, edges: Integers, dealt: Table) -> None:
    """Deal a chunk into lots, by the first bits of users' keys; within a lot requests stay in order.

    Args:
        keys: the key of each request's user.
        packed: the packed requests.
        times: their arrivals.
        edges: where the chunk begins in `dealt`; then also where each lot of it ends.
        dealt: takes the requests.
    """
    sizes, places = np.zeros(LOTS, np.int64), np.empty(LOTS, np.uint64)
    for key in keys:
        sizes[key >> _LOT_SHIFT] += 1
    for lot in range(LOTS):
        places[lot] = edges[lot]
        edges[lot + 1] = edges[lot] + sizes[lot]
    for row in range(keys.size):
        lot_of_row = keys[row] >> _LOT_SHIFT
        place = places[lot_of_row]
        places[lot_of_row] = place + _ONE
        dealt[place, _KEY], dealt[place, _PACKED], dealt[place, _TIME] = np.int64(keys[row]), np.int64(packed[row]), times[row]


@njit(nogil=True, cache=True)
def tell_apart(dealt: Table, edges: Table, room: tuple[Ids, Ids], keys: Keys, users: Table) -> Integers:
    """Number the users of one lot after the other, by open addressing in a table of their own, and note what they do.

    Args:
        dealt: the requests of all chunks.
        edges: per chunk where each lot begins, and where the last one ends.
        room: takes the number of each request's user; slots for twice as many users as a lot has.
        keys: takes the key of each user.
        users: takes what each does.

    Returns:
        Where the users of each lot begin, and how many there are.
    """
    (ids, slots), bounds, known = room, np.zeros(LOTS + 1, np.int64), 0
    for lot in range(LOTS):
        base, bits = known, _bits(bounds[lot] - bounds[max(lot - 1, 0)])
        slots[: 1 << bits] = 0
        for chunk in range(len(edges)):
            own = slice(edges[chunk, lot], edges[chunk, lot + 1])
            known, bits = _number_all(dealt[own], ids[own], slots, (base, known, bits), keys, users)
        bounds[lot + 1] = known
    return bounds


@njit(nogil=True, cache=True)
def _bits(users: int) -> int:
    """The bits of a table that so many users leave three quarters of free."""
    bits = _FEWEST_BITS
    while 1 << bits < 4 * users:
        bits += 1
    return bits


@njit(nogil=True, cache=True)
def _number_all(dealt: Table, ids: Ids, slots: Ids, known: tuple[int, int, int], keys: Keys, users: Table) -> tuple[int, int]:
    """Number the users of a chunk's part of a lot.

    Args:
        dealt: its requests.
        ids: takes the number of each one's user.
        slots: of which the first 2^bits are used, at most half of them.
        known: the number of the lot's first user, how many users are known, and these bits.
        keys: takes the key of each user.
        users: takes what each does.

    Returns:
        How many users are known then, and the bits.
    """
    (base, end, bits), row = known, 0
    while True:
        row, end = _number(dealt, row, ids, slots[: 1 << bits], (base, end, bits), keys, users)
        if row == ids.size:
            return end, bits
        bits += 1
        slots[: 1 << bits] = 0
        _place(keys[base:end], slots[: 1 << bits], bits)


@njit(nogil=True, cache=True)
def _number(
    dealt: Table, row: int, ids: Ids, slots: Ids, known: tuple[int, int, int], keys: Keys, users: Table
) -> tuple[int, int]:
    """Number users from `row` on until half of the slots are taken: the next row, and how many users are known then.

    A slot has the number in the lot + 1; 0 is free.
    """
    (start, end, bits), most = known, known[0] + slots.size // 2
    base, shift, mask = np.uint64(start), np.uint64(64 - bits), np.uint64(slots.size - 1)
    while row < ids.size:
        key = np.uint64(dealt[row, _KEY])
        slot = (key * _SPREAD) >> shift
        while slots[slot] != 0 and keys[base + np.uint64(slots[slot]) - _ONE] != key:
            slot = (slot + _ONE) & mask
        if slots[slot] == 0:
            if end == most:
                break
            keys[end], users[end, _REQUESTS], users[end, _FIRST] = key, 0, dealt[row, _TIME]
            end += 1
            slots[slot] = end - start
        user = base + np.uint64(slots[slot]) - _ONE
        ids[row] = user
        users[user, _REQUESTS] += 1
        users[user, _LAST] = dealt[row, _TIME]
        row += 1
    return row, end


@njit(nogil=True, cache=True)
def _place(keys: Keys, slots: Ids, bits: int) -> None:
    """Put the known users of a lot into an empty table."""
    shift, mask = np.uint64(64 - bits), np.uint64(slots.size - 1)
    for one in range(keys.size):
        slot = (keys[one] * _SPREAD) >> shift
        while slots[slot] != 0:
            slot = (slot + _ONE) & mask
        slots[slot] = one + 1


@njit(nogil=True, cache=True)
def tally(
    requests: tuple[Table, Ids, Table],
    bounds: tuple[Table, Integers],
    order: Integers,
    work: tuple[Keys, Keys],
    flat: tuple[Ids, Ids],
    counts: tuple[Ids, Ids],
    first: int,
) -> tuple[Table, Ids, tuple[np.int64, np.int64]]:
    """Put the requests of each user of a lot together, users in ascending order, and tally them; lot by lot.

    Args:
        requests: as they were dealt, the number of the user of each, and what is noted of each user.
        bounds: where the lots of each chunk begin; where the users of each lot begin.
        order: the numbers of users in ascending order.
        work: room for as many numbers as there are requests, twice.
        flat: room for the tallies of models and for those of lengths.
        counts: zeros for each model and for each cell of lengths.
        first: the place of the first known user in the order.

    Returns:
        Per known user what is noted of it; how many tallies of either kind it has; how many there are in all.
    """
    users, (table, places), (models, lengths), (met, cells) = requests[2], work, counts, flat
    found, sizes = np.empty((3, order.size - first), np.int64), np.empty((2, order.size - first), np.uint32)
    end, reach = np.int64(0), np.int64(0)
    for lot in range(LOTS):
        low, high = bounds[1][lot], bounds[1][lot + 1]
        _arrange(requests, bounds[0], lot, order[low:high], table, places)
        for rank in range(max(low, first), high):
            user, place = order[rank], rank - first
            for field in range(USER_FIELDS):
                found[field, place] = users[user, field]
            own = table[places[user] - np.uint64(users[user, _REQUESTS]) : places[user]]
            start, end = end, _tally_models(own, met, end, models)
            sizes[0, place] = end - start
            start, reach = reach, _tally_lengths(own, cells, reach, lengths)
            sizes[1, place] = reach - start
    return found, sizes, (end, reach)


@njit(nogil=True, cache=True)
def _arrange(requests: tuple[Table, Ids, Table], edges: Table, lot: int, order: Integers, table: Keys, places: Keys) -> None:
    """Put the packed requests of the users of a lot into a table, user by user; `places` says where those of each end."""
    (dealt, ids, users), start = requests, np.uint64(0)
    for user in order:
        places[user] = start
        start += np.uint64(users[user, _REQUESTS])
    for chunk in range(len(edges)):
        for row in range(edges[chunk, lot], edges[chunk, lot + 1]):
            place = places[ids[row]]
            table[place] = dealt[row, _PACKED]
            places[ids[row]] = place + _ONE


@njit(nogil=True, cache=True)
def _tally_models(packed: Keys, flat: Ids, start: np.int64, counts: Ids) -> np.int64:
    """Tally the models of a user from `start` on; how far the tallies reach then."""
    size = np.uint64(start)
    if packed.size == 1:
        flat[size] = (packed[0] >> _MODEL_SHIFT) << _COUNT_SHIFT | _ONE
        return start + 1
    for row in range(packed.size):
        size = _meet(packed[row] >> _MODEL_SHIFT, flat, size, counts)
    return settle(flat, start, size, counts)


@njit(nogil=True, cache=True)
def _tally_lengths(packed: Keys, flat: Ids, start: np.int64, counts: Ids) -> np.int64:
    """Tally the lengths of a user likewise; both cells of a request count, or neither."""
    size = np.uint64(start)
    for row in range(packed.size):
        cell, moved = (packed[row] >> _CELL_BITS) & _NONE, packed[row] & _NONE
        if cell != _NONE and packed.size == 1:
            flat[size], flat[size + _ONE] = cell << _COUNT_SHIFT | _ONE, moved << _COUNT_SHIFT | _ONE
            return start + 2
        if cell != _NONE:
            size = _meet(moved, flat, _meet(cell, flat, size, counts), counts)
    return settle(flat, start, size, counts)


@njit(nogil=True, cache=True)
def _meet(cell: np.uint64, flat: Ids, size: np.uint64, counts: Ids) -> np.uint64:
    """Count a cell, and write it down where it is new; how far what is written reaches then."""
    # Written every time, and kept where it is new: without a branch.
    flat[size] = cell
    count = counts[cell]
    counts[cell] = count + 1
    return size + np.uint64(count == 0)
