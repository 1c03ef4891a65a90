"""The command `generate`."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from llmtrace.commands.telling import say
from llmtrace.errors import UsageError
from llmtrace.options import Reading, Storing, place
from llmtrace.wording import counted, either

if TYPE_CHECKING:
    from llmtrace.synth.workload import Workload
    from llmtrace.synth.writing import Partition

__all__ = ["Likeness", "Size", "generate"]

_POPULATION: Any = {"rich_help_panel": "Population", "min": 1, "show_default": "follows from the requests"}
_COLUMNS: Any = {"rich_help_panel": "Columns"}
_TWIN = "Twin"
_OUTPUT: Any = {"rich_help_panel": "Output"}


@dataclass(frozen=True)
class Size:
    """How much to generate, of whom, and which columns."""

    requests: Annotated[
        int | None,
        typer.Option("--requests", "-n", help="Rows of the trace, exactly.", show_default="200000, or those of --like"),
    ] = None
    days: Annotated[int, typer.Option(help="Calendar days that it covers.")] = 365
    seed: Annotated[int, typer.Option(help="Another seed, another trace; the same seed, the same trace on every machine.")] = 1
    start: Annotated[datetime, typer.Option(formats=["%Y-%m-%d"], help="First day, in UTC.", show_default="2025-04-11")] = (
        datetime(2025, 4, 11)
    )
    profile: Annotated[
        Literal["paper-year"],
        typer.Option(help="The shape of the workload: paper-year follows 'A Year in LLM Serving', fact by fact."),
    ] = "paper-year"
    users: Annotated[int | None, typer.Option(help="Users, Zipf in activity; not all of them show up.", **_POPULATION)] = None
    models: Annotated[int | None, typer.Option(help="Models that rise and fall.", **_POPULATION)] = None
    instances: Annotated[int | None, typer.Option(help="Instances that serve them.", **_POPULATION)] = None
    block_size: Annotated[
        int, typer.Option(metavar="TOKENS", help="Tokens per prefix block of block_hashes; 0 leaves the column out.", **_COLUMNS)
    ] = 512
    cached_from: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the days before which cached tokens are not logged.", **_COLUMNS)
    ] = 0.0
    unserved: Annotated[
        bool,
        typer.Option(
            "--no-service", help="Leave out instances, cached tokens and latencies, and the time they take.", **_COLUMNS
        ),
    ] = False

    def workload(self) -> "Workload":
        """The workload that these options describe.

        Raises:
            UsageError: if one is out of range.
        """
        from llmtrace.synth.profile import PROFILES
        from llmtrace.synth.workload import Workload

        if self.unserved and self.instances:
            raise UsageError("--no-service --instances: nothing is served, so there are no instances", "Give one of them.")
        return Workload(
            requests=200_000 if self.requests is None else self.requests,
            days=self.days,
            seed=self.seed,
            users=self.users or 0,
            models=self.models or 0,
            instances=self.instances or 0,
            start=self.start.date(),
            profile=PROFILES[self.profile],
            block_size=self.block_size,
            cached_from=self.cached_from,
            service=not self.unserved,
        )


@dataclass(frozen=True)
class Likeness(Reading):
    """The trace to make a twin of, how to read it, and what of it to leave out."""

    sources: Annotated[
        list[str],
        typer.Option("--like", metavar="TRACE", help="Make a statistical twin of this trace; repeatable.", rich_help_panel=_TWIN),
    ] = field(default_factory=list)
    min_users: Annotated[
        int,
        typer.Option(
            metavar="N", help="What fewer users of the trace share is carried merged, never as it is.", rich_help_panel=_TWIN
        ),
    ] = 5


def generate(
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DEST", help="The folder to make; one file if its name ends in .parquet or the layout is foreign."
        ),
    ],
    size: Size,
    likeness: Likeness = Likeness(),
    shape: Annotated[
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
        typer.Option("--layout", help="canonical, or the layout of a published trace or a gateway's log.", **_OUTPUT),
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

    A twin of a trace of your own that can be shared: same rates, bursts, lengths and hits, no request of it:

        llmtrace generate twin --like trace.parquet
    """
    if likeness.sources:
        _twin(destination, size, likeness, shape, partition, storing)
        return
    if likeness != Likeness():
        raise UsageError("options of --like without --like", "Name the trace to make a twin of with --like TRACE.")
    from llmtrace.engine.progress import progress_bar
    from llmtrace.synth.writing import write

    folder, workload = place("DEST", destination), size.workload()
    with progress_bar(quiet=storing.quiet) as progress:
        written = write(workload, folder, layout=shape, partition=partition, force=storing.force, progress=progress)
    if storing.quiet:
        return
    if written < workload.requests:
        left_out = workload.requests - written
        say(f"note: {shape} has no place for failed requests; {left_out:,} {either(left_out, 'is', 'are')} left out")
    say(f"wrote {destination}: {counted(written, 'synthetic request')}")


def _twin(destination: str, size: Size, likeness: Likeness, layout: str, partition: "Partition", storing: Storing) -> None:
    from llmtrace.commands.twin import Twin, make_twin

    if layout != "canonical" or replace(size, requests=None, seed=1) != Size():
        raise UsageError(
            "--like takes days, population and columns from its trace",
            "Of the options that shape a workload give only --requests, --seed and --partition with it.",
        )
    folder = place("DEST", destination)
    twin = Twin(folder, size.requests, size.seed, likeness.min_users, partition, likeness.threads, storing.force, storing.quiet)
    written = make_twin(likeness.open(), twin)
    if not storing.quiet:
        say(f"wrote {destination}: {counted(written, 'synthetic request')}")
