"""When a user goes to which model, or which user comes to a model: the rasters of Figures 7 and 8 of the paper.

A raster has a row for each model that the user goes to, or each user that comes to the model, in the order of first requests, and
a dot for each request. Dots are told apart by the step of time that they are in, of which there are `STEPS` in a raster: 15
minutes each in the paper's 31 days. A raster with more rows than `MOST_ROWS` shows those whose names have the smallest hashes: a
sample that depends on nothing else, and that every part of a trace draws alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import polars as pl

from llmtrace.analyses.base import Analysis, State
from llmtrace.analyses.popularity.definitions import ACCESS
from llmtrace.errors import UsageError
from llmtrace.result import Result
from llmtrace.summaries import keys, parameters
from llmtrace.summaries.accumulator import Counter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)

__all__ = ["DAYS", "MOST_ROWS", "STEPS", "Access", "chosen", "with_rasters"]

DAYS = 31
"""How long a raster is in the paper."""
STEPS = 2_976
MOST_ROWS = 800

_OTHER = {"user": "model", "model": "user"}
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Access(Analysis):
    """The requests of one user by model, or to one model by user, over some time.

    Attributes:
        of: whose raster: `user` or `model`.
        entity: its name.
        rank: its rank by requests in the trace.
        start: when the raster begins: its first request.
        end: when it ends; at the end of the trace if that comes first.
    """

    name: ClassVar[str] = "popularity"
    requires: ClassVar[frozenset[str]] = frozenset({"user", "model"})
    uses: ClassVar[frozenset[str]] = frozenset({"timestamp", "user", "model"})

    of: str
    entity: str
    rank: int
    start: datetime
    end: datetime

    def for_span(self, first: datetime, last: datetime) -> Self:
        """The same, not longer than the trace."""
        del first
        return replace(self, end=max(min(self.end, last + _MICROSECOND), self.start + _MICROSECOND))

    @property
    def other(self) -> str:
        """What has rows: `model` or `user`."""
        return _OTHER[self.of]

    @property
    def step_us(self) -> int:
        """How long a step is, in microseconds."""
        return -(-((self.end - self.start) // _MICROSECOND) // STEPS)

    def partial(self, part: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        """The plan that summarises a part: a table per key of the state."""
        time, key = pl.col("timestamp"), keys.key(self.other).alias("key")
        inside = part.filter(pl.col(self.of) == self.entity, time >= self.start, time < self.end)
        steps = inside.select(
            key,
            pl.col(self.other).alias("name"),
            ((time - self.start).dt.total_microseconds() // self.step_us).cast(pl.Int32).alias("step"),
            time,
            pl.lit(1, pl.Int64).alias("requests"),
        )
        return {
            "parameters": parameters.plan(of=self.of, entity=self.entity, start=self.start, end=self.end, rank=self.rank),
            "rows": _rows(steps),
            "dots": _dots(steps),
        }

    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time.

        Raises:
            ValueError: if they were made with different parameters.
        """
        combined = parameters.combine([state["parameters"] for state in states])
        rows, dots = (pl.concat([state[name] for state in states]) for name in ("rows", "dots"))
        return {"parameters": combined, "rows": _rows(rows), "dots": _dots(dots)}

    def accumulator(self) -> Counter[State]:
        """A counter of states."""
        return Counter(self.combine)

    def finish(self, state: State) -> Result:
        """The result: the dots of the raster, and in `rasters` one row about it."""
        dots = _numbered(state["dots"])
        table = dots.select(
            pl.lit(self.rank, pl.Int64).alias("rank"),
            pl.lit(self.entity).alias(self.of),
            "row",
            pl.col("name").alias(self.other),
            pl.col("timestamp").alias("time"),
            ((pl.col("timestamp") - self.start).dt.total_microseconds() / 1e6).alias("elapsed_s"),
            "requests",
        )
        known = state["rows"].filter(pl.col("key") != keys.UNKNOWN)
        raster: dict[str, Any] = {
            "of": self.of,
            "rank": self.rank,
            "name": self.entity,
            "start": self.start,
            "end": self.end,
            "span_s": (self.end - self.start) / timedelta(seconds=1),
            "step_s": self.step_us / 1e6,
            "requests": int(state["rows"]["requests"].sum()),
            "entities": known.height,
            "rows": int(table["row"].n_unique()),
        }
        name = f"{self.of}_access"
        return Result(
            command=self.name,
            parameters={"of": self.of, "entity": self.entity, "rank": self.rank},
            scalars={},
            tables={"rasters": pl.DataFrame([raster], _RASTERS), name: table},
            primary=name,
            definitions={key: text for key, text in ACCESS.items() if key.startswith(("rasters.", f"{name}."))},
        )


