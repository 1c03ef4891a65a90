"""The command `reuse-time`."""

from typing import TYPE_CHECKING, Annotated

import typer

from llmtrace.options import Reading, Writing

if TYPE_CHECKING:
    from llmtrace.trace import Trace

__all__ = ["reuse_time"]


def reuse_time(
    reading: Reading,
    writing: Writing,
    by: Annotated[
        str,
        typer.Option(metavar="COLUMNS", help="What comes back: columns joined by commas, as session or model,instance."),
    ] = "user,model",
    min_gaps: Annotated[
        int,
        typer.Option(metavar="N", help="Positive gaps that a key needs to count in the distribution, as in the paper."),
    ] = 10,
    highlight: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A model of the comparison of models; repeatable. The three busiest without it."),
    ] = None,
) -> None:
    """How soon does the same user come back to the same model?

    Gaps between consecutive requests of the same key; what share of requests and of input tokens a cache would cover that keeps
    things for some time, and how much it would keep in vain; month by month, and per model over its users.

    Conversations instead of users, with figures and tables in a folder:

        llmtrace reuse-time trace.parquet --by session --output report
    """
    from llmtrace.analyses.reuse_time import ReuseTime
    from llmtrace.commands.measuring import deliver
    from llmtrace.engine.local import run
    from llmtrace.engine.progress import progress_bar
    from llmtrace.report import writers

    columns = tuple(column.strip() for column in by.split(","))
    analysis = ReuseTime(columns, min_gaps, tuple(highlight or ()))
    writers.check(writing.target(), analysis.name)
    trace = reading.open()
    _require(trace, columns)
    with progress_bar(quiet=writing.quiet) as progress:
        [result] = run(trace, [analysis], threads=reading.threads, progress=progress)
    deliver(result, writing)


def _require(trace: "Trace", columns: tuple[str, ...]) -> None:
    """Raise unless the trace has the columns of the key; the hint says which keys it could have.

    Raises:
        MissingColumnError: naming what is missing.
    """
    from llmtrace.analyses.reuse_time import KEY_COLUMNS
    from llmtrace.errors import MissingColumnError

    missing = [f"'{column}'" for column in columns if column not in trace.columns]
    if not missing:
        return
    present = [column for column in KEY_COLUMNS if column in trace.columns]
    if present:
        hint = f"Take another key with --by, of: {', '.join(present)}. Or name the source column with --map CANONICAL=COLUMN."
    else:
        hint = "No column is recognised that a key can be made of: if there is one, name it with --map CANONICAL=COLUMN."
    raise MissingColumnError(
        f"reuse-time --by {','.join(columns)} needs what the trace does not have: {', '.join(missing)}", hint
    )
