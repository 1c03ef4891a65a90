"""What `cache` is asked: policies, capacities and how hits are counted; and its answer."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import polars as pl

from llmtrace.errors import MissingColumnError, UsageError
from llmtrace.replay.cache import tables
from llmtrace.replay.cache.capacity import Capacity, capacities, check_block_size
from llmtrace.replay.cache.definitions import definitions
from llmtrace.replay.cache.like import TOOLS, like
from llmtrace.replay.cache.lru_curve import lru_curve
from llmtrace.replay.cache.notes import notes
from llmtrace.replay.cache.policies.lrb import ASKED
from llmtrace.replay.cache.policies.ttl import time_to_live_us
from llmtrace.replay.cache.replay import POLICIES
from llmtrace.replay.cache.requests import Blocks, Gatherer, Reconstructed, Sessions
from llmtrace.replay.cache.simulate import IDEAL, LRB, ORACLE, TTL, Run, Settings, simulate
from llmtrace.replay.cache.trees import lightgbm
from llmtrace.replay.sessions.tracker import Reconstruction, SessionTracker
from llmtrace.result import Result

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from llmtrace.replay.cache.requests import Requests
    from llmtrace.replay.cache.simulate import Outcome
    from llmtrace.result import Scalar

__all__ = ["DEFAULT_POLICIES", "Question", "share_of"]

DEFAULT_POLICIES = ("fifo", "lru", "arc", "gdsf", "sieve", ORACLE)
"""Those of the paper's eviction figure, LRB aside."""
CHOICES = (*POLICIES, LRB, ORACLE, TTL)
Object: TypeAlias = Literal["session", "block"]
_TOP_SHARE, _NEARLY = 0.1, 0.9


