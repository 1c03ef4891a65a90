"""The command `hit-dist`."""

from typing import TYPE_CHECKING, Annotated

import typer

from llmtrace.options import Reading, Writing

if TYPE_CHECKING:
    from llmtrace.trace import Trace

__all__ = ["hit_dist"]


def hit_dist(
    reading: Reading,
    writing: Writing,
    highlight: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A model of the comparison of models; repeatable. The three busiest without it."),
    ] = None,
    zero_at: Annotated[float, typer.Option(metavar="RATIO", help="Highest hit ratio that counts as no hit.")] = 0.0,
    full_at: Annotated[
        float, typer.Option(metavar="RATIO", help="Lowest hit ratio that counts as a hit of the whole prefix.")
    ] = 0.95,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Leave out models, users or ttft, and do not read their columns; repeatable."),
    ] = None,
    *,
    per_user: Annotated[bool, typer.Option("--per-user", help="Also a table `users` with a row per user.")] = False,
) -> None:
    """What share of prompts came from the prefix cache, and what does that save?

    Hit ratios of requests, by the logged cached tokens: their distribution weighted by requests and by tokens, by input length,
    by model and by user; how far it is from one hump; and time to first token by input length and hit ratio.

    One model, with figures and tables in a folder:

        llmtrace hit-dist trace.parquet --model org/chat --output report
    """
    from llmtrace.analyses.hit_dist import HitDist
    from llmtrace.commands.measuring import deliver
    from llmtrace.engine.local import run
    from llmtrace.engine.progress import progress_bar
    from llmtrace.report import writers

    analysis = HitDist(tuple(highlight or ()), zero_at, full_at, per_user, tuple(skip or ()))
    writers.check(writing.target(), analysis.name)
    trace = reading.open()
    _require(trace)
    with progress_bar(quiet=writing.quiet) as progress:
        [result] = run(trace, [analysis], threads=reading.threads, progress=progress)
    deliver(result, writing)


def _require(trace: "Trace") -> None:
    """Raise unless the trace has cached tokens; the hint says what would log them, and what answers without.

    Raises:
        MissingColumnError: if it has none.
    """
    from llmtrace.errors import MissingColumnError

    if "cached_tokens" in trace.columns:
        return
    raise MissingColumnError(
        "hit-dist needs the column 'cached_tokens', which the trace does not have: the prompt tokens that each request took from "
        "a prefix cache",
        "Log them (prompt_tokens_details.cached_tokens in OpenAI's usage, cache_read_input_tokens in Anthropic's), or name their "
        "column with --map cached_tokens=COLUMN; without them, llmtrace sessions and llmtrace cache estimate reuse.",
    )
