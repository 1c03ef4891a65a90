"""The arrivals of each key: what summaries of gaps per key walk through.

Several summaries of a part share one such arrangement, which a counting sort makes in a few nanoseconds a row.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.cells import frozen, list_of, list_parts
from llmtrace.summaries.gaps import NOWHERE, align
from llmtrace.summaries.groups import group
from llmtrace.summaries.keys import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.summaries.groups import Ids, Integers, Keys

__all__ = ["combine_names", "grouped", "plan", "read"]


def plan(frame: pl.LazyFrame, by: str, name: str | None = None) -> pl.LazyFrame:
    """A row per known key: `key`, ascending, and `arrivals`, a list of its times in microseconds since 1970, ascending.

    Args:
        frame: requests, sorted by `timestamp`.
        by: a column of keys.
        name: the column of text that these are keys of; the answer then has the `name` behind each key too.
    """
    schema: dict[str, pl.DataType] = {"key": pl.UInt64(), "arrivals": pl.List(pl.Int64())}
    columns = [by] if name is None else [by, name]
    return frame.select(pl.col("timestamp").to_physical(), *columns).map_batches(
        partial(_arranged, by=by, name=name), schema=schema if name is None else {**schema, "name": pl.String()}
    )


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


def _arranged(frame: pl.DataFrame, *, by: str, name: str | None) -> pl.DataFrame:
    groups = group(frame, by)
    known = (groups.labels["key"] != UNKNOWN).to_numpy()
    order, (times,) = groups.order[known], frozen(frame["timestamp"].to_numpy())
    offsets, arrivals, first_rows = _arrange(groups.ids, order, times, groups.order.size)
    columns = [groups.labels["key"].filter(known).alias("key"), list_of("arrivals", offsets, arrivals)]
    return pl.DataFrame(columns if name is None else [*columns, frame[name].gather(first_rows).alias("name")])


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
