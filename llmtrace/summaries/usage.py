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

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from llmtrace.summaries.histogram import bucket_of
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.room import Room
from llmtrace.summaries.tallies import Tallies, ascending, ranked, rename
from llmtrace.summaries.usage_kernels import (
    DEALT_FIELDS,
    FIELD,
    LOTS,
    NO_CELL,
    USER_FIELDS,
    deal,
    tally,
    tell_apart,
)

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

_FEWEST_MODELS = 1 << 10
# Two sums of 63-bit numbers are kept as sums of their upper and of their lower 32 bits, which no part is long enough to wrap.
_REQUESTS, _INPUT, _OUTPUT, _FIRST_ROW, _MODEL_FIELDS = 0, 1, 4, 7, 8
_HALF = 32
_LOWER = (1 << _HALF) - 1


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


_ROOM = Room()


def survey(chunks: Iterable[Chunk], rows: int) -> Usage:
    """What is found out about requests; about their users too, where chunks name them.

    Args:
        chunks: in order of time. Each is looked at once, so that one need not be there before the last is done with.
        rows: how many requests there are.
    """
    numbers, models = Interner(), np.zeros((_FEWEST_MODELS, _MODEL_FIELDS), np.int64)
    lengths, dealt = (
        _ROOM.array("lengths", (2, (64 - BITS) << BITS), np.uint32),
        _ROOM.array("dealt", (rows, DEALT_FIELDS), np.int64),
    )
    edges: list[Integers] = []
    lengths[:], start = 0, 0
    for chunk in chunks:
        ids = numbers.add(chunk.models)
        models, packed = with_room(models, numbers.keys.size), _ROOM.array("packed", ids.size, np.uint64)
        _note(ids, (chunk.inputs, chunk.outputs), models, lengths, packed, start)
        if chunk.users is not None:
            edges.append(np.full(LOTS + 1, start))
            deal(chunk.users, packed, chunk.times_us, edges[-1], dealt)
        start += ids.size
    order, ranks = ranked(numbers.keys)
    by_model = models[order].T.copy()
    for side in (_INPUT, _OUTPUT):
        by_model[side] = by_model[_REQUESTS] - by_model[side]
        by_model[side + 1] += by_model[side + 2] >> _HALF
        by_model[side + 2] &= _LOWER
    return Usage(
        numbers.keys[order],
        by_model[_FIRST_ROW],
        by_model[_REQUESTS],
        tuple(by_model[_INPUT:_FIRST_ROW]),
        _listed(lengths),
        *_by_user(dealt, edges, ranks),
    )


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


def _by_user(dealt: Table, chunks: Sequence[Integers], ranks: Ids) -> tuple[Keys, Integers, Integers, Integers, Tallies, Tallies]:
    """Known users, ascending, with requests, first and last arrival, and the tallies of their models and lengths."""
    edges = np.array(chunks, np.int64).reshape(-1, LOTS + 1)
    rows, longest = int(edges[-1, -1]) if chunks else 0, int(np.diff(edges).sum(0).max())
    ids, users = _ROOM.array("ids", rows, np.uint32), _ROOM.array("users", (rows, USER_FIELDS), np.int64)
    slots, keys = _ROOM.array("slots", _slots(longest), np.uint32), _ROOM.array("keys", rows, np.uint64)
    bounds = tell_apart(dealt, edges, (ids, slots), keys, users)
    order = ascending(keys[: bounds[-1]])
    first = int(order.size > 0 and keys[order[0]] == UNKNOWN)
    flat = _ROOM.array("models", rows + 1, np.uint32), _ROOM.array("cells", 2 * rows + 1, np.uint32)
    counts = np.zeros(ranks.size, np.uint32), np.zeros(CELLS, np.uint32)
    work = _ROOM.array("table", rows, np.uint64), _ROOM.array("places", rows, np.uint64)
    found, sizes, ends = tally((dealt, ids, users), (edges, bounds), order, work, flat, counts, first)
    met, lengths = (Tallies(sizes[one], flat[one][: ends[one]].copy(), width) for one, width in enumerate((ranks.size, CELLS)))
    rename(met.flat, ranks)
    return keys[order[first:]], *found, met, lengths


def _slots(rows: int) -> int:
    """Slots to tell the users of so many requests apart: a power of two, half of them free at least."""
    return max(64, 1 << (2 * rows - 1).bit_length())


@njit(nogil=True, cache=True)
def _note(
    ids: Ids, tokens: tuple[Integers, Integers], models: Table, lengths: npt.NDArray[np.uint32], packed: Keys, start: int
) -> None:
    """Count a chunk, whose first request is that of row `start`; one thing after the other, which is fastest."""
    inputs, outputs = tokens
    _count_models(ids, inputs, outputs, models, start)
    _count_lengths(inputs, outputs, lengths)
    _pack(ids, inputs, outputs, packed)


@njit(nogil=True, cache=True)
def _count_models(ids: Ids, inputs: Integers, outputs: Integers, models: Table, start: int) -> None:
    """Count the requests and tokens of each model; its sides are requests of which they are not known, until all are counted."""
    together = 0
    for row in range(ids.size):
        together |= inputs[row] | outputs[row]
    if together >> _HALF:
        _count_any(ids, inputs, outputs, models, start)
        return
    # All are known, and none has an upper half.
    for row in range(ids.size):
        one = np.uint64(ids[row])
        if models[one, _REQUESTS] == 0:
            models[one, _FIRST_ROW] = start + row
        models[one, _REQUESTS] += 1
        models[one, _INPUT + 2] += inputs[row]
        models[one, _OUTPUT + 2] += outputs[row]


@njit(nogil=True, cache=True)
def _count_any(ids: Ids, inputs: Integers, outputs: Integers, models: Table, start: int) -> None:
    for row in range(ids.size):
        one = ids[row]
        if models[one, _REQUESTS] == 0:
            models[one, _FIRST_ROW] = start + row
        models[one, _REQUESTS] += 1
        for side, tokens in ((_INPUT, inputs[row]), (_OUTPUT, outputs[row])):
            models[one, side] += tokens < 0
            models[one, side + 1] += max(tokens, 0) >> _HALF
            models[one, side + 2] += max(tokens, 0) & _LOWER


@njit(nogil=True, cache=True)
def _count_lengths(inputs: Integers, outputs: Integers, lengths: npt.NDArray[np.uint32]) -> None:
    for row in range(inputs.size):
        if inputs[row] > 0 and outputs[row] > 0:
            lengths[0, bucket_of(inputs[row], BITS)] += 1
            lengths[1, bucket_of(outputs[row], BITS)] += 1


@njit(nogil=True, cache=True)
def _pack(ids: Ids, inputs: Integers, outputs: Integers, packed: Keys) -> None:
    for row in range(ids.size):
        cell, moved = NO_CELL, NO_CELL
        if inputs[row] > 0 and outputs[row] > 0:
            cell, moved = bucket_of(inputs[row], USER_BITS), OUTPUT_CELL + bucket_of(outputs[row], USER_BITS)
        packed[row] = np.int64(ids[row]) << 2 * FIELD | cell << FIELD | moved
