"""What every measuring command does: look at the output, open the trace, run the analyses, write the results, say the notes."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from llmtrace.commands.telling import say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from llmtrace.analyses.base import Analysis
    from llmtrace.options import Reading, Writing
    from llmtrace.result import Result
    from llmtrace.trace import Trace

__all__ = ["deliver", "during", "measure"]

SHOW_NOTES = frozenset({"table", "markdown"})
"""Formats that end with the notes, so that saying them once more on standard error would only repeat them."""


def measure(
    analyses: Sequence[Analysis], reading: Reading, writing: Writing, require: Callable[[Trace], None] | None = None
) -> None:
    """Run analyses over a trace in one scan and write a result each.

    An output that is in the way is told before anything is read; `require` raises where the opened trace lacks what a command
    needs in other words than the analysis has.

    Raises:
        LlmtraceError: if an option, a source or an output is not usable.
    """
    from llmtrace.engine.local import run
    from llmtrace.engine.progress import progress_bar
    from llmtrace.report import writers

    for analysis in analyses:
        writers.check(writing.target(), analysis.name)
    trace = reading.open()
    if require is not None:
        require(trace)
    with progress_bar(quiet=writing.quiet) as progress:
        results = run(trace, analyses, threads=reading.threads, progress=progress)
    for result in results:
        deliver(result, writing)


def during(trace: Trace, start: datetime, end: datetime) -> Trace:
    """The part of a surveyed trace from `start` on and before `end`, to read it once more."""
    window = trace.window()
    if trace.span is None or window is None:
        return trace
    edges = max(start, window.start), min(end, window.end)
    if trace.clock == "utc":
        since, until = (edge.isoformat() for edge in edges)
    else:
        since, until = (f"{(edge - trace.span.start).total_seconds():.6f}s" for edge in edges)
    return replace(trace, filters=replace(trace.filters, since=since, until=until))


def deliver(result: Result, writing: Writing) -> None:
    """Write a result where `writing` says; unless it is quiet, standard error tells what was written, and the notes.

    Raises:
        OutputError: if an output is in the way or cannot be written.
        UsageError: if there is no such table.
    """
    from llmtrace.report import writers

    writers.write(result, writing.target(), sys.stdout, _keep_quiet if writing.quiet else say)
    if not writing.quiet and writing.format not in SHOW_NOTES:
        for note in result.notes:
            say(f"note: {note}")


def _keep_quiet(_: str) -> None:
    pass
