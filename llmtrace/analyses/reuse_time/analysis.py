"""The analysis `reuse-time`: what it keeps of a part, how parts are put together, and its result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from llmtrace.analyses.base import Analysis, Engine, State
from llmtrace.analyses.reuse_time import coverage, notes, spread
from llmtrace.analyses.reuse_time.definitions import DEFINITIONS
from llmtrace.analyses.reuse_time.eligible import ENOUGH_REQUESTS, settle
from llmtrace.analyses.reuse_time.part import TOKENS, schemas, summarise
from llmtrace.errors import UsageError
from llmtrace.result import Result
from llmtrace.summaries import keys, parameters, span, sums
from llmtrace.summaries.accumulator import Counter, Joint, Tables
from llmtrace.summaries.following import Following
from llmtrace.summaries.month_store import Months
from llmtrace.summaries.return_store import Returns
from llmtrace.summaries.summary import tables_of
from llmtrace.summaries.trails import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

__all__ = ["KEY_COLUMNS", "ReuseTime"]

KEY_COLUMNS = ("user", "model", "instance", "endpoint", "session", "turn", "stream", "status")
"""Columns that a key may be made of."""
MOST_MIN_GAPS = 1_000
"""A state holds so many gaps of a key at most."""
MOST_HELD = 128
"""From so many gaps on the trail of a key is a histogram."""

_COMBINE: Mapping[str, Callable[[Sequence[pl.DataFrame]], pl.DataFrame]] = {
    "parameters": parameters.combine,
    "totals": sums.combine,
    "models": keys.combine_names,
}


@dataclass(frozen=True)
class ReuseTime(Analysis):
    """Gaps between consecutive requests of the same key, and what a time to live (TTL) would cover and cost.

    A key is eligible for the distribution of Figure 15 with at least `min_gaps` positive gaps and, if the user is part of it, a
    user with more than 10 requests. One pass settles both, with few gaps held back: a key with 10 positive gaps has at least 11
    requests, all of them its user's, so that from 10 gaps on the second condition follows from the first. Hence a key with
    `max(min_gaps, 10)` gaps is eligible whatever else comes, and only one that ends with fewer, but with `min_gaps`, has to be
    looked up by its user in the end.

    Attributes:
        by: the columns of the key, each once.
        min_gaps: positive gaps that make a key, or a user's month, eligible; 1 to 1,000.
        highlight: the models of the table `by_model`; the three with most requests if empty.

    Raises:
        UsageError: if a column cannot be part of a key, stands there twice or none is given, or `min_gaps` is out of range.
    """

    name: ClassVar[str] = "reuse-time"
    engine: ClassVar[Engine] = "in-memory"

    by: tuple[str, ...] = ("user", "model")
    min_gaps: int = 10
    highlight: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the parameters."""
        text, choices = ",".join(self.by), f"Join one or several of these by commas, each once: {', '.join(KEY_COLUMNS)}."
        if not self.by or len(set(self.by)) < len(self.by):
            raise UsageError(f"--by {text}: not a list of different columns", choices)
        for column in self.by:
            if column not in KEY_COLUMNS:
                raise UsageError(f"--by {text}: '{column}' cannot be part of a key", choices)
        if not 1 <= self.min_gaps <= MOST_MIN_GAPS:
            raise UsageError(f"--min-gaps {self.min_gaps}: out of range", f"Give a whole number from 1 to {MOST_MIN_GAPS:,}.")

    @property
    def requires(self) -> frozenset[str]:
        """The columns of the key."""
        return frozenset(self.by)

    @property
    def uses(self) -> frozenset[str]:
        """Those, the tokens, and the user for `by_month`."""
        return frozenset({"timestamp", *TOKENS, "status", "user", *self.by})

    @property
    def tells(self) -> frozenset[str]:
        """The models of the table `by_model`."""
        return frozenset({"model"} if self.is_paper_key else ())

    @property
    def limits(self) -> Limits:
        """How the trails of keys are kept."""
        threshold = max(self.min_gaps, ENOUGH_REQUESTS - 1) if "user" in self.by else self.min_gaps
        return Limits(threshold, max(threshold, MOST_HELD) if self.is_paper_key else threshold, profiled=self.is_paper_key)

    @property
    def limits_of_months(self) -> Limits:
        """How the trails of users in a month are kept."""
        return Limits(self.min_gaps, max(self.min_gaps, MOST_HELD), profiled=True)

    @property
    def is_paper_key(self) -> bool:
        """Whether a key is a user and a model."""
        return set(self.by) == {"user", "model"}

    def partial(self, part: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        """The plan that summarises a part: a table per key of the state."""
        outer, inner = self._levels()
        tables = partial(summarise, outer=outer, inner=inner, named=self.is_paper_key)
        return {
            "parameters": parameters.plan(by=self.by, min_gaps=self.min_gaps, highlight=self.highlight),
            **tables_of(part.select(sorted(self.uses)), schemas(outer), tables),
        }

    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time.

        Raises:
            ValueError: if they were made with different parameters, or are in another order.
        """
        return dict(self.accumulator().together(states))

    def accumulator(self) -> Joint[pl.DataFrame]:
        """What follows keys once there are many requests; a state out of order ends it before it comes to that."""
        return self._accumulator(is_all=False)

    def accumulator_of_all(self) -> Joint[pl.DataFrame]:
        """The same without the first requests of keys, which are many, and matter only to what comes before."""
        return self._accumulator(is_all=True)

    def finish(self, state: State) -> Result:
        """The result: shares and quantiles as scalars, and as the main table `anchors`, rows of `coverage` at customary TTLs."""
        state = self._followed(state)
        covered = span.read(state["span"])
        # One thread besides, which works in turn: what waits for `settled` comes after it.
        with ThreadPoolExecutor(1) as pool:
            settled = pool.submit(settle, state, self.min_gaps, self.limits)
            by_model = pool.submit(lambda: spread.by_model(state, settled.result(), self.highlight, self.limits))
            told = pool.submit(lambda: coverage.scalars(state, settled.result()))
            by_month = spread.by_month(state, covered, self.limits_of_months)
            table = coverage.table(state, settled.result(), covered)
        anchors, scalars = coverage.anchors(table), told.result()
        tables = {"anchors": anchors, "coverage": table, "by_month": by_month, "by_model": by_model.result()}
        return Result(
            command=self.name,
            parameters={"by": list(self.by), "min_gaps": self.min_gaps, "highlight": list(self.highlight)},
            scalars=scalars,
            tables=tables,
            primary="anchors",
            notes=notes.notes(self.by, self.min_gaps, state, scalars, tables),
            definitions=DEFINITIONS,
        )

    def _accumulator(self, *, is_all: bool) -> Joint[pl.DataFrame]:
        counters = {name: Counter(combine) for name, combine in _COMBINE.items()}
        return Joint([Tables({"span": span.InOrder(), **counters}), *self._following(is_all=is_all)])

    def _following(self, *, is_all: bool = False) -> list[Following]:
        """What follows the keys, and users within months."""
        gaps, within_months = Returns(self.limits, is_all=is_all), Months(self.limits_of_months)
        if "user" in self.by:
            return [Following("visits", [gaps, within_months])]
        return [Following("visits", [gaps]), Following("visits_of_users", [within_months], has_inner=False)]

    def _followed(self, state: State) -> State:
        """The same state with the keys of all requests followed."""
        tables = dict(state)
        for following in self._following():
            following.add(state)
            tables |= following.followed()
        return tables

    def _levels(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Columns of the outer and of the inner key: the user outside, if it is part of the key."""
        if "user" not in self.by:
            return self.by, ()
        return ("user",), tuple(column for column in self.by if column != "user")
