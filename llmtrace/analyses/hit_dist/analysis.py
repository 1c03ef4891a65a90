"""The analysis `hit-dist`: what it keeps of a part, how parts are put together, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from llmtrace.analyses.base import Analysis, State
from llmtrace.analyses.hit_dist import notes, tables
from llmtrace.analyses.hit_dist import part as parts
from llmtrace.analyses.hit_dist.definitions import definitions
from llmtrace.errors import UsageError
from llmtrace.result import Result
from llmtrace.summaries import hits, parameters
from llmtrace.summaries.summary import tables_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from llmtrace.summaries.accumulator import Tables

__all__ = ["PARTS", "HitDist"]

PARTS: Mapping[str, str] = {"models": "model", "users": "user", "ttft": "ttft_s"}
"""What can be left out, and the column that need not be read then."""


@dataclass(frozen=True)
class HitDist(Analysis):
    """The share of each request's input that came from a prefix cache, and how it is distributed.

    Attributes:
        highlight: the models whose distribution the table `cdf` has; the three with most measured requests if empty.
        zero_at: the highest hit ratio that counts as no hit, a multiple of 0.001.
        full_at: the lowest that counts as a hit of the whole prefix, likewise. Below 1, since servers cache whole blocks and
            compute at least the last token of a prompt anew.
        per_user: whether there is a table with a row per user.
        skip: what is left out, of `PARTS`.

    Raises:
        UsageError: if a threshold is no such multiple, they are in the wrong order, or there is no such part.

    >>> sorted(HitDist(skip=("users", "ttft")).uses)
    ['cached_tokens', 'input_tokens', 'model', 'status', 'timestamp']
    """

    name: ClassVar[str] = "hit-dist"
    rows_at_once: ClassVar[int] = 5_000_000
    requires: ClassVar[frozenset[str]] = frozenset({"cached_tokens"})

    highlight: tuple[str, ...] = ()
    zero_at: float = 0.0
    full_at: float = 0.95
    per_user: bool = False
    skip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the parameters."""
        for option, value in (("--zero-at", self.zero_at), ("--full-at", self.full_at)):
            if not 0 <= value <= 1 or round(value * hits.STEPS) / hits.STEPS != value:
                raise UsageError(f"{option} {value:g}: not a hit ratio in thousandths", "Give a number from 0 to 1, as 0.95.")
        if self.zero_at >= self.full_at:
            raise UsageError(
                f"--zero-at {self.zero_at:g}: not below --full-at {self.full_at:g}", "Give a lower one of the two for no hit."
            )
        for part in self.skip:
            if part not in PARTS:
                raise UsageError(f"--skip {part}: there is no such part", f"Choose one of: {', '.join(PARTS)}.")
        if self.per_user and "users" in self.skip:
            raise UsageError("--per-user together with --skip users: they exclude each other", "Leave out one of them.")

    @property
    def uses(self) -> frozenset[str]:
        """The tokens, and the columns of what is not left out."""
        optional = {column for part, column in PARTS.items() if part not in self.skip}
        streamed = {"stream"} if "ttft_s" in optional else set[str]()
        return frozenset({"timestamp", "input_tokens", "cached_tokens", "status", *optional, *streamed})

    @property
    def tells(self) -> frozenset[str]:
        """Models, and users if they are listed."""
        return self.uses & ({"model", "user"} if self.per_user else {"model"})

    def partial(self, part: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        """The plan that summarises a part: a table per key of the state."""
        kept = parameters.plan(
            zero_at=self.zero_at, full_at=self.full_at, highlight=self.highlight, per_user=self.per_user, skip=self.skip
        )
        make = partial(parts.summarise, zero_at=self.zero_at, full_at=self.full_at, per_user=self.per_user)
        return {"parameters": kept, **tables_of(part.select(sorted(self.uses)), parts.SCHEMAS, make)}

    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time.

        Raises:
            ValueError: if they were made with different parameters.
        """
        return parts.combine(states)

    def accumulator(self) -> Tables[pl.DataFrame]:
        """What brings each table together by its own."""
        return parts.accumulators()

    def finish(self, state: State) -> Result:
        """The result: `by_input_length` is the main table."""
        found = tables.read(state, self.highlight, per_user=self.per_user)
        chosen = {
            "highlight": list(self.highlight),
            "zero_at": self.zero_at,
            "full_at": self.full_at,
            "per_user": self.per_user,
            "skip": list(self.skip),
        }
        return Result(
            command=self.name,
            parameters=chosen,
            scalars=found.scalars,
            tables=found.tables,
            primary="by_input_length",
            notes=notes.notes(found, chosen),
            definitions=definitions(self.zero_at, self.full_at, per_user=self.per_user),
        )
