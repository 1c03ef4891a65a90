"""The kernels of `returns` and `months`: follow keys through a part, and bring those of neighbouring parts together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit

from llmtrace.summaries import kernels, ttl
from llmtrace.summaries.following import NO_INNER
from llmtrace.summaries.gaps import NOWHERE
from llmtrace.summaries.room import Room
from llmtrace.summaries.visits import INNER, INPUT, TOKENS

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.groups import Integers
    from llmtrace.summaries.ttl import CellArray, Sums
    from llmtrace.summaries.visits import Visits, What

    Small = npt.NDArray[np.uint32]
    Positive = npt.NDArray[np.uint16]
    Marks = npt.NDArray[np.int32]
    Values = npt.NDArray[Any]
    Counts = tuple[Values, Sums]
    Gaps = tuple[Integers, Small]
    Rows = tuple[Integers, What]
    Tokens = npt.NDArray[np.integer[Any]]
    Firsts = tuple[Integers, Tokens]
    Reach = np.ndarray[tuple[int, int], np.dtype[np.int64]]

Ends: TypeAlias = "tuple[Integers, Values]"
"""Of each key the time and the tokens of a request."""

__all__ = ["NEVER", "Pairs", "advance", "follow", "match", "no_pairs", "renumber", "take_out"]

_ROOM = Room()
NEVER = np.iinfo(np.int64).min
"""The last arrival of a key that has had none."""


class Pairs(NamedTuple):
    """Pairs of outer and inner keys, outer key by outer key.

    Attributes:
        counts: how many each outer key has.
        inner: the inner key of each.
        last_us: time of the last visit of each.
        last_tokens: tokens of that.
        born: its number when the pairs of the shard are counted in the order of their first visits; empty if nobody asks.
        positive: how many positive gaps it has, up to the limit of trails.
    """

    counts: Small
    inner: Small
    last_us: Integers
    last_tokens: Tokens
    born: Small
    positive: Positive


def follow(visits: Visits, known: Pairs, distinct: int, counts: Counts, *, has_born: bool) -> tuple[Pairs, Firsts, Gaps]:
    """Follow pairs through their visits.

    Args:
        visits: these, by outer key.
        known: the pairs before.
        distinct: all inner keys are below it, except for `NO_INNER`, with which a visit belongs to no pair.
        counts: to which gaps are added: how many have each cell, and the sums of `ttl`.
        has_born: whether pairs have `born`.

    Returns:
        The pairs, of each outer key those known before and then new ones in the order of first visits, with as many positive gaps
        as they had before; time and input tokens of the first visit of each new pair, in the order of birth; pair by pair, where
        the cells of further positive gaps end, and these. All but the pairs are the thread's own until it follows others.
    """
    offsets, sizes, dtype = visits.offsets, np.diff(visits.offsets), np.result_type(visits.what, known.last_tokens)
    fresh, longest = int(np.minimum(sizes, distinct).sum()), int(sizes.max(initial=0))
    now = Pairs(np.empty(visits.before.size, np.uint32), *_columns(known.inner.size + fresh, dtype, has_born=has_born))
    firsts = _ROOM.array("first_us", fresh, np.int64), _ROOM.array("first_input", fresh, dtype)
    further = _ROOM.array("ends", now.inner.size, np.int64), _ROOM.array("cells", visits.times_us.size, np.uint32)
    scratch = _ROOM.array("found", longest, np.uint32), _ROOM.array("whose", longest, np.uint32)
    # As many as there are inner keys, which may be far more than a shard has: left as it was found.
    marks = _ROOM.array("marks", distinct, np.int32, new=NOWHERE)
    groups = offsets, visits.before, np.append(0, np.cumsum(known.counts, dtype=np.int64))
    rows, known = (visits.times_us, _as(visits.what, dtype)), known._replace(last_tokens=_as(known.last_tokens, dtype))
    size, cells = _follow(rows, groups, known, (now, firsts), further, (marks, *scratch), counts)
    for column in now[1:]:
        column.resize(min(size, column.size), refcheck=False)
    marks[now.inner if size < distinct else slice(None)] = NOWHERE
    born = size - known.inner.size
    return now, (firsts[0][:born], firsts[1][:born]), (further[0][:size], further[1][:cells])


def _as(tokens: Tokens, dtype: np.dtype[Any]) -> Tokens:
    return tokens.astype(dtype, copy=False)


def no_pairs() -> Pairs:
    """Pairs of no outer key."""
    return Pairs(np.empty(0, np.uint32), *_columns(0, np.dtype(np.uint32), has_born=False))


def _columns(pairs: int, dtype: np.dtype[Any], *, has_born: bool) -> tuple[Small, Integers, Tokens, Small, Positive]:
    """All columns of so many pairs but `counts`, of any content; tokens have this type."""
    last_us, last_tokens, positive = np.empty(pairs, np.int64), np.empty(pairs, dtype), np.empty(pairs, np.uint16)
    return np.empty(pairs, np.uint32), last_us, last_tokens, np.empty(pairs if has_born else 0, np.uint32), positive


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
def _follow(
    rows: Rows,
    groups: tuple[Integers, Integers, Integers],
    known: Pairs,
    targets: tuple[Pairs, Firsts],
    further: Gaps,
    work: tuple[Marks, Small, Small],
    counts: Counts,
) -> tuple[int, int]:
    """Write the pairs as they are now, one outer key after the other: how many there are, and how many further gaps.

    `groups` has besides where the pairs of each outer key began. `work` takes the pair of each inner key, and of each visit of an
    outer key the cell of the gap before it and its pair.
    """
    (offsets, before, starts), (now, firsts), (marks, found, whose) = groups, targets, work
    # A bare 0 is a type of its own, for which all that is called would be compiled once more.
    size = cells = births = int(np.int64(0))
    for outer in range(before.size):
        start, times_us, what = size, rows[0][offsets[outer] : offsets[outer + 1]], rows[1][offsets[outer] : offsets[outer + 1]]
        if before[outer] >= 0:
            size = _move(known, starts[before[outer]], starts[before[outer] + 1], now, size, marks)
            further[0][start:size] = 0
        numbers, born = (start, size, known.inner.size + births), (firsts[0][births:], firsts[1][births:])
        end = _visit((times_us, what), numbers, marks, (now, born), further[0], (found, whose), counts)
        size, births = end, births + end - size
        cells = _by_pair(found, whose[: times_us.size], start, size, further, cells)
        now.counts[outer] = size - start
    return size, cells


@kernels.inner
def _move(known: Pairs, start: int, end: int, now: Pairs, size: int, marks: Marks) -> int:
    """Write the pairs of an outer key down, and where that of each inner key stands: how far all reach then."""
    for pair in range(start, end):
        marks[known.inner[pair]] = size
        now.inner[size], now.positive[size] = known.inner[pair], known.positive[pair]
        if now.born.size > 0:
            now.born[size] = known.born[pair]
        now.last_us[size], now.last_tokens[size] = known.last_us[pair], known.last_tokens[pair]
        size += 1
    return size


@kernels.inner
def _visit(
    rows: Rows,
    numbers: tuple[int, int, int],
    marks: Marks,
    targets: tuple[Pairs, Firsts],
    more: Integers,
    scratch: tuple[Small, Small],
    counts: Counts,
) -> int:
    """Follow the pairs of an outer key: how far they reach with new ones.

    Args:
        rows: times and the rest of its visits.
        numbers: from where its pairs stand, up to where, and how many have been born before.
        marks: the pair of each inner key; one from before where those of the outer key stand is another's.
        targets: takes the pairs; takes the first visits of those that are born.
        more: how many positive gaps each pair has.
        scratch: takes the cell of the gap before each visit, 0 where there is none, and its pair, counted from its first.
        counts: what gaps are added to.
    """
    (start, known, born), (now, firsts), (found, whose), (gaps, sums) = numbers, targets, scratch, counts
    (times_us, what), size = rows, known
    for row in range(times_us.size):
        one, time = what[row, INNER], times_us[row]
        found[row] = 0
        if one == NO_INNER:
            continue
        pair = np.int64(marks[one])
        if pair < start:
            pair = np.int64(size)
            marks[one] = pair
            now.inner[pair], now.positive[pair], more[pair] = one, 0, 0
            if now.born.size > 0:
                now.born[pair] = born + size - known
            firsts[0][size - known], firsts[1][size - known] = time, what[row, INPUT]
            size += 1
        else:
            cell = ttl.add(sums, time - now.last_us[pair], what[row, INPUT], now.last_tokens[pair])
            gaps[cell] += 1
            more[pair] += cell > 0
            found[row], whose[row] = cell, pair - start
        now.last_us[pair], now.last_tokens[pair] = time, what[row, TOKENS]
    return size


@kernels.inner
def _by_pair(found: Small, whose: Small, start: int, end: int, further: Gaps, size: int) -> int:
    """Write the cells of an outer key's positive gaps pair by pair: how far the cells of all reach then.

    Where those of a pair end takes the place of how many there are.
    """
    ends, cells = further
    for pair in range(start, end):
        ends[pair], size = size, size + ends[pair]
    for row in range(whose.size):
        if found[row] > 0:
            own = start + np.int64(whose[row])
            cells[ends[own]] = found[row]
            ends[own] += 1
    return size


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
