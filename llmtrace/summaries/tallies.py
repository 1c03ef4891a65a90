"""Tallies: what each key meets and how often, as users meet models or lengths; a table of counts without its zeros.

What is met is a cell, a number below 2^20. A tally is one number of 32 bits, cell · 2^12 + count, so that adding tallies up reads
and writes one small array. The tallies of a key stand together, in the order in which it met their cells first; where a count is
more than 12 bits hold, further tallies of the cell follow after them. Those of all keys stand end to end.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numba import njit

from llmtrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from llmtrace.summaries.interning import Ids, Integers, Interner, Keys

    Flat = npt.NDArray[np.uint32]
    Lot = tuple["Ids", "Tallies"]
    Place = int | np.integer[Any]
    Rows = tuple[Integers, Integers, Ids]

__all__ = [
    "COUNT_BITS",
    "MOST_CELLS",
    "MOST_COUNT",
    "Tallies",
    "TallyStore",
    "add_up",
    "ascending",
    "by_place",
    "ranked",
    "rename",
    "renumbered",
    "settle",
]

COUNT_BITS = 12
MOST_COUNT = (1 << COUNT_BITS) - 1
MOST_CELLS = 1 << (32 - COUNT_BITS)
"""Cells that can be told apart; the lengths of users have far fewer, so that it is models that may be too many."""
MOST_WAITING = 48_000_000
"""So many tallies wait at most until they are added up, or as many as have been added up before."""
MOST_THREADS = 8
BLOCK = 1_000_000

_FEW = 1 << 13
_MOST_ALIKE = 32
"""More keys with the same first bits, of which there are two less than the number of keys has, are sorted in the usual way."""
# Of a number without sign Numba does not ask whether it counts from the end.
_ONE, _COUNT_BITS, _MOST_COUNT = np.uint64(1), np.uint32(COUNT_BITS), np.uint32(MOST_COUNT)


@dataclass(frozen=True)
class Tallies:
    """The tallies of some keys.

    Attributes:
        sizes: how many each key has.
        flat: those of all keys, key by key.
        width: all cells are below it.

    Raises:
        InputError: if there may be more cells than a tally can tell apart.
    """

    sizes: Ids
    flat: Flat
    width: int

    def __post_init__(self) -> None:
        """Check the width."""
        if self.width > MOST_CELLS:
            raise InputError(
                f"The trace has more than {MOST_CELLS:,} different models",
                "Is that the column of models? Name another one with --map model=COLUMN.",
            )

    def offsets(self) -> Integers:
        """Where those of each key begin, and the number of all."""
        offsets = np.zeros(self.sizes.size + 1, np.int64)
        np.cumsum(self.sizes, out=offsets[1:])
        return offsets

    def pairs(self) -> list[tuple[int, int]]:
        """Cell and count of each tally."""
        return [divmod(tally, MOST_COUNT + 1) for tally in self.flat.tolist()]


class TallyStore:
    """The tallies of keys that come in several lots, in order of time.

    >>> from llmtrace.summaries.interning import Interner
    >>> store = TallyStore(numbers := Interner())
    >>> for key, tally in ((9, (4 << 12) + 1), (5, (2 << 12) + 1), (9, (4 << 12) + 6)):
    ...     store.add(numbers.add(np.array([key], np.uint64)), Tallies(np.array([1], np.uint32), np.array([tally], np.uint32), 5))
    >>> order, found = store.total()
    >>> numbers.keys[order].tolist(), found.sizes.tolist(), found.pairs()
    ([5, 9], [1, 1], [(2, 1), (4, 7)])
    """

    def __init__(self, numbers: Interner) -> None:
        """Hold none.

        Args:
            numbers: what numbers the keys; it may number others too.
        """
        self._numbers = numbers
        self._lots: list[Lot] = []
        self._before, self._waiting = 0, 0

    def add(self, keys: Ids, found: Tallies) -> None:
        """Take the tallies of the next lot; its keys ascend, but are given by their numbers."""
        self._lots.append((keys, found))
        self._waiting += found.flat.size
        if self._waiting > max(MOST_WAITING, self._before):
            order, together = self.total()
            self._lots, self._before, self._waiting = [(order.astype(np.uint32), together)], together.flat.size, 0

    def total(self) -> tuple[Integers, Tallies]:
        """The numbers of all keys, so that the keys ascend, and the tallies of the keys in that order."""
        order, ranks = ranked(self._numbers.keys)
        return order, add_up([(ranks[keys], found) for keys, found in self._lots], order.size)

    def by_key(self) -> tuple[Integers, Rows, Flat]:
        """The same numbers, where the tallies of each key stand, in that order, and the tallies that have been taken."""
        order, ranks = ranked(self._numbers.keys)
        places, sizes = (
            np.concatenate(some) for some in zip(*((ranks[keys], found.sizes) for keys, found in self._lots), strict=True)
        )
        return order, by_place(places, sizes, 0, order.size), np.concatenate([found.flat for _, found in self._lots])


def ranked(keys: Keys) -> tuple[Integers, Ids]:
    """The order that makes different keys ascend, and the rank of each key in it."""
    order = ascending(keys)
    ranks = np.empty(order.size, np.uint32)
    ranks[order] = np.arange(order.size, dtype=np.uint32)
    return order, ranks


def ascending(keys: Keys) -> Integers:
    """The order that makes different keys ascend, of many in less time than sorting takes where keys are hashes.

    Few are sorted in the usual way, which takes no kernel from the cache.
    """
    if keys.size < _FEW:
        return np.argsort(keys)
    order = np.empty(keys.size, np.int64)
    return order if _in_order(keys, max(keys.size.bit_length() - 2, 1), order) else np.argsort(keys)


def renumbered(found: Tallies, places: Flat, width: int) -> Tallies:
    """The same with other numbers for cells: `places[c]` for cell c; all are below `width`."""
    if np.array_equal(places, np.arange(places.size)):
        return Tallies(found.sizes, found.flat, width)
    flat = found.flat.copy()
    rename(flat, places)
    return Tallies(found.sizes, flat, width)


def add_up(lots: Sequence[Lot], keys: int) -> Tallies:
    """The tallies of several lots together.

    Keys are taken block by block, so that what is worked with stays small, and blocks in several threads.

    Args:
        lots: in order of time, the tallies of each and the places of its keys, ascending.
        keys: how many places there are.
    """
    tallies = sum(found.flat.size for _, found in lots)
    if not tallies:
        return Tallies(np.zeros(keys, np.uint32), np.empty(0, np.uint32), 1)
    edges = np.linspace(0, keys, tallies // BLOCK + 2).astype(np.int64)
    cut = [_Cut.of(places, found, edges) for places, found in lots]
    width = max(found.width for _, found in lots)
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
        blocks = [pool.submit(_added, cut, block, edges, width) for block in range(edges.size - 1)]
        sizes, flat = zip(*(block.result() for block in blocks), strict=True)
        ends = np.cumsum([block.size for block in flat])
        together = np.empty(int(ends[-1]), np.uint32)
        # Half of the time that it takes goes into memory that is new, which each thread gets for itself.
        list(pool.map(np.copyto, np.split(together, ends[:-1]), flat))
    return Tallies(np.concatenate(sizes), together, width)


@dataclass(frozen=True)
class _Cut:
    """A lot, and where the blocks of its keys and of their tallies begin."""

    places: Ids
    found: Tallies
    rows: Integers
    starts: Integers

    @classmethod
    def of(cls, places: Ids, found: Tallies, edges: Integers) -> Self:
        """Cut a lot at these places."""
        rows = np.searchsorted(places, edges)
        return cls(places, found, rows, found.offsets()[rows])


def _added(lots: Sequence[_Cut], block: int, edges: Integers, width: int) -> tuple[Ids, Flat]:
    """The tallies of one block of keys."""
    rows = [slice(lot.rows[block], lot.rows[block + 1]) for lot in lots]
    places = np.concatenate([lot.places[own] for lot, own in zip(lots, rows, strict=True)])
    sizes = np.concatenate([lot.found.sizes[own] for lot, own in zip(lots, rows, strict=True)])
    flat = np.concatenate([lot.found.flat[lot.starts[block] : lot.starts[block + 1]] for lot in lots])
    return _add_up(places, sizes, flat, edges[block], edges[block + 1], width)


@njit(nogil=True, cache=True)
def _in_order(keys: Keys, bits: int, order: Integers) -> bool:
    """Put the numbers of keys in order: by their first bits, and then by as many steps as each is away from its place.

    Returns:
        Whether that was done; keys that are too much alike would take long.
    """
    ends, shift = np.zeros((1 << bits) + 1, np.int64), np.uint64(64 - bits)
    for key in keys:
        ends[(key >> shift) + _ONE] += 1
    for alike in ends:
        if alike > _MOST_ALIKE:
            return False
    for bucket in range(ends.size - 1):
        ends[bucket + 1] += ends[bucket]
    for one in range(keys.size):
        bucket_of_one = keys[one] >> shift
        order[ends[bucket_of_one]] = one
        ends[bucket_of_one] += 1
    for one in range(1, keys.size):
        number, place = order[one], one
        while place > 0 and keys[order[place - 1]] > keys[number]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = number
    return True


@njit(nogil=True, cache=True)
def rename(flat: Flat, places: Flat) -> None:
    """Give the cells of tallies other numbers: `places[c]` to cell c."""
    for one in range(flat.size):
        flat[one] = places[flat[one] >> _COUNT_BITS] << _COUNT_BITS | (flat[one] & _MOST_COUNT)


@njit(nogil=True, cache=True)
def settle(flat: Flat, start: Place, end: Place, counts: npt.NDArray[np.integer[Any]]) -> np.int64:
    """Make tallies of the cells of one key, which stand from `start` up to `end`, and set their counts back to zero.

    Returns:
        How far they reach then.
    """
    reach = np.uint64(end)
    for one in range(np.uint64(start), np.uint64(end)):
        cell = flat[one]
        count, counts[cell] = counts[cell], 0
        flat[one] = cell << COUNT_BITS | min(count, MOST_COUNT)
        while count > MOST_COUNT:
            # Beyond the cells of the key, since each of these was met so often that there is room for it.
            count -= MOST_COUNT
            flat[reach] = cell << COUNT_BITS | min(count, MOST_COUNT)
            reach += np.uint64(1)
    return np.int64(reach)


@njit(nogil=True, cache=True)
def _add_up(places: Ids, sizes: Ids, flat: Flat, low: int, high: int, width: int) -> tuple[Ids, Flat]:
    """Add up the tallies of rows with places from `low` up to `high`."""
    ends, starts, counted = by_place(places, sizes, low, high)
    sums, together = np.zeros(high - low, np.uint32), np.empty(flat.size + 1, np.uint32)
    counts = np.zeros(width, np.int64)
    size = np.int64(0)
    for key in range(sums.size):
        start, is_alone = size, ends[key + 1] - ends[key] == 1
        for row in range(ends[key], ends[key + 1]):
            end = starts[row] + counted[row]
            size = (
                _copy(flat, starts[row], end, together, size)
                if is_alone
                else _meet(flat, starts[row], end, (together, counts), size)
            )
        if not is_alone:
            size = settle(together, start, size, counts)
        sums[key] = size - start
    return sums, together[:size].copy()


@njit(nogil=True, cache=True)
def _copy(flat: Flat, start: Place, end: Place, together: Flat, reach: np.int64) -> np.int64:
    """Write some tallies down as they are; how far what is written reaches then."""
    size = np.uint64(reach)
    for one in range(np.uint64(start), np.uint64(end)):
        together[size] = flat[one]
        size += _ONE
    return np.int64(size)


@njit(nogil=True, cache=True)
def _meet(flat: Flat, start: Place, end: Place, met: tuple[Flat, Integers], reach: np.int64) -> np.int64:
    """Count some tallies, and write down what cells are new; how far what is written reaches then."""
    (together, counts), size = met, np.uint64(reach)
    for one in range(np.uint64(start), np.uint64(end)):
        # Written for every tally, and kept where its cell is new: without a branch.
        cell = flat[one] >> _COUNT_BITS
        together[size] = cell
        count = counts[cell]
        size += np.uint64(count == 0)
        counts[cell] = count + np.int64(flat[one] & _MOST_COUNT)
    return np.int64(size)


@njit(nogil=True, cache=True)
def by_place(places: Ids, sizes: Ids, low: int, high: int) -> Rows:
    """Rows by place, those of one place in their order.

    Returns:
        Where those of each place begin, and how many there are; where their tallies begin; how many these are.
    """
    ends = np.zeros(high - low + 2, np.int64)
    for place in places:
        ends[place - low + 2] += 1
    for key in range(high - low + 1):
        ends[key + 1] += ends[key]
    starts, counted = np.empty(places.size, np.int64), np.empty(places.size, np.uint32)
    start = 0
    for row in range(places.size):
        at = ends[places[row] - low + 1]
        ends[places[row] - low + 1] = at + 1
        starts[at], counted[at] = start, sizes[row]
        start += sizes[row]
    return ends[:-1], starts, counted
