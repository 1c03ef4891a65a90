"""Requests as they came, dealt into shards by their keys.

A shard has the keys that share their first bits: few enough that the requests of one, brought in the order of keys, stay in a
processor's nearer caches. Shards in their order have keys in ascending order.

In a table of visits a request is one row:

    key         its outer key
    time_us     arrival in microseconds since 1970
    what        the place of its inner key in a table of them; input tokens, 0 where not known; tokens of input and output, those
                that are known, which stop at 2^63 - 1; UInt32 if all tokens are below 2^32 - 1, else Int64

Rows stand shard by shard, and in order of time within each. Requests of an unknown outer key are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from numba import njit

from llmtrace.summaries.cells import frozen
from llmtrace.summaries.frames import frame_of, series_of
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.room import Room
from llmtrace.summaries.tallies import ranked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.interning import Ids, Integers, Keys

    Column = npt.NDArray[np.integer[Any]]
    What = np.ndarray[tuple[int, int], np.dtype[np.integer[Any]]]
    Piece = tuple["Rows", Ids]

__all__ = [
    "INNER",
    "INPUT",
    "SCHEMA",
    "SHARDS",
    "TOKENS",
    "Chunk",
    "Rows",
    "Visits",
    "arrange",
    "deal",
    "known_sum",
    "pieces",
    "put",
    "together",
]

SHARDS = 64
SCHEMA: Mapping[str, pl.DataType] = {"key": pl.UInt64(), "time_us": pl.Int64(), "what": pl.Array(pl.UInt32(), 3)}
"""The columns of a table of visits; `what` may be of Int64, too."""
INNER, INPUT, TOKENS = range(3)
"""The fields of `what`."""

_LARGEST = np.uint64((1 << 63) - 1)
_SHIFT = np.uint64(58)
_OUT = (1 << 32) - 1
"""The place of a request that belongs to no shard."""
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


class Rows(NamedTuple):
    """Rows of a table of visits."""

    keys: Keys
    times_us: Integers
    what: What

    def between(self, start: int, end: int) -> Rows:
        """Those from `start` up to `end`."""
        return Rows(self.keys[start:end], self.times_us[start:end], self.what[start:end])


@dataclass(frozen=True)
class Visits:
    """The requests of a shard by key.

    Attributes:
        keys: the outer keys, ascending.
        before: per key its place among those that were known before, -1 for new ones.
        offsets: those of key k are the rows from offsets[k] up to offsets[k + 1], in order of time.
        times_us: their arrivals; as `what`, a view of this thread's scratch memory, valid until its next `arrange`.
        what: as in a table of visits, but for inner keys that have the numbers given.
    """

    keys: Keys
    before: Integers
    offsets: Integers
    times_us: Integers
    what: What


def deal(chunks: Sequence[Chunk]) -> pl.DataFrame:
    """The table of visits of several chunks, in order of time."""
    sizes = np.zeros(SHARDS, np.int64)
    for chunk in chunks:
        _count(frozen(chunk.outer)[0], sizes)
    (keys, times_us, what), most = _dealt(chunks, sizes, np.uint32)
    if most >= np.iinfo(np.uint32).max:
        (keys, times_us, what), _ = _dealt(chunks, sizes, np.int64)
    numbers = pa.FixedSizeListArray.from_arrays(pa.array(what.reshape(-1)), what.shape[1])
    return frame_of({"key": keys, "time_us": times_us}).insert_column(2, series_of("what", numbers))


def _dealt(chunks: Sequence[Chunk], sizes: Integers, dtype: type[np.integer[Any]]) -> tuple[Rows, int]:
    """The rows of a table of visits, of so many in each shard; the most tokens of one, which the type may be too small for."""
    ends, size, most = np.cumsum(sizes) - sizes, int(sizes.sum()), 0
    rows = Rows(np.empty(size, np.uint64), np.empty(size, np.int64), np.empty((size, 3), dtype))
    for chunk in chunks:
        outer, inner, times, inputs, outputs = frozen(
            chunk.outer, chunk.inner, chunk.times_us, chunk.input_tokens, chunk.output_tokens
        )
        places = _ROOM.array("places", outer.size, np.uint32)
        _place(outer, ends, places)
        # Column by column: a processor writes to many places at once in far less time if they are all of one array.
        put(outer, places, rows.keys)
        put(times, places, rows.times_us)
        most = max(most, int(_put_what(inner, inputs, outputs, places, rows.what)))
    return rows, most


def together(tables: Sequence[pl.DataFrame], numbers: Sequence[Ids]) -> pl.DataFrame:
    """Several tables of visits as one.

    Args:
        tables: in order of time.
        numbers: per table the place, among all, of each of its inner keys.
    """
    return deal([_chunk(rows, own) for table, own in zip(tables, numbers, strict=True) for rows, _ in pieces(table)])


def _chunk(rows: Rows, numbers: Ids) -> Chunk:
    """The requests of a table of visits, with other places of inner keys."""
    inner, inputs, tokens = rows.what.T.astype(np.int64)
    return Chunk(rows.keys, numbers[inner], rows.times_us, inputs, tokens - inputs)


def pieces(visits: pl.DataFrame) -> list[tuple[Rows, Integers]]:
    """The chunks of a table of visits; of each where shards begin and where the last one ends."""
    sizes = {tuple(chunk.len() for chunk in visits[name].get_chunks()) for name in SCHEMA}
    # Polars may hand on columns of a few rows in different chunks.
    aligned = visits if len(sizes) == 1 else visits.rechunk()
    chunks = zip(*(aligned[name].get_chunks() for name in SCHEMA), strict=True)
    rows = [Rows(*frozen(*(column.to_numpy() for column in columns))) for columns in chunks]
    return [(one, _edges(one.keys)) for one in rows]


def arrange(known: Keys, given: Sequence[Piece]) -> Visits:
    """Bring the requests of a shard in the order of keys.

    Args:
        known: the outer keys that are known, ascending.
        given: rows of tables of visits, in order of time; and for each of them the number of each inner key.
    """
    numbers = Interner()
    numbers.add(known)
    ids = [numbers.add(rows.keys) for rows, _ in given]
    order, ranks = ranked(numbers.keys)
    offsets = np.zeros(order.size + 1, np.int64)
    for own in ids:
        _count_ranks(own, ranks, offsets)
    np.cumsum(offsets, out=offsets)
    size, ends, dtype = int(offsets[-1]), offsets[:-1].copy(), np.result_type(*(rows.what for rows, _ in given))
    times_us, what = _ROOM.array("times", size, np.int64), _ROOM.array("what", (size, 3), dtype)
    for (rows, inner), own in zip(given, ids, strict=True):
        _arrange(rows, own, ranks, inner, ends, times_us, what)
    return Visits(numbers.keys[order], np.where(order < known.size, order, -1), offsets, times_us, what)


@njit(nogil=True, cache=True)
def known_sum(input_tokens: int, output_tokens: int) -> np.int64:
    """Input and output tokens together, as far as they are known (not negative); the sum stops at 2^63 - 1."""
    # Of a sum with a sign that is too large a compiler may make anything.
    return np.int64(min(np.uint64(max(input_tokens, 0)) + np.uint64(max(output_tokens, 0)), _LARGEST))


@njit(nogil=True, cache=True)
def _count(outer: Keys, sizes: Integers) -> None:
    for key in outer:
        sizes[key >> _SHIFT] += key != UNKNOWN


@njit(nogil=True, cache=True)
def _place(outer: Keys, ends: Integers, places: Ids) -> None:
    """Where each request goes: on from the end of its shard, which `ends` has and which is set further; `_OUT` without a key."""
    for row in range(outer.size):
        shard, is_known = outer[row] >> _SHIFT, outer[row] != UNKNOWN
        places[row] = ends[shard] if is_known else _OUT
        ends[shard] += is_known


@njit(nogil=True, cache=True)
def put(values: Column, places: Ids, target: Column) -> None:
    """Write values where they go, but for those at `_OUT`."""
    for row in range(values.size):
        if places[row] != _OUT:
            target[np.uint64(places[row])] = values[row]


@njit(nogil=True, cache=True)
def _put_what(inner: Ids, inputs: Integers, outputs: Integers, places: Ids, what: What) -> np.int64:
    """Write inner keys and tokens where they go: the most tokens of one request."""
    most = np.int64(0)
    for row in range(inner.size):
        if places[row] != _OUT:
            place, tokens = np.uint64(places[row]), known_sum(inputs[row], outputs[row])
            what[place, INNER], what[place, INPUT], what[place, TOKENS] = inner[row], max(inputs[row], 0), tokens
            most = max(most, tokens)
    return most


@njit(nogil=True, cache=True)
def _edges(keys: Keys) -> Integers:
    """Where each shard begins, and where the last one ends."""
    edges = np.empty(SHARDS + 1, np.int64)
    edges[SHARDS] = keys.size
    for shard in range(SHARDS):
        low, high = 0, keys.size
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if (keys[middle] >> _SHIFT) < shard else (low, middle)
        edges[shard] = low
    return edges


@njit(nogil=True, cache=True)
def _count_ranks(ids: Ids, ranks: Ids, offsets: Integers) -> None:
    for one in ids:
        offsets[np.uint64(ranks[one]) + np.uint64(1)] += 1


@njit(nogil=True, cache=True)
def _arrange(rows: Rows, ids: Ids, ranks: Ids, inner: Ids, ends: Integers, times_us: Integers, what: What) -> None:
    """Write visits where those of their keys go on, which `ends` has and which is set further."""
    for row in range(ids.size):
        rank = ranks[ids[row]]
        place = np.uint64(ends[rank])
        ends[rank] += 1
        times_us[place], what[place, INNER] = rows.times_us[row], inner[rows.what[row, INNER]]
        what[place, INPUT], what[place, TOKENS] = rows.what[row, INPUT], rows.what[row, TOKENS]
