"""The analysis `stats`: what it keeps of a part, how parts are put together, and its result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import polars as pl

from llmtrace.analyses.base import Analysis, State
from llmtrace.analyses.stats import lengths, notes, rates, totals
from llmtrace.analyses.stats.definitions import DEFINITIONS
from llmtrace.result import Result
from llmtrace.schema import failed, succeeded
from llmtrace.summaries import distinct, histogram, keys, parameters, span, sums
from llmtrace.summaries.accumulator import Counter, Tables
from llmtrace.summaries.intervals import HOUR, Interval
from llmtrace.summaries.pooled import Pool
from llmtrace.summaries.ratios import millionths
from llmtrace.summaries.summary import plans

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

__all__ = ["Stats"]

_TOKENS = ("input_tokens", "output_tokens", "cached_tokens")
_NAMED = ("user", "model", "instance", "session", "endpoint")

_AT_ONCE = 4
_COMBINE: Mapping[str, Callable[[Sequence[pl.DataFrame]], pl.DataFrame]] = {
    "parameters": parameters.combine,
    "span": span.combine,
    "rates": sums.combine,
    "cached": sums.combine,
    "hours": sums.combine,
    "models": sums.combine,
    "endpoints": sums.combine,
    "lengths": histogram.combine,
    "lengths_by_model": histogram.combine,
    "distinct_users": distinct.combine,
    "distinct_models": distinct.combine,
    "distinct_instances": distinct.combine,
    "distinct_sessions": distinct.combine,
    "model_names": keys.combine_names,
    "endpoint_names": keys.combine_names,
}


@dataclass(frozen=True)
class Stats(Analysis):
    """Totals, rates per interval, and distributions of request lengths.

    Attributes:
        interval: the width of the intervals that rates are counted in: a whole number and one of s, m, h, d, w, or "auto" for
            the narrowest customary width of which at most 500 cover the trace.

    Raises:
        UsageError: if `interval` is no such width.

    >>> from datetime import datetime
    >>> Stats().for_span(datetime(2025, 4, 11), datetime(2025, 4, 21))
    Stats(interval='1h')
    """

    name: ClassVar[str] = "stats"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses: ClassVar[frozenset[str]] = frozenset({"timestamp", *_TOKENS, *_NAMED, "stream", "status"})
    tells: ClassVar[frozenset[str]] = frozenset({"model", "endpoint"})

    interval: str = "auto"

    def __post_init__(self) -> None:
        """Check the width."""
        if self.interval != "auto":
            Interval.parse(self.interval)

    def for_span(self, first: datetime, last: datetime) -> Self:
        """The same with `auto` replaced by the width for a trace from `first` to `last`."""
        return self if self.interval != "auto" else replace(self, interval=str(Interval.covering(first, last)))

    def partial(self, part: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        """The plan that summarises a part: a table per key of the state."""
        interval = self._width()
        frame = _prepared(part).cache()
        kernels = {
            "rates": sums.summary(rates.COLUMNS, interval=interval),
            "cached": sums.summary(totals.CACHED_COLUMNS, complete=True),
            "hours": sums.summary(interval=HOUR),
            "models": sums.summary(by="model_key"),
            "endpoints": sums.summary(by="endpoint_key", interval=interval),
            "lengths": histogram.summary(lengths.COLUMNS, bits=lengths.BITS),
            "lengths_by_model": histogram.summary(lengths.COLUMNS_BY_MODEL, bits=lengths.BITS_BY_MODEL, by="model_key"),
            "distinct_users": distinct.summary("user_key", interval),
            "distinct_models": distinct.summary("model_key", interval),
            "distinct_instances": distinct.summary("instance_key", interval),
            "distinct_sessions": distinct.summary("session_key"),
        }
        return {
            "parameters": parameters.plan(interval=interval, bits=lengths.BITS, bits_by_model=lengths.BITS_BY_MODEL),
            "span": span.plan(frame),
            "model_names": keys.names(frame, "model_key", "model"),
            "endpoint_names": keys.names(frame, "endpoint_key", "endpoint"),
            **plans(frame, kernels),
        }

    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time.

        Raises:
            ValueError: if they were made with different parameters.
        """
        return {table: combine([state[table] for state in states]) for table, combine in _COMBINE.items()}

    def accumulator(self) -> Tables[pl.DataFrame]:
        """One per table: histograms are pooled in place, the others are small enough to be combined by the dozen."""
        counters = {table: Counter(combine, _AT_ONCE) for table, combine in _COMBINE.items()}
        pools = {
            "lengths": Pool(lengths.COLUMNS, lengths.BITS),
            "lengths_by_model": Pool(lengths.COLUMNS_BY_MODEL, lengths.BITS_BY_MODEL),
        }
        return Tables({**counters, **pools})

    def finish(self, state: State) -> Result:
        """The result: totals as scalars, `rates` as the primary table."""
        interval = self._width()
        covered = span.read(state["span"])
        overview = rates.overview(state, covered, interval)
        return Result(
            command=self.name,
            parameters={"interval": self.interval},
            scalars=totals.scalars(state, covered, interval, overview),
            tables={**rates.tables(state, covered, interval), **lengths.tables(state)},
            primary="rates",
            notes=notes.notes(state, covered, interval, overview),
            definitions=DEFINITIONS,
        )

    def _width(self) -> Interval:
        if self.interval == "auto":
            raise ValueError("the interval is not fixed yet: call for_span first")
        return Interval.parse(self.interval)


def _prepared(part: pl.LazyFrame) -> pl.LazyFrame:
    """Tokens of failed requests as unknown, keys for names, and the columns that are derived from them."""
    known = part.with_columns(pl.when(succeeded()).then(column).alias(column) for column in _TOKENS)
    return known.with_columns(
        pl.when(pl.col("status").is_not_null()).then(failed()).cast(pl.Int8).alias("failed_requests"),
        pl.col("stream").cast(pl.Int8).alias("streamed_requests"),
        millionths("output_tokens", "input_tokens").alias(lengths.RATIO),
        *(keys.key(column).alias(f"{column}_key") for column in _NAMED),
    )
