"""The command `sessions`."""

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llmtrace.commands.reconstructing import Reconstructing
from llmtrace.commands.telling import say
from llmtrace.errors import UsageError
from llmtrace.options import Reading, Writing, place
from llmtrace.wording import counted

if TYPE_CHECKING:
    from llmtrace.replay.sessions import Study
    from llmtrace.result import Result
    from llmtrace.trace import Trace
    from llmtrace.trace.store import Store

__all__ = ["sessions"]

REPLACED = "The trace's own sessions are not in what was written: reconstructed ones stand there."


def sessions(
    reading: Reading,
    writing: Writing,
    reconstructing: Reconstructing,
    *,
    given: Annotated[bool, typer.Option("--given", help="Take the trace's own sessions; reconstruct nothing.")] = False,
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Reconstruct with other N and time limits too, and compare.")
    ] = False,
    highlight: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A model to compare; repeatable. The three busiest without it."),
    ] = None,
    write: Annotated[
        str | None,
        typer.Option(
            metavar="DEST", help="Write the trace with session, turn and prefix_tokens here, partitioned as the source is."
        ),
    ] = None,
) -> None:
    """Which requests continue which: how long are conversations, and how much of their input is not new?

    Sessions are reconstructed from users, models, endpoints and lengths alone, as in the paper, or taken from the trace. Where a
    trace knows better, by its own sessions or by blocks of prompts, links are judged.

    The trace with its sessions, for a replay of caches or routing:

        llmtrace sessions trace.parquet --write with-sessions
    """
    from llmtrace.commands.measuring import deliver
    from llmtrace.replay.sessions import Study
    from llmtrace.report import writers

    if given and reconstructing != Reconstructing():
        raise UsageError(
            "--given: sessions that the trace gives follow no rule",
            "Leave it out, or --k, --max-gap and --by, which are of the rule.",
        )
    rule = None if given else reconstructing.rule()
    destination = None if write is None else _destination(write, writing)
    writers.check(writing.target(), Study.name)
    trace = reading.open()
    study = Study(trace, rule, sensitivity=sensitivity, highlight=tuple(highlight or ()), threads=reading.threads)
    result = _followed(study, trace, reading, writing, destination)
    deliver(result, writing)
    if write is not None and not writing.quiet:
        say(f"wrote {write}: {counted(result.provenance['rows'], 'request')}")


def _destination(write: str, writing: Writing) -> Path:
    """Where the trace with its sessions goes: not around the results, which are no part of a trace.

    Raises:
        UsageError: if the name is empty, or a folder of results is to be in there.
    """
    destination, target = place("--write", write), writing.target()
    whole = Path(os.path.realpath(destination))
    for option, folder in (("--output", target.output), ("--figures", target.figures)):
        if folder is not None and Path(os.path.realpath(folder)).is_relative_to(whole):
            raise UsageError(f"{option} {folder} is in --write {write}", "Write results beside the trace, not into it.")
    return destination


def _followed(study: "Study", trace: "Trace", reading: Reading, writing: Writing, destination: Path | None) -> "Result":
    """What the study finds in the trace, which is written with its sessions on the way if there is a destination."""
    from llmtrace.engine.aside import Aside
    from llmtrace.engine.names import shortened
    from llmtrace.engine.ordered import in_order
    from llmtrace.engine.progress import progress_bar
    from llmtrace.replay.sessions import with_sessions

    writes = destination is not None
    columns = study.columns | (set(trace.columns) if writes else set())
    store_of = _store(trace, destination, force=writing.force)
    with Aside() as aside, store_of as store, progress_bar(quiet=writing.quiet) as progress:
        ordered = in_order(trace, columns, threads=reading.threads, progress=progress, prepare=study.prepare, whole_names=writes)
        for frame in ordered:
            turns = aside.run(study.add, shortened(frame)[0] if writes else frame)
            if store is not None:
                store.append(with_sessions(frame, turns, trace.columns, named=study.tracker.is_given))
        result = aside.run(study.result)
    if writes and not study.tracker.is_given and "session" in trace.columns:
        result = replace(result, notes=(*result.notes, REPLACED))
    return ordered.complete(result)


def _store(trace: "Trace", destination: Path | None, *, force: bool) -> AbstractContextManager["Store | None"]:
    """What takes the trace with its sessions, if it is to be written.

    Raises:
        UsageError: if the destination is a source of the trace.
        OutputError: if it is in the way.
    """
    from llmtrace.engine.convert import footer_of, partition_of, refuse_itself
    from llmtrace.trace.store import Store

    if destination is None:
        return nullcontext()
    refuse_itself(trace, destination)
    return Store(destination, partition_of(trace), footer_of(trace), force=force)
