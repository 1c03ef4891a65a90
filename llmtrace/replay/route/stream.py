"""Requests in order of arrival, with all that does not depend on where they are routed worked out once for all cells.

When requests complete, which places in memory they and their sessions can share, and which samples of the load see them are the
same for every policy. So a cell keeps no clock: it is told which requests complete before each arrival.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numba import njit

from llmtrace.replay.route.policy import NOBODY

if TYPE_CHECKING:
    import numpy.typing as npt

    Times = npt.NDArray[np.int64]
    Tokens = npt.NDArray[np.int32]
    Ids = npt.NDArray[np.uint32]
    Places = npt.NDArray[np.int32]
    Flags = npt.NDArray[np.bool_]

__all__ = ["LOADS", "MOST_TOKENS", "NOWHERE", "SAMPLE_US", "Load", "Requests", "Stream", "prepare"]

Load: TypeAlias = Literal["tokens", "input", "requests"]
LOADS: tuple[Load, ...] = ("tokens", "input", "requests")
"""What a request in flight weighs: its input and output tokens, as in the paper; its input tokens; or one."""
NOWHERE = -1
"""The place of a request that is never in flight."""
SAMPLE_US = 60_000_000
"""Loads are sampled once a minute, as in the paper."""
MOST_TOKENS = 1 << 30
"""A request of more input or output tokens is no request; sizes of sessions are 32-bit integers."""


@dataclass(frozen=True)
class Requests:
    """Requests in order of arrival.

    Attributes:
        arrival_us: when each arrives.
        complete_us: when it is complete; not after its arrival where that is not known, and then it loads nothing.
        session: its session, dense numbers.
        user: its user, dense numbers; `policy.NOBODY` where it names none.
        input_tokens: its prompt.
        output_tokens: its answer.
    """

    arrival_us: Times
    complete_us: Times
    session: Ids
    user: Ids
    input_tokens: Tokens
    output_tokens: Tokens

    def __len__(self) -> int:
        """How many."""
        return self.arrival_us.size


@dataclass(frozen=True)
class Stream:
    """Requests as a replay takes them; `place` is one in memory that later ones take again.

    Attributes:
        requests: what it is made from.
        session: the place of each request's session, from its first request to its last.
        sessions: how many places sessions take.
        is_last: whether a request is the last of its session.
        held_tokens: what an instance holds when it has served the request.
        weight: what the request weighs while it is in flight.
        flight: the place of the request while it is in flight, `NOWHERE` if it never is.
        flights: how many places they take.
        done: the places of completed requests, in order of completion.
        done_before: how many of them are complete when each request arrives.
        samples: how many samples of the load there are: one each minute from the first arrival to the last.
    """

    requests: Requests
    session: Places
    sessions: int
    is_last: Flags
    held_tokens: Tokens
    weight: Tokens
    flight: Places
    flights: int
    done: Places
    done_before: Ids
    samples: int

    @property
    def input_tokens(self) -> Tokens:
        """The prompts."""
        return self.requests.input_tokens

    @cached_property
    def users(self) -> int:
        """How many users are named."""
        known = self.requests.user[self.requests.user != NOBODY]
        return int(known.max()) + 1 if known.size else 0

    def sample_times(self, places: Times) -> npt.NDArray[np.datetime64]:
        """When these samples of the load are taken."""
        first_us = self.requests.arrival_us[0] if self.samples else 0
        return (first_us + places * SAMPLE_US).astype("datetime64[us]")


def prepare(requests: Requests, load: Load = "tokens") -> Stream:
    """Work out what all cells share.

    >>> one = np.array([0, 1, 0], np.uint32)
    >>> tokens = np.array([5, 5, 9], np.int32)
    >>> stream = prepare(Requests(np.array([0, 5, 9]), np.array([7, 8, 9]), one, one, tokens, tokens))
    >>> stream.flight, stream.done_before, stream.is_last
    (array([ 0,  1, -1], dtype=int32), array([0, 0, 2], dtype=uint32), array([False,  True,  True]))
    """
    is_last = _lasts(requests.session)
    session, sessions = _shared(requests.session, is_last)
    order = np.argsort(requests.complete_us, kind="stable").astype(np.uint32)
    flight, done, done_before, flights = _flights(requests.arrival_us, requests.complete_us, order)
    span_us = int(requests.arrival_us[-1] - requests.arrival_us[0]) if len(requests) else -SAMPLE_US
    total = requests.input_tokens + requests.output_tokens
    weight = {"tokens": total, "input": requests.input_tokens, "requests": np.ones(len(requests), np.int32)}[load]
    samples = span_us // SAMPLE_US + 1
    return Stream(requests, session, sessions, is_last, total, weight, flight, flights, done, done_before, samples)


def _lasts(session: Ids) -> Flags:
    """Whether each request is the last of its session."""
    is_last = np.zeros(session.size, np.bool_)
    _mark_lasts(session, np.zeros(int(session.max(initial=0)) + 1, np.bool_), is_last)
    return is_last


@njit(nogil=True, cache=True)
def _mark_lasts(session: Ids, is_known: Flags, is_last: Flags) -> None:
    for row in range(session.size - 1, -1, -1):
        is_last[row] = not is_known[session[row]]
        is_known[session[row]] = True


@njit(nogil=True, cache=True)
def _shared(session: Ids, is_last: Flags) -> tuple[Places, int]:
    """Places for sessions, which those that begin take from those that ended; and how many there are."""
    most = 0
    for one in session:
        most = max(most, one + 1)
    homes, free = np.full(most, -1, np.int32), np.empty(most, np.int32)
    places, waiting, taken = np.empty(session.size, np.int32), 0, 0
    for row in range(session.size):
        if homes[session[row]] == -1:
            if waiting > 0:
                waiting -= 1
                homes[session[row]] = free[waiting]
            else:
                homes[session[row]] = taken
                taken += 1
        places[row] = homes[session[row]]
        if is_last[row]:
            free[waiting] = places[row]
            waiting += 1
    return places, taken


@njit(nogil=True, cache=True)
def _flights(arrival_us: Times, complete_us: Times, order: Ids) -> tuple[Places, Places, Ids, int]:
    """Places in flight, and the order in which they are given back, for requests sorted by completion in `order`."""
    flight, done = np.full(arrival_us.size, NOWHERE, np.int32), np.empty(arrival_us.size, np.int32)
    done_before, free = np.empty(arrival_us.size, np.uint32), np.empty(arrival_us.size, np.int32)
    waiting, taken, gone, following = 0, 0, 0, 0
    for row in range(arrival_us.size):
        while following < order.size and complete_us[order[following]] <= arrival_us[row]:
            one = order[following]
            following += 1
            if complete_us[one] > arrival_us[one]:
                done[gone] = flight[one]
                free[waiting] = flight[one]
                waiting += 1
                gone += 1
        done_before[row] = gone
        if complete_us[row] <= arrival_us[row]:
            continue
        if waiting > 0:
            waiting -= 1
            flight[row] = free[waiting]
        else:
            flight[row] = taken
            taken += 1
    return flight, done[:gone].copy(), done_before, taken
