"""The command `route`."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from llmtrace.commands.holding import BlockSize, KvBytes, KvModel, Object, Reconstruct
from llmtrace.commands.reconstructing import Reconstructing
from llmtrace.errors import UsageError
from llmtrace.options import Reading, Writing

if TYPE_CHECKING:
    from collections.abc import Callable

    from llmtrace.engine.aside import Aside
    from llmtrace.replay.cache.capacity import Capacity
    from llmtrace.replay.route.passes import Pass
    from llmtrace.replay.route.question import Question
    from llmtrace.result import Result
    from llmtrace.trace import Trace

__all__ = ["route"]

_FLEET, _MODEL = "Instances", "Cost model"
_UNLIMITED = "unlimited"


@dataclass(frozen=True)
class Routing:
    """Which instances there are, and how requests get to them."""

    policy: Annotated[
        list[str],
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="A routing policy, or several with commas; repeatable. round-robin, load-first, sticky and cache-first without "
            "it; there are random, least-requests, power-of-two, consistent-hash (bound), score (alpha, beta, gamma, delta), "
            "preble (balance) and threshold (match, abs, rel) too. In brackets what they can be told.",
            rich_help_panel=_FLEET,
        ),
    ] = field(default_factory=list)
    instances: Annotated[
        list[str],
        typer.Option(
            metavar="N",
            help="How many instances; several with commas; repeatable. 5,10,15,20 without it.",
            rich_help_panel=_FLEET,
        ),
    ] = field(default_factory=list)
    capacity: Annotated[
        list[str],
        typer.Option(
            metavar="SIZE",
            help="What each instance's cache holds: tokens (50000, 5M), a share of the working set (0.1%), blocks (400blocks), "
            "bytes (64GiB) or unlimited; several with commas; repeatable. The paper's nine, 1125 to 5M tokens, without it.",
            rich_help_panel=_FLEET,
        ),
    ] = field(default_factory=list)
    cache_policy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="How an instance evicts: lru, fifo, clock, sieve, s3fifo, arc, gdsf, lfu, lhd, or ttl with --ttl.",
            rich_help_panel=_FLEET,
        ),
    ] = "lru"
    ttl: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="After how long without a use --cache-policy ttl forgets, as 5m.", rich_help_panel=_FLEET
        ),
    ] = None
    object: Object = None
    block_size: BlockSize = None
    load: Annotated[
        Literal["tokens", "input", "requests"],
        typer.Option(
            help="What a request in flight weighs: input and output tokens, as in the paper; input tokens, which a router knows; "
            "or one.",
            rich_help_panel=_FLEET,
        ),
    ] = "tokens"
    hash_by: Annotated[
        Literal["user", "session"] | None,
        typer.Option(help="What consistent-hash hashes; the user without it.", rich_help_panel=_FLEET),
    ] = None
    seed: Annotated[int, typer.Option(metavar="SEED", help="Of what is drawn at random.", rich_help_panel=_FLEET)] = 10
    search: Annotated[
        bool,
        typer.Option(
            "--search", help="Also look for weights of score, at the most instances and largest capacity.", rich_help_panel=_FLEET
        ),
    ] = False
    give_up: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the best hit ratio that --search gives up for balance; 0.01 without it.",
            rich_help_panel=_FLEET,
        ),
    ] = None
    prefill: Annotated[
        int | None,
        typer.Option(metavar="P", help="So many instances compute prompts only; with --decode.", rich_help_panel=_FLEET),
    ] = None
    decode: Annotated[
        int | None, typer.Option(metavar="D", help="So many others decode only; with --prefill.", rich_help_panel=_FLEET)
    ] = None
    reconstruct: Reconstruct = False
    kv_bytes_per_token: KvBytes = None
    kv_model: KvModel = None
    link_gbps: Annotated[
        float,
        typer.Option(metavar="GBPS", help="Gigabits a second that a link between instances carries.", rich_help_panel=_MODEL),
    ] = 80.0
    prefill_tokens_per_s: Annotated[
        float,
        typer.Option(metavar="N", help="Prompt tokens that an instance computes a second.", rich_help_panel=_MODEL),
    ] = 10_000.0
    decode_tokens_per_s: Annotated[
        float,
        typer.Option(
            metavar="N", help="Output tokens of a request a second, where the trace logs no durations.", rich_help_panel=_MODEL
        ),
    ] = 50.0

    def question(self, reconstructing: Reconstructing) -> "Question":
        """What these options ask; to say how sessions are reconstructed is to ask for it.

        Raises:
            UsageError: if they make no sense.
        """
        from llmtrace.replay.cache.capacity import kv_bytes_per_token
        from llmtrace.replay.route.gather import Speeds
        from llmtrace.replay.route.question import Question
        from llmtrace.replay.route.rules import parse

        return Question(
            rules=parse(self.policy),
            instances=tuple(map(_number, _listed(self.instances))),
            wanted=tuple(map(_capacity, _listed(self.capacity))),
            cache_policy=self.cache_policy,
            ttl=self.ttl,
            object=self.object,
            block_tokens=self.block_size,
            rule=reconstructing.rule(),
            reconstruct=self.reconstruct or reconstructing != Reconstructing(),
            load=self.load,
            hash_by=self.hash_by,
            seed=self.seed,
            search=self.search,
            give_up=self.give_up,
            speeds=Speeds(self.prefill_tokens_per_s, self.decode_tokens_per_s),
            kv_bytes=kv_bytes_per_token(self.kv_bytes_per_token, self.kv_model),
            link_gbps=self.link_gbps,
            prefill=self.prefill,
            decode=self.decode,
        )


def route(reading: Reading, writing: Writing, routing: Routing, reconstructing: Reconstructing) -> None:
    """What would a router make of this: how many hits, how many copies, how uneven a load?

    Replays the requests onto instances that each have a prefix cache, over policies, numbers of instances and capacities:
    sessions (those of the trace, or reconstructed) or blocks of prompts.

    Three policies on 8 instances, and weights of the third for this trace:

        llmtrace route trace.parquet --policy round-robin,cache-first,score --instances 8 --capacity 1M --search
    """
    from llmtrace.commands.measuring import deliver
    from llmtrace.engine.aside import Aside
    from llmtrace.replay.route.passes import Routing
    from llmtrace.report import writers

    question = routing.question(reconstructing)
    writers.check(writing.target(), question.name)
    trace = reading.open()
    asked = Routing(question, trace, reading.threads)
    with Aside() as aside:
        for one in asked.passes():
            complete = _gone_through(trace, one, aside, quiet=writing.quiet)
        result = aside.run(asked.answer)
    deliver(complete(result), writing)


def _gone_through(trace: "Trace", one: "Pass", aside: "Aside", *, quiet: bool) -> "Callable[[Result], Result]":
    """Give all frames of the trace to what goes through it: what adds to a result what was read on the way."""
    from llmtrace.engine.ordered import in_order
    from llmtrace.engine.progress import progress_bar

    with progress_bar(quiet=quiet) as progress:
        rows, told = (None, aside.watched(progress)) if one.tells else (progress, aside.watched(None))
        ordered = in_order(trace, one.columns, progress=rows, prepare=one.prepare)
        for frame in ordered:
            aside.run(one.add, frame, told)
    # Without the frames' preparation, which knows every session.
    intake, surveyed = ordered.intake, ordered.trace
    return lambda result: intake.complete(result, surveyed)


def _listed(values: list[str]) -> list[str]:
    """What was given once or several times, each with or without commas."""
    return [one.strip() for value in values for one in value.split(",")]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--instances {text}: not a whole number", "Give numbers of instances, as in --instances 5,10.")
    return int(text)


def _capacity(text: str) -> "Capacity | None":
    from llmtrace.replay.cache.capacity import parse

    return None if text == _UNLIMITED else parse(text)
