"""Frames: a workload as canonical request tables, one stretch of time after another."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from llmtrace.synth.ahead import ahead, aside, beside
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

_FEW_BLOCKS, _MANY_BLOCKS = 2, 64
"""Blocks drawn ahead, and the most that are served ahead."""
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
    are drawn ahead on one thread, served on another and dressed on a third, in their order, so that nothing depends on the
    threads. They stop at the end of a block when the tables are closed.
    """
    people = aside(population, workload)
    start_us, end_us = span_us(workload)
    dress = Dress(workload, people, start_us)
    with (
        closing(ahead(_drawn(workload, people, end_us), _FEW_BLOCKS)) as drawn,
        closing(ahead(_served(workload, people, drawn), _blocks_ahead(workload, rows))) as served,
    ):
        yield from beside(lambda batches: dress.table(*_joined(batches)), _gathered(served, rows))


def _blocks_ahead(workload: Workload, rows: int) -> int:
    """So many that while the last table is put to use the next can be made, within reason."""
    return min(_FEW_BLOCKS + rows * workload.days // workload.requests, _MANY_BLOCKS)


def _drawn(workload: Workload, people: Population, end_us: int) -> Generator[_Drawn]:
    arrivals = Arrivals(workload, people, end_us)
    for block in blocks(workload):
        yield _Drawn(block, *arrivals.of(block))


def _served(workload: Workload, people: Population, every: Iterable[_Drawn]) -> Generator[_Batch]:
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


def _gathered(batches: Iterable[_Batch], rows: int) -> Iterator[list[_Batch]]:
    """Batches put together as long as they stay within that many rows, so that small ones do not become small row groups."""
    waiting: list[_Batch] = []
    for batch in batches:
        if waiting and sum(one.rows for one in waiting) + batch.rows > rows:
            yield waiting
            waiting = []
        waiting.append(batch)
    if waiting:
        yield waiting


def _joined(batches: list[_Batch]) -> _Batch:
    if len(batches) == 1:
        return batches[0]
    served = [batch.served for batch in batches if batch.served is not None]
    return _Batch(_concatenated([batch.requests for batch in batches]), _concatenated(served) if served else None)


def _concatenated(parts: list[_Columns]) -> _Columns:
    return type(parts[0])(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
