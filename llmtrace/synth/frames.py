"""Frames: a workload as canonical request tables, one stretch of time after another."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from llmtrace.synth.ahead import ahead
from llmtrace.synth.arrivals import Arrivals, Requests
from llmtrace.synth.dressing import Dress, frame_of
from llmtrace.synth.population import population
from llmtrace.synth.rates import blocks, span_us
from llmtrace.synth.service import Served, Service

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    import polars as pl
    import pyarrow as pa

    from llmtrace.synth.population import Population
    from llmtrace.synth.rates import Block
    from llmtrace.synth.workload import Workload

__all__ = ["frames", "tables"]

_BLOCKS_AHEAD = 2
_Columns = TypeVar("_Columns", Requests, Served)


class _Drawn(NamedTuple):
    """The requests of the sessions that begin in a block, and how many sessions they are."""

    block: Block
    requests: Requests
    sessions: int


class _Batch(NamedTuple):
    """Requests in order of time, and what became of them, if anything serves them."""

    requests: Requests
    served: Served | None

    @property
    def rows(self) -> int:
        return int(self.requests.time_us.size)


def frames(workload: Workload) -> Iterator[pl.DataFrame]:
    """The requests of a workload in canonical columns and order of time, a block at a time; empty frames are left out."""
    return (frame_of(table) for table in tables(workload))


def tables(workload: Workload, rows: int = 1) -> Generator[pa.Table]:
    """The same as Arrow tables with words as dictionaries; blocks are joined as long as they have no more than so many rows.

    What is held at a time is a few blocks and the turns that sessions begun in earlier ones still have before them. Arrivals
    are drawn ahead on a thread of their own; a block's do not depend on another's, so that nothing depends on the thread.
    """
    people = population(workload)
    start_us, end_us = span_us(workload)
    dress = Dress(workload, people, start_us)
    with closing(ahead(_drawn(workload, Arrivals(workload, people, end_us)), _BLOCKS_AHEAD)) as drawn:
        for batch in _gathered(_served(workload, people, drawn), rows):
            yield dress.table(*batch)


def _drawn(workload: Workload, arrivals: Arrivals) -> Generator[_Drawn]:
    for block in blocks(workload):
        yield _Drawn(block, *arrivals.of(block))


def _served(workload: Workload, people: Population, every: Iterable[_Drawn]) -> Iterator[_Batch]:
    """The requests of one block of time after another, in order of time, and what becomes of them."""
    service = Service(workload, people) if workload.service else None
    later, sessions = Requests.empty(0), 0
    for block, fresh, begun in every:
        fresh.session[:] += sessions
        sessions += begun
        known = later.then(fresh)
        order = np.argsort(known.time_us, kind="stable")
        due = int(np.searchsorted(known.time_us, block.end_us, sorter=order))
        now, later = known.take(order[:due]), known.take(order[due:])
        if due:
            yield _Batch(now, service.serve(now, block) if service else None)


def _gathered(batches: Iterable[_Batch], rows: int) -> Iterator[_Batch]:
    """Batches joined as long as they stay within that many rows, so that small ones do not become small row groups."""
    waiting: list[_Batch] = []
    for batch in batches:
        if waiting and sum(one.rows for one in waiting) + batch.rows > rows:
            yield _joined(waiting)
            waiting = []
        waiting.append(batch)
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[_Batch]) -> _Batch:
    if len(batches) == 1:
        return batches[0]
    served = [batch.served for batch in batches if batch.served is not None]
    return _Batch(_concatenated([batch.requests for batch in batches]), _concatenated(served) if served else None)


def _concatenated(parts: list[_Columns]) -> _Columns:
    return type(parts[0])(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
