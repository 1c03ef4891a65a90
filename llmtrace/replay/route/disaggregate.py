"""Prefill and decode on instances of their own: two replays of the same requests, and what goes over the link between them.

A policy chooses the prefill instance when the request arrives; it computes the prompt, is done with the first token, and keeps
the prompt's cache. Then the whole cache of the prompt goes to a decode instance, chosen by load among those, which has the
request until it is complete. What an answer adds is not given back to prefill instances, so that it is computed again if a later
prompt has it. As in Splitwise (Patel et al., ISCA 2024), DistServe (Zhong et al., OSDI 2024) and Mooncake (Qin et al., FAST
2025).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from llmtrace.replay.route.cell import Cell, Running
from llmtrace.replay.route.rules import Rule
from llmtrace.replay.route.stream import COLUMNS, Preparer, Requests

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.replay.route.cell import Outcome
    from llmtrace.replay.route.gather import Lot
    from llmtrace.replay.route.stream import Extent, Load

    Flags = npt.NDArray[np.bool_]

__all__ = ["HandOver", "in_prefill"]


def in_prefill(lot: Lot) -> Requests:
    """The requests as prefill instances have them: without answers, and complete with the first token."""
    asked = lot.requests
    return replace(asked, complete_us=lot.first_token_us, output_tokens=np.zeros_like(asked.output_tokens))


class _Waiting(NamedTuple):
    """Requests that arrive at decode instances with their first tokens, and whether their sessions get no more."""

    requests: Requests
    has_ended: Flags


class HandOver:
    """The replay on decode instances, which take requests by load at their first tokens.

    Requests wait in prefill until nothing that arrives later can have its first token before them.

    Args:
        extent: of the requests there, by their first tokens.
        load: what one in flight weighs.
        instances: how many decode.
        seed: of what is drawn at random.
    """

    def __init__(self, extent: Extent, load: Load, instances: int, seed: int) -> None:
        """Nothing is in prefill."""
        self.extent = extent
        self._running = Running(Cell(Rule("load-first"), instances, 0, seed=seed), extent)
        self._preparer = Preparer(extent, load)
        self._waiting: _Waiting | None = None

    def add(self, lot: Lot, is_last: Flags) -> None:
        """The next requests in order of arrival, and whether each is the last of its session in that order."""
        if not len(lot.requests):
            return
        arrived = _Waiting(replace(lot.requests, arrival_us=lot.first_token_us), is_last)
        waiting = arrived if self._waiting is None else _joined(self._waiting, arrived)
        self._take(waiting, int(lot.requests.arrival_us[-1]))

    def outcome(self) -> Outcome:
        """What became of all requests."""
        if self._waiting is not None:
            self._take(self._waiting, self.extent.last_us)
        return self._running.outcome()

    def _take(self, waiting: _Waiting, now_us: int) -> None:
        """Let those begin to decode that have their first token by now."""
        requests = waiting.requests.taken(np.argsort(waiting.requests.arrival_us, kind="stable"))
        has_ended, is_latest = _ends(waiting)
        count = int(np.searchsorted(requests.arrival_us, now_us, side="right"))
        begun, left = np.arange(count), np.arange(count, len(requests))
        self._running.advance(self._preparer.add(requests.taken(begun), (has_ended & is_latest)[begun]))
        self._waiting = _Waiting(requests.taken(left), has_ended[left])


def _joined(first: _Waiting, second: _Waiting) -> _Waiting:
    one, other = first.requests, second.requests
    requests = Requests(*(np.concatenate([getattr(one, name), getattr(other, name)]) for name in COLUMNS))
    return _Waiting(requests, np.concatenate([first.has_ended, second.has_ended]))


def _ends(waiting: _Waiting) -> tuple[Flags, Flags]:
    """By first token: whether the session of each gets no request that is not here, and whether each is the latest of it here."""
    order = np.argsort(waiting.requests.arrival_us, kind="stable")
    distinct, session = np.unique(waiting.requests.session[order], return_inverse=True)
    has_ended, latest = np.zeros(distinct.size, np.bool_), np.zeros(distinct.size, np.int64)
    has_ended[session[waiting.has_ended[order]]] = True
    # Of several values for a place the last one stays.
    latest[session] = np.arange(session.size)
    return has_ended[session], latest[session] == np.arange(session.size)
