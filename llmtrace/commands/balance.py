"""The command `balance`."""

from typing import TYPE_CHECKING, Annotated

import typer

from llmtrace.options import Reading, Writing

if TYPE_CHECKING:
    from llmtrace.analyses.balance import Balance
    from llmtrace.trace import Trace

__all__ = ["balance"]


def balance(
    reading: Reading,
    writing: Writing,
    window: Annotated[
        str, typer.Option(metavar="WIDTH", help="How long a context counts as held where it was served, as 5m, 15m or 1h.")
    ] = "15m",
    by: Annotated[
        str, typer.Option(metavar="COLUMN", help="Whose context a cache holds: user or session, each with one model.")
    ] = "user",
    min_requests: Annotated[
        int, typer.Option(metavar="N", help="Requests that the busiest hour of a user needs, as in the paper.")
    ] = 200,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, metavar="N", help="Instances of the heat map; without it 100 where figures are written, else none."
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Leave out replication, regimes or latency; repeatable. Saves time and memory."),
    ] = None,
    *,
    all_rows: Annotated[
        bool, typer.Option("--all-rows", help="The tables by minute and by window with all rows, however many there are.")
    ] = False,
) -> None:
    """How evenly do instances share the load, and what does spreading it cost?

    Load over instances minute by minute; on how many instances the requests of a user are served, and how often the same context
    is held, by load; hits by instance in a user's busiest hour; tail latency by the load of the instance.

    One model, with figures and tables in a folder:

        llmtrace balance trace.parquet --model deepseek-v3 --output report
    """
    from llmtrace.analyses.balance import ROWS, Balance, busy_day, with_busy_day
    from llmtrace.commands.measuring import deliver, during
    from llmtrace.engine.local import run
    from llmtrace.engine.progress import progress_bar
    from llmtrace.engine.survey import survey
    from llmtrace.report import writers

    analysis = Balance(window, by, min_requests, all_rows, tuple(skip or ()))
    target = writing.target()
    writers.check(target, analysis.name)
    trace = reading.open()
    _require(trace, analysis)
    dated = survey(trace)
    with progress_bar(quiet=writing.quiet) as progress:
        [result] = run(dated, [analysis], threads=reading.threads, progress=progress)
    is_shown = rows is not None or target.output is not None or target.figures is not None
    day = busy_day(result, rows or ROWS, dated.span.start) if is_shown and dated.span is not None else None
    if day is not None:
        within = during(dated, day.start, day.end)
        with progress_bar(quiet=writing.quiet) as progress:
            [found] = run(within, [day], threads=reading.threads, progress=progress)
        result = with_busy_day(result, found)
    deliver(result, writing)


def _require(trace: "Trace", analysis: "Balance") -> None:
    """Raise unless the trace says which instance served a request; the hint says what can be done about it.

    Raises:
        MissingColumnError: if it does not.
    """
    from llmtrace.errors import MissingColumnError

    if "instance" not in trace.columns:
        raise MissingColumnError(
            f"{analysis.name} needs the column 'instance', the replica that served each request, which the trace does not have",
            f"The trace has: {', '.join(trace.columns)}. Name the source column with --map instance=COLUMN if it is called "
            "otherwise; where nothing was logged, `llmtrace route` replays the trace on instances of your choice.",
        )
