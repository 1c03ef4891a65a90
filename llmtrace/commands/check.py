"""The command `check`."""

import typer

from llmtrace.options import Reading, Writing

__all__ = ["check"]

UNUSABLE = 3


def check(reading: Reading, writing: Writing) -> None:
    """Is this trace sound: what could not be read, what is odd, and which commands can run on it?

    The exit code is 3 if the trace is unusable:

        llmtrace check trace.csv
    """
    from llmtrace.analyses.check import Check, verdict
    from llmtrace.commands.measuring import deliver
    from llmtrace.engine.local import run
    from llmtrace.engine.order import out_of_order_rows
    from llmtrace.engine.progress import progress_bar
    from llmtrace.report import writers

    writers.check(writing.target(), Check.name)
    trace = reading.open()
    with progress_bar(quiet=writing.quiet) as progress:
        [scan] = run(trace, [Check()], threads=reading.threads, progress=progress)
    result = verdict(scan, out_of_order_rows(trace))
    deliver(result, writing)
    if result.scalars["usable"] == "no":
        raise typer.Exit(UNUSABLE)
