"""The kernels of `returns` and `months`: follow keys through a part, and bring those of neighbouring parts together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numba import njit

from llmtrace.summaries import ttl
from llmtrace.summaries.following import NO_INNER
from llmtrace.summaries.gaps import NOWHERE
from llmtrace.summaries.room import Room
from llmtrace.summaries.visits import INNER, INPUT, TIME, TOKENS

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.ttl import CellArray, Sums
    from llmtrace.summaries.visits import Table

    Small = npt.NDArray[np.uint32]
    Values = npt.NDArray[Any]
    Edges = np.ndarray[tuple[int, int], np.dtype[np.int64]]
    Counts = tuple[Integers, Sums]
    Reach = np.ndarray[tuple[int, int], np.dtype[np.int64]]

Ends: TypeAlias = "tuple[Integers, Values]"
"""Of each key the time and the tokens of a request."""

__all__ = ["NEVER", "advance", "follow", "match", "number", "put", "renumber", "take_out"]

FIRST, LAST, FIRST_INPUT, LAST_TOKENS = range(4)
NO_KEY = (1 << 32) - 1
_ROOM = Room()
NEVER = np.iinfo(np.int64).min
"""The last arrival of a key that has had none."""


def number(table: Table, offsets: Integers, counts: Small, inner: Small, distinct: int) -> tuple[Small, Integers, Small, Small]:
    """Number the pairs of outer and inner keys: those known before, and then in the order of first visits.

    Args:
        table: visits by outer key.
        offsets: where those of each outer key begin, and the number of all.
        counts: how many pairs each outer key has before.
        inner: the inner key of each of these pairs, outer key by outer key.
        distinct: all inner keys are below it, except for `NO_INNER`, with which a visit belongs to no pair.

    Returns:
        The pair of each visit, `NO_KEY` where there is none; per pair its place before, -1 if it is new; its inner key; how many
        pairs each outer key has.
    """
    pair_of, now = _ROOM.array("pair_of", len(table), np.uint32), np.empty(counts.size, np.uint32)
    # One more than there can be: the last visit is written down as if it were that of a new pair.
    most = inner.size + len(table) + 1
    before, inner_now = _ROOM.array("before", most, np.int64), _ROOM.array("inner", most, np.uint32)
    pairs = _number(table, offsets, (counts, inner), np.full(distinct, NOWHERE), (pair_of, now), (before, inner_now))
    return pair_of, before[:pairs], inner_now[:pairs].copy(), now


def follow(table: Table, pair_of: Small, before: Integers, edges: Edges, counts: Counts) -> tuple[Edges, tuple[Integers, Small]]:
    """Follow each pair through its visits.

    Args:
        table: visits by outer key.
        pair_of: the pair of each.
        before: per pair its place before.
        edges: of each pair before `FIRST`, `LAST`, `FIRST_INPUT` and `LAST_TOKENS`.
        counts: to which gaps are added: how many have each cell, and the sums of `ttl`.

    Returns:
        The edges of each pair; pair by pair, where the cells of its positive gaps end, and these.
    """
    now, found = np.empty((before.size, edges.shape[1]), np.int64), _ROOM.array("found", pair_of.size, np.uint32)
    ends, cells = np.zeros(before.size, np.int64), _ROOM.array("cells", pair_of.size, np.uint32)
    _move(edges, before, now)
    _follow(table, pair_of, now, *counts, found, ends)
    return now, (ends, cells[: _by_pair(found, pair_of, ends, cells)])


def match(inner: Small, begins: Reach, ends: Reach, distinct: int) -> tuple[Small, Small]:
    """Number the pairs of several parts together: outer key by outer key, in the order of parts and of pairs in a part.

    Args:
        inner: the inner keys of all pairs, part by part.
        begins: per outer key and part where its pairs begin.
        ends: where they end.
        distinct: how many inner keys there are.

    Returns:
        Per pair its number; how many numbers each outer key has.
    """
    places, counts = np.empty(inner.size, np.uint32), np.zeros(len(begins), np.uint32)
    _match(inner, begins, ends, np.full(distinct, NOWHERE), places, counts)
    return places, counts


@njit(nogil=True, cache=True)
def renumber(values: Small, numbers: Small, target: Small) -> None:
    """For each value the number that stands at its place, into `target`."""
    for row in range(values.size):
        target[row] = numbers[values[row]]


@njit(nogil=True, cache=True)
def put(values: Values, places: Small, target: Values) -> None:
    """Put values where they belong."""
    for row in range(values.size):
        target[places[row]] = values[row]


@njit(nogil=True, cache=True)
def advance(firsts: Ends, lasts: Ends, places: Small, earliest: Ends, latest: Ends, sums: Sums, gaps: Integers) -> CellArray:
    """Follow keys into the next part: add the gaps across its border, and remember first and last requests.

    Args:
        firsts: time and input tokens of the first request of each key of the part.
        lasts: time and tokens of the last.
        places: where the key is in `earliest` and `latest`.
        earliest: time and input tokens of the first request of every key; those of new keys are written.
        latest: time and tokens of the last request of every key before, `NEVER` where there was none; changed.
        sums: what gaps are added to.
        gaps: their cells are counted in it.

    Returns:
        Per key of the part the cell of its gap across the border; 0 if there is none.
    """
    cells = np.zeros(places.size, np.uint32)
    times, tokens = latest
    for row in range(places.size):
        place = places[row]
        if times[place] != NEVER:
            cells[row] = ttl.add(sums, firsts[0][row] - times[place], firsts[1][row], tokens[place])
            gaps[cells[row]] += 1
        else:
            earliest[0][place], earliest[1][place] = firsts[0][row], firsts[1][row]
        times[place], tokens[place] = lasts[0][row], lasts[1][row]
    return cells


@njit(nogil=True, cache=True)
def _number(
    table: Table,
    offsets: Integers,
    known: tuple[Small, Small],
    latest: Integers,
    numbers: tuple[Small, Small],
    pairs_now: tuple[Integers, Small],
) -> int:
    (counts, inner), (pair_of, counts_now), (before, inner_now) = known, numbers, pairs_now
    pairs, old = 0, 0
    for outer in range(counts.size):
        start = pairs
        for _ in range(counts[outer]):
            latest[inner[old]] = pairs
            before[pairs], inner_now[pairs] = old, inner[old]
            pairs, old = pairs + 1, old + 1
        for row in range(offsets[outer], offsets[outer + 1]):
            one = table[row, INNER]
            if one == NO_INNER:
                pair_of[row] = NO_KEY
                continue
            # Written for every visit, and kept where the pair is new: without a branch, which keys that come back at random would
            # make costly.
            before[pairs], inner_now[pairs] = NOWHERE, one
            is_new = latest[one] < start
            latest[one] = pairs if is_new else latest[one]
            pair_of[row] = latest[one]
            pairs += is_new
        counts_now[outer] = pairs - start
    return pairs


@njit(nogil=True, cache=True)
def _move(edges: Edges, before: Integers, now: Edges) -> None:
    """Write the edges of pairs where they stand now."""
    for pair in range(before.size):
        if before[pair] >= 0:
            for field in range(4):
                now[pair, field] = edges[before[pair], field]
        else:
            now[pair, LAST] = NEVER


@njit(nogil=True, cache=True)
def _follow(table: Table, pair_of: Small, edges: Edges, gaps: Integers, sums: Sums, found: Small, positive: Integers) -> None:
    """Write the cell of the gap before each visit, 0 where there is none, and count the positive gaps of each pair."""
    for row in range(pair_of.size):
        cell, pair, time, input_tokens = 0, np.uint64(pair_of[row]), table[row, TIME], table[row, INPUT]
        if pair != NO_KEY:
            if edges[pair, LAST] == NEVER:
                edges[pair, FIRST], edges[pair, FIRST_INPUT] = time, input_tokens
            else:
                cell = ttl.add(sums, time - edges[pair, LAST], input_tokens, edges[pair, LAST_TOKENS])
                gaps[cell] += 1
                positive[pair] += cell > 0
            edges[pair, LAST], edges[pair, LAST_TOKENS] = time, table[row, TOKENS]
        found[row] = cell


@njit(nogil=True, cache=True)
def _by_pair(found: Small, pair_of: Small, ends: Integers, cells: Small) -> int:
    """Write the cells of positive gaps pair by pair: how many; `ends` has how many of each pair, and then where these end."""
    total = 0
    for pair in range(ends.size):
        ends[pair], total = total, total + ends[pair]
    for row in range(found.size):
        if found[row] > 0:
            own = np.uint64(pair_of[row])
            cells[np.uint64(ends[own])] = found[row]
            ends[own] += 1
    return total


@njit(nogil=True, cache=True)
def take_out(positive: Values, held: Small, eligible: npt.NDArray[np.bool_], limit: int, gaps: Integers) -> None:
    """Take the gaps of keys that are not eligible out of those of every cell.

    Args:
        positive: per key its positive gaps; those with `limit` of them are eligible.
        held: key by key the cells of the others.
        eligible: per key whether it is.
        limit: see `trails`.
        gaps: per cell all gaps; changed.
    """
    end = 0
    for key in range(positive.size):
        if positive[key] < limit:
            start, end = end, end + positive[key]
            for one in range(start, end if not eligible[key] else start):
                gaps[held[one]] -= 1


@njit(nogil=True, cache=True)
def _match(inner: Small, begins: Reach, ends: Reach, latest: Integers, places: Small, counts: Small) -> None:
    size = 0
    for outer in range(counts.size):
        start = size
        for part in range(begins.shape[1]):
            for row in range(begins[outer, part], ends[outer, part]):
                one = inner[row]
                is_new = latest[one] < start
                latest[one] = size if is_new else latest[one]
                places[row] = latest[one]
                size += is_new
        counts[outer] = size - start
