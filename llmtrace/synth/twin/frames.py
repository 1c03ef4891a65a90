"""Frames: a twin as canonical request tables with the columns of its original, one stretch of time after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
import pyarrow as pa
from numba import njit

from llmtrace.schema import COLUMNS, TIMESTAMP
from llmtrace.synth.draws import stream
from llmtrace.synth.twin.drawing import UNKNOWN, Clock, Crowd, Rates, Rows, Stage, Talk, draw_requests, draw_sizes
from llmtrace.synth.twin.study import NULLABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from llmtrace.synth.draws import Ints
    from llmtrace.synth.twin.portrait import Portrait

__all__ = ["DEFAULT_BLOCK", "frames"]

DEFAULT_BLOCK = 512
STRETCH_ROWS, LEAST_ROWS, MOST_STRETCHES = 250_000, 2000, 100
"""Requests that are drawn at once: the rates of models are kept to from one such stretch to the next."""
MOST_REMEMBERED = 1 << 16
"""Visits to a model after which a user who has not come again is no longer remembered."""
_CROWD, _STRETCH, _NAMES, _SIZES = 11, 12, 13, 14
_CHAIN_BLOCKS = 1 << 24


def frames(portrait: Portrait, requests: int, seed: int, block_size: int = DEFAULT_BLOCK) -> Iterator[pl.DataFrame]:
    """The requests of a twin in order of time; the last frame may have no rows.

    What is held at a time is one stretch of about 250,000 requests, and those that its visits still have before them.
    """
    clock = _clock(portrait)
    talk, nulls = Talk.silent(), np.array([mark.nulls for mark in portrait.marks], np.int64)
    crowd = _crowd(portrait, requests / max(portrait.requests, 1), seed)
    stage = Stage(portrait.table, crowd, clock, nulls, np.zeros(len(portrait.names), np.int64), talk)
    dress = _Dress(portrait, seed, block_size)
    ahead = waiting = Rows.empty(0)
    sessions = chains = 0
    for index, (rates, end_us) in enumerate(_stretches(portrait, requests, seed)):
        fresh = Rows.empty(int(rates.sizes.sum()))
        begun = draw_requests(stream(seed, _STRETCH, index), stage, rates, fresh)
        fresh.session[:] += sessions
        fresh.chain[:] += chains
        sessions, chains = sessions + begun, chains + int(talk.state[2])
        ahead = ahead.then(fresh)
        due = ahead.time_us < end_us
        now, ahead = ahead.take(due), ahead.take(~due)
        waiting = waiting.then(now.take(np.argsort(now.time_us, kind="stable")))
        if waiting.time_us.size >= STRETCH_ROWS:
            yield dress.frame(waiting)
            waiting = Rows.empty(0)
    yield dress.frame(waiting)


def _clock(portrait: Portrait) -> Clock:
    grid = portrait.grid
    return Clock(grid.start_us, grid.end_us, grid.width_us, grid.intervals, portrait.tick_us, portrait.cached_step)


def _crowd(portrait: Portrait, scale: float, seed: int) -> Crowd:
    """Nobody has come yet; the deck holds each user as often as it uses models."""
    pools, rng = portrait.pools, stream(seed, _CROWD)
    model, _, _ = portrait.starts.unpacked()
    visits = np.bincount(model, portrait.starts.counts, len(portrait.names)) * max(scale, 1.0)
    room = np.clip(visits, 1, MOST_REMEMBERED).astype(np.int64)
    first = np.append(0, np.cumsum(room))
    deck = np.repeat(np.arange(pools.models_of.size), pools.models_of)
    deck = deck[np.argsort(rng.random(deck.size), kind="stable")]
    ring, none = np.full(first[-1], UNKNOWN), np.zeros(room.size, np.int64)
    ends = np.cumsum(pools.instances)
    dealt = np.zeros(1, np.int64)
    return Crowd(
        first, ring, none, deck, dealt, pools.nobody, ends - pools.instances, pools.instances, max(pools.all_instances, 1)
    )


def _stretches(portrait: Portrait, requests: int, seed: int) -> Iterator[tuple[Rates, int]]:
    """What is due in each stretch of time, and its end; the sizes of all visits add up to `requests`."""
    if not requests:
        return
    grid, models = portrait.grid, len(portrait.names)
    model, _, interval = portrait.rows.unpacked()
    first, stretch = _cut(portrait, interval, requests)
    cell = stretch[interval] * models + model
    quotas, visits = (
        _shared(np.bincount(cell, one.counts, first.size * models).reshape(-1, models), requests, portrait)
        for one in (portrait.rows, portrait.starts)
    )
    ends = [*(grid.start_us + first[1:] * grid.width_us), grid.end_us]
    for index, end in enumerate(ends):
        here, quota = stretch[interval] == index, quotas[index]
        count = np.clip(visits[index], np.minimum(quota, 1), quota)
        sizes, due = draw_sizes(stream(seed, _SIZES, index), portrait.table, count, quota)
        bounds = np.searchsorted(model[here], np.arange(models + 1))
        yield Rates(due, sizes, bounds, interval[here], portrait.starts.counts[here], portrait.rows.counts[here]), int(end)


def _shared(counts: NDArray[Any], requests: int, portrait: Portrait) -> Ints:
    """Counts by stretch and model, in whole numbers, of a twin of that many requests."""
    reached = [int(requests * (share / portrait.requests)) for share in np.cumsum(counts.T.ravel())]
    return np.diff(reached, prepend=0).reshape(counts.shape[::-1]).T


def _cut(portrait: Portrait, interval: Ints, requests: int) -> tuple[Ints, Ints]:
    """The first interval of each stretch, and the stretch of each interval."""
    by_interval = np.bincount(interval, portrait.rows.counts, portrait.grid.intervals)
    rows = min(STRETCH_ROWS, max(requests // MOST_STRETCHES, LEAST_ROWS))
    place = (np.cumsum(by_interval) - by_interval) * (requests / portrait.requests) // rows
    _, first, stretch = np.unique(place, return_index=True, return_inverse=True)
    return first, stretch


class _Dress:
    """Turns numbers into canonical columns, those of the original."""

    def __init__(self, portrait: Portrait, seed: int, block_size: int) -> None:
        self._portrait, self._block_size = portrait, block_size
        self._models = pl.Series(portrait.names, dtype=pl.String)
        marks = portrait.marks
        self._endpoints = pl.Series([mark.endpoint for mark in marks], dtype=pl.String)
        self._statuses = pl.Series([mark.status for mark in marks], dtype=pl.String)
        self._streams = pl.Series([mark.stream for mark in marks], dtype=pl.Boolean)
        self._nulls = np.array([mark.nulls for mark in marks], np.int64)
        pools = portrait.pools
        number = np.argsort(stream(seed, _NAMES).random(pools.models_of.size), kind="stable")
        self._users = _names("user", number + 1, pools.models_of.size)
        self._instances = _names("instance", np.arange(pools.all_instances) + 1, pools.all_instances)
        self._rows = 0

    def frame(self, rows: Rows) -> pl.DataFrame:
        """The canonical frame of rows that follow those of the last call."""
        count = rows.time_us.size
        number = np.arange(self._rows, self._rows + count)
        self._rows += count
        columns = {
            "timestamp": pl.Series(rows.time_us).cast(TIMESTAMP),
            "input_tokens": pl.Series(rows.input_tokens),
            "output_tokens": pl.Series(rows.output_tokens),
            "request_id": pl.Series(number),
            "user": self._users.gather(rows.user),
            "model": self._models.gather(rows.model),
            "instance": self._instances.gather(rows.instance),
            "endpoint": self._endpoints.gather(rows.mark),
            "session": pl.Series(rows.session),
            "turn": pl.Series(rows.turn).cast(COLUMNS["turn"].dtype),
            "stream": self._streams.gather(rows.mark),
            "cached_tokens": pl.Series(rows.cached_tokens),
            "ttft_s": pl.Series(rows.ttft_us),
            "duration_s": pl.Series(rows.duration_us),
            "status": self._statuses.gather(rows.mark),
            "block_hashes": self._block_hashes(rows),
        }
        told = {name: values for name, values in columns.items() if name in self._portrait.columns}
        nulls = pl.Series("nulls", self._nulls[rows.mark])
        return pl.DataFrame({**told, "nulls": nulls}).select(_finished(name) for name in told)

    def _block_hashes(self, rows: Rows) -> pl.Series:
        """Ids of the whole blocks of each input: those of its chain, from the first on."""
        ends = np.concatenate([[0], np.cumsum(rows.input_tokens // self._block_size)])
        if "block_hashes" not in self._portrait.columns:
            return pl.Series([None])
        ids = np.empty(ends[-1], np.uint64)
        _chained(ends, rows.chain, ids)
        return cast("pl.Series", pl.from_arrow(pa.LargeListArray.from_arrays(ends, ids)))


@njit(nogil=True, cache=True)
def _chained(ends: Ints, chain: Ints, ids: NDArray[np.uint64]) -> None:
    for row in range(chain.size):
        for place in range(ends[row + 1] - ends[row]):
            ids[ends[row] + place] = chain[row] * _CHAIN_BLOCKS + place


def _finished(name: str) -> pl.Expr:
    """A column in its unit, null where its mark says so or nothing is known."""
    value = pl.col(name)
    if name in {"cached_tokens", "ttft_s", "duration_s"}:
        value = pl.when(value != UNKNOWN).then(value)
    value = value / 1e6 if name in {"ttft_s", "duration_s"} else value
    value = pl.format("session-{}", value) if name == "session" else value
    if name in NULLABLE:
        value = pl.when((pl.col("nulls") // (1 << NULLABLE.index(name))) % 2 == 0).then(value)
    return value.alias(name)


def _names(kind: str, numbers: Ints, count: int) -> pl.Series:
    """Names by number, and at the end, where -1 leads, none."""
    width = len(str(max(count, 1)))
    return pl.Series([*(f"{kind}-{number:0{width}}" for number in numbers), None], dtype=pl.String)
