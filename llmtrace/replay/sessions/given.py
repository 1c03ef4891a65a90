"""Sessions as a trace gives them: a request continues the one of the same session before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llmtrace.replay.kernels import kernel
from llmtrace.replay.sessions.requests import NONE, Requests, Turns
from llmtrace.replay.sessions.rings import lengthen

if TYPE_CHECKING:
    from llmtrace.replay.sessions.rings import Records

__all__ = ["Given"]

_SESSION, _TURN, _TOTAL, _TIME = range(4)
"""The columns of a record: number of the session plus 1, so that 0 is none yet; turn, tokens and arrival of its last request."""


class Given:
    """The last request of every session; fed part by part.

    >>> requests = Requests(*np.array([[0, 1, 0], [0, 0, 0]], np.uint32), *np.array([[0, 5, 9], [10, 20, 30], [15, 25, 35]]))
    >>> turns = Given().add(requests, keys=2)
    >>> turns.session.tolist(), turns.turn.tolist(), turns.prefix_tokens.tolist(), turns.gap_us.tolist()
    ([0, 1, 0], [0, 0, 1], [0, 0, 15], [-1, -1, 9])
    """

    def __init__(self) -> None:
        """Know no session."""
        self._records = np.zeros((1 << 10, 4), np.int64)
        self.sessions = 0

    def add(self, requests: Requests, keys: int) -> Turns:
        """Link the next requests; those of a session have the same key.

        A request has in common with the one before it that one's input and output, as far as its own input goes.

        Args:
            requests: in order of time, not earlier than those before.
            keys: how many keys there are so far.
        """
        turns = Turns.empty(requests.key.size)
        lengthen(self._records, keys)
        self.sessions = _link(requests, turns, self._records, self.sessions)
        return turns


@kernel
def _link(requests: Requests, turns: Turns, records: Records, sessions: int) -> int:
    """Link requests; how many sessions there are then."""
    for row in range(requests.key.size):
        record = records[requests.key[row]]
        turns.session[row], turns.turn[row], turns.prefix_tokens[row], turns.gap_us[row] = NONE, NONE, 0, NONE
        if requests.total_tokens[row] < 0:
            continue
        if record[_SESSION] == 0:
            sessions += 1
            record[_SESSION], record[_TURN] = sessions, 0
        else:
            record[_TURN] += 1
            turns.prefix_tokens[row] = min(record[_TOTAL], requests.input_tokens[row])
            turns.gap_us[row] = requests.time_us[row] - record[_TIME]
        turns.session[row], turns.turn[row] = record[_SESSION] - 1, record[_TURN]
        record[_TOTAL], record[_TIME] = requests.total_tokens[row], requests.time_us[row]
    return sessions
