"""The command `stats`."""

from typing import Annotated, Literal

import typer

from llmtrace.options import Reading, Writing

__all__ = ["stats"]


def stats(
    reading: Reading,
    writing: Writing,
    interval: Annotated[
        Literal["auto", "1m", "1h", "1d"], typer.Option(help="Width of the intervals that rates are counted in.")
    ] = "auto",
) -> None:
    """How much of what, and when: requests, tokens, users and models over time, and how long requests are.

    Hourly rates, with figures and tables in a folder:

        llmtrace stats trace.parquet --interval 1h --output report
    """
    from llmtrace.analyses.stats import Stats
    from llmtrace.commands.measuring import measure

    measure([Stats(interval=interval)], reading, writing)
