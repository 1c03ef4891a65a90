"""The analysis `evolution`: what it keeps of a part, how parts are put together, and its result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from llmtrace.analyses.base import Analysis, Engine, State
from llmtrace.analyses.evolution import lengths, mix, notes, overview, people
from llmtrace.analyses.evolution import part as parts
from llmtrace.analyses.evolution.cohorts import first_seen
from llmtrace.analyses.evolution.definitions import DEFINITIONS
from llmtrace.analyses.evolution.grid import Grid
from llmtrace.analyses.evolution.people import People
from llmtrace.errors import UsageError
from llmtrace.result import Result
from llmtrace.summaries import habits, parameters, span
from llmtrace.summaries.accumulator import Accumulator, Counter, Tables
from llmtrace.summaries.periods import Periods
from llmtrace.summaries.summary import tables_of
from llmtrace.summaries.user_medians import medians

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import polars as pl

    from llmtrace.analyses.evolution.cohorts import Cohorts
    from llmtrace.summaries.user_medians import Floats

__all__ = ["MOST_PERIODS", "PARTS", "Evolution"]

MOST_PERIODS = 1_000
"""So many periods a trace may have; `stats` is for finer ones."""
MOST_TOP = 50
PARTS: Mapping[str, str] = {"users": "user"}
"""What can be left out, and the column that need not be read then."""


@dataclass(frozen=True)
class Evolution(Analysis):
    """What changes from month to month: the mix of models, the lengths of requests, the users and what they turn to.

    Attributes:
        interval: the periods: month, quarter, year, or a width as in `Interval`; "auto" for months, or shorter customary ones for
            a trace of less than 60 days.
        top: how many of the busiest models stand by name in `model_share` and `transitions`, 1 to 50.
        merge_suffix: endings of model names that make no difference, in any case of letters.
        names: pairs of a model in the trace and the name to know it by; before endings are left out.
        cohorts: a side table of when users came first, where their ids change over time.
        skip: what is left out, of `PARTS`.

    Raises:
        UsageError: if a parameter is out of range.
    """

    name: ClassVar[str] = "evolution"
    rows_at_once: ClassVar[int] = 5_000_000
    engine: ClassVar[Engine] = "in-memory"
    tells: ClassVar[frozenset[str]] = frozenset({"model"})
    requires: ClassVar[frozenset[str]] = frozenset()

    interval: str = "auto"
    top: int = 10
    merge_suffix: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    cohorts: Cohorts | None = None
    skip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.interval != "auto":
            Periods.parse(self.interval)
        if not 1 <= self.top <= MOST_TOP:
            raise UsageError(f"--top {self.top}: out of range", f"Give a whole number from 1 to {MOST_TOP}.")
        if not all(self.merge_suffix):
            raise UsageError("--merge-suffix: empty", "Give the ending of a name, as in --merge-suffix=-TEE.")
        for part in self.skip:
            if part not in PARTS:
                raise UsageError(f"--skip {part}: there is no such part", f"Choose one of: {', '.join(PARTS)}.")
        if self.cohorts is not None and "users" in self.skip:
            raise UsageError("--cohorts together with --skip users: they exclude each other", "Leave out one of them.")

    @property
    def uses(self) -> frozenset[str]:
        """The columns that it reads."""
        skipped = {PARTS[part] for part in self.skip}
        return frozenset({"timestamp", *parts.COLUMNS, "model", "user", "status"} - skipped)

    def for_span(self, first: datetime, last: datetime) -> Self:
        """The same with `auto` replaced by the periods for a trace from `first` to `last`.

        Raises:
            UsageError: if these are too many.
        """
        periods = Periods.covering(first, last) if self.interval == "auto" else Periods.parse(self.interval)
        count = periods.count(first, last)
        if count > MOST_PERIODS:
            raise UsageError(
                f"--interval {self.interval}: the trace has {count:,} of them, and {MOST_PERIODS:,} at most can be compared",
                "Give wider ones, or a shorter window with --since and --until; rates in fine intervals are what stats gives.",
            )
        return replace(self, interval=str(periods))

    def partial(self, part: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        """The plan that summarises a part: a table per key of the state."""
        make = partial(parts.summarise, periods=self._periods(), renamed=self.names, suffixes=self.merge_suffix)
        rows = part.select(sorted(self.uses))
        kept = parameters.plan(interval=self.interval, merge_suffix=self.merge_suffix, names=self.names, skip=self.skip)
        return {"parameters": kept, "span": span.plan(part), **tables_of(rows, parts.SCHEMAS, make)}

    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time.

        Raises:
            ValueError: if they were made with different parameters, or are in another order.
        """
        return self.accumulator().together(states)

    def accumulator(self) -> Accumulator[State]:
        """What brings states together one by one, at the cost of what each holds."""
        return _Store()

    def finish(self, state: State) -> Result:
        """The result: what stands out as scalars, and as the main table `active`, a row per period."""
        covered, periods = span.read(state["span"]), self._periods()
        grid, users = Grid.of(covered, periods), state["users"]
        with ThreadPoolExecutor(2) as pool:
            # Kernels and plans that need no lock, beside what mostly does.
            found_medians, found_lengths = pool.submit(_medians, users), pool.submit(_lengths, state, grid)
            models = mix.totals(state)
            top = mix.top_models(models, self.top)
            seen = first_seen(users["key"].to_numpy(), users["first_us"].to_numpy(), periods, self.cohorts)
            known = People.of(users, habits.over(state, parts.models_of(state)), periods.floor(seen.times_us), grid)
            turns = pool.submit(_turns, known, state, top)
            tables = {
                "active": overview.active(mix.by_period(models, grid), people.active(known), grid),
                "model_share": mix.model_share(models, grid, top),
                "tokens_by_month": found_lengths.result()["tokens_by_month"],
                "cohorts": people.cohorts(known, found_medians.result()),
                "retention": people.retention(known),
                **turns.result(),
                "drift": found_lengths.result()["drift"],
            }
        return Result(
            command=self.name,
            parameters=self._described(),
            scalars=overview.scalars(covered, grid, self.interval, models, tables),
            tables=tables,
            primary="active",
            notes=notes.notes(self, covered, grid, state, seen, tables),
            definitions=DEFINITIONS,
            shown=("tokens_by_month",),
        )

    def _periods(self) -> Periods:
        if self.interval == "auto":
            raise ValueError("the interval is not fixed yet: call for_span first")
        return Periods.parse(self.interval)

    def _described(self) -> dict[str, Any]:
        return {
            "interval": self.interval,
            "top": self.top,
            "merge_suffix": list(self.merge_suffix),
            "names": dict(self.names),
            "cohorts": None if self.cohorts is None else self.cohorts.source,
            "skip": list(self.skip),
        }


