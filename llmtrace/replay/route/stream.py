"""Requests in order of arrival, with all that does not depend on where they are routed worked out once for all cells.

When requests complete, which places in memory they and their sessions can share, and which samples of the load see them are the
same for every policy. So a cell keeps no clock: it is told which requests complete before each arrival. A trace comes in slabs,
one after the other; what is still open at the end of one goes on in the next.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from llmtrace.replay.kernels import kernel
from llmtrace.replay.route.flights import Flights
from llmtrace.replay.route.places import Places
from llmtrace.replay.route.policy import NOBODY

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.replay.route.blocks import Prompts

    Times = npt.NDArray[np.int64]
    Tokens = npt.NDArray[np.int32]
    Ids = npt.NDArray[np.uint32]
    Given = npt.NDArray[np.int32]
    Flags = npt.NDArray[np.bool_]

__all__ = ["COLUMNS", "LOADS", "MOST_TOKENS", "SAMPLE_US", "Extent", "Load", "Preparer", "Requests", "Stream", "prepare"]

Load: TypeAlias = Literal["tokens", "input", "requests"]
LOADS: tuple[Load, ...] = ("tokens", "input", "requests")
"""What a request in flight weighs: its input and output tokens, as in the paper; its input tokens; or one."""
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

    def taken(self, rows: Times | Flags) -> Requests:
        """Those in these rows."""
        return Requests(*(getattr(self, name)[rows] for name in COLUMNS))


COLUMNS = tuple(field.name for field in fields(Requests))


@dataclass(frozen=True)
class Extent:
    """How much there is to route: what must be known of all requests before the first is replayed.

    Attributes:
        requests: how many.
        input_tokens: of all prompts.
        users: how many users are named.
        objects: how many sessions there are, or blocks.
        first_us: the first arrival.
        last_us: the last one.
    """

    requests: int = 0
    input_tokens: int = 0
    users: int = 0
    objects: int = 0
    first_us: int = 0
    last_us: int = 0

    @property
    def samples(self) -> int:
        """How many samples of the load there are: one each minute from the first arrival to the last."""
        return (self.last_us - self.first_us) // SAMPLE_US + 1 if self.requests else 0

    def sample_times(self, places: Times) -> npt.NDArray[np.datetime64]:
        """When these samples of the load are taken."""
        return (self.first_us + places * SAMPLE_US).astype("datetime64[us]")


@dataclass(frozen=True)
class Stream:
    """A slab of requests as a replay takes them; `place` is one in memory that later ones take again.

    Attributes:
        extent: of all slabs.
        requests: what it is made from.
        session: the place of each request's session, from its first request to its last.
        sessions: how many places sessions have taken so far.
        is_last: whether a request is the last of its session.
        held_tokens: what an instance holds when it has served the request.
        weight: what the request weighs while it is in flight.
        flight: the place of the request while it is in flight, `flights.NOWHERE` if it never is.
        flights: how many places they have taken so far.
        done: the places of completed requests, in order of completion.
        done_before: how many of them are complete when each request arrives.
        prompts: the blocks of the prompts, with places of their own; None where sessions are routed.
    """

    extent: Extent
    requests: Requests
    session: Given
    sessions: int
    is_last: Flags
    held_tokens: Tokens
    weight: Tokens
    flight: Given
    flights: int
    done: Given
    done_before: Ids
    prompts: Prompts | None = None


class Preparer:
    """Makes streams of the slabs of a trace, one after the other.

    Args:
        extent: of all slabs.
        load: what a request in flight weighs.
    """

    def __init__(self, extent: Extent, load: Load = "tokens") -> None:
        """Begin with the first slab."""
        self._extent, self._load = extent, load
        self._sessions, self._flights, self._blocks = Places(), Flights(), Places()

    def add(self, requests: Requests, is_last: Flags, prompts: Prompts | None = None) -> Stream:
        """The next slab.

        Args:
            requests: its requests.
            is_last: whether each is the last of its session; that may be said too seldom, which takes memory only.
            prompts: the blocks of their prompts by their numbers, where instances hold blocks.
        """
        session = self._sessions.give(requests.session, is_last)
        flown = self._flights.add(requests.arrival_us, requests.complete_us)
        if prompts is not None:
            ids = self._blocks.give(prompts.ids, prompts.is_last, prompts.offsets)
            prompts = prompts._replace(ids=ids, places=self._blocks.most)
        total = requests.input_tokens + requests.output_tokens
        ones = np.ones(len(requests), np.int32)
        weight = {"tokens": total, "input": requests.input_tokens, "requests": ones}[self._load]
        places, flights = self._sessions.most, self._flights.most
        return Stream(
            self._extent,
            requests,
            session,
            places,
            is_last,
            total,
            weight,
            flown.flight,
            flights,
            flown.done,
            flown.done_before,
            prompts,
        )


def prepare(requests: Requests, load: Load = "tokens", prompts: Prompts | None = None) -> Stream:
    """All requests of a trace as one slab.

    >>> one = np.array([0, 1, 0], np.uint32)
    >>> tokens = np.array([5, 5, 9], np.int32)
    >>> stream = prepare(Requests(np.array([0, 5, 9]), np.array([7, 8, 9]), one, one, tokens, tokens))
    >>> stream.flight, stream.done_before, stream.is_last
    (array([ 0,  1, -1], dtype=int32), array([0, 0, 2], dtype=uint32), array([False,  True,  True]))
    """
    known = requests.user[requests.user != NOBODY]
    is_last = lasts(requests.session)
    extent = Extent(
        len(requests),
        int(requests.input_tokens.sum(dtype=np.int64)),
        int(known.max()) + 1 if known.size else 0,
        int(is_last.sum()) if prompts is None else np.unique(prompts.ids).size,
        int(requests.arrival_us[0]) if len(requests) else 0,
        int(requests.arrival_us[-1]) if len(requests) else 0,
    )
    if prompts is not None:
        prompts = prompts._replace(is_last=lasts(prompts.ids))
    return Preparer(extent, load).add(requests, is_last, prompts)


def lasts(numbers: Ids) -> Flags:
    """Whether each use of a number is the last one."""
    is_last = np.zeros(numbers.size, np.bool_)
    _mark_lasts(numbers, np.zeros(int(numbers.max(initial=0)) + 1, np.bool_), is_last)
    return is_last


@kernel
def _mark_lasts(numbers: Ids, is_known: Flags, is_last: Flags) -> None:
    for row in range(numbers.size - 1, -1, -1):
        is_last[row] = not is_known[numbers[row]]
        is_known[numbers[row]] = True
