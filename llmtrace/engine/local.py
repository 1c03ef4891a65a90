"""The local engine: all analyses of a command over one scan, threads over parts, states combined in order of time.

A part is read once, and Polars runs the plans over it together; kernels release the interpreter lock, so that parts overlap.
One more thread brings the states together as they come (see `summaries.accumulator`), while the calling one waits for Ctrl-C.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from llmtrace.engine.aside import Aside
from llmtrace.engine.intake import Intake, intake_of
from llmtrace.engine.names import shortened
from llmtrace.engine.reading import ahead, read
from llmtrace.engine.survey import survey
from llmtrace.summaries.accumulator import Counter
from llmtrace.summaries.kernels import warm_up
from llmtrace.trace.parts import MICROSECOND, large_part_rows, part_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.analyses.base import Analysis, State
    from llmtrace.engine.reading import Progress
    from llmtrace.result import Result
    from llmtrace.trace import Part, Trace

__all__ = ["run"]

Outcome: TypeAlias = "tuple[Intake, list[State]]"

_CHUNK_ROWS = 1 << 19
"""Rows that Polars hands on at once, as many as row groups mostly have: what is done chunk by chunk is done less often."""


def run(
    trace: Trace, analyses: Sequence[Analysis], *, threads: int | None = None, progress: Progress | None = None
) -> list[Result]:
    """Run analyses over a trace and give a result each, in their order.

    Args:
        trace: an opened trace.
        analyses: what to compute; all share one scan of the trace.
        threads: parts that are worked on at once; the number of processors by default.
        progress: called with the rows read so far and the rows in total, from the calling thread.

    Raises:
        InputError: if a source cannot be read, or `trace.strict` and a cell cannot.
        MissingColumnError: if an analysis needs a column that the trace does not have.
    """
    for analysis in analyses:
        trace.require(analysis.requires, analysis.name)
    dated = survey(trace)
    window = dated.window() or dated.empty_part().interval
    fixed = [analysis.for_span(window.start, max(window.start, window.end - MICROSECOND)) for analysis in analyses]
    with Aside() as aside:
        aside.begin(warm_up)
        intake, states = _reduce(dated, fixed, threads or os.cpu_count() or 1, progress, aside)
        intake.check(dated)
        results = [aside.run(analysis.finish, state) for analysis, state in zip(fixed, states, strict=True)]
    return [intake.complete(result, dated) for result in results]


def _reduce(trace: Trace, analyses: Sequence[Analysis], threads: int, progress: Progress | None, aside: Aside) -> Outcome:
    parts = trace.parts(_part_rows(trace, analyses, threads)) or [trace.empty_part()]
    total, done = sum(part.rows for part in parts), 0
    intakes, states = Counter(Intake.combined), [analysis.accumulator_of_all() for analysis in analyses]
    with pl.Config(streaming_chunk_size=_CHUNK_ROWS), ThreadPoolExecutor(threads, thread_name_prefix="llmtrace-part") as pool:
        # Two more than are worked on, so that there is work while states are brought together.
        for part, outcome in ahead(pool, partial(_summarise, analyses=analyses), parts, threads + 2):
            intakes.add(outcome[0])
            for whole, state in zip(states, outcome[1], strict=True):
                aside.run(whole.add, state)
            done += part.rows
            if progress is not None:
                progress(done, total)
    return intakes.total(), [aside.run(whole.total) for whole in states]


def _part_rows(trace: Trace, analyses: Sequence[Analysis], threads: int) -> int:
    window, rows = trace.window(), part_rows(_columns(analyses).intersection(trace.columns))
    if window is None:
        return rows
    total = sum(piece.rows or 0 for piece in trace.slices if piece.overlaps(window))
    return max(rows, large_part_rows(total, threads, min((analysis.rows_at_once for analysis in analyses), default=0)))


def _columns(analyses: Sequence[Analysis]) -> frozenset[str]:
    return frozenset[str]().union(*(analysis.uses for analysis in analyses))


def _summarise(part: Part, analyses: Sequence[Analysis]) -> Outcome:
    """Read a part once, with the columns of all analyses, and collect their plans over it: all of an engine together."""
    frame, counts = read(part, _columns(analyses))
    frame, names = shortened(frame, frozenset[str]().union(*(analysis.tells for analysis in analyses)))
    states: list[State] = [{} for _ in analyses]
    for engine in dict.fromkeys(analysis.engine for analysis in analyses):
        chosen = [(analysis, state) for analysis, state in zip(analyses, states, strict=True) if analysis.engine == engine]
        plans = [(state, *named) for analysis, state in chosen for named in analysis.partial(frame.lazy()).items()]
        tables = pl.collect_all([plan for *_, plan in plans], engine=engine)
        for (state, name, _), table in zip(plans, tables, strict=True):
            state[name] = table
    return intake_of(counts, frame, names), states
