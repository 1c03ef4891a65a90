"""Seats: a number for everything that caches hold, small and used again, so that memory follows what is alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llmtrace.replay.route.copies import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmtrace.synth.arrivals import Requests
    from llmtrace.synth.draws import Ints

    Places = NDArray[np.int32]

__all__ = ["Seats"]


class Seats:
    """Numbers of what is asked for.

    An application's prompt on a model has one; so has a conversation with turns to come, until it ends; those of a single turn
    have one for each model, which they take one after another.

    Attributes:
        heads: int32, by number: what `replay.route.copies` knows of the object.
    """

    def __init__(self, apps: int, models: int) -> None:
        """Nobody has a seat."""
        self._apps, self._models = apps, models
        self._first = (apps + 1) * models
        self._sessions, self._taken = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._free = np.zeros(0, np.int64)
        self.heads: Places = np.full(self._first, NONE, np.int32)

    def prompts(self, requests: Requests) -> Ints:
        """The number of each request's application's prompt on its model."""
        return requests.model * self._apps + requests.app

    def take(self, requests: Requests) -> Ints:
        """The number of each request's conversation; conversations that go on are seated."""
        goes_on = (requests.last == 0) & (requests.status == 0)
        self._seat(requests.session[goes_on & (requests.turn == 0)])
        numbers = self._apps * self._models + requests.model
        waiting = goes_on | (requests.turn > 0) & (requests.status == 0)
        numbers[waiting] = self._taken[np.searchsorted(self._sessions, requests.session[waiting])]
        return numbers

    def leave(self, requests: Requests) -> None:
        """Free the seats of the conversations that end with one of these requests, which have been served."""
        ended = requests.session[(requests.last == 1) & (requests.turn > 0)]
        places = np.searchsorted(self._sessions, ended)
        self._free = np.concatenate([self._free, self._taken[places]])
        self._sessions, self._taken = np.delete(self._sessions, places), np.delete(self._taken, places)

    def _seat(self, sessions: Ints) -> None:
        missing = sessions.size - self._free.size
        if missing > 0:
            more = self.heads.size + np.arange(max(missing, self.heads.size - self._first))
            self.heads = np.concatenate([self.heads, np.full(more.size, NONE, np.int32)])
            self._free = np.concatenate([self._free, more])
        seats, self._free = self._free[: sessions.size], self._free[sessions.size :]
        every, taken = np.concatenate([self._sessions, sessions]), np.concatenate([self._taken, seats])
        order = np.argsort(every, kind="stable")
        self._sessions, self._taken = every[order], taken[order]
