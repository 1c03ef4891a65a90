"""The command `burstiness`."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from llmtrace.commands.telling import say
from llmtrace.options import Reading, Writing

if TYPE_CHECKING:
    from llmtrace.result import Result
    from llmtrace.trace import Trace

__all__ = ["burstiness"]


def burstiness(
    reading: Reading,
    writing: Writing,
    by: Annotated[
        Literal["model", "user", "endpoint", "instance", "all"] | None,
        typer.Option(help="What gaps are taken by; model without it, or all requests as one if the trace names no models."),
    ] = None,
    jitter: Annotated[
        int | None,
        typer.Option(
            metavar="SEED", help="Spread requests that a coarse clock stamped alike over its step, drawn with this seed."
        ),
    ] = None,
) -> None:
    """How bursty are arrivals, per key and at every time scale?

    Gaps between requests: how unequal they are, how each depends on the one before, hour by hour as in the paper, which
    distribution they follow; and how much counts vary in windows from a second to a day.

    Per user, with figures and tables in a folder:

        llmtrace burstiness trace.parquet --by user --output report
    """
    from llmtrace.analyses.burstiness import Burstiness
    from llmtrace.commands.measuring import SHOW_NOTES, deliver
    from llmtrace.engine.local import run
    from llmtrace.engine.progress import progress_bar
    from llmtrace.report import writers

    writers.check(writing.target(), Burstiness.name)
    trace = reading.open()
    key = _key(trace, by)
    spread_us = 0 if jitter is None else _spread_us(trace, reading.threads)
    with progress_bar(quiet=writing.quiet) as progress:
        [result] = run(trace, [Burstiness(key, jitter, spread_us)], threads=reading.threads, progress=progress)
    deliver(result, writing)
    if jitter is None and not writing.quiet and writing.format in SHOW_NOTES:
        _warn(result)


def _key(trace: "Trace", by: str | None) -> str:
    """What gaps are taken by: what was asked for if the trace has it, or what it has.

    Raises:
        MissingColumnError: if it was asked for and is not there.
    """
    if by is None:
        return "model" if "model" in trace.columns else "all"
    if by != "all":
        trace.require({by}, f"burstiness --by {by}")
    return by


def _spread_us(trace: "Trace", threads: int | None) -> int:
    """A first run over the times alone: how far requests may be moved."""
    from llmtrace.analyses.burstiness import ClockGrain
    from llmtrace.engine.local import run

    [grain] = run(trace, [ClockGrain()], threads=threads)
    spread_us = grain.scalars["spread_us"]
    return spread_us if isinstance(spread_us, int) else 0


def _warn(result: "Result") -> None:
    """Say on standard error too that ties decide the numbers, where the notes stand below a table that may scroll away."""
    from llmtrace.analyses.burstiness.notes import tie_warning

    known = [result.scalars[name] for name in ("tie_share", "quantum_s", "mean_gap_s")]
    warning = tie_warning(*(number if isinstance(number, float) else None for number in known))
    if warning:
        say(f"warning: {warning}")
