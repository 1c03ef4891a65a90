"""Requests by instance and minute over the busiest day of a trace (Figure 17d of the paper)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, TypeVar

import polars as pl

from llmtrace.analyses.balance.definitions import HEAT_MAP
from llmtrace.analyses.base import Analysis, State
from llmtrace.result import Result
from llmtrace.summaries import keys, parameters
from llmtrace.summaries.accumulator import Counter
from llmtrace.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)

__all__ = ["DAY", "PERCENTS", "ROWS", "BusyDay", "busy_day", "with_busy_day"]

DAY = timedelta(days=1)
ROWS = 100
"""How many instances a heat map shows, unless another number is given."""
PERCENTS = (5, 99)
"""Which percentiles of its cells bound the colours, as in the paper."""

_COLORS = tuple(f"heat_map_p{percent}_requests" for percent in PERCENTS)


@dataclass(frozen=True)
class BusyDay(Analysis):
    """How many requests begin on which instance in which minute of a day.

    Attributes:
        start: when the day begins.
        rows: how many instances are shown at most, those with most requests.
    """

    name: ClassVar[str] = "balance"
    requires: ClassVar[frozenset[str]] = frozenset({"instance"})
    uses: ClassVar[frozenset[str]] = frozenset({"timestamp", "instance"})

    start: datetime
    rows: int = ROWS

    @property
    def end(self) -> datetime:
        """When it ends."""
        return self.start + DAY

    def partial(self, part: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        """The plan that summarises a part: a table per key of the state."""
        time = pl.col("timestamp")
        inside = part.filter(pl.col("instance").is_not_null(), time >= self.start, time < self.end)
        minute = ((time - self.start).dt.total_microseconds() // 60_000_000).cast(pl.Int16)
        rows = inside.select(keys.key("instance").alias("key"), minute.alias("minute"), "instance", time)
        return {
            "parameters": parameters.plan(start=self.start, rows=self.rows),
            "cells": _cells(rows.with_columns(pl.lit(1, pl.Int64).alias("requests"))),
            "names": _names(rows.select("key", pl.col("instance").alias("name"), time.alias("first"))),
        }

    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time.

        Raises:
            ValueError: if they were made with different parameters.
        """
        return {
            "parameters": parameters.combine([state["parameters"] for state in states]),
            "cells": _cells(pl.concat([state["cells"] for state in states])),
            "names": _names(pl.concat([state["names"] for state in states])),
        }

    def accumulator(self) -> Counter[State]:
        """A counter of states."""
        return Counter(self.combine)

    def finish(self, state: State) -> Result:
        """The result: a row per instance and minute with requests, instances in order of first requests; ties by name."""
        totals = state["cells"].group_by("key").agg(pl.col("requests").sum()).join(state["names"], on="key")
        shown = totals.sort("requests", "name", descending=[True, False]).head(self.rows).sort("first", "name")
        rows = shown.select("key", pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("row"), pl.col("name").alias("instance"))
        found = state["cells"].join(rows, on="key").sort("row", "minute")
        elapsed = pl.duration(minutes=pl.col("minute").cast(pl.Int64))
        table = found.select("row", "instance", (pl.lit(self.start) + elapsed).cast(pl.Datetime("us")).alias("time"), "requests")
        left = totals.height - shown.height
        requests = int(totals["requests"].sum()) - int(shown["requests"].sum())
        note = f"The heat map shows the {self.rows:,} instances with most requests that day and leaves out {left:,} with "
        return Result(
            command=self.name,
            parameters={"heat_map_rows": self.rows},
            scalars=dict(zip(_COLORS, _percentiles(table["requests"]), strict=True)),
            tables={"heat_map": table},
            primary="heat_map",
            notes=(f"{note}{counted(requests, 'request')}; --rows sets another number.",) if left else (),
            definitions=HEAT_MAP,
        )


def busy_day(result: Result, rows: int, origin: datetime) -> BusyDay | None:
    """What gives the heat map of the busiest day; None where no request names an instance.

    Args:
        result: that of `Balance`.
        rows: how many instances are shown at most.
        origin: the first arrival of the trace, from which times on a relative clock count.
    """
    start = result.scalars["busiest_day_time"]
    if isinstance(start, float):
        start = origin + timedelta(seconds=start)
    return BusyDay(start, rows) if isinstance(start, datetime) else None


def with_busy_day(result: Result, day: Result) -> Result:
    """The result with the heat map beside its own tables."""
    return replace(
        result,
        parameters={**result.parameters, **day.parameters},
        scalars={**result.scalars, **day.scalars},
        tables={**result.tables, **day.tables},
        definitions={**result.definitions, **day.definitions},
        notes=(*result.notes, *day.notes),
    )


def _percentiles(requests: pl.Series) -> list[float | None]:
    return [requests.quantile(percent / 100, "linear") for percent in PERCENTS]


def _cells(rows: Frame) -> Frame:
    """The requests of each instance and minute."""
    return rows.group_by("key", "minute").agg(pl.col("requests").sum()).sort("key", "minute")


def _names(rows: Frame) -> Frame:
    """The name and the first request of each instance."""
    return rows.group_by("key").agg(pl.col("name").first(), pl.col("first").min()).sort("key")
