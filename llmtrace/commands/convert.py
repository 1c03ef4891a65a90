"""The command `convert`."""

from typing import Annotated, Literal

import typer

from llmtrace.commands.telling import say
from llmtrace.options import Reading, Storing, place
from llmtrace.wording import counted

__all__ = ["convert"]


def convert(
    reading: Reading,
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="The folder to make; one file if its name ends in .parquet.")
    ],
    partition: Annotated[Literal["day", "month", "none"], typer.Option(help="One folder per day, per month, or none.")] = "day",
    *,
    storing: Storing,
) -> None:
    """What is the fastest form of this trace: canonical Parquet, sorted by time and partitioned.

    Any readable source, streamed; nothing of the canonical columns is lost:

        llmtrace convert trace.csv.gz trace --partition month
    """
    from llmtrace.engine.convert import convert as write_trace
    from llmtrace.engine.progress import progress_bar

    folder = place("DEST", destination)
    trace = reading.open()
    with progress_bar(quiet=storing.quiet) as progress:
        intake = write_trace(trace, folder, partition, force=storing.force, progress=progress)
    if not storing.quiet:
        for note in (*trace.notes, *intake.problems):
            say(f"note: {note}")
        say(f"wrote {destination}: {counted(intake.kept, 'request')}")
