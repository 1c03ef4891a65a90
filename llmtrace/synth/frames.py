"""Frames: a workload as canonical request tables, one block of time after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import polars as pl
import pyarrow as pa
from numba import njit

from llmtrace.schema import COLUMNS, TIMESTAMP
from llmtrace.synth.arrivals import STATUSES, Arrivals, Requests
from llmtrace.synth.population import population
from llmtrace.synth.rates import DAY_US, blocks
from llmtrace.synth.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from llmtrace.synth.draws import Ints
    from llmtrace.synth.population import Population
    from llmtrace.synth.service import Served
    from llmtrace.synth.workload import Workload

__all__ = ["frames"]

_ENDPOINTS = ("completion", "chat")


def frames(workload: Workload) -> Iterator[pl.DataFrame]:
    """The requests of a workload in canonical columns and order of time, a block at a time; empty frames are left out.

    What is held at a time is one block and the turns that sessions begun in earlier ones still have before them.
    """
    people = population(workload)
    every = list(blocks(workload))
    arrivals, service = Arrivals(workload, people, every[-1].end_us), Service(workload, people)
    dress = _Dress(workload, people, every[0].start_us)
    ahead, sessions = Requests.empty(0), 0
    for block in every:
        fresh, begun = arrivals.of(block)
        fresh.session[:] += sessions
        sessions += begun
        ahead = ahead.then(fresh)
        due = ahead.time_us < block.end_us
        now, ahead = ahead.take(due), ahead.take(~due)
        now = now.take(np.argsort(now.time_us, kind="stable"))
        if now.time_us.size:
            yield dress.frame(now, service.serve(now, block))


class _Dress:
    """Turns numbers into canonical columns."""

    def __init__(self, workload: Workload, people: Population, start_us: int) -> None:
        self._workload, self._people = workload, people
        self._users = pl.Series(people.user_names)
        self._models = pl.Series(people.model_names)
        width = len(str(workload.instances))
        self._instances = pl.Series([f"i{number + 1:0{width}}" for number in range(workload.instances)])
        self._logged_us = start_us + int(workload.cached_from * workload.days * DAY_US)
        self._rows = 0

    def frame(self, requests: Requests, served: Served) -> pl.DataFrame:
        """The canonical frame of rows that follow those of the last call."""
        rows = requests.time_us.size
        ids = np.arange(self._rows, self._rows + rows)
        self._rows += rows
        ok = pl.Series(requests.status == 0)
        columns = {
            "timestamp": pl.Series(requests.time_us).cast(TIMESTAMP),
            "input_tokens": _only(requests.input_tokens, ok),
            "output_tokens": _only(requests.output_tokens, ok),
            "request_id": pl.Series(ids),
            "user": self._users.gather(requests.user),
            "model": self._models.gather(requests.model),
            "instance": self._instances.gather(_only(served.instance, ok)),
            "endpoint": pl.Series(_ENDPOINTS).gather(requests.chat),
            "session": pl.Series(requests.session),
            "turn": pl.Series(requests.turn).cast(COLUMNS["turn"].dtype),
            "stream": pl.Series(requests.stream == 1),
            "cached_tokens": _only(served.cached_tokens, ok & pl.Series(requests.time_us >= self._logged_us)),
            "ttft_s": _only(served.ttft_ms, ok & pl.Series(requests.stream == 1)) / 1000,
            "duration_s": pl.Series(served.duration_ms) / 1000,
            "status": pl.Series(STATUSES).gather(requests.status),
        }
        if self._workload.block_size:
            columns["block_hashes"] = _only(self._block_hashes(requests), ok)
        return pl.DataFrame(columns).with_columns(pl.format("s{}", "session").alias("session"))

    def _block_hashes(self, requests: Requests) -> pl.Series:
        """Ids of the whole blocks of each input, equal where all text up to the block's end is."""
        block, people = self._workload.block_size, self._people
        stride = self._workload.profile.context_tokens // block + 1
        shared = people.system_tokens[requests.app] // block
        shared_first = (requests.app * self._workload.models + requests.model) * stride
        shared_ids = people.system_tokens.size * self._workload.models * stride
        own_first = shared_ids + requests.session * stride
        ends = np.concatenate([[0], np.cumsum(requests.input_tokens // block)])
        ids = np.empty(ends[-1], np.uint64)
        _chains(ends, shared, shared_first, own_first, ids)
        return cast("pl.Series", pl.from_arrow(pa.LargeListArray.from_arrays(ends, ids)))


@njit(nogil=True, cache=True)
def _chains(ends: Ints, shared: Ints, shared_first: Ints, own_first: Ints, ids: NDArray[np.uint64]) -> None:
    """Each row's block ids: those of its application's prompt on its model, then its session's own."""
    for row in range(shared.size):
        for place in range(ends[row + 1] - ends[row]):
            first = shared_first[row] if place < shared[row] else own_first[row]
            ids[ends[row] + place] = first + place


def _only(values: Ints | pl.Series, known: pl.Series) -> pl.Series:
    """The values where known, null elsewhere."""
    return pl.select(pl.when(known).then(pl.Series(values))).to_series()
