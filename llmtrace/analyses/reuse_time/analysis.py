"""The analysis `reuse-time`: what it keeps of a part, how parts are put together, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

import polars as pl

from llmtrace.analyses.reuse_time import coverage, notes, spread
from llmtrace.analyses.reuse_time.definitions import DEFINITIONS
from llmtrace.analyses.reuse_time.eligible import ENOUGH_REQUESTS, settle
from llmtrace.errors import UsageError
from llmtrace.result import Result
from llmtrace.schema import succeeded
from llmtrace.summaries import keys, months, parameters, returns, span, sums
from llmtrace.summaries.accumulator import Counter, Joint, Tables
from llmtrace.summaries.interning import first_rows, intern
from llmtrace.summaries.summary import joined, tables_of
from llmtrace.summaries.trails import Limits
from llmtrace.summaries.united import Unions
from llmtrace.summaries.visits import arrange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from llmtrace.analyses.base import State

__all__ = ["KEY_COLUMNS", "ReuseTime"]

KEY_COLUMNS = ("user", "model", "instance", "endpoint", "session")
"""Columns that a key may be made of."""
MOST_MIN_GAPS = 1_000
"""A state holds so many gaps of a key at most."""
MOST_HELD = 128
"""From so many gaps on the trail of a key is a histogram."""

_TOKENS = ("input_tokens", "output_tokens")
_COMBINE: Mapping[str, Callable[[Sequence[pl.DataFrame]], pl.DataFrame]] = {
    "parameters": parameters.combine,
    "totals": sums.combine,
    "span": span.combine,
    "models": keys.combine_names,
}
_LARGEST = (1 << 63) - 1
_TOTALS = sums.summary(("input_tokens", "tokens"))
_SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "totals": _TOTALS.schema,
    "span": {"requests": pl.Int64(), "first": pl.Datetime("us"), "last": pl.Datetime("us")},
    "models": {"key": pl.UInt64(), "name": pl.String()},
    **returns.SCHEMAS,
    **months.SCHEMAS,
}


@dataclass(frozen=True)
class ReuseTime:
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
        return frozenset({"timestamp", *_TOKENS, "status", "user", *self.by})

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

    def for_span(self, first: datetime, last: datetime) -> Self:  # noqa: ARG002
        """The same: no parameter depends on the span."""
        return self

    def partial(self, part: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        """The plan that summarises a part: a table per key of the state."""
        known = part.with_columns(pl.when(succeeded()).then(column).alias(column) for column in _TOKENS).with_columns(_both())
        return {
            "parameters": parameters.plan(by=self.by, min_gaps=self.min_gaps, highlight=self.highlight),
            **tables_of(known.select(**self._needs()), _SCHEMAS, partial(_tables, analysis=self)),
        }

    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time.

        Raises:
            ValueError: if they were made with different parameters.
        """
        unions = Unions()
        tables = {name: combine([state[name] for state in states]) for name, combine in _COMBINE.items()}
        return {**tables, **self._combine_keys(list(states), unions), **self._combine_months(states, unions)}

    def accumulator(self) -> Joint[pl.DataFrame]:
        """Counters that wait for several states, as most of what combining costs is going through large ones."""
        counters = (Counter(combine, base=4) for combine in (self._combine_months, self._combine_keys))
        return Joint([Tables({name: Counter(combine) for name, combine in _COMBINE.items()}), *counters])

    def finish(self, state: State) -> Result:
        """The result: shares and quantiles as scalars, and as the main table `anchors`, rows of `coverage` at customary TTLs."""
        eligible = settle(state, self.min_gaps, self.limits)
        covered = span.read(state["span"])
        table = coverage.table(state, eligible, covered)
        tables = {
            "anchors": coverage.anchors(table),
            "coverage": table,
            "by_month": spread.by_month(state, covered, self.limits_of_months),
            "by_model": spread.by_model(state, eligible, self.highlight, self.limits),
        }
        scalars = coverage.scalars(state, eligible)
        return Result(
            command=self.name,
            parameters={"by": list(self.by), "min_gaps": self.min_gaps, "highlight": list(self.highlight)},
            scalars=scalars,
            tables=tables,
            primary="anchors",
            notes=notes.notes(self.by, self.min_gaps, state, scalars, tables),
            definitions=DEFINITIONS,
        )

    def _combine_keys(self, states: list[State], unions: Unions | None = None) -> State:
        return returns.combine(states, self.limits, unions or Unions())

    def _combine_months(self, states: Sequence[State], unions: Unions | None = None) -> State:
        return months.combine(states, self.limits_of_months, unions or Unions())

    def _levels(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Columns of the outer and of the inner key: the user outside, if it is part of the key."""
        if "user" not in self.by:
            return self.by, ()
        return ("user",), tuple(column for column in self.by if column != "user")

    def _needs(self) -> dict[str, pl.Expr]:
        outer, inner = self._levels()
        return {
            "time_us": pl.col("timestamp").to_physical(),
            "input_tokens": pl.col("input_tokens").fill_null(-1),
            "tokens": pl.col("tokens").fill_null(-1),
            "outer": keys.key(*outer),
            **({"inner": keys.key(*inner)} if inner else {}),
            **({} if "user" in self.by else {"user": keys.key("user")}),
            **({"model": pl.col("model")} if self.is_paper_key else {}),
        }


def _both() -> pl.Expr:
    """Input and output tokens together, those that are known; null where neither is. The sum stops at 2^63 - 1."""
    first, second = (pl.col(column) for column in _TOKENS)
    tokens = first.fill_null(0) + second.fill_null(0)
    known = pl.when(tokens >= 0).then(tokens).otherwise(_LARGEST)
    return pl.when(first.is_not_null() | second.is_not_null()).then(known).alias("tokens")


def _tables(part: pl.DataFrame, analysis: ReuseTime) -> dict[str, pl.DataFrame]:
    """The state of a part."""
    frame = joined(part)
    visits = arrange(frame, "outer", "inner" if "inner" in frame.columns else None)
    visitors = visits if "user" in analysis.by else arrange(frame, "user")
    return {
        "totals": _TOTALS.summarise(frame),
        "span": _span(frame["time_us"]),
        "models": _models(frame) if analysis.is_paper_key else pl.DataFrame(schema=dict(_SCHEMAS["models"])),
        **returns.summarise(visits, analysis.limits),
        **months.summarise(visitors, frame["time_us"].to_numpy(), analysis.limits_of_months),
    }


def _models(frame: pl.DataFrame) -> pl.DataFrame:
    """The name behind each key of a known model."""
    ids, distinct = intern(frame["inner"].to_numpy())
    rows = frame.select(pl.col("inner").alias("key"), pl.col("model").alias("name"))[first_rows(ids, distinct.size)]
    return rows.filter(pl.col("key") != keys.UNKNOWN).sort("key")


def _span(times_us: pl.Series) -> pl.DataFrame:
    """The span of a part whose arrivals are ascending."""
    times = times_us.cast(pl.Datetime("us"))
    return pl.DataFrame({"requests": [times.len()], "first": [times.min()], "last": [times.max()]}, dict(_SCHEMAS["span"]))
