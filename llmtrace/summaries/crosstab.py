"""How often each outer key meets each inner one, as users meet models: a table of counts without its zeros.

Which keys there are, the caller knows: all that occur, ascending. Tables of a state:

    breadth     per outer key: pairs (how many inner keys it meets)
    pairs       outer key by outer key, in the order of their first requests: inner (the place of the inner key), requests (of
                UInt32, or of UInt64 where one is 2^32 or more)

A request with an unknown key is in no pair.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.cells import frozen
from llmtrace.summaries.gaps import NOWHERE
from llmtrace.summaries.keys import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.groups import Groups, Integers
    from llmtrace.summaries.unions import Union

    Small = npt.NDArray[np.uint32]
    Counts = npt.NDArray[np.uint32 | np.uint64]
    Reach = np.ndarray[tuple[int, int], np.dtype[np.int64]]
    Tables = Mapping[str, pl.DataFrame]

__all__ = ["SCHEMAS", "combine", "outer_places", "summarise"]

SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "breadth": {"pairs": pl.UInt32()},
    "pairs": {"inner": pl.UInt32(), "requests": pl.UInt32()},
}
"""The columns of each table of a state."""

_NO_KEY = (1 << 32) - 1


def summarise(outer: Groups, inner: Groups) -> dict[str, pl.DataFrame]:
    """The state of a part.

    Args:
        outer: its requests by outer key.
        inner: the same requests by inner key.
    """
    offsets, places = outer.offsets(), _places(inner)
    met = outer.arranged(places[inner.ids], offsets).astype(np.uint32)
    begins, ends = (offsets[outer.order + side] for side in (0, 1))
    ends[:1] = begins[:1] if _has_unknown(outer) else ends[:1]
    return _tables(met, np.ones_like(met), (begins.reshape(-1, 1), ends.reshape(-1, 1)), places.size)


def combine(states: Sequence[Tables], outer: Union, inner: Union) -> dict[str, pl.DataFrame]:
    """The state of neighbouring parts, in order of time.

    Args:
        states: theirs.
        outer: the union of their outer keys.
        inner: that of their inner keys.
    """
    if len(states) == 1:
        return {name: states[0][name] for name in SCHEMAS}
    borders = np.cumsum([0, *(state["pairs"].height for state in states)])
    met, requests = np.empty(borders[-1], np.uint32), np.empty(borders[-1], _dtype(states))
    begins, ends = np.zeros((2, outer.keys.size, len(states)), np.int64)
    for side, (state, (start, end)) in enumerate(zip(states, pairwise(borders), strict=True)):
        offsets = start + np.append(0, np.cumsum(state["breadth"]["pairs"].to_numpy(), dtype=np.int64))
        begins[outer.places[side], side], ends[outer.places[side], side] = offsets[:-1], offsets[1:]
        np.take(inner.places[side], state["pairs"]["inner"].to_numpy(), out=met[start:end])
        requests[start:end] = state["pairs"]["requests"].to_numpy()
    return _tables(met, requests, (begins, ends), inner.keys.size)


def outer_places(state: Tables) -> Small:
    """The place of the outer key of each pair."""
    counts = state["breadth"]["pairs"].to_numpy()
    return np.repeat(np.arange(counts.size, dtype=np.uint32), counts)


def _tables(met: Small, requests: Counts, reaches: tuple[Reach, Reach], distinct: int) -> dict[str, pl.DataFrame]:
    """The tables from what `_meet` takes."""
    met, requests, begins, ends = frozen(met, requests, *reaches)
    counts, inner, total = _meet(met, requests, begins, ends, distinct)
    is_wide = int(total.max(initial=0)) >> 32
    return {
        "breadth": pl.DataFrame({"pairs": counts}),
        "pairs": pl.DataFrame({"inner": inner, "requests": total if is_wide else total.astype(np.uint32, copy=False)}),
    }


def _has_unknown(groups: Groups) -> bool:
    return groups.order.size > 0 and bool(groups.labels["key"][0] == UNKNOWN)


def _places(inner: Groups) -> Integers:
    """The place of each inner group; `_NO_KEY` for the unknown one."""
    places = np.empty(inner.order.size, np.int64)
    places[inner.order] = np.arange(inner.order.size)
    places[inner.order[: _has_unknown(inner)]] = _NO_KEY
    return places


def _dtype(states: Sequence[Tables]) -> type[np.unsignedinteger]:
    """Wide enough for the sum of any counts, one of each state."""
    largest = sum(int(state["pairs"]["requests"].max() or 0) for state in states)  # type: ignore[arg-type, misc]
    return np.uint32 if largest < 1 << 32 else np.uint64


@njit(nogil=True, cache=True)
def _meet(met: Small, requests: Counts, begins: Reach, ends: Reach, distinct: int) -> tuple[Small, Small, Counts]:
    """Add up the requests of each inner key within each outer one.

    Args:
        met: inner keys.
        requests: how many requests each stands for.
        begins: per outer key and part where its inner keys begin.
        ends: where they end.
        distinct: how many inner keys there are.

    Returns:
        Per outer key how many pairs it has; per pair the inner key and its requests.
    """
    counts = np.zeros(len(begins), np.uint32)
    pairs = np.empty(met.size, np.uint32), np.empty(met.size, requests.dtype)
    latest = np.full(distinct, NOWHERE)
    size = 0
    for outer in range(counts.size):
        start = size
        for part in range(begins.shape[1]):
            reach = begins[outer, part], ends[outer, part]
            size = _meet_some(met, requests, reach, latest, start, pairs, size)
        counts[outer] = size - start
    return counts, pairs[0][:size].copy(), pairs[1][:size].copy()


@njit(nogil=True, cache=True)
def _meet_some(
    met: Small, requests: Counts, reach: tuple[int, int], latest: Integers, start: int, pairs: tuple[Small, Counts], size: int
) -> int:
    """Add to the pairs of an outer key, which begin at `start`: how far they reach then. `latest` has the last of inner keys."""
    inner, total = pairs
    for row in range(reach[0], reach[1]):
        one = met[row]
        if one == _NO_KEY:
            continue
        # Without a branch, which keys that come back at random would make costly.
        is_new = latest[one] < start
        place = size if is_new else latest[one]
        latest[one] = place
        inner[place] = one
        total[place] = requests[row] + (0 if is_new else total[place])
        size += is_new
    return size
