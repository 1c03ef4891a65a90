"""The command `latency`."""

from typing import TYPE_CHECKING, Annotated

import typer

from llmtrace.options import Reading, Writing

if TYPE_CHECKING:
    from llmtrace.trace import Trace

__all__ = ["latency"]


def latency(
    reading: Reading,
    writing: Writing,
    highlight: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A model of the distributions; repeatable. The three busiest without it."),
    ] = None,
    interval: Annotated[
        str, typer.Option(metavar="WIDTH", help="Width of the intervals of over_time, as 1m, 1h or 1d.")
    ] = "auto",
    input_step: Annotated[
        int, typer.Option(metavar="TOKENS", help="Input tokens that a cell of the grids spans; 16 cells are side by side.")
    ] = 2_000,
    output_step: Annotated[
        int, typer.Option(metavar="TOKENS", help="Output tokens that a cell spans; 40 are one above the other.")
    ] = 200,
) -> None:
    """How long do requests take, to the first token and to the last?

    Time to first token, decode time, duration, prefill share and time per output token: overall, by model, over time, by input
    and output tokens, and by the load of the instance in the second in which a request begins.

    One model, with figures and tables in a folder:

        llmtrace latency trace.parquet --model deepseek-v3 --output report
    """
    from llmtrace.analyses.latency import Latency
    from llmtrace.commands.measuring import measure

    measure([Latency(tuple(highlight or ()), interval, input_step, output_step)], reading, writing, _require)


def _require(trace: "Trace") -> None:
    """Raise unless the trace has a latency at all.

    Raises:
        MissingColumnError: naming both columns that it could have.
    """
    from llmtrace.errors import MissingColumnError

    if not {"ttft_s", "duration_s"} & set(trace.columns):
        raise MissingColumnError.neither("ttft_s", "duration_s", trace.columns, "latency")
