"""The requests of a part arranged by key: one table in which the visits of a key stand together, in order of time.

Kernels that follow keys through time then read memory from front to back, and a row of the table has all that they need of a
visit side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from llmtrace.summaries.interning import intern
from llmtrace.summaries.keys import UNKNOWN

if TYPE_CHECKING:
    import polars as pl

    from llmtrace.summaries.groups import Ids, Integers, Keys

    Table = np.ndarray[tuple[int, int], np.dtype[np.int64]]

__all__ = ["INNER", "INPUT", "TIME", "TOKENS", "Visits", "arrange"]

TIME, INNER, INPUT, TOKENS = range(4)
"""The columns of the table: arrival in microseconds, place of the inner key, input tokens, tokens (0 where not known)."""


@dataclass(frozen=True)
class Visits:
    """Requests by an outer key, each with an inner key.

    Attributes:
        keys: the known outer keys, ascending.
        offsets: those of key k are the rows of the table from offsets[k] up to offsets[k + 1].
        inner: the inner keys, ascending; `UNKNOWN` may be the first.
        requests: how many requests each inner key has, those without a known outer key included.
        table: a row per request with a known outer key; see `TIME`, `INNER`, `INPUT`, `TOKENS`.
    """

    keys: Keys
    offsets: Integers
    inner: Keys
    requests: Integers
    table: Table


def arrange(frame: pl.DataFrame, outer: str, inner: str | None = None) -> Visits:
    """Arrange the requests of a part.

    Args:
        frame: `time_us` (ascending), `input_tokens`, `tokens` (Int64, -1 where not known) and the columns of keys.
        outer: the column of outer keys.
        inner: the column of inner keys; all requests have the same if None.
    """
    ids, keys = intern(frame[outer].to_numpy())
    order = np.argsort(keys)
    inner_ids, inner_keys = _ranked(frame[inner].to_numpy()) if inner else _all_the_same(frame.height)
    times_us, input_tokens, tokens = (frame[name].to_numpy() for name in ("time_us", "input_tokens", "tokens"))
    table = np.empty((frame.height, 4), np.int64)
    offsets, requests = _arrange((ids, _ranks(order)), (inner_ids, inner_keys.size), (times_us, input_tokens, tokens), table)
    keys = keys[order]
    first = int(keys.size > 0 and keys[0] == UNKNOWN)
    return Visits(keys[first:], offsets[first:] - offsets[first], inner_keys, requests, table[offsets[first] :])


def _ranked(keys: Keys) -> tuple[Ids, Keys]:
    """Dense integers for keys, in ascending order of the keys."""
    ids, distinct = intern(keys)
    order = np.argsort(distinct)
    return _ranks(order)[ids], distinct[order]


def _all_the_same(rows: int) -> tuple[Ids, Keys]:
    return np.zeros(rows, np.uint32), np.full(1, UNKNOWN + 1, np.uint64)


def _ranks(order: Integers) -> Ids:
    ranks = np.empty(order.size, np.uint32)
    ranks[order] = np.arange(order.size, dtype=np.uint32)
    return ranks


@njit(nogil=True, cache=True)
def _arrange(
    outer: tuple[Ids, Ids], inner: tuple[Ids, int], columns: tuple[Integers, Integers, Integers], table: Table
) -> tuple[Integers, Integers]:
    """Fill the table; the offsets of the outer keys and the requests of the inner ones.

    A counting sort, which keeps the order of time. `outer` has numbers in order of appearance and the rank of each.
    """
    (ids, ranks), (inner_ids, inner_count), (times, inputs, tokens) = outer, inner, columns
    offsets, places = np.zeros(ranks.size + 1, np.int64), np.zeros(ranks.size, np.int64)
    requests = np.zeros(inner_count, np.int64)
    for one in ids:
        places[one] += 1
    for one in range(ranks.size):
        offsets[ranks[one] + 1] = places[one]
    for rank in range(ranks.size):
        offsets[rank + 1] += offsets[rank]
    for one in range(ranks.size):
        places[one] = offsets[ranks[one]]
    for row in range(ids.size):
        place = places[ids[row]]
        places[ids[row]] = place + 1
        requests[inner_ids[row]] += 1
        table[place, TIME], table[place, INNER] = times[row], inner_ids[row]
        table[place, INPUT], table[place, TOKENS] = max(inputs[row], 0), max(tokens[row], 0)
    return offsets, requests
