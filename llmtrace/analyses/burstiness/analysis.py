"""The analysis `burstiness`: what it keeps of a part, how parts are put together, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from llmtrace.analyses.base import Analysis, State
from llmtrace.analyses.burstiness import fits, notes, tables
from llmtrace.analyses.burstiness.definitions import definitions
from llmtrace.errors import UsageError
from llmtrace.result import Result
from llmtrace.summaries import by_key, clock, hours, jitter, lags, parameters, span, windows
from llmtrace.summaries.accumulator import Counter
from llmtrace.summaries.intervals import Interval
from llmtrace.summaries.summary import plans

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["KEYS", "Burstiness"]

KEYS = ("model", "user", "endpoint", "instance", "all")
"""What gaps can be taken by: a canonical column, or all requests as one key."""
_WIDTHS = "1s 2s 5s 10s 20s 30s 1m 2m 5m 10m 20m 30m 1h 2h 4h 6h 12h 1d"
WINDOWS = tuple(Interval.parse(text) for text in _WIDTHS.split())
"""Widths at which counts are compared, each of them a whole part of a day."""
CV_WINDOW = Interval.parse("5m")
"""The windows of `cv_windows`, as ServeGen has them."""

_COMBINE: Mapping[str, Callable[[Sequence[pl.DataFrame]], pl.DataFrame]] = {
    "parameters": parameters.combine,
    "names": by_key.combine_names,
    "process": partial(lags.combine, bits=tables.BITS),
    "keys": partial(lags.combine, bits=tables.BITS_BY_KEY),
    "counts": windows.combine_counts,
    "windows": windows.combine_gaps,
}
_MOVED = "moved_"
_AT_ONCE = 8
"""States that are combined at a time: what each of them holds is looked at once."""


@dataclass(frozen=True)
class Burstiness(Analysis):
    """How unequal the gaps between requests are, how one depends on the last, and at which time scales counts vary.

    Attributes:
        by: what gaps are taken by: one of `KEYS`.
        jitter: the seed with which requests are spread over the step of a coarse clock; None leaves them where they are.
        spread_us: how far they are spread, in microseconds: what `ClockGrain` finds.

    Raises:
        UsageError: if there is no such key, or a jitter has nothing to spread requests over.
    """

    name: ClassVar[str] = "burstiness"
    requires: ClassVar[frozenset[str]] = frozenset()

    by: str = "model"
    jitter: int | None = None
    spread_us: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.by not in KEYS:
            raise UsageError(f"--by {self.by}: gaps are not taken by that", f"Choose one of: {', '.join(KEYS)}.")
        if self.jitter is not None and self.spread_us <= 0:
            raise UsageError(
                f"--jitter {self.jitter}: the trace has no positive gap to spread requests over", "Leave the option out."
            )

    @property
    def uses(self) -> frozenset[str]:
        """The time, and the column of the key."""
        return frozenset({"timestamp"} if self.by == "all" else {"timestamp", self.by})

    def partial(self, part: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        """The plan that summarises a part: a table per key of the state."""
        column = pl.lit("all requests").alias("all") if self.by == "all" else self.by
        stamped = part.select("timestamp", column)
        timed = {
            "process": lags.summary_of_all(bits=tables.BITS),
            "counts": windows.counts(WINDOWS),
            "windows": windows.gaps(CV_WINDOW),
        }
        keyed = {"keys": lags.summary(bits=tables.BITS_BY_KEY), **hours.summaries()}
        clocks = clock.summaries()
        if self.jitter is None:
            found = by_key.plans(stamped, self.by, {**timed, **clocks}, keyed)
        else:
            moved = jitter.spread(stamped, self.spread_us, self.jitter)
            again = {f"{_MOVED}{name}": summary for name, summary in clocks.items()}
            found = {**by_key.plans(moved, self.by, {**timed, **again}, keyed), **plans(stamped, clocks)}
        return {
            "parameters": parameters.plan(
                by=self.by, jitter=self.jitter, spread_us=self.spread_us, bits=tables.BITS, bits_by_key=tables.BITS_BY_KEY
            ),
            **found,
        }

    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time.

        Raises:
            ValueError: if they were made with different parameters, or are in another order.
        """
        clocks = (state.get(f"{_MOVED}clock", state["clock"]) for state in states)
        span.check_order(ticks.select("first_us", "last_us").row(0) for ticks in clocks)
        combined = {table: combine([state[table] for state in states]) for table, combine in _COMBINE.items()}
        return {**combined, **hours.combine(states), **clock.combine(states), **self._moved_clock(states)}

    def accumulator(self) -> Counter[State]:
        """A counter of states."""
        return Counter(self.combine, _AT_ONCE)

    def finish(self, state: State) -> Result:
        """The result: the whole process as scalars, `by_key` as the primary table."""
        ticks, gaps = (state.get(f"{_MOVED}{name}", state[name]) for name in ("clock", "clock_gaps"))
        found = tables.read(state, self.by, max(ticks["divisor_us"].item(), 1))
        return Result(
            command=self.name,
            parameters={
                "by": self.by,
                "jitter": self.jitter,
                "spread_s": self.spread_us / 1e6 if self.jitter is not None else None,
            },
            scalars=tables.scalars(found),
            tables={
                "by_key": found.by_key,
                "by_hour": tables.by_hour(state, found),
                "dispersion": tables.dispersion(state, found),
                "cv_windows": tables.cv_windows(state, CV_WINDOW),
                **fits.tables(gaps),
            },
            primary="by_key",
            notes=notes.notes(found, self.jitter, self.spread_us),
            definitions=definitions(self.by),
        )

    def _moved_clock(self, states: Sequence[State]) -> State:
        if self.jitter is None:
            return {}
        names = clock.summaries()
        combined = clock.combine([{name: state[f"{_MOVED}{name}"] for name in names} for state in states])
        return {f"{_MOVED}{name}": table for name, table in combined.items()}
