"""The command `popularity`."""

from typing import TYPE_CHECKING, Annotated

import typer

from llmtrace.options import Reading, Writing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmtrace.analyses.popularity import Access
    from llmtrace.result import Result
    from llmtrace.trace import Trace

__all__ = ["MOST_RASTERS", "popularity"]

MOST_RASTERS = 4
"""So many users, and so many models, can be drawn at once."""
_PANEL = "Rasters"


def popularity(
    reading: Reading,
    writing: Writing,
    user_rank: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Draw when the user of this rank by requests goes to which model; repeatable. Without it the users named with "
            "--user, or the busiest if figures are written.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    model_rank: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Draw when which user comes to the model of this rank; repeatable. Without it the models named with --model, or "
            "the busiest if figures are written.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=3_660, help="Days of a raster, from the first request on.", rich_help_panel=_PANEL)
    ] = 31,
    *,
    per_user: Annotated[
        bool, typer.Option("--per-user", help="A row for every user in the table `users`, not only for the 1,000 busiest.")
    ] = False,
) -> None:
    """Which models and users carry the load, and who uses what?

    Requests and tokens by rank, with a fit of Zipf's law; how unequal they are; how many users make most of a model's traffic;
    how long the requests of each model and user are; and when a user goes to which model, and who comes to a model when.

    With all figures, and the access rasters of the users of rank 2 and 7:

        llmtrace popularity trace.parquet --user-rank 2 --user-rank 7 --output report
    """
    from llmtrace.analyses.popularity import MOST_USERS, Popularity, with_rasters
    from llmtrace.commands.measuring import deliver, during
    from llmtrace.engine.local import run
    from llmtrace.engine.progress import progress_bar
    from llmtrace.engine.survey import survey
    from llmtrace.report import writers

    asked = {"user": user_rank or [], "model": model_rank or []}
    analysis = Popularity(None if per_user else max([MOST_USERS, *asked["user"]]))
    target = writing.target()
    writers.check(target, analysis.name)
    trace = reading.open()
    _require(trace, asked)
    dated = survey(trace)
    with progress_bar(quiet=writing.quiet) as progress:
        [result] = run(dated, [analysis], threads=reading.threads, progress=progress)
    drawn = target.output is not None or target.figures is not None
    ranks = {of: _ranks(asked[of], named, drawn=drawn) for of, named in (("user", reading.user), ("model", reading.model))}
    rasters = _rasters(result, dated, ranks, asked, days)
    if rasters:
        within = during(dated, min(raster.start for raster in rasters), max(raster.end for raster in rasters))
        with progress_bar(quiet=writing.quiet) as progress:
            result = with_rasters(result, run(within, rasters, threads=reading.threads, progress=progress))
    deliver(result, writing)


def _require(trace: "Trace", asked: "Mapping[str, Sequence[int]]") -> None:
    """Raise unless the trace names models or users, and both if a raster is asked for, of which there are not too many.

    Raises:
        MissingColumnError: naming what is missing.
        UsageError: if there are.
    """
    from llmtrace.errors import MissingColumnError, UsageError

    for of, ranks in asked.items():
        if len(set(ranks)) > MOST_RASTERS:
            raise UsageError(f"--{of}-rank: {len(set(ranks))} rasters in one figure", f"Give {MOST_RASTERS} at most.")
        if ranks:
            trace.require({"user", "model"}, f"popularity --{of}-rank")
    if not {"user", "model"} & set(trace.columns):
        raise MissingColumnError.neither("user", "model", trace.columns, "popularity")


def _ranks(asked: "Sequence[int]", named: "Sequence[str]", *, drawn: bool) -> list[int]:
    """The ranks that are drawn: those asked for, those of whoever a filter names, or the first where figures are written."""
    if asked:
        return sorted(set(asked))
    return list(range(1, len(set(named)) + 1))[:MOST_RASTERS] or [1] * drawn


def _rasters(
    result: "Result", trace: "Trace", ranks: "Mapping[str, Sequence[int]]", asked: "Mapping[str, Sequence[int]]", days: int
) -> "list[Access]":
    """What is drawn, for which the time that it covers is read once more; who was not asked for by rank need not be there."""
    from llmtrace.analyses.popularity import chosen

    if trace.span is None or not {"user", "model"} <= set(trace.columns):
        return []
    found = list["Access"]()
    for of, some in ranks.items():
        there = some if asked[of] else [rank for rank in some if rank <= result.tables[f"{of}s"].height]
        found += chosen(result, of, there, days, trace.span.start)
    return found
