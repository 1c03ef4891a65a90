"""The replay loop: one for all policies and all kinds of caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llmtrace.replay.kernels import kernel
from llmtrace.replay.route.flights import NOWHERE
from llmtrace.replay.route.memory import at_least
from llmtrace.replay.route.policy import NOBODY, choose
from llmtrace.replay.route.store import has_room, look_up, serve
from llmtrace.replay.route.stream import SAMPLE_US
from llmtrace.replay.route.view import BEST, clear

if TYPE_CHECKING:
    from llmtrace.replay.route.stream import Extent, Stream
    from llmtrace.replay.route.view import View

__all__ = [
    "HIT_REQUESTS",
    "HIT_TOKENS",
    "MOVABLE_REQUESTS",
    "MOVABLE_TOKENS",
    "MOVED_SESSIONS",
    "MOVES",
    "TURNED_SESSIONS",
    "TURNS",
    "Books",
    "Feed",
    "feed",
    "new_books",
    "replay",
]

HIT_TOKENS, HIT_REQUESTS, MOVABLE_TOKENS, MOVABLE_REQUESTS, MOVES, MOVED_SESSIONS, TURNED_SESSIONS, TURNS, _DONE = range(9)
"""Places in `counts`: prompt tokens found, requests that found some; tokens that another instance held beyond those, requests of
which one did; turns served elsewhere than the turn before, sessions with such a turn, sessions with more than one turn; requests
with one before in their session; completed requests of the slab so far."""
_HOME, _HAS_MOVED, _HAS_TURNED = 0, 1, 2
_WORD = 64


class Feed(NamedTuple):
    """The arrays of a stream that the loop reads, and the key by which each request is routed."""

    key: Any
    user: Any
    input_tokens: Any
    output_tokens: Any
    session: Any
    is_last: Any
    flight: Any
    weight: Any
    done: Any
    done_before: Any
    arrival_us: Any
    complete_us: Any
    first_us: int
    samples: int


def feed(stream: Stream, key: Any) -> Feed:
    """What the loop reads of a stream."""
    asked = stream.requests
    return Feed(
        key,
        asked.user,
        asked.input_tokens,
        asked.output_tokens,
        stream.session,
        stream.is_last,
        stream.flight,
        stream.weight,
        stream.done,
        stream.done_before,
        asked.arrival_us,
        asked.complete_us,
        stream.extent.first_us,
        stream.extent.samples,
    )


class Books(NamedTuple):
    """What is kept of a replay.

    Attributes:
        at: int32 of shape (flights,), the instance of each request in flight.
        weights: int64 of shape (flights,), its weight.
        rates: float64 of shape (intervals, instances), the token rates in flight, summed over the samples of each interval.
        stride: samples in an interval.
        queues: int64 of shape (instances,), the requests in flight, summed over all samples.
        requests: int64 of shape (instances,), requests served.
        users: int64 of shape (instances,), distinct users served.
        met: uint64 of shape (users, words), a bit for each instance that served a user.
        trails: int32 of shape (sessions, 3), the instance of the last turn (-1 before the first), and whether it moved and
            turned.
        counts: int64 of shape (9,), see `HIT_TOKENS` and the others.
    """

    at: Any
    weights: Any
    rates: Any
    stride: int
    queues: Any
    requests: Any
    users: Any
    met: Any
    trails: Any
    counts: Any

    def fed(self, stream: Stream) -> Books:
        """The books with room for the next slab."""
        self.counts[_DONE] = 0
        return self._replace(
            at=at_least(self.at, stream.flights),
            weights=at_least(self.weights, stream.flights),
            trails=at_least(self.trails, stream.sessions, NOWHERE),
        )

    def closed(self) -> Books:
        """The books with what is still open accounted for, without what only a replay needs."""
        begun = self.trails[self.trails[:, _HOME] != NOWHERE]
        self.counts[MOVED_SESSIONS] += np.count_nonzero(begun[:, _HAS_MOVED] > 0)
        self.counts[TURNED_SESSIONS] += np.count_nonzero(begun[:, _HAS_TURNED] > 0)
        nothing = np.zeros(0, np.int64)
        return self._replace(at=nothing, weights=nothing, met=nothing, trails=nothing)


def new_books(extent: Extent, instances: int, intervals: int) -> Books:
    """Empty books of a replay, which keep at most so many intervals."""
    stride = max(1, -(-extent.samples // intervals))
    return Books(
        np.zeros(0, np.int32),
        np.zeros(0, np.int64),
        np.zeros((-(-extent.samples // stride), instances)),
        stride,
        np.zeros(instances, np.int64),
        np.zeros(instances, np.int64),
        np.zeros(instances, np.int64),
        np.zeros((extent.users, -(-instances // _WORD)), np.uint64),
        np.zeros((0, 3), np.int32),
        np.zeros(9, np.int64),
    )


@kernel
def replay(policy: Any, store: Any, view: View, books: Books, feed: Feed, start: int, stop: int) -> int:
    """Route requests from `start` to before `stop`, or before the first that there is no room for: the number of the next one.

    Per request: those that are complete by now leave; it is looked up; the policy chooses; what the chosen instance holds of it
    is counted; the instance serves and holds it; it is in flight until it is complete.
    """
    now = start
    while now < stop and has_room(store, now):
        _complete(view, books, feed, now)
        look_up(store, view, now)
        chosen = choose(policy, view, feed.key[now], feed.input_tokens[now])
        found, best = view.found[chosen], view.facts[BEST]
        clear(view)
        serve(store, view, now, chosen)
        _count(books, feed, now, chosen, found, best)
        _depart(view, books, feed, now, chosen, found)
        now += 1
    return now


@kernel
def _complete(view: View, books: Books, feed: Feed, now: int) -> None:
    """Let those leave that are complete when request `now` arrives."""
    gone = books.counts[_DONE]
    while gone < feed.done_before[now]:
        place = feed.done[gone]
        view.queue[books.at[place]] -= 1
        view.load[books.at[place]] -= books.weights[place]
        gone += 1
    books.counts[_DONE] = gone


@kernel
def _depart(view: View, books: Books, feed: Feed, now: int, chosen: int, found: int) -> None:
    """Put a request in flight on an instance.

    Samples that will see it see its rate: one at the moment of the arrival does not yet, one at that of the completion no longer.
    """
    place = feed.flight[now]
    if place == NOWHERE:
        return
    view.queue[chosen] += 1
    view.load[chosen] += feed.weight[now]
    books.at[place], books.weights[place] = chosen, feed.weight[now]
    first_us, begin_us, end_us = feed.first_us, feed.arrival_us[now], feed.complete_us[now]
    sample = (begin_us - first_us) // SAMPLE_US + 1
    stop = min((end_us - first_us + SAMPLE_US - 1) // SAMPLE_US, feed.samples)
    if sample >= stop:
        return
    books.queues[chosen] += stop - sample
    rate = (np.float64(feed.input_tokens[now]) - found + feed.output_tokens[now]) * 1e6 / (end_us - begin_us)
    while sample < stop:
        inside = min(stop - sample, books.stride - sample % books.stride)
        books.rates[sample // books.stride, chosen] += rate * inside
        sample += inside


@kernel
def _count(books: Books, feed: Feed, now: int, chosen: int, found: int, best: int) -> None:
    """Count what was found, what would have been found elsewhere, whom the instance met, and whether the session moved."""
    counts = books.counts
    counts[HIT_TOKENS] += found
    counts[HIT_REQUESTS] += found > 0
    counts[MOVABLE_TOKENS] += best - found
    counts[MOVABLE_REQUESTS] += best > found
    books.requests[chosen] += 1
    user = feed.user[now]
    if user != NOBODY:
        bit = np.uint64(1) << np.uint64(chosen % _WORD)
        books.users[chosen] += books.met[user, chosen // _WORD] & bit == 0
        books.met[user, chosen // _WORD] |= bit
    trail = books.trails[feed.session[now]]
    if trail[_HOME] == NOWHERE:
        trail[_HAS_MOVED], trail[_HAS_TURNED] = 0, 0
    else:
        counts[TURNS] += 1
        counts[MOVES] += trail[_HOME] != chosen
        trail[_HAS_MOVED] |= trail[_HOME] != chosen
        trail[_HAS_TURNED] = 1
    trail[_HOME] = chosen
    if feed.is_last[now]:
        counts[MOVED_SESSIONS] += trail[_HAS_MOVED]
        counts[TURNED_SESSIONS] += trail[_HAS_TURNED]
        trail[_HOME] = NOWHERE
