"""The analysis `hit-dist`: what it keeps of a part, how parts are put together, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

import polars as pl

from llmtrace.analyses.hit_dist import notes, tables
from llmtrace.analyses.hit_dist.definitions import definitions
from llmtrace.errors import UsageError
from llmtrace.result import Result
from llmtrace.schema import failed
from llmtrace.summaries import histogram, hit_cells, hit_lengths, hits, keys, parameters
from llmtrace.summaries.accumulator import Counter, Tables
from llmtrace.summaries.interning import first_rows, intern
from llmtrace.summaries.summary import Summary, plans

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from llmtrace.analyses.base import State
    from llmtrace.summaries.groups import Ids, Keys
    from llmtrace.summaries.hits import Hits

__all__ = ["PARTS", "HitDist"]

PARTS: Mapping[str, str] = {"models": "model", "users": "user", "ttft": "ttft_s"}
"""What can be left out, and the column that need not be read then."""

_AT_ONCE = 12
_NAMES: Mapping[str, pl.DataType] = {"key": pl.UInt64(), "name": pl.String()}
_KINDS: Mapping[str, pl.DataType] = {
    **dict.fromkeys(("requests", "failed", "unlogged", "no_input"), pl.Int64()),
    "first": pl.Datetime("us"),
    "last": pl.Datetime("us"),
}
_SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "kinds": _KINDS,
    "lengths": hits.SCHEMA,
    "models": hits.SCHEMA,
    "model_cells": hit_cells.SCHEMA,
    "model_names": _NAMES,
    "users": hits.SCHEMA,
    "user_names": _NAMES,
    "ttft": hit_lengths.TTFT_SCHEMA,
}


@dataclass(frozen=True)
class HitDist:
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
        return frozenset({"timestamp", "input_tokens", "cached_tokens", "status", *optional})

    def for_span(self, first: datetime, last: datetime) -> Self:  # noqa: ARG002
        """The same: no parameter depends on the span."""
        return self

    def partial(self, part: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        """The plan that summarises a part: a table per key of the state."""
        made: dict[str, pl.DataFrame] = {}
        summaries = {
            name: Summary(self._needs(), schema, partial(_take, name=name, made=made, analysis=self))
            for name, schema in _SCHEMAS.items()
        }
        return {
            "parameters": parameters.plan(
                zero_at=self.zero_at, full_at=self.full_at, highlight=self.highlight, per_user=self.per_user, skip=self.skip
            ),
            "statuses": part.select(pl.col("status").count().cast(pl.Int64).alias("known")),
            **plans(part, summaries),
        }

    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time.

        Raises:
            ValueError: if they were made with different parameters.
        """
        return {name: combine([state[name] for state in states]) for name, combine in _COMBINE.items()}

    def accumulator(self) -> Tables[pl.DataFrame]:
        """One per table: what is summed per key goes into ledgers, the others are small enough to be combined by the dozen."""
        counters = {table: Counter(combine, _AT_ONCE) for table, combine in _COMBINE.items()}
        return Tables({**counters, **{table: hits.Ledger() for table, combine in _COMBINE.items() if combine == hits.combine}})

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

    def _needs(self) -> dict[str, pl.Expr]:
        cached = pl.when(failed()).then(hits.FAILED).otherwise(pl.col("cached_tokens").fill_null(hits.UNLOGGED))
        needs = {
            "time_us": pl.col("timestamp").to_physical(),
            "input_tokens": pl.col("input_tokens").fill_null(-1),
            "cached_tokens": cached,
        }
        needs |= {} if "models" in self.skip else {"model_key": keys.key("model"), "model": pl.col("model")}
        needs |= {} if "users" in self.skip else {"user_key": keys.key("user")}
        needs |= {"user": pl.col("user")} if self.per_user else {}
        return needs | ({} if "ttft" in self.skip else {"ttft_s": pl.col("ttft_s").fill_null(0.0)})


def _take(frame: pl.DataFrame, *, name: str, made: dict[str, pl.DataFrame], analysis: HitDist) -> pl.DataFrame:
    """One table of a part; all are made together, and the others kept in `made` until they are taken."""
    if not made:
        made.update({name: pl.DataFrame(schema=schema) for name, schema in _SCHEMAS.items()} | _tables(frame, analysis))
    return made.pop(name)


def _tables(frame: pl.DataFrame, analysis: HitDist) -> dict[str, pl.DataFrame]:
    """The tables of a part but those that are left out."""
    found = hits.measure(frame["input_tokens"].to_numpy(), frame["cached_tokens"].to_numpy())
    thresholds = tuple(round(2 * hits.STEPS * ratio) for ratio in (analysis.zero_at, analysis.full_at))
    tables = {"kinds": _kinds(frame["time_us"], found), "lengths": hit_lengths.by_length(found, *thresholds)}
    if "models" not in analysis.skip:
        ids, distinct = intern(frame["model_key"].to_numpy())
        tables["models"] = hits.per_key(ids, distinct, found, *thresholds)
        tables["model_cells"] = hit_cells.summarise(ids, distinct, found.cells)
        tables["model_names"] = _names(frame["model"], ids, distinct)
    if "users" not in analysis.skip:
        ids, distinct = intern(frame["user_key"].to_numpy())
        tables["users"] = hits.per_key(ids, distinct, found, *thresholds)
        tables |= {"user_names": _names(frame["user"], ids, distinct)} if analysis.per_user else {}
    if "ttft" not in analysis.skip:
        tables["ttft"] = hit_lengths.ttft(found, frame["ttft_s"].to_numpy())
    return tables


def _kinds(times_us: pl.Series, found: Hits) -> pl.DataFrame:
    """How many requests there are, and without a ratio for which reason; the first and last arrival with one."""
    times = [times_us[row] if row >= 0 else None for row in (found.first_row, found.last_row)]
    row = (times_us.len(), found.failed, found.unlogged, found.no_input, *times)
    kinds = pl.DataFrame([row], dict.fromkeys(_KINDS, pl.Int64), orient="row")
    return kinds.with_columns(pl.col(name).cast(dtype) for name, dtype in _KINDS.items())


def _names(names: pl.Series, ids: Ids, distinct: Keys) -> pl.DataFrame:
    """The name behind each known key."""
    named = pl.DataFrame({"key": distinct, "name": names.gather(first_rows(ids, distinct.size))}, dict(_NAMES))
    return named.filter(pl.col("key") != keys.UNKNOWN).sort("key")


def _combine_kinds(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    kinds = pl.concat(frames)
    return kinds.select(pl.exclude("first", "last").sum(), pl.col("first").min(), pl.col("last").max())


def _combine_statuses(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames).sum()


_COMBINE: Mapping[str, Callable[[Sequence[pl.DataFrame]], pl.DataFrame]] = {
    "parameters": parameters.combine,
    "statuses": _combine_statuses,
    "kinds": _combine_kinds,
    "lengths": hits.combine,
    "models": hits.combine,
    "model_cells": hit_cells.combine,
    "model_names": keys.combine_names,
    "users": hits.combine,
    "user_names": keys.combine_names,
    "ttft": histogram.combine,
}