_RASTERS: Mapping[str, pl.DataType] = {
    "of": pl.String(),
    "rank": pl.Int64(),
    "name": pl.String(),
    "start": pl.Datetime("us"),
    "end": pl.Datetime("us"),
    "span_s": pl.Float64(),
    "step_s": pl.Float64(),
    "requests": pl.Int64(),
    "entities": pl.Int64(),
    "rows": pl.Int64(),
}


def chosen(result: Result, of: str, ranks: Sequence[int], days: int, origin: datetime) -> list[Access]:
    """The rasters of the users or models of some ranks.

    Args:
        result: that of `Popularity`, whose table of them reaches to the last rank.
        of: `user` or `model`.
        ranks: from 1.
        days: how long a raster is.
        origin: the first arrival of the trace, from which times on a relative clock count.

    Raises:
        UsageError: if there is nobody of that rank.
    """
    table = result.tables[f"{of}s"]
    for rank in ranks:
        if not 1 <= rank <= table.height:
            raise UsageError(
                f"--{of}-rank {rank}: there is no {of} of that rank", f"Give a whole number from 1 to {table.height:,}."
            )
    found = []
    for rank, entity, first in table.select("rank", of, "first_timestamp").filter(pl.col("rank").is_in(ranks)).iter_rows():
        start = first if isinstance(first, datetime) else origin + timedelta(seconds=first)
        found.append(Access(of, entity, rank, start, start + timedelta(days=days)))
    return found


def with_rasters(result: Result, rasters: Sequence[Result]) -> Result:
    """The result with the tables of rasters beside its own."""
    tables: dict[str, list[pl.DataFrame]] = {}
    for raster in rasters:
        for name, table in raster.tables.items():
            tables.setdefault(name, []).append(table)
    definitions = {name: text for raster in rasters for name, text in raster.definitions.items()}
    together = {name: pl.concat(some) for name, some in tables.items()}
    return replace(
        result,
        tables={**result.tables, **together},
        definitions={**result.definitions, **definitions},
        notes=(*result.notes, *_sampled(together)),
    )


def _sampled(tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """A sentence for each raster that does not show all."""
    if "rasters" not in tables:
        return []
    sampled = tables["rasters"].filter(pl.col("rows") < pl.col("entities")).select("of", "name", "rows", "entities")
    return [
        f"The raster of {of} {name} shows a sample of {rows:,} of its {entities:,} {_OTHER[of]}s."
        for of, name, rows, entities in sampled.iter_rows()
    ]


def _rows(requests: Frame) -> Frame:
    """How many requests each row of a raster has, those that are not shown and the unknown one too."""
    return requests.group_by("key").agg(pl.col("requests").sum()).sort("key")


def _dots(steps: Frame) -> Frame:
    """The requests of each row and step, and the time of the first, for the rows that are shown."""
    known = steps.filter(pl.col("key") != keys.UNKNOWN)
    dots = known.group_by("key", "name", "step").agg(pl.col("timestamp").min(), pl.col("requests").sum())
    return dots.filter(pl.col("key").rank("dense") <= MOST_ROWS).sort("key", "name", "step")


def _numbered(dots: pl.DataFrame) -> pl.DataFrame:
    """The dots with the number of their row, in the order of first requests; ties by name."""
    firsts = dots.group_by("name").agg(pl.col("timestamp").min().alias("first")).sort("first", "name")
    rows = firsts.select("name", pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("row"))
    return dots.join(rows, on="name").sort("row", "timestamp")
