"""The kernels of `returns` and `months`: follow keys through a part, and bring those of neighbouring parts together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numba import njit

from llmtrace.summaries import ttl
from llmtrace.summaries.gaps import NOWHERE
from llmtrace.summaries.ttl import NO_CELL
from llmtrace.summaries.visits import INNER, INPUT, TIME, TOKENS

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.trails import Tallies
    from llmtrace.summaries.ttl import CellArray, Sums
    from llmtrace.summaries.visits import Table

    Small = npt.NDArray[np.uint32]
    Values = npt.NDArray[Any]
    Reach = np.ndarray[tuple[int, int], np.dtype[np.int64]]

Columns: TypeAlias = "tuple[Small, Integers, Integers, Integers, Integers, Small]"
"""Of each key: inner, first_us, last_us, first_input_tokens, last_tokens, positive gaps."""
Ends: TypeAlias = "tuple[Integers, Values]"
"""Of each key the time and the tokens of a request."""

__all__ = ["NEVER", "advance", "follow", "match", "number", "put", "renumber"]

NO_KEY = (1 << 32) - 1
NEVER = np.iinfo(np.int64).min
"""The last arrival of a key that has had none."""


def number(table: Table, offsets: Integers, distinct: int, unknown: int) -> tuple[Small, Small]:
    """Number the pairs of outer and inner key in order of their first visits.

    Args:
        table: visits by outer key.
        offsets: where those of each outer key begin.
        distinct: how many inner keys there are.
        unknown: the inner key of visits that belong to no pair.

    Returns:
        The pair of each visit, `NO_KEY` where there is none; how many pairs each outer key has.
    """
    pair_of, counts = np.empty(len(table), np.uint32), np.zeros(offsets.size - 1, np.uint32)
    _number(table, offsets, np.full(distinct, NOWHERE), unknown, pair_of, counts)
    return pair_of, counts


def follow(table: Table, pair_of: Small, pairs: int) -> tuple[Columns, CellArray, Sums]:
    """Follow each pair through its visits.

    Returns:
        The columns of the pairs; the cell of the gap before each visit, `NO_CELL` at the first; the sums over all gaps.
    """
    inner, positive = np.empty(pairs, np.uint32), np.zeros(pairs, np.uint32)
    first, last, first_input, last_tokens = (np.empty(pairs, np.int64) for _ in range(4))
    columns = (inner, first, last, first_input, last_tokens, positive)
    cells, sums = np.empty(pair_of.size, np.uint32), ttl.no_sums()
    _follow(table, pair_of, columns, cells, sums)
    return columns, cells, sums


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
def advance(firsts: Ends, lasts: Ends, places: Small, earliest: Ends, latest: Ends, sums: Sums, tallies: Tallies) -> CellArray:
    """Follow keys into the next part: add the gaps across its border, and remember first and last requests.

    Args:
        firsts: time and input tokens of the first request of each key of the part.
        lasts: time and tokens of the last.
        places: where the key is in `earliest` and `latest`.
        earliest: time and input tokens of the first request of every key; those of new keys are written.
        latest: time and tokens of the last request of every key before, `NEVER` where there was none; changed.
        sums: what gaps are added to.
        tallies: their cells are counted in its first row.

    Returns:
        Per key of the part the cell of its gap across the border; 0 if there is none.
    """
    cells = np.zeros(places.size, np.uint32)
    times, tokens = latest
    for row in range(places.size):
        place = places[row]
        if times[place] != NEVER:
            cells[row] = ttl.add(sums, firsts[0][row] - times[place], firsts[1][row], tokens[place])
            tallies[0, cells[row]] += 1
        else:
            earliest[0][place], earliest[1][place] = firsts[0][row], firsts[1][row]
        times[place], tokens[place] = lasts[0][row], lasts[1][row]
    return cells


@njit(nogil=True, cache=True)
def _number(table: Table, offsets: Integers, latest: Integers, unknown: int, pair_of: Small, counts: Small) -> None:
    pairs = 0
    for place in range(counts.size):
        start = pairs
        for row in range(offsets[place], offsets[place + 1]):
            inner = table[row, INNER]
            if inner == unknown:
                pair_of[row] = NO_KEY
                continue
            # Without a branch, which keys that come back at random would make costly.
            is_new = latest[inner] < start
            latest[inner] = pairs if is_new else latest[inner]
            pair_of[row] = latest[inner]
            pairs += is_new
        counts[place] = pairs - start


@njit(nogil=True, cache=True)
def _follow(table: Table, pair_of: Small, columns: Columns, cells: CellArray, sums: Sums) -> None:
    inner, first, last, first_input, last_tokens, positive = columns
    seen = 0
    for row in range(pair_of.size):
        pair = pair_of[row]
        cells[row] = NO_CELL
        if pair == NO_KEY:
            continue
        time = table[row, TIME]
        if pair == seen:
            seen += 1
            inner[pair], first[pair], first_input[pair] = table[row, INNER], time, table[row, INPUT]
        else:
            cells[row] = ttl.add(sums, time - last[pair], table[row, INPUT], last_tokens[pair])
            positive[pair] += time > last[pair]
        last[pair], last_tokens[pair] = time, table[row, TOKENS]


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
