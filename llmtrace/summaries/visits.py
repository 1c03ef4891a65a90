"""Requests as they came, dealt into shards by their keys.

A shard has the keys that share their first bits: few enough that the requests of one, brought in the order of keys, stay in a
processor's nearer caches. Shards in their order have keys in ascending order.

In a table of visits a request is one row of two arrays of numbers. One array for each part of so many requests would be so large
that the memory of it is got from the system anew for each, which takes longer than to fill it.

    arrival     its outer key, as a signed number; arrival in microseconds since 1970
    what        the place of its inner key in a table of them; input tokens, 0 where not known; tokens of input and output, those
                that are known, which stop at 2^63 - 1

Rows stand shard by shard, and in order of time within each. Requests of an unknown outer key are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from numba import njit

from llmtrace.summaries.cells import frozen
from llmtrace.summaries.frames import series_of
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.room import Room
from llmtrace.summaries.tallies import ranked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.interning import Ids, Integers, Keys

    Table = np.ndarray[tuple[int, int], np.dtype[np.int64]]
    Columns = tuple[Keys, Ids, Integers, Integers, Integers]
    Piece = tuple[Table, Table, Ids]

_Number = TypeVar("_Number", bound=np.integer[Any])

__all__ = [
    "INNER",
    "INPUT",
    "SCHEMA",
    "SHARDS",
    "TIME",
    "TOKENS",
    "Chunk",
    "Table",
    "Visits",
    "added",
    "arrange",
    "deal",
    "moved",
    "pieces",
    "together",
]

SHARDS = 64
SCHEMA: Mapping[str, pl.DataType] = {"arrival": pl.Array(pl.Int64(), 2), "what": pl.Array(pl.Int64(), 3)}
"""The columns of a table of visits."""
TIME, INNER, INPUT, TOKENS = range(4)
"""The fields of a visit whose outer key is known otherwise."""

_LARGEST = np.uint64((1 << 63) - 1)
_SHIFT = np.uint64(58)
_ROOM = Room()


@dataclass(frozen=True)
class Chunk:
    """Some consecutive requests.

    Attributes:
        outer: the outer key of each.
        inner: the place of its inner key.
        times_us: arrivals, ascending.
        input_tokens: negative where not known.
        output_tokens: the same.
    """

    outer: Keys
    inner: Ids
    times_us: Integers
    input_tokens: Integers
    output_tokens: Integers


@dataclass(frozen=True)
class Visits:
    """The requests of a shard by key.

    Attributes:
        keys: the outer keys, ascending.
        before: per key its place among those that were known before, -1 for new ones.
        offsets: those of key k are the rows of the table from offsets[k] up to offsets[k + 1], in order of time.
        table: see `TIME`, `INNER`, `INPUT` and `TOKENS`; the thread's own, until it arranges others.
    """

    keys: Keys
    before: Integers
    offsets: Integers
    table: Table


def deal(chunks: Sequence[Chunk]) -> pl.DataFrame:
    """The table of visits of several chunks, in order of time."""
    sizes = np.zeros(SHARDS, np.int64)
    for chunk in chunks:
        _count(frozen(chunk.outer)[0], sizes)
    ends, rows = np.cumsum(sizes) - sizes, int(sizes.sum())
    arrivals, what = np.empty((rows, 2), np.int64), np.empty((rows, 3), np.int64)
    for chunk in chunks:
        columns = frozen(chunk.outer, chunk.inner, chunk.times_us, chunk.input_tokens, chunk.output_tokens)
        _deal(columns, ends, arrivals, what)
    return pl.DataFrame([_arrays(name, table) for name, table in zip(SCHEMA, (arrivals, what), strict=True)])


def together(tables: Sequence[pl.DataFrame], numbers: Sequence[Ids]) -> pl.DataFrame:
    """Several tables of visits as one.

    Args:
        tables: in order of time.
        numbers: per table the place, among all, of each of its inner keys.
    """
    given = [(*(table[name].to_numpy() for name in SCHEMA), own) for table, own in zip(tables, numbers, strict=True)]
    return deal([_chunk(*one) for one in given])


def _chunk(arrivals: Table, what: Table, numbers: Ids) -> Chunk:
    """The requests of a table of visits, with other places of inner keys."""
    (outer, times_us), (inner, inputs, tokens) = arrivals.T.copy(), what.T.copy()
    return Chunk(outer.view(np.uint64), numbers[inner], times_us, inputs, tokens - inputs)


def pieces(visits: pl.DataFrame) -> list[tuple[Table, Table, Integers]]:
    """The chunks of a table of visits: both arrays, where shards begin and where the last one ends."""
    sizes = {tuple(chunk.len() for chunk in visits[name].get_chunks()) for name in SCHEMA}
    # Polars may hand on columns of a few rows in different chunks.
    aligned = visits if len(sizes) == 1 else visits.rechunk()
    chunks = zip(*(aligned[name].get_chunks() for name in SCHEMA), strict=True)
    tables = [frozen(*(column.to_numpy() for column in columns)) for columns in chunks]
    return [(arrivals, what, _edges(arrivals)) for arrivals, what in tables]


def arrange(known: Keys, given: Sequence[Piece]) -> Visits:
    """Bring the requests of a shard in the order of keys.

    Args:
        known: the outer keys that are known, ascending.
        given: rows of tables of visits, in order of time; and for each of them the number of each inner key.
    """
    numbers = Interner()
    numbers.add(known)
    # The kernel would be compiled once more for columns that are not arrays of their own.
    ids = [numbers.add(arrivals[:, 0].copy().view(np.uint64)) for arrivals, _, _ in given]
    order, ranks = ranked(numbers.keys)
    offsets = np.zeros(order.size + 1, np.int64)
    for own in ids:
        _count_ranks(own, ranks, offsets)
    np.cumsum(offsets, out=offsets)
    arranged, ends = _ROOM.array("visits", (int(offsets[-1]), 4), np.int64), offsets[:-1].copy()
    for (arrivals, what, inner), own in zip(given, ids, strict=True):
        _arrange(arrivals, what, own, ranks, inner, ends, arranged)
    return Visits(numbers.keys[order], np.where(order < known.size, order, -1), offsets, arranged)


def moved(values: npt.NDArray[_Number], before: Integers, new: int) -> npt.NDArray[_Number]:
    """The values of keys, or rows of them, where these stand now.

    Args:
        values: those of the keys that were known before.
        before: per key its place among those, -1 for new ones.
        new: the value of these.

    >>> moved(np.array([7, 9]), np.array([-1, 0, 1]), 0)
    array([0, 7, 9])
    """
    now = np.full((before.size, *values.shape[1:]), new, values.dtype)
    now[before >= 0] = values
    return now


def _arrays(name: str, table: Table) -> pl.Series:
    return series_of(name, pa.FixedSizeListArray.from_arrays(pa.array(table.reshape(-1)), table.shape[1]))


@njit(nogil=True, cache=True)
def added(input_tokens: int, output_tokens: int) -> np.int64:
    """Input and output tokens together, as far as they are known (not negative); the sum stops at 2^63 - 1."""
    # Of a sum with a sign that is too large a compiler may make anything.
    return np.int64(min(np.uint64(max(input_tokens, 0)) + np.uint64(max(output_tokens, 0)), _LARGEST))


@njit(nogil=True, cache=True)
def _count(outer: Keys, sizes: Integers) -> None:
    for key in outer:
        sizes[key >> _SHIFT] += key != UNKNOWN


@njit(nogil=True, cache=True)
def _deal(columns: Columns, ends: Integers, arrivals: Table, what: Table) -> None:
    """Write a chunk where the shards of its requests go on, which `ends` has and which is set further."""
    outer, inner, times, inputs, outputs = columns
    for row in range(outer.size):
        if outer[row] != UNKNOWN:
            shard = outer[row] >> _SHIFT
            place = np.uint64(ends[shard])
            ends[shard] += 1
            arrivals[place, 0], arrivals[place, 1] = np.int64(outer[row]), times[row]
            what[place, 0], what[place, 1], what[place, 2] = inner[row], max(inputs[row], 0), added(inputs[row], outputs[row])


@njit(nogil=True, cache=True)
def _edges(arrivals: Table) -> Integers:
    """Where each shard begins, and where the last one ends."""
    edges = np.empty(SHARDS + 1, np.int64)
    edges[SHARDS] = len(arrivals)
    for shard in range(SHARDS):
        low, high = 0, len(arrivals)
        while low < high:
            middle = (low + high) // 2
            is_before = (np.uint64(arrivals[middle, 0]) >> _SHIFT) < shard
            low, high = (middle + 1, high) if is_before else (low, middle)
        edges[shard] = low
    return edges


@njit(nogil=True, cache=True)
def _count_ranks(ids: Ids, ranks: Ids, offsets: Integers) -> None:
    for one in ids:
        offsets[np.uint64(ranks[one]) + np.uint64(1)] += 1


@njit(nogil=True, cache=True)
def _arrange(arrivals: Table, what: Table, ids: Ids, ranks: Ids, inner: Ids, ends: Integers, arranged: Table) -> None:
    """Write visits where those of their keys go on, which `ends` has and which is set further."""
    for row in range(len(arrivals)):
        rank = ranks[ids[row]]
        place = np.uint64(ends[rank])
        ends[rank] += 1
        arranged[place, TIME], arranged[place, INNER] = arrivals[row, 1], inner[what[row, 0]]
        arranged[place, INPUT], arranged[place, TOKENS] = what[row, 1], what[row, 2]
