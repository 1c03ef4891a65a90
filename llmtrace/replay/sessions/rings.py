"""The last requests of every key, among which the one is sought that a new request continues.

A key has a ring of its last `k` requests. Most keys have few requests ever, so a ring begins with room for one and doubles when
it is full; what it leaves behind goes to the next ring of that size. Where a ring stands and how many requests it has taken is
one integer per key, so that a key which is seen once costs eight bytes and one record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from llmtrace.replay.kernels import kernel
from llmtrace.replay.sessions.requests import NONE, Requests, Turns

if TYPE_CHECKING:
    from llmtrace.replay.sessions.requests import Ids, Integers, Marks

    Records = np.ndarray[tuple[int, int], np.dtype[np.int64]]

__all__ = ["LONGEST_RING", "NO_LIMIT_US", "Rings", "lengthen"]

LONGEST_RING = 1_000
"""The most requests of a key that are looked at."""
NO_LIMIT_US = (1 << 63) - 1
"""A time limit that no gap reaches."""

_TOTAL, _TIME, _SESSION, _PLACE = range(4)
"""The columns of a record: input and output tokens, or `_TAKEN`; arrival in microseconds; session; endpoint and turn."""
_TAKEN = -1
"""The total of a request that is continued already: less than every input."""
_WORD_BITS = 32
_WORD = (1 << _WORD_BITS) - 1
_COUNT_BITS = 11
"""Bits that count the requests of a ring: up to twice `LONGEST_RING`."""
_COUNT = (1 << _COUNT_BITS) - 1
_END, _SESSIONS, _SEEN, _FREE = range(4)
"""Places in the ledger: records in use or left behind, sessions so far, what was looked at ahead, and from there on the first
free ring of each size."""
_SIZES = 11
"""Sizes of rings: powers of two below `LONGEST_RING`, and whatever is most."""
_SMALLEST = 1 << 12
_AHEAD = 64
"""Requests whose rings are fetched from memory side by side."""
_PER_LINE = 2
"""Records in a line of the cache."""


class _Book(NamedTuple):
    """All that is known of the requests so far.

    Attributes:
        rings: per key the place of its ring, and how many requests that has taken.
        records: of the requests in rings.
        marks: theirs, if they have any.
        ledger: see `_END`.
    """

    rings: Integers
    records: Records
    marks: Marks
    ledger: Integers


class Rings:
    """The last requests of every key, and which session each belongs to; fed part by part.

    >>> requests = Requests(*np.zeros((2, 3), np.uint32), *np.array([[0, 5, 9], [10, 20, 30], [15, 29, 35]]))
    >>> turns = Rings(k=10).add(requests, keys=1)
    >>> turns.session.tolist(), turns.turn.tolist(), turns.prefix_tokens.tolist(), turns.gap_us.tolist()
    ([0, 0, 0], [0, 1, 2], [0, 15, 29], [-1, 5, 4])
    """

    def __init__(self, k: int, max_gap_us: int = NO_LIMIT_US) -> None:
        """Look for what a request continues among the last `k` of its key, none older than `max_gap_us`."""
        self._k, self._max_gap_us = k, max_gap_us
        ledger = np.full(_FREE + _SIZES, NONE, np.int64)
        ledger[:_FREE] = 0
        self._book = _Book(np.zeros(_SMALLEST, np.int64), np.empty((_SMALLEST, 4), np.int64), np.zeros(0, np.uint64), ledger)

    @property
    def sessions(self) -> int:
        """Sessions so far."""
        return int(self._book.ledger[_SESSIONS])

    @property
    def records(self) -> int:
        """Requests for which there is room; more than are in rings."""
        return self._book.records.shape[0]

    def add(self, requests: Requests, keys: int) -> Turns:
        """Link the next requests.

        Args:
            requests: in order of time, not earlier than those before.
            keys: how many keys there are so far.
        """
        rows, marked = requests.key.size, requests.marks.size
        turns = Turns.empty(rows, marked)
        lengthen(self._book.rings, keys)
        row = 0
        while True:
            lengthen(self._book.marks, self._book.records.shape[0] if marked else 0)
            row = _link(row, requests, turns, self._book, self._k, self._max_gap_us)
            if row == rows:
                return turns
            self._make_room(int(requests.time_us[row]))

    def _make_room(self, now_us: int) -> None:
        """Leave out rings that nothing can continue any more, and what rings have left behind; then add records."""
        if self._max_gap_us < NO_LIMIT_US:
            old, ledger = self._book, self._book.ledger
            self._book = _Book(old.rings, np.empty_like(old.records), np.empty_like(old.marks), ledger)
            ledger[_END] = _gather(old, self._book, now_us - self._max_gap_us, self._k)
            ledger[_FREE:] = NONE
        end = int(self._book.ledger[_END])
        lengthen(self._book.records, max(end + self._k, end * 5 // 4))


def lengthen(array: Integers | Records | Marks, least: int) -> None:
    """Make an array longer in place, by a quarter at once, with zeros behind, if it is shorter than `least`."""
    if array.shape[0] < least:
        array.resize((max(least, array.shape[0] * 5 // 4), *array.shape[1:]), refcheck=False)


@kernel
def _link(row: int, requests: Requests, turns: Turns, book: _Book, k: int, max_gap_us: int) -> int:
    """Link requests from `row` on as long as there is room for another ring; the first row that is not linked."""
    key, _, time_us, _, total_tokens, own_marks = requests
    session, turn, prefix_tokens, gap_us, parent_marks = turns
    rings, records, marks, ledger = book
    ahead = row
    while row < key.size and ledger[_END] + k <= records.shape[0]:
        if row == ahead:
            ahead = min(row + _AHEAD, key.size)
            ledger[_SEEN] += _fetch(key[row:ahead], rings, records, k)
        if total_tokens[row] < 0:
            session[row], turn[row], prefix_tokens[row], gap_us[row] = NONE, NONE, 0, NONE
            row += 1
            continue
        ring = rings[key[row]]
        parent = _best(ring, records, requests.endpoint[row], time_us[row] - max_gap_us, requests.input_tokens[row], k)
        if parent == NONE:
            session[row], turn[row], prefix_tokens[row], gap_us[row] = ledger[_SESSIONS], 0, 0, NONE
            ledger[_SESSIONS] += 1
        else:
            session[row], turn[row] = records[parent, _SESSION], (records[parent, _PLACE] & _WORD) + 1
            prefix_tokens[row], gap_us[row] = records[parent, _TOTAL], time_us[row] - records[parent, _TIME]
            records[parent, _TOTAL] = _TAKEN
            if own_marks.size:
                parent_marks[row] = marks[parent]
        ring = _with_room(ring, records, marks, ledger, k)
        rings[key[row]], place = _next(ring, k)
        records[place, _TOTAL], records[place, _TIME] = total_tokens[row], time_us[row]
        records[place, _SESSION], records[place, _PLACE] = session[row], _place(requests.endpoint[row], turn[row])
        if own_marks.size:
            marks[place] = own_marks[row]
        row += 1
    return row


@kernel
def _fetch(keys: Ids, rings: Integers, records: Records, k: int) -> int:
    """Look at the rings of some keys, and give a number so that it is done.

    Nothing here waits for anything else, so that the processor fetches many of them at once; requests alone are linked half as
    fast, waiting for one ring after the other.
    """
    seen = 0
    for key in keys:
        seen += rings[key]
    for key in keys:
        start, count = rings[key] >> _COUNT_BITS, rings[key] & _COUNT
        for step in range(0, min(count, k), _PER_LINE):
            seen += records[start + step, _TOTAL]
    return int(seen)


@kernel
def _place(endpoint: int, turn: int) -> int:
    return (endpoint << _WORD_BITS) + turn


@kernel
def _best(ring: int, records: Records, endpoint: int, since_us: int, below: int, k: int) -> int:
    """The record of the request that is continued: the one with most tokens below the input, the oldest of several."""
    start, count = ring >> _COUNT_BITS, ring & _COUNT
    oldest = max(count - k, 0)
    best, found = _TAKEN, NONE
    for step in range(min(count, k)):
        place = oldest + step
        place = start + (place if place < k else place - k)
        total = records[place, _TOTAL]
        if best < total < below and records[place, _PLACE] >> _WORD_BITS == endpoint and records[place, _TIME] >= since_us:
            best, found = total, place
    return found


@kernel
def _next(ring: int, k: int) -> tuple[int, int]:
    """The ring with one request more, and the record of it: behind the others, or in place of the oldest."""
    start, count = ring >> _COUNT_BITS, ring & _COUNT
    place = start + (count if count < k else count - k)
    count = count + 1 if count + 1 < 2 * k else k
    return (start << _COUNT_BITS) + count, place


@kernel
def _with_room(ring: int, records: Records, marks: Marks, ledger: Integers, k: int) -> int:
    """The same ring, moved to where it has room for another request, if it is full and not as long as can be."""
    start, count = ring >> _COUNT_BITS, ring & _COUNT
    if count >= k or count & (count - 1):
        return ring
    size = _size_of(count + 1)
    moved = int(ledger[_FREE + size])
    if moved == NONE:
        moved = int(ledger[_END])
        ledger[_END] += min(1 << size, k)
    else:
        ledger[_FREE + size] = records[moved, _TOTAL]
    for step in range(count):
        for column in range(4):
            records[moved + step, column] = records[start + step, column]
        if marks.size:
            marks[moved + step] = marks[start + step]
    if count:
        records[start, _TOTAL] = ledger[_FREE + size - 1]
        ledger[_FREE + size - 1] = start
    return (moved << _COUNT_BITS) + count


@kernel
def _size_of(count: int) -> int:
    """Which size a ring of so many requests has: the power of two that is not less."""
    size = 0
    while 1 << size < count:
        size += 1
    return size


@kernel
def _gather(old: _Book, new: _Book, since_us: int, k: int) -> int:
    """Copy the rings that have a request not before `since_us`, one behind the other, and forget the others; where they end."""
    end = 0
    for key in range(old.rings.size):
        start, count = old.rings[key] >> _COUNT_BITS, old.rings[key] & _COUNT
        latest = count - 1 if count <= k else count - k - 1
        if count == 0 or old.records[start + latest, _TIME] < since_us:
            old.rings[key] = 0
            continue
        for step in range(min(count, k)):
            for column in range(4):
                new.records[end + step, column] = old.records[start + step, column]
            if old.marks.size:
                new.marks[end + step] = old.marks[start + step]
        old.rings[key] = (end << _COUNT_BITS) + count
        end += min(1 << _size_of(count), k)
    return int(end)
