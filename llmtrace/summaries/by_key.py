"""The arrivals of each key: what summaries of gaps per key walk through.

Several summaries of a part share one such arrangement, which a counting sort makes in a few nanoseconds a row.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries import keys
from llmtrace.summaries.cells import frozen, list_of, list_parts
from llmtrace.summaries.frames import gathered
from llmtrace.summaries.gaps import NOWHERE, align
from llmtrace.summaries.interning import intern
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.summary import tables_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.summaries.interning import Ids, Integers, Keys
    from llmtrace.summaries.summary import Summary

__all__ = ["arranged", "combine_names", "grouped", "plans", "read"]

_NAMES: Mapping[str, pl.DataType] = {"key": pl.UInt64(), "name": pl.String()}


def plans(
    frame: pl.LazyFrame, column: str, timed: Mapping[str, Summary], keyed: Mapping[str, Summary]
) -> dict[str, pl.LazyFrame]:
    """A plan for each summary of a part, over all its requests or over the arrivals of each key, and for the `names` of keys.

    Args:
        frame: `timestamp`, by which it is sorted, and the column.
        column: text, each of whose values is a key.
        timed: summaries of the `timestamp`, in microseconds since 1970.
        keyed: summaries of what `arranged` gives.
    """
    schemas = {name: summary.schema for name, summary in (*timed.items(), *keyed.items())}
    make = partial(_tables, column=column, timed=timed, keyed=keyed)
    return tables_of(frame, {**schemas, "names": _NAMES}, make)


def arranged(times_us: Integers, row_keys: Keys) -> tuple[pl.DataFrame, Integers]:
    """A row per known key: `key`, ascending, and `arrivals`, a list of its times, ascending; and the first row of each.

    Args:
        times_us: of requests, ascending.
        row_keys: theirs.

    >>> found, first_rows = arranged(np.array([10, 20, 30]), np.array([5, 3, 5], np.uint64))
    >>> found.rows(), first_rows
    ([(3, [20]), (5, [10, 30])], array([1, 0]))
    """
    ids, distinct = intern(row_keys)
    order = np.argsort(distinct)
    order = order[distinct[order] != UNKNOWN]
    (times,) = frozen(times_us)
    offsets, arrivals, first_rows = _arrange(ids, order, times, distinct.size)
    return pl.DataFrame([pl.Series("key", distinct[order]), list_of("arrivals", offsets, arrivals)]), first_rows


def read(frame: pl.DataFrame) -> tuple[Keys, Integers, Integers]:
    """Such rows as arrays: the keys, the arrivals key by key, and where those of each begin, and the number of all."""
    offsets, times = list_parts(frame["arrivals"])
    return frame["key"].to_numpy(), times, offsets


def grouped(keys: Keys) -> tuple[Keys, Integers, Integers]:
    """The rows of several frames, one below the other, key by key.

    Returns:
        The keys, ascending; the rows, key by key, those of each in their order; and where each key begins, and the number of all.

    >>> grouped(np.array([3, 7, 3], np.uint64))
    (array([3, 7], dtype=uint64), array([0, 2, 1]), array([0, 2, 3]))
    """
    order = np.argsort(keys, kind="stable")
    ascending = keys[order]
    starts = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1])[: keys.size])
    return ascending[starts], order, np.append(starts, keys.size)


def combine_names(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The names behind the keys of all parts, from `key` and `name` of each."""
    return reduce(_named, frames)


def _named(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    keys, ours, theirs = align(left["key"].to_numpy(), right["key"].to_numpy())
    if keys.size == left.height:
        return left
    return pl.concat([left, right])[np.where(ours == NOWHERE, left.height + theirs, ours)]


def _tables(
    frame: pl.DataFrame, *, column: str, timed: Mapping[str, Summary], keyed: Mapping[str, Summary]
) -> dict[str, pl.DataFrame]:
    times = frame.select(pl.col("timestamp").to_physical()).rechunk()
    found = {name: summary.summarise(times) for name, summary in timed.items()}
    by_key, first_rows = arranged(times["timestamp"].to_numpy(), keys.of(frame[column]))
    found |= {name: summary.summarise(by_key) for name, summary in keyed.items()}
    return {**found, "names": by_key.select("key", name=gathered(frame[column], first_rows))}


@njit(nogil=True, cache=True)
def _arrange(ids: Ids, order: Integers, times: Integers, groups: int) -> tuple[Integers, Integers, Integers]:
    """The times of the rows of the groups in `order`, group by group; where those of each begin; and its first row."""
    place, first = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    for row in range(ids.size):
        if place[ids[row]] == 0:
            first[ids[row]] = row
        place[ids[row]] += 1
    offsets = np.zeros(order.size + 1, np.int64)
    for rank in range(order.size):
        offsets[rank + 1] = offsets[rank] + place[order[rank]]
    place[:] = -1
    for rank in range(order.size):
        place[order[rank]] = offsets[rank]
    arranged = np.empty(offsets[-1], np.int64)
    for row in range(times.size):
        at = place[ids[row]]
        if at >= 0:
            arranged[at] = times[row]
            place[ids[row]] = at + 1
    return offsets, arranged, first[order]
