"""What a replay of sessions takes and gives: columns of requests in order of time, and what each request continues."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.uint32]
    Integers = npt.NDArray[np.int64]
    Places = npt.NDArray[np.int32]
    Marks = npt.NDArray[np.uint64]

__all__ = ["NONE", "NO_MARKS", "Requests", "Turns"]

NONE = -1
"""The session and the turn of a request that belongs to no session, and the gap of one that continues nothing."""
NO_MARKS = np.zeros(0, np.uint64)
"""The marks of requests that have none."""


class Requests(NamedTuple):
    """Requests in order of time, one array per column.

    Attributes:
        key: dense integers of what a session belongs to (a user and a model), or of the session itself.
        endpoint: dense integers of endpoints.
        time_us: arrivals in microseconds, ascending.
        input_tokens: not negative.
        total_tokens: input and output; -1 of a request that belongs to no session.
        marks: what the caller wants to know again of a request that is continued, not 0; `NO_MARKS` if nothing.
    """

    key: Ids
    endpoint: Ids
    time_us: Integers
    input_tokens: Integers
    total_tokens: Integers
    marks: Marks = NO_MARKS


class Turns(NamedTuple):
    """What each request continues.

    Attributes:
        session: dense integers in order of first requests; -1 of a request that belongs to none.
        turn: position in the session as far as it has been read, from 0; -1 without a session.
        prefix_tokens: tokens that the request has in common with the one that it continues; 0 if there is none.
        gap_us: time since that request arrived, in microseconds; -1 if there is none.
        parent_marks: its mark, 0 if there is none; empty if requests have no marks.
    """

    session: Integers
    turn: Places
    prefix_tokens: Integers
    gap_us: Integers
    parent_marks: Marks

    @classmethod
    def empty(cls, rows: int, marks: int = 0) -> Turns:
        """Room for so many rows, to be written to."""
        session, prefix_tokens, gap_us = np.empty((3, rows), np.int64)
        return cls(session, np.empty(rows, np.int32), prefix_tokens, gap_us, np.zeros(marks, np.uint64))
