"""Usage: what one pass over requests in order of time finds out about models, users and lengths.

Requests come in chunks. Each is numbered by model and counted at once, and what is needed of it later, its model and the
buckets of its lengths, is packed into one number. These numbers are then dealt into lots by the first bits of their users' keys:
a lot has few users, so that all that is kept of them while they are told apart, and their requests put together, stays in the
processor's nearest caches. There each user's models and lengths are tallied (see `tallies`).

Lengths count where both the input and the output tokens of a request are positive. Over all requests their histograms have
`BITS` significant bits, those of a user `USER_BITS` (see `histogram`); the cell of a user's length is its bucket, that of an
output moved up by `OUTPUT_CELL`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from llmtrace.summaries.histogram import bucket_of
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.tallies import Tallies, ranked, settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.cells import Cells
    from llmtrace.summaries.interning import Ids, Integers, Keys

    Table = np.ndarray[tuple[int, int], np.dtype[np.int64]]

__all__ = ["BITS", "CELLS", "OUTPUT_CELL", "USER_BITS", "Chunk", "Usage", "survey"]

BITS, USER_BITS = 11, 6
OUTPUT_CELL = (64 - USER_BITS) << USER_BITS
"""The cell of an output of no tokens; those of inputs are below it."""
CELLS = 2 * OUTPUT_CELL

_LOTS = 256
_LOT_SHIFT = np.uint64(56)
_FEWEST_MODELS = 1 << 10
# Two sums of 63-bit numbers are kept as sums of their upper and of their lower 32 bits, which no part is long enough to wrap.
_REQUESTS, _INPUT, _OUTPUT, _FIRST_ROW, _MODEL_FIELDS = 0, 1, 4, 7, 8
_HALF = 32
_LOWER = (1 << _HALF) - 1
# A packed request is its model above two cells of 13 bits, all ones where lengths do not count.
_FIELD = 13
_NO_CELL = (1 << _FIELD) - 1
_KEY, _PACKED, _TIME, _DEALT_FIELDS = range(4)
_FIRST, _LAST, _USER_FIELDS = 1, 2, 3
_ONE = np.uint64(1)
# 2^64 over the golden ratio: the upper bits of a product with it tell even similar keys apart (Knuth, TAOCP 6.4).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Chunk:
    """Some consecutive requests.

    Attributes:
        users: the key of each one's user; None where users do not matter.
        models: the key of its model.
        times_us: arrivals, ascending, in microseconds since 1970.
        inputs: input tokens, -1 where not known.
        outputs: output tokens, the same.
    """

    users: Keys | None
    models: Keys
    times_us: Integers
    inputs: Integers
    outputs: Integers


@dataclass(frozen=True)
class Usage:
    """What is found out. Users are the known ones.

    Attributes:
        models: keys of models, ascending, `UNKNOWN` among them where it occurs.
        model_rows: the row of the first request to each.
        model_requests: how many requests go to each.
        model_tokens: of input tokens three arrays: how many requests of each model have known ones, and the upper and the lower
            part of their sum, upper · 2^32 + lower; then the same of output tokens.
        lengths: the histograms of input and of output tokens.
        users: keys of users, ascending.
        requests: how many requests each user has.
        first_us: its first arrival.
        last_us: its last one.
        user_models: how often each user turns to which model: its place in `models`.
        user_lengths: the cells of each user's lengths.
    """

    models: Keys
    model_rows: Integers
    model_requests: Integers
    model_tokens: tuple[Integers, ...]
    lengths: Cells
    users: Keys
    requests: Integers
    first_us: Integers
    last_us: Integers
    user_models: Tallies
    user_lengths: Tallies


class _Room(threading.local):
    """What a thread works with, part after part: to get it from the system anew costs more than to work with it."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._arrays: dict[str, npt.NDArray[Any]] = {}

    def array(self, name: str, shape: int | tuple[int, int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """The array of that name, of any content."""
        rows = shape if isinstance(shape, int) else shape[0]
        if name not in self._arrays or len(self._arrays[name]) < rows:
            self._arrays[name] = np.empty(shape, dtype)
        return self._arrays[name][:rows]


_ROOM = _Room()


def survey(chunks: Iterable[Chunk], rows: int) -> Usage:
    """What is found out about requests; about their users too, where chunks name them.

    Args:
        chunks: in order of time. Each is looked at once, so that one need not be there before the last is done with.
        rows: how many requests there are.
    """
    numbers, models = Interner(), np.zeros((_FEWEST_MODELS, _MODEL_FIELDS), np.int64)
    lengths, packed = _ROOM.array("lengths", (2, (64 - BITS) << BITS), np.uint32), _ROOM.array("packed", rows, np.int64)
    users, sizes = _ROOM.array("named", rows, np.uint64), np.zeros(_LOTS + 1, np.int64)
    times: list[Integers] = []
    lengths[:], start = 0, 0
    for chunk in chunks:
        ids = numbers.add(chunk.models)
        models, end = with_room(models, numbers.keys.size), start + ids.size
        _note(ids, (chunk.inputs, chunk.outputs), models, lengths, packed[start:end], start)
        if chunk.users is not None:
            users[start:end] = chunk.users
            times.append(chunk.times_us)
            _size_up(users[start:end], sizes)
        start = end
    order, ranks = ranked(numbers.keys)
    by_model = models[order].T.copy()
    for upper, lower in ((_INPUT + 1, _INPUT + 2), (_OUTPUT + 1, _OUTPUT + 2)):
        by_model[upper] += by_model[lower] >> _HALF
        by_model[lower] &= _LOWER
    return Usage(
        numbers.keys[order],
        by_model[_FIRST_ROW],
        by_model[_REQUESTS],
        tuple(by_model[_INPUT:_FIRST_ROW]),
        _listed(lengths),
        *_by_user(*_dealt(users, packed, times, np.cumsum(sizes)), ranks),
    )


def _dealt(users: Keys, packed: Integers, times: Sequence[Integers], lots: Integers) -> tuple[Table, Integers]:
    """The requests by the lots of their users, and where each lot begins; none where chunks name no users."""
    dealt = _ROOM.array("dealt", (int(lots[-1]), _DEALT_FIELDS), np.int64)
    places, start = lots[:-1].copy(), 0
    for times_us in times:
        end = start + times_us.size
        _deal(users[start:end], packed[start:end], times_us, places, dealt)
        start = end
    return dealt, lots


def with_room(table: Table, rows: int) -> Table:
    """The table with room for so many rows; those added are zero."""
    if rows <= len(table):
        return table
    wider = np.zeros((max(rows, 4 * len(table)), table.shape[1]), np.int64)
    wider[: len(table)] = table
    return wider


def _listed(lengths: npt.NDArray[np.uint32]) -> Cells:
    """The buckets of each histogram that occur, and how often each does."""
    occurring = [np.flatnonzero(one) for one in lengths]
    counts = np.concatenate([one[there] for one, there in zip(lengths, occurring, strict=True)])
    offsets = np.cumsum([0, *(there.size for there in occurring)])
    return offsets, np.concatenate(occurring).astype(np.uint32), counts.astype(np.int64)


def _by_user(dealt: Table, lots: Integers, ranks: Ids) -> tuple[Keys, Integers, Integers, Integers, Tallies, Tallies]:
    """Known users, ascending, with requests, first and last arrival, and the tallies of their models and lengths."""
    rows = len(dealt)
    ids, users = _ROOM.array("ids", rows, np.uint32), _ROOM.array("users", (rows, _USER_FIELDS), np.int64)
    slots, keys = _ROOM.array("slots", _slots(int(np.diff(lots).max())), np.uint32), _ROOM.array("keys", rows, np.uint64)
    known, bounds = _tell_apart(dealt, lots, (ids, slots), keys, users)
    order = np.argsort(keys[:known])
    first = int(known > 0 and keys[order[0]] == UNKNOWN)
    work = _ROOM.array("table", rows, np.int64), _ROOM.array("places", rows, np.int64)
    flat = _ROOM.array("models", rows + 1, np.uint32), _ROOM.array("cells", 2 * rows + 1, np.uint32)
    found, sizes, ends = _tally((dealt, ids, users), (lots, bounds), (order, ranks), work, flat, first)
    models, lengths = (Tallies(sizes[one], flat[one][: ends[one]].copy(), width) for one, width in enumerate((ranks.size, CELLS)))
    requests, first_us, last_us = found
    return keys[order[first:]], requests, first_us, last_us, models, lengths


def _slots(rows: int) -> int:
    """Slots to tell the users of so many requests apart: a power of two, half of them free at least."""
    return max(64, 1 << (2 * rows - 1).bit_length())


@njit(nogil=True, cache=True)
def _size_up(keys: Keys, places: Integers) -> None:
    """Count the requests of each lot, one place further on."""
    for key in keys:
        places[(key >> _LOT_SHIFT) + _ONE] += 1


@njit(nogil=True, cache=True)
def _deal(keys: Keys, packed: Integers, times: Integers, places: Integers, dealt: Table) -> None:
    for row in range(keys.size):
        lot = keys[row] >> _LOT_SHIFT
        place = places[lot]
        places[lot] = place + 1
        dealt[place, _KEY], dealt[place, _PACKED], dealt[place, _TIME] = np.int64(keys[row]), packed[row], times[row]


@njit(nogil=True, cache=True)
def _note(
    ids: Ids, tokens: tuple[Integers, Integers], models: Table, lengths: npt.NDArray[np.uint32], packed: Integers, start: int
) -> None:
    """Count a chunk, whose first request is that of row `start`; one thing after the other, which is fastest."""
    inputs, outputs = tokens
    _count_models(ids, inputs, outputs, models, start)
    _count_lengths(inputs, outputs, lengths)
    _pack(ids, inputs, outputs, packed)


@njit(nogil=True, cache=True)
def _count_models(ids: Ids, inputs: Integers, outputs: Integers, models: Table, start: int) -> None:
    for row in range(ids.size):
        one = ids[row]
        if models[one, _REQUESTS] == 0:
            models[one, _FIRST_ROW] = start + row
        models[one, _REQUESTS] += 1
        if inputs[row] >= 0:
            models[one, _INPUT] += 1
            models[one, _INPUT + 1] += inputs[row] >> _HALF
            models[one, _INPUT + 2] += inputs[row] & _LOWER
        if outputs[row] >= 0:
            models[one, _OUTPUT] += 1
            models[one, _OUTPUT + 1] += outputs[row] >> _HALF
            models[one, _OUTPUT + 2] += outputs[row] & _LOWER


@njit(nogil=True, cache=True)
def _count_lengths(inputs: Integers, outputs: Integers, lengths: npt.NDArray[np.uint32]) -> None:
    for row in range(inputs.size):
        if inputs[row] > 0 and outputs[row] > 0:
            lengths[0, bucket_of(inputs[row], BITS)] += 1
            lengths[1, bucket_of(outputs[row], BITS)] += 1


@njit(nogil=True, cache=True)
def _pack(ids: Ids, inputs: Integers, outputs: Integers, packed: Integers) -> None:
    for row in range(ids.size):
        cell, moved = _NO_CELL, _NO_CELL
        if inputs[row] > 0 and outputs[row] > 0:
            cell, moved = bucket_of(inputs[row], USER_BITS), OUTPUT_CELL + bucket_of(outputs[row], USER_BITS)
        packed[row] = np.int64(ids[row]) << 2 * _FIELD | cell << _FIELD | moved


@njit(nogil=True, cache=True)
def _tell_apart(dealt: Table, lots: Integers, room: tuple[Ids, Ids], keys: Keys, users: Table) -> tuple[int, Integers]:
    """Number the users of one lot after the other, by open addressing in a table of their own, and note what they do.

    Returns:
        How many users there are, and where those of each lot begin.
    """
    (ids, slots), bounds = room, np.zeros(lots.size, np.int64)
    known = 0
    for lot in range(lots.size - 1):
        size, bits = 64, 6
        while size < 2 * (lots[lot + 1] - lots[lot]):
            size, bits = 2 * size, bits + 1
        slots[:size] = 0
        known = _number(dealt[lots[lot] : lots[lot + 1]], ids[lots[lot] : lots[lot + 1]], slots[:size], bits, known, keys, users)
        bounds[lot + 1] = known
    return known, bounds


@njit(nogil=True, cache=True)
def _number(dealt: Table, ids: Ids, slots: Ids, bits: int, known: int, keys: Keys, users: Table) -> int:
    """Number the users of a lot from `known` on; how many there are then. A slot has the number in the lot + 1; 0 is free."""
    base, shift, mask = known, np.uint64(64 - bits), np.uint64(slots.size - 1)
    for row in range(ids.size):
        key = np.uint64(dealt[row, _KEY])
        slot = (key * _SPREAD) >> shift
        while slots[slot] != 0 and keys[base + slots[slot] - 1] != key:
            slot = (slot + _ONE) & mask
        if slots[slot] == 0:
            keys[known], users[known, _REQUESTS], users[known, _FIRST] = key, 0, dealt[row, _TIME]
            known += 1
            slots[slot] = known - base
        user = base + np.int64(slots[slot]) - 1
        ids[row] = user
        users[user, _REQUESTS] += 1
        users[user, _LAST] = dealt[row, _TIME]
    return known


@njit(nogil=True, cache=True)
def _tally(
    requests: tuple[Table, Ids, Table],
    edges: tuple[Integers, Integers],
    ranking: tuple[Integers, Ids],
    work: tuple[Integers, Integers],
    flat: tuple[Ids, Ids],
    first: int,
) -> tuple[Table, Ids, Integers]:
    """Put the requests of each user of a lot together, users in ascending order, and tally them; lot by lot.

    Args:
        requests: as they were dealt, the number of the user of each, and what is noted of each user.
        edges: where the requests and where the users of each lot begin.
        ranking: the numbers of users in ascending order; the rank of each model.
        work: room for as many numbers as there are requests, twice.
        flat: room for the tallies of models and for those of lengths.
        first: the place of the first known user in the order.

    Returns:
        Per known user what is noted of it; how many tallies of either kind it has; how many there are in all.
    """
    (_, _, users), (lots, bounds), (order, ranks), (table, places) = requests, edges, ranking, work
    found, sizes = np.empty((3, order.size - first), np.int64), np.zeros((2, order.size - first), np.uint32)
    counts, ends = (np.zeros(ranks.size, np.int64), np.zeros(CELLS, np.int64)), np.zeros(2, np.int64)
    for lot in range(lots.size - 1):
        _arrange(requests, (lots[lot], lots[lot + 1]), order[bounds[lot] : bounds[lot + 1]], table, places)
        for rank in range(max(bounds[lot], first), bounds[lot + 1]):
            user = order[rank]
            for field in range(_USER_FIELDS):
                found[field, rank - first] = users[user, field]
            own = table[places[user] - users[user, _REQUESTS] : places[user]]
            end = _tally_models(own, ranks, flat[0], ends[0], counts[0])
            sizes[0, rank - first], ends[0] = end - ends[0], end
            end = _tally_lengths(own, flat[1], ends[1], counts[1])
            sizes[1, rank - first], ends[1] = end - ends[1], end
    return found, sizes, ends


@njit(nogil=True, cache=True)
def _arrange(
    requests: tuple[Table, Ids, Table], lot: tuple[int, int], order: Integers, table: Integers, places: Integers
) -> None:
    """Put the packed requests of the users of a lot into a table, user by user; `places` says where those of each end."""
    dealt, ids, users = requests
    place = 0
    for user in order:
        places[user] = place
        place += users[user, _REQUESTS]
    for row in range(lot[0], lot[1]):
        place = places[ids[row]]
        table[place] = dealt[row, _PACKED]
        places[ids[row]] = place + 1


@njit(nogil=True, cache=True)
def _tally_models(packed: Integers, ranks: Ids, flat: Ids, start: int, counts: Integers) -> int:
    """Tally the models of a user from `start` on, by their ranks; how far the tallies reach then."""
    size = start
    for row in range(packed.size):
        # Written for every request, and kept where its cell is new: without a branch.
        cell = ranks[packed[row] >> 2 * _FIELD]
        flat[size] = cell
        size += counts[cell] == 0
        counts[cell] += 1
    return settle(flat, start, size, counts)


@njit(nogil=True, cache=True)
def _tally_lengths(packed: Integers, flat: Ids, start: int, counts: Integers) -> int:
    """Tally the lengths of a user likewise; both cells of a request count, or neither."""
    size = start
    for row in range(packed.size):
        cell, moved = (packed[row] >> _FIELD) & _NO_CELL, packed[row] & _NO_CELL
        if cell != _NO_CELL:
            flat[size] = cell
            size += counts[cell] == 0
            counts[cell] += 1
            flat[size] = moved
            size += counts[moved] == 0
            counts[moved] += 1
    return settle(flat, start, size, counts)