@dataclass(frozen=True)
class Question:
    """The parameters of a replay.

    Attributes:
        policies: names of `POLICIES`, `lrb`, `oracle` and `ttl`.
        wanted: the capacities; the default ones if empty.
        object: what is cached; None takes blocks if the trace has them.
        leaves_only: whether of blocks only those may go that no block in the cache continues.
        keep_output: whether a session holds its outputs too.
        reconstruct: whether sessions are reconstructed even if the trace has them.
        warmup: the share of the requests that warms the cache and is not counted.
        ttl: the time to live of the policy `ttl`, such as `5m`.
        block_tokens: tokens per block, where the trace does not say.
        kv_bytes: bytes that a token takes, if known.
        like: a tool of `like.TOOLS` whose number is told too.

    Raises:
        UsageError: if they make no sense together, or the library of `lrb` is not installed.
    """

    name: ClassVar[str] = "cache"

    policies: tuple[str, ...] = ()
    wanted: tuple[Capacity, ...] = ()
    object: Object | None = None
    leaves_only: bool = False
    keep_output: bool = False
    reconstruct: bool = False
    warmup: float = 0.0
    ttl: str | None = None
    block_tokens: int | None = None
    kv_bytes: int | None = None
    like: str | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        for policy in self.policies:
            if policy not in CHOICES:
                raise UsageError(f"--policy {policy}: there is no such policy", f"Choose among: {', '.join(CHOICES)}.")
        if LRB in self.policies:
            lightgbm(ASKED)
        if TTL in self.policies and self.ttl is None:
            raise UsageError("--policy ttl needs a time to live", "Give one, as in --ttl 5m.")
        if not 0 <= self.warmup < 1:
            raise UsageError(f"--warmup {self.warmup:g}: not a share from 0 to below 1", "Give for example 0.5 or 50%.")
        check_block_size(self.block_tokens)
        if self.like is not None and self.like not in TOOLS:
            raise UsageError(f"--like {self.like}: there is no such tool", f"Choose one of: {', '.join(TOOLS)}.")
        self._check_object()
        _ = self.ttl_us

    def _check_object(self) -> None:
        if self.object == "session" and self.leaves_only:
            raise UsageError("--leaves-only: sessions have no leaves", "Leave it out, or replay blocks with --object block.")
        if self.object == "session" and self.like is not None:
            raise UsageError(
                f"--like {self.like}: it replays blocks, not sessions", "Leave it out, or give a trace with block hashes."
            )
        if self.object == "session" and self.block_tokens is not None:
            raise UsageError("--block-size: sessions have no blocks", "Leave it out, or replay blocks with --object block.")
        if self.object == "block" and self.keep_output:
            raise UsageError(
                "--keep-output: block hashes are of inputs alone", "Leave it out, or replay sessions with --object session."
            )
        if self.object == "block" and self.reconstruct:
            raise UsageError("--reconstruct: blocks belong to no sessions", "Leave it out, or replay sessions.")
        if self.object == "block" and "belady-size" in self.policies:
            raise UsageError("--policy belady-size: blocks are all of one size", "Take belady or oracle for blocks.")

    @property
    def ttl_us(self) -> int:
        """The time to live in microseconds; 0 without one.

        Raises:
            UsageError: if it is none.
        """
        return 0 if self.ttl is None else time_to_live_us(self.ttl)

    def of_trace(self, columns: Collection[str], block_tokens: int | None) -> tuple[Question, Gatherer]:
        """The question with what is cached decided, and what gathers the requests for it.

        Args:
            columns: the canonical columns that the trace has.
            block_tokens: tokens per block, as the trace says.

        Raises:
            MissingColumnError: if the trace has nothing of the kind.
            UsageError: if the options do not fit what is cached, or blocks are of unknown size.
        """
        wants_blocks = self.object == "block" or (self.object is None and not self.reconstruct)
        if wants_blocks and "block_hashes" in columns:
            return self._of_blocks(columns, self.block_tokens or block_tokens)
        if self.object == "block":
            raise _nothing_cached("block", columns)
        return self._of_sessions(columns)

    def _of_blocks(self, columns: Collection[str], block_tokens: int | None) -> tuple[Question, Gatherer]:
        if block_tokens is None:
            raise UsageError("The trace does not say how many tokens a block has", "Say it, as in --block-size 16.")
        asked = replace(self, object="block", block_tokens=block_tokens)
        return asked, Blocks(block_tokens=block_tokens, by_model="model" in columns)

    def _of_sessions(self, columns: Collection[str]) -> tuple[Question, Gatherer]:
        """Sessions of the trace, or reconstructed ones where it has none."""
        is_given = "session" in columns and not self.reconstruct
        asked = replace(self, object="session", reconstruct=not is_given)
        if is_given:
            return asked, Sessions(keep_output=self.keep_output, by_model="model" in columns)
        rule = Reconstruction()
        if any(column not in columns for column in rule.key(columns)):
            raise _no_users(columns) if self.reconstruct else _nothing_cached(self.object, columns)
        tracker = SessionTracker(rule.rings(), rule.key(columns), columns)
        return asked, Reconstructed(tracker, keep_output=self.keep_output)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The policies to replay, each once."""
        named = self.policies or DEFAULT_POLICIES
        return tuple(dict.fromkeys([*named, *([TTL] if self.ttl is not None else [])]))

    def answer(self, requests: Requests, threads: int | None = None) -> Result:
        """Replay the requests, and tell what was found.

        Args:
            requests: of a trace for which `of_trace` has decided what is cached.
            threads: replays at once; the number of processors by default.

        Raises:
            UsageError: if a capacity makes no sense for them.
        """
        sizes = capacities(self.wanted, requests.working_set_tokens, requests.block_tokens, self.kv_bytes)
        runs = [Run(policy, size) for policy in self.chosen for size in sizes]
        runs += [Run(TTL, None)] if TTL in self.chosen else []
        first = int(Fraction(str(self.warmup)) * requests.input_tokens.size)
        settings = Settings(first, self.ttl_us, self.leaves_only)
        outcomes = simulate(requests, [*runs, Run(IDEAL, None)], settings, threads)
        told = {} if self.like is None else {"like": like(self.like, requests, sizes, threads)}
        found = {
            **told,
            "curve": tables.curve(outcomes, requests, self.kv_bytes),
            "by_capacity": tables.by_capacity(outcomes),
            "lru_curve": lru_curve(requests, first),
            "histogram": tables.histogram(outcomes),
            "by_gap": tables.by_gap(outcomes),
            "reuse_skew": tables.reuse_skew(requests),
        }
        scalars = _scalars(requests, outcomes[Run(IDEAL, None)], found)
        what = self.object or "session"
        return Result(
            command=self.name,
            parameters=self.parameters,
            scalars=scalars,
            tables=found,
            primary=next(iter(found)),
            notes=notes(requests, scalars, self.parameters, sizes, found["curve"]),
            definitions=definitions(what, warmup=self.warmup, policies=(*self.chosen, IDEAL)),
            shown=("by_capacity",),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "policies": list(self.chosen),
            "capacities": [one.text for one in self.wanted],
            "object": self.object,
            "leaves_only": self.leaves_only,
            "keep_output": self.keep_output,
            "reconstruct": self.reconstruct,
            "warmup": self.warmup,
            "ttl": self.ttl,
            "block_tokens": self.block_tokens,
            "kv_bytes_per_token": self.kv_bytes,
            "like": self.like,
        }


def _nothing_cached(wanted: Object | None, columns: Collection[str]) -> MissingColumnError:
    """The error for a trace that does not say what its requests share."""
    if wanted == "block":
        return MissingColumnError.among(["block_hashes"], columns, "cache --object block")
    hashes = "'block_hashes', " if wanted is None else ""
    return MissingColumnError(
        f"cache needs one of the columns {hashes}'session' and 'user', which the trace does not have: what requests share, or "
        "whose they are, so that sessions can be reconstructed",
        f"The trace has: {', '.join(columns)}. Name the source column with --map CANONICAL=COLUMN if it is called otherwise.",
    )


def _no_users(columns: Collection[str]) -> MissingColumnError:
    """The error for a trace whose sessions are to be reconstructed, and cannot be."""
    return MissingColumnError.among(["user"], columns, "cache --reconstruct")


def _scalars(requests: Requests, ideal: Outcome, found: Mapping[str, pl.DataFrame]) -> dict[str, Scalar]:
    """The numbers beside the tables."""
    hits, curve = ideal.hits, found["lru_curve"]
    skew = found["reuse_skew"].filter(pl.col("objects_ratio") == _TOP_SHARE)
    enough = curve.filter(pl.col("token_hit_ratio_prefix") >= _NEARLY * (hits.token_hit_ratio_prefix or 0.0))
    return {
        "requests": requests.counts.get("requests", 0),
        "replayed_requests": requests.counts.get("replayed_requests", 0),
        "counted_requests": hits.requests,
        "sessions_or_blocks": requests.stream.objects,
        "uses": requests.stream.ids.size,
        "input_tokens": hits.input_tokens if hits.requests else None,
        "working_set_tokens": requests.working_set_tokens if hits.requests else None,
        "ideal_request_hit_ratio": hits.request_hit_ratio,
        "ideal_token_hit_ratio": hits.token_hit_ratio_prefix,
        "ideal_token_hit_ratio_full": hits.token_hit_ratio_full,
        "lru_90_capacity_tokens": enough["capacity_tokens"].min() if hits.prefix_tokens else None,  # type: ignore[dict-item]
        "top10_reuse_ratio": skew["reuses_ratio"].item() if skew.height else None,
    }


def share_of(option: str, text: str) -> float:
    """A share that is written as a number from 0 to 1 or in percent.

    Raises:
        UsageError: if it is neither.

    >>> share_of("--warmup", "0.5"), share_of("--warmup", "50%")
    (0.5, 0.5)
    """
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", number, re.ASCII):
        raise UsageError(f"{option} {text}: not a share", "Give a number from 0 to below 1, such as 0.5, or a percentage.")
    return float(Fraction(number) / (100 if percent else 1))
