"""The command `evolution`."""

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from llmtrace.options import Reading, Writing

if TYPE_CHECKING:
    from llmtrace.analyses.evolution import Cohorts
    from llmtrace.trace import Trace

__all__ = ["evolution"]


def evolution(
    reading: Reading,
    writing: Writing,
    interval: Annotated[
        str,
        typer.Option(
            metavar="PERIOD",
            help="What is compared: month, quarter, year, or a width as 1w or 6h; months, or less for short traces, without it.",
        ),
    ] = "auto",
    top: Annotated[int, typer.Option(metavar="N", help="Busiest models that stand by name; all others are one.")] = 10,
    merge_suffix: Annotated[
        list[str] | None,
        typer.Option(metavar="ENDING", help="Ending of model names that makes no difference, as -TEE; repeatable."),
    ] = None,
    names: Annotated[
        str | None, typer.Option(metavar="FILE", help="Table of names by which to know models: a column model and a column name.")
    ] = None,
    cohorts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Table of when users came first, where their ids change: a column user and a column cohort (month or date).",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Leave out users, and do not read their column; repeatable."),
    ] = None,
) -> None:
    """What changes from month to month?

    The mix of models, how long requests are, which users are new and which stay, what they turn to; and how far the lengths of
    requests have drifted from those of the first period, as numbers.

    Weeks instead of months, variants of a model as one, with figures and tables in a folder:

        llmtrace evolution trace.parquet --interval 1w --merge-suffix=-TEE --output report
    """
    from llmtrace.analyses.evolution import Evolution
    from llmtrace.commands.measuring import deliver
    from llmtrace.engine.local import run
    from llmtrace.engine.progress import progress_bar
    from llmtrace.report import writers

    analysis = Evolution(interval, top, tuple(merge_suffix or ()), skip=tuple(skip or ()))
    writers.check(writing.target(), Evolution.name)
    called = () if names is None else _names(names)
    trace = reading.open()
    side = None if cohorts is None else _cohorts(cohorts, trace, reading.began)
    analysis = replace(analysis, names=called, cohorts=side)
    with progress_bar(quiet=writing.quiet) as progress:
        [result] = run(trace, [analysis], threads=reading.threads, progress=progress)
    deliver(result, writing)


def _names(path: str) -> tuple[tuple[str, str], ...]:
    from llmtrace.analyses.evolution import pairs
    from llmtrace.engine.side_tables import read
    from llmtrace.trace.side_tables import of_names

    return pairs(path, read(of_names(path)))


def _cohorts(path: str, trace: "Trace", began: datetime | None) -> "Cohorts":
    """The side table; numbered months count from the zero of the trace's clock, or from the moment that `--epoch` gives it."""
    from llmtrace.analyses.evolution import Cohorts
    from llmtrace.engine.side_tables import read
    from llmtrace.trace.side_tables import of_cohorts

    zero = datetime(1970, 1, 1) if trace.clock == "relative" else began
    return Cohorts.of(path, read(of_cohorts(path)), zero)
