"""What users turn to: how often each to which model, and how long its requests are, as tallies (see `tallies`).

Lengths are those of requests of which both the input and the output tokens are positive; a cell of theirs is a bucket, as in
`usage`. Users are given as groups of requests, the unknown one among them, which turns to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.cells import frozen
from llmtrace.summaries.histogram import bucket_of
from llmtrace.summaries.kernels import inner
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.tallies import COUNT_BITS, MOST_COUNT, Tallies, settle
from llmtrace.summaries.usage import CELLS, OUTPUT_CELL, USER_BITS

if TYPE_CHECKING:
    from llmtrace.summaries.groups import Groups
    from llmtrace.summaries.interning import Ids, Integers

__all__ = ["by_model", "by_user", "tally"]

_FIELD = 13
"""A packed request is its model above two cells of so many bits, which are all ones where lengths do not count."""
_NO_CELL = (1 << _FIELD) - 1
_NO_MODEL = -1


def tally(users: Groups, models: Groups, inputs: Integers, outputs: Integers) -> tuple[Tallies, Tallies]:
    """The models that users turn to, and the lengths of their requests.

    Args:
        users: requests by user.
        models: the same requests by model; a cell is the place of a model among them.
        inputs: input tokens.
        outputs: output tokens.
    """
    places = np.empty(models.order.size, np.int64)
    places[models.order] = np.arange(models.order.size)
    places[models.order[: _has_unknown(models)]] = _NO_MODEL
    offsets = users.offsets()
    packed = users.arranged(_pack(*frozen(models.ids, places, inputs, outputs)), offsets)
    begins, ends = (offsets[users.order + side] for side in (0, 1))
    ends[:1] = begins[:1] if _has_unknown(users) else ends[:1]
    sizes = np.zeros((2, begins.size), np.uint32)
    met, lengths = _tally(packed, begins, ends, models.order.size, sizes)
    return Tallies(sizes[0], met, models.order.size), Tallies(sizes[1], lengths, CELLS)


def by_model(found: Tallies, models: int, percent: int) -> pl.DataFrame:
    """What users each model has, one row per model.

    Args:
        found: the models that users turn to.
        models: how many models there are.
        percent: see `needed`.

    Returns:
        `pairs` (users), `met` (their requests), `most` (those of the user with most), `needed` (the fewest users that make
        `percent` % of the requests together); zeros where there are none.
    """
    _, cells, requests = _unpacked(found)
    counts, met, most, needed = _by_model(cells, requests, models, percent)
    return pl.DataFrame({"pairs": counts, "met": met, "most": most, "needed": needed})


def by_user(found: Tallies, ranks: Integers) -> pl.DataFrame:
    """What each user turns to, one row per user.

    Args:
        found: the models that users turn to.
        ranks: of models with as many requests of a user the one of the lowest rank counts, and of equal ranks the one met first.

    Returns:
        `pairs` (models), `met` (requests to them), `inner` (the place of the model with most requests; null where there is none)
        and `most` (its requests).
    """
    counts, cells, requests = _unpacked(found)
    met, best, most = _by_user(counts, cells, requests, ranks)
    places = pl.Series(best, dtype=pl.Int64).set(pl.Series(counts == 0), None)
    return pl.DataFrame({"pairs": counts, "met": met, "inner": places, "most": most})


def _unpacked(found: Tallies) -> tuple[Integers, Ids, Integers]:
    """What `_pairs` gives."""
    offsets, flat = frozen(found.offsets(), found.flat)
    return _pairs(offsets, flat, found.width)


def _has_unknown(groups: Groups) -> bool:
    return groups.order.size > 0 and bool(groups.labels["key"][0] == UNKNOWN)


@njit(nogil=True, cache=True)
def _pack(ids: Ids, places: Integers, inputs: Integers, outputs: Integers) -> Integers:
    packed = np.empty(ids.size, np.int64)
    for row in range(ids.size):
        cell, moved = _NO_CELL, _NO_CELL
        if inputs[row] > 0 and outputs[row] > 0:
            cell, moved = bucket_of(inputs[row], USER_BITS), OUTPUT_CELL + bucket_of(outputs[row], USER_BITS)
        packed[row] = places[ids[row]] << 2 * _FIELD | cell << _FIELD | moved
    return packed


@njit(nogil=True, cache=True)
def _tally(packed: Integers, begins: Integers, ends: Integers, models: int, sizes: Ids) -> tuple[Ids, Ids]:
    """Tally the packed requests of each user, which stand from `begins` up to `ends`; how many tallies it has in `sizes`."""
    met, cells = np.empty(packed.size + 1, np.uint32), np.empty(2 * packed.size + 1, np.uint32)
    counts = np.zeros(models, np.int64), np.zeros(CELLS, np.int64)
    size, reach = np.int64(0), np.int64(0)
    for user in range(begins.size):
        start, first = size, reach
        for row in range(begins[user], ends[user]):
            size = _meet(packed[row] >> 2 * _FIELD, met, size, counts[0])
            if packed[row] & _NO_CELL != _NO_CELL:
                reach = _meet(packed[row] >> _FIELD & _NO_CELL, cells, reach, counts[1])
                reach = _meet(packed[row] & _NO_CELL, cells, reach, counts[1])
        size, reach = settle(met, start, size, counts[0]), settle(cells, first, reach, counts[1])
        sizes[0, user], sizes[1, user] = size - start, reach - first
    return met[:size].copy(), cells[:reach].copy()


@inner
def _meet(cell: int, flat: Ids, size: np.int64, counts: Integers) -> np.int64:
    """Count a cell, and write it down where it is new; how far what is written reaches then."""
    if cell < 0:
        return size
    # Written every time, and kept where it is new: without a branch.
    flat[size] = cell
    size += counts[cell] == 0
    counts[cell] += 1
    return size


@njit(nogil=True, cache=True)
def _pairs(offsets: Integers, flat: Ids, width: int) -> tuple[Integers, Ids, Integers]:
    """Per key how many cells it has met; key by key and in the order of first meetings each cell and how often."""
    counts, cells, times = np.zeros(offsets.size - 1, np.int64), np.empty(flat.size, np.uint32), np.zeros(flat.size, np.int64)
    latest = np.full(width, np.int64(-1))
    size = 0
    for key in range(counts.size):
        start = size
        for one in range(offsets[key], offsets[key + 1]):
            cell = flat[one] >> COUNT_BITS
            is_new = latest[cell] < start
            latest[cell] = size if is_new else latest[cell]
            cells[latest[cell]] = cell
            times[latest[cell]] += flat[one] & MOST_COUNT
            size += is_new
        counts[key] = size - start
    return counts, cells[:size].copy(), times[:size].copy()


@njit(nogil=True, cache=True)
def _by_model(cells: Ids, requests: Integers, models: int, percent: int) -> tuple[Integers, Integers, Integers, Integers]:
    offsets = np.zeros(models + 1, np.int64)
    for one in cells:
        offsets[one + 1] += 1
    for one in range(models):
        offsets[one + 1] += offsets[one]
    arranged, place = np.empty(cells.size, np.int64), offsets.copy()
    for row in range(cells.size):
        arranged[place[cells[row]]] = requests[row]
        place[cells[row]] += 1
    met, most, needed = np.zeros(models, np.int64), np.zeros(models, np.int64), np.zeros(models, np.int64)
    for one in range(models):
        own = np.sort(arranged[offsets[one] : offsets[one + 1]])
        if own.size:
            met[one], most[one], needed[one] = own.sum(), own[-1], _fewest(own, percent)
    return np.diff(offsets), met, most, needed


@njit(nogil=True, cache=True)
def _fewest(ascending: Integers, percent: int) -> int:
    """How many of the largest values make so many percent of the sum of all."""
    total, reached, count = ascending.sum(), 0, 0
    while reached * 100 < total * percent:
        count += 1
        reached += ascending[-count]
    return count


@njit(nogil=True, cache=True)
def _by_user(counts: Integers, cells: Ids, requests: Integers, ranks: Integers) -> tuple[Integers, Integers, Integers]:
    met, best, most = np.zeros(counts.size, np.int64), np.zeros(counts.size, np.int64), np.zeros(counts.size, np.int64)
    row = 0
    for user in range(counts.size):
        for _ in range(counts[user]):
            met[user] += requests[row]
            is_first = requests[row] == most[user] and ranks[cells[row]] < ranks[best[user]]
            if requests[row] > most[user] or is_first:
                best[user], most[user] = cells[row], requests[row]
            row += 1
    return met, best, most