def _lengths(state: State, grid: Grid) -> State:
    """The tables of how long requests are."""
    found = {column: lengths.Lengths(state, column, grid) for column in parts.COLUMNS}
    return {"tokens_by_month": lengths.tokens_by_month(found, grid), "drift": lengths.drift(found, grid)}


def _turns(known: People, state: State, top: Sequence[str]) -> State:
    """The tables of how users turn from one model to another."""
    moved = people.moves(known)
    return {
        "switching": people.switching(moved, known.grid),
        "transitions": people.transitions(moved, parts.names_of(state), top),
    }


class _Store(Accumulator["State"]):
    """The states of parts, and the parameters and the span that stand beside them."""

    def __init__(self) -> None:
        """Know no part."""
        self._heads = Tables({"parameters": Counter(parameters.combine), "span": span.InOrder()})
        self._parts = parts.Store()

    def add(self, state: State) -> None:
        """Take the state of the next part."""
        self._heads.add(state)
        self._parts.add(state)

    def total(self) -> State:
        """The state of all parts."""
        return {**self._heads.total(), **self._parts.total()}


def _medians(users: pl.DataFrame) -> tuple[Floats, Floats]:
    """The median input and output tokens of each user with enough requests; NaN of the others."""
    return medians(parts.lengths_of(users), (users["requests"] >= people.ENOUGH_REQUESTS).to_numpy())
