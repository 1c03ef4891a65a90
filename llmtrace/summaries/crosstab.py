"""How often each outer key meets each inner one, as users meet models: a table of counts without its zeros.

Tables of a state:

    outer   all outer keys, `UNKNOWN` among them where it occurs: key (ascending), pairs (how many inner keys it meets)
    inner   all inner keys: key (ascending)
    pairs   outer key by outer key, in the order of their first requests: inner (the place of the inner key), requests (UInt32, or
            UInt64 where one has 2^32 or more)

A request with an unknown key is in no pair.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

from llmtrace.summaries.cells import frozen
from llmtrace.summaries.gaps import NOWHERE, align
from llmtrace.summaries.keys import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from llmtrace.summaries.gaps import Rows
    from llmtrace.summaries.groups import Groups
    from llmtrace.summaries.interning import Integers

    Small = npt.NDArray[np.uint32]
    Counts = npt.NDArray[np.uint32 | np.uint64]
    Tables = Mapping[str, pl.DataFrame]
    Side = tuple[Integers, Small, Counts]
    """Where the pairs of each outer key begin, and the number of all; per pair the inner key and the requests."""

__all__ = ["SCHEMAS", "by_inner", "by_outer", "combine", "summarise"]

SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "outer": {"key": pl.UInt64(), "pairs": pl.UInt32()},
    "inner": {"key": pl.UInt64()},
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
    met = _arranged(outer.ids, offsets, inner.ids, places)
    begins, ends = (offsets[outer.order + side] for side in (0, 1))
    ends[:1] = begins[:1] if _has_unknown(outer) else ends[:1]
    counts, pairs, requests = _meet(met, begins, ends, places.size)
    return {
        "outer": pl.DataFrame({"key": outer.labels["key"], "pairs": counts}),
        "inner": pl.DataFrame({"key": inner.labels["key"]}),
        "pairs": pl.DataFrame({"inner": pairs, "requests": requests}),
    }


def combine(states: Sequence[dict[str, pl.DataFrame]]) -> dict[str, pl.DataFrame]:
    """The state of neighbouring parts, in order of time."""
    return reduce(_joined, states)


def by_inner(state: Tables, percent: int) -> pl.DataFrame:
    """What each inner key meets, one row per key.

    Args:
        state: its tables.
        percent: see `needed`.

    Returns:
        `pairs` (outer keys that it meets), `met` (requests of all of them), `most` (of the one with most), `needed` (the fewest
        outer keys that have `percent` % of its requests together); zeros where it meets none.
    """
    inner, requests = frozen(*(state["pairs"][name].to_numpy() for name in ("inner", "requests")))
    counts, met, most, needed = _by_inner(inner, requests, state["inner"].height, percent)
    return pl.DataFrame({"pairs": counts, "met": met, "most": most, "needed": needed})


def by_outer(state: Tables) -> pl.DataFrame:
    """What each outer key meets most, one row per key.

    Returns:
        `pairs` (inner keys that it meets), `met` (requests of all of them), `inner` (the place of the one with most requests, of
        several the one met first; null where there is none) and `most` (its requests).
    """
    counts = state["outer"]["pairs"]
    inner, requests, pairs = frozen(*(column.to_numpy() for column in (*state["pairs"].get_columns(), counts)))
    met, best, most = _by_outer(inner, requests, pairs)
    places = pl.Series(best, dtype=pl.Int64).set(counts == 0, None)
    return pl.DataFrame({"pairs": counts.cast(pl.Int64), "met": met, "inner": places, "most": most})


def _joined(left: Tables, right: Tables) -> dict[str, pl.DataFrame]:
    outer, *rows = align(*(frozen(side["outer"]["key"].to_numpy())[0] for side in (left, right)))
    inner, *columns = align(*(frozen(side["inner"]["key"].to_numpy())[0] for side in (left, right)))
    numbers = [np.flatnonzero(own != NOWHERE).astype(np.uint32) for own in columns]
    dtype = np.uint32 if sum(_largest(side["pairs"]["requests"].to_numpy()) for side in (left, right)) < 1 << 32 else np.uint64
    counts, pairs, requests = _merge(
        _side(left, dtype), frozen(rows[0], numbers[0]), _side(right, dtype), frozen(rows[1], numbers[1]), inner.size
    )
    narrow = requests if _largest(requests) >> 32 else requests.astype(np.uint32, copy=False)
    return {
        "outer": pl.DataFrame({"key": outer, "pairs": counts}),
        "inner": pl.DataFrame({"key": inner}),
        "pairs": pl.DataFrame({"inner": pairs, "requests": narrow}),
    }


def _side(state: Tables, dtype: type[np.unsignedinteger]) -> Side:
    offsets = np.append(0, np.cumsum(state["outer"]["pairs"].to_numpy(), dtype=np.int64))
    inner, requests = (column.to_numpy() for column in state["pairs"].get_columns())
    offsets, inner, requests = frozen(offsets, inner, requests.astype(dtype, copy=False))
    return offsets, inner, requests


def _largest(requests: Counts) -> int:
    return int(requests.max(initial=0))


def _has_unknown(groups: Groups) -> bool:
    return groups.order.size > 0 and bool(groups.labels["key"][0] == UNKNOWN)


def _places(inner: Groups) -> Small:
    """The place of each inner group; `_NO_KEY` for the unknown one."""
    places = np.empty(inner.order.size, np.uint32)
    places[inner.order] = np.arange(inner.order.size, dtype=np.uint32)
    places[inner.order[: _has_unknown(inner)]] = _NO_KEY
    return places


@njit(nogil=True, cache=True)
def _arranged(outer: Small, offsets: Integers, inner: Small, places: Small) -> Small:
    """The place of the inner key of each row, outer group by outer group, those of each in the order of rows."""
    arranged, ends = np.empty(outer.size, np.uint32), offsets.copy()
    for row in range(outer.size):
        arranged[ends[outer[row]]] = places[inner[row]]
        ends[outer[row]] += 1
    return arranged


@njit(nogil=True, cache=True)
def _meet(met: Small, begins: Integers, ends: Integers, distinct: int) -> tuple[Small, Small, Small]:
    """Count inner keys within each outer one, whose own stand from `begins` up to `ends`.

    Returns:
        Per outer key how many pairs it has; per pair the inner key and its requests.
    """
    counts, inner, requests = np.zeros(begins.size, np.uint32), np.empty(met.size, np.uint32), np.empty(met.size, np.uint32)
    latest = np.full(distinct, NOWHERE)
    size = 0
    for outer in range(begins.size):
        start = size
        for row in range(begins[outer], ends[outer]):
            one = met[row]
            if one == _NO_KEY:
                continue
            # Without a branch, which keys that come back at random would make costly.
            is_new = latest[one] < start
            place = size if is_new else latest[one]
            latest[one] = place
            inner[place] = one
            requests[place] = 1 if is_new else requests[place] + 1
            size += is_new
        counts[outer] = size - start
    return counts, inner[:size].copy(), requests[:size].copy()


@njit(nogil=True, cache=True)
def _merge(
    left: Side, ours: tuple[Rows, Small], right: Side, theirs: tuple[Rows, Small], distinct: int
) -> tuple[Small, Small, Counts]:
    """Add the pairs of both sides up.

    Args:
        left: the pairs of the earlier requests.
        ours: per outer key of both its row on the left; the place of each inner key of the left among those of both.
        right: the pairs of the later ones.
        theirs: the same on the right.
        distinct: how many inner keys there are.

    Returns:
        As `_meet` does.
    """
    counts = np.zeros(ours[0].size, np.uint32)
    latest = np.full(distinct, NOWHERE)
    size = 0
    for outer in range(counts.size):
        counts[outer] = _number(left, ours, outer, latest, size, 0)
        counts[outer] = _number(right, theirs, outer, latest, size, counts[outer])
        size += counts[outer]
    pairs = np.empty(size, np.uint32), np.zeros(size, left[2].dtype)
    latest[:] = NOWHERE
    size = 0
    for outer in range(counts.size):
        _add(left, ours, outer, latest, size, 0, pairs)
        before = _reach(left[0], ours[0][outer])
        _add(right, theirs, outer, latest, size, before[1] - before[0], pairs)
        size += counts[outer]
    return counts, pairs[0], pairs[1]


@njit(nogil=True, cache=True)
def _number(side: Side, own: tuple[Rows, Small], outer: int, latest: Integers, start: int, count: int) -> int:
    """How many pairs an outer key has that begin at `start`, those of a side after the `count` that it has already."""
    first, end = _reach(side[0], own[0][outer])
    for row in range(first, end):
        one = own[1][side[1][row]]
        is_new = latest[one] < start
        latest[one] = start + count if is_new else latest[one]
        count += is_new
    return count


@njit(nogil=True, cache=True)
def _add(
    side: Side, own: tuple[Rows, Small], outer: int, latest: Integers, start: int, count: int, pairs: tuple[Small, Counts]
) -> None:
    """Add the pairs of a side, as `_number` numbers them."""
    first, end = _reach(side[0], own[0][outer])
    for row in range(first, end):
        one = own[1][side[1][row]]
        is_new = latest[one] < start
        latest[one] = start + count if is_new else latest[one]
        count += is_new
        pairs[0][latest[one]] = one
        pairs[1][latest[one]] += side[2][row]


@njit(nogil=True, cache=True)
def _reach(offsets: Integers, row: int) -> tuple[int, int]:
    return (offsets[row], offsets[row + 1]) if row >= 0 else (0, 0)


@njit(nogil=True, cache=True)
def _by_inner(inner: Small, requests: Counts, distinct: int, percent: int) -> tuple[Integers, Integers, Integers, Integers]:
    offsets = np.zeros(distinct + 1, np.int64)
    for one in inner:
        offsets[one + 1] += 1
    for one in range(distinct):
        offsets[one + 1] += offsets[one]
    arranged, place = np.empty(inner.size, np.int64), offsets.copy()
    for row in range(inner.size):
        arranged[place[inner[row]]] = requests[row]
        place[inner[row]] += 1
    met, most, needed = np.zeros(distinct, np.int64), np.zeros(distinct, np.int64), np.zeros(distinct, np.int64)
    for one in range(distinct):
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
def _by_outer(inner: Small, requests: Counts, pairs: Small) -> tuple[Integers, Integers, Integers]:
    met, best, most = np.zeros(pairs.size, np.int64), np.zeros(pairs.size, np.int64), np.zeros(pairs.size, np.int64)
    row = 0
    for outer in range(pairs.size):
        for _ in range(pairs[outer]):
            count = np.int64(requests[row])
            met[outer] += count
            if count > most[outer]:
                best[outer], most[outer] = inner[row], count
            row += 1
    return met, best, most
