"""The command `generate`."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from llmtrace.commands.telling import say
from llmtrace.options import Storing, place
from llmtrace.wording import counted, either

if TYPE_CHECKING:
    from llmtrace.synth.workload import Workload

__all__ = ["Size", "generate"]

_POPULATION: Any = {"rich_help_panel": "Population", "min": 1, "show_default": "follows from the requests"}
_COLUMNS: Any = {"rich_help_panel": "Columns"}
_OUTPUT: Any = {"rich_help_panel": "Output"}


@dataclass(frozen=True)
class Size:
    """How much to generate, of whom, and which columns."""

    requests: Annotated[int, typer.Option("--requests", "-n", help="Rows of the trace, exactly.")] = 200_000
    days: Annotated[int, typer.Option(help="Calendar days that it covers.")] = 365
    seed: Annotated[int, typer.Option(help="Another seed, another trace; the same seed, the same trace on every machine.")] = 1
    start: Annotated[datetime, typer.Option(formats=["%Y-%m-%d"], help="First day, in UTC.", show_default="2025-04-11")] = (
        datetime(2025, 4, 11)
    )
    users: Annotated[int | None, typer.Option(help="Users, Zipf in activity; not all of them show up.", **_POPULATION)] = None
    models: Annotated[int | None, typer.Option(help="Models that rise and fall.", **_POPULATION)] = None
    instances: Annotated[int | None, typer.Option(help="Instances that serve them.", **_POPULATION)] = None
    block_size: Annotated[
        int, typer.Option(metavar="TOKENS", help="Tokens per prefix block of block_hashes; 0 leaves the column out.", **_COLUMNS)
    ] = 512
    cached_from: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the days before which cached tokens are not logged.", **_COLUMNS)
    ] = 0.0

    def workload(self) -> "Workload":
        """The workload that these options describe.

        Raises:
            UsageError: if one is out of range.
        """
        from llmtrace.synth.workload import Workload

        return Workload(
            requests=self.requests,
            days=self.days,
            seed=self.seed,
            users=self.users or 0,
            models=self.models or 0,
            instances=self.instances or 0,
            start=self.start.date(),
            block_size=self.block_size,
            cached_from=self.cached_from,
        )


def generate(
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DEST", help="The folder to make; one file if its name ends in .parquet or the layout is foreign."
        ),
    ],
    size: Size,
    layout: Annotated[
        Literal[
            "canonical",
            "azure-2023",
            "azure-2024",
            "azure-lmm",
            "burstgpt-v1",
            "burstgpt-v2",
            "mooncake",
            "chutes",
            "csv",
            "jsonl",
        ],
        typer.Option(help="canonical, or the layout of a published trace or a gateway's log.", **_OUTPUT),
    ] = "canonical",
    partition: Annotated[
        Literal["auto", "day", "month", "none"], typer.Option(help="One folder per day, per month, or none.", **_OUTPUT)
    ] = "auto",
    *,
    storing: Storing,
) -> None:
    """What could a year of LLM serving look like?

    A synthetic trace of any size with every canonical column: users, models that rise and fall, sessions that grow, bursts,
    instances, prefix caches and latencies; the same for a seed on every machine. Or a file in the layout of a published trace.

    A week of a million requests:

        llmtrace generate week --requests 1000000 --days 7
    """
    from llmtrace.engine.progress import progress_bar
    from llmtrace.synth.writing import write

    folder, workload = place("DEST", destination), size.workload()
    with progress_bar(quiet=storing.quiet) as progress:
        written = write(workload, folder, layout=layout, partition=partition, force=storing.force, progress=progress)
    if storing.quiet:
        return
    if written < workload.requests:
        left_out = workload.requests - written
        say(f"note: {layout} has no place for failed requests; {left_out:,} {either(left_out, 'is', 'are')} left out")
    say(f"wrote {destination}: {counted(written, 'synthetic request')}")
