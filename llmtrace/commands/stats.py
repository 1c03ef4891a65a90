"""The command `stats`."""

from typing import Annotated

import typer

from llmtrace.options import Reading, Writing

__all__ = ["stats"]


def stats(
    reading: Reading,
    writing: Writing,
    interval: Annotated[
        str, typer.Option(metavar="WIDTH", help="Width of the intervals that rates are counted in, as 1m, 1h or 1d.")
    ] = "auto",
) -> None:
    """How many requests and tokens, and when?

    Rates of requests and tokens over time, side by side, with users, models and instances; how long requests and answers are,
    overall and per model; what kinds of calls; the hours of the week.

    Hourly rates, with figures and tables in a folder:

        llmtrace stats trace.parquet --interval 1h --output report
    """
    from llmtrace.analyses.stats import Stats
    from llmtrace.commands.measuring import measure

    measure([Stats(interval=interval)], reading, writing)
