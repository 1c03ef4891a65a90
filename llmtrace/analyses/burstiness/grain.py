"""How far ties may be spread: a first look at the clock alone, before gaps are measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from llmtrace.analyses.base import Analysis, State
from llmtrace.result import Result
from llmtrace.summaries import clock
from llmtrace.summaries.accumulator import Counter

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

__all__ = ["ClockGrain"]


@dataclass(frozen=True)
class ClockGrain(Analysis):
    """The steps of a trace's clock.

    Its result has `quantum_s`, `tie_share`, and `spread_us`: the microseconds by which requests can be moved on without
    overtaking one of a later stamp. That is the quantum, or the shortest positive gap if that is shorter; 0 where there is none.
    """

    name: ClassVar[str] = "burstiness"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses: ClassVar[frozenset[str]] = frozenset({"timestamp"})

    def partial(self, part: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        """The plan over one part."""
        return dict(clock.plan(part))

    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time."""
        return clock.combine(states)

    def accumulator(self) -> Counter[State]:
        """A counter of states."""
        return Counter(self.combine)

    def finish(self, state: State) -> Result:
        """The grain as scalars."""
        grain = clock.grain(state)
        starts, _ = grain.buckets
        shortest_us = round(starts[0] * 1e6) if starts.size else 0
        spread_us = min(shortest_us, round((grain.quantum_s or 0) * 1e6))
        scalars = {"quantum_s": grain.quantum_s, "tie_share": grain.tie_share, "spread_us": spread_us}
        return Result(self.name, {}, scalars, {}, "")
