"""The command `cache`."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from llmtrace.commands.holding import BlockSize, KvBytes, KvModel, Object, Reconstruct
from llmtrace.options import Reading, Writing

if TYPE_CHECKING:
    from llmtrace.replay.cache.question import Question

__all__ = ["cache"]

_REPLAY = "Replay"


@dataclass(frozen=True)
class Replaying:
    """What is replayed, and how."""

    policy: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="An eviction policy, or several with commas; repeatable. fifo, lru, arc, gdsf, sieve and oracle without it; "
            "there are clock, s3fifo, lhd, lfu, belady, belady-size and ttl too, and lrb, which learns.",
            rich_help_panel=_REPLAY,
        ),
    ] = field(default_factory=list)
    capacity: Annotated[
        list[str],
        typer.Option(
            metavar="SIZE",
            help="Tokens (50000, 5M), a share of the working set (0.1%), blocks (400blocks) or bytes (64GiB); several with "
            "commas; repeatable. The paper's shares of the working set without it.",
            rich_help_panel=_REPLAY,
        ),
    ] = field(default_factory=list)
    kv_bytes_per_token: KvBytes = None
    kv_model: KvModel = None
    object: Object = None
    block_size: BlockSize = None
    warmup: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="Share of the requests that warms the cache and is not counted.", rich_help_panel=_REPLAY
        ),
    ] = "0"
    ttl: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Also LRU that forgets what was not used for so long, as 5m.", rich_help_panel=_REPLAY
        ),
    ] = None
    like: Annotated[
        Literal["llmtrafficlens", "kvcache-simulator", "aiperf", "lmcache"] | None,
        typer.Option(help="Also the number that this tool prints, by its own definition.", rich_help_panel=_REPLAY),
    ] = None
    leaves_only: Annotated[
        bool,
        typer.Option(
            "--leaves-only",
            help="Evict only blocks that no block in the cache continues, as radix trees do.",
            rich_help_panel=_REPLAY,
        ),
    ] = False
    keep_output: Annotated[
        bool,
        typer.Option("--keep-output", help="Sessions hold their outputs too, as in engines.", rich_help_panel=_REPLAY),
    ] = False
    reconstruct: Reconstruct = False

    def question(self) -> "Question":
        """What these options ask.

        Raises:
            UsageError: if they make no sense.
        """
        from llmtrace.replay.cache.capacity import kv_bytes_per_token, parse
        from llmtrace.replay.cache.question import Question, share_of

        return Question(
            policies=tuple(_listed(self.policy)),
            wanted=tuple(map(parse, _listed(self.capacity))),
            object=self.object,
            leaves_only=self.leaves_only,
            keep_output=self.keep_output,
            reconstruct=self.reconstruct,
            warmup=share_of("--warmup", self.warmup),
            ttl=self.ttl,
            block_tokens=self.block_size,
            like=self.like,
            kv_bytes=kv_bytes_per_token(self.kv_bytes_per_token, self.kv_model),
        )


def cache(reading: Reading, writing: Writing, replaying: Replaying) -> None:
    """What would a prefix cache of this size hit, under which eviction policy?

    Replays the requests in order through caches of several capacities and policies at once: sessions that grow, or blocks of
    prompts. Hits are counted both as whole requests and as the tokens that need not be computed.

    Two policies in a cache of 64 GiB, with figures and tables in a folder:

        llmtrace cache trace.parquet --policy lru,sieve --capacity 64GiB --kv-model llama-3.1-8b --output report
    """
    from llmtrace.commands.measuring import deliver
    from llmtrace.engine.aside import Aside
    from llmtrace.engine.ordered import in_order
    from llmtrace.engine.progress import progress_bar
    from llmtrace.report import writers

    question = replaying.question()
    writers.check(writing.target(), question.name)
    trace = reading.open()
    question, gatherer = question.of_trace(trace.columns, trace.block_size)
    columns = gatherer.needs | ({"request_id"} & set(trace.columns))
    with Aside() as aside:
        with progress_bar(quiet=writing.quiet) as progress:
            ordered = in_order(trace, columns, progress=progress, prepare=gatherer.prepare)
            for frame in ordered:
                aside.run(gatherer.add, frame)
        result = aside.run(question.answer, aside.run(gatherer.requests), reading.threads)
    deliver(ordered.complete(result), writing)


def _listed(values: list[str]) -> list[str]:
    """What was given once or several times, each with or without commas."""
    return [one for value in values for one in value.split(",")]
