"""The analysis `latency`: what it keeps of a part, how parts are put together, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

import polars as pl

from llmtrace.analyses.base import Analysis, State
from llmtrace.analyses.latency import by_load, grids, notes, tables
from llmtrace.analyses.latency.definitions import DEFINITIONS
from llmtrace.analyses.latency.grids import GRIDS, Grid
from llmtrace.analyses.latency.measures import IN_TIME, LEFT_OUT, MEASURES, NEEDS, PANELS, counts, measured
from llmtrace.result import Result
from llmtrace.summaries import hexagons, histogram, keys, loads, parameters, sums
from llmtrace.summaries.accumulator import Accumulator, Counter, Tables
from llmtrace.summaries.interning import intern
from llmtrace.summaries.intervals import Interval
from llmtrace.summaries.pooled import Pool
from llmtrace.summaries.summary import joined, tables_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from llmtrace.summaries.summary import Summary

__all__ = ["Latency"]

_AT_ONCE = 12
_PANELS = tuple(PANELS.values())
_COLUMNS = tuple(measure.column for measure in MEASURES.values())
_SCHEMAS: Mapping[str, Mapping[str, pl.DataType]] = {
    "left_out": dict.fromkeys(LEFT_OUT, pl.Int64()),
    "model_names": {"key": pl.UInt64(), "name": pl.String()},
    **loads.SCHEMAS,
}


def _added(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames).sum()


_COMBINE: Mapping[str, Callable[[Sequence[pl.DataFrame]], pl.DataFrame]] = {
    "parameters": parameters.combine,
    "requests": _added,
    "left_out": _added,
    "overall": histogram.combine,
    "by_model": histogram.combine,
    "intervals": histogram.combine,
    "grids": histogram.combine,
    "models": sums.combine,
    "model_names": keys.combine_names,
}


@dataclass(frozen=True)
class Latency(Analysis):
    """Time to first token, decode time, duration and time per output token: overall, by model, by length and by load.

    Attributes:
        highlight: the models of the table `cdf`; the three with most requests if empty.
        interval: the width of the intervals of `over_time`: a whole number and one of s, m, h, d, w, or "auto" for the narrowest
            customary width of which at most 500 cover the trace.
        input_step: input tokens of a bin of the grids.
        output_step: output tokens of a bin.

    Raises:
        UsageError: if `interval` is no such width or a step is out of range.
    """

    name: ClassVar[str] = "latency"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses: ClassVar[frozenset[str]] = frozenset(
        {"timestamp", "input_tokens", "output_tokens", "model", "instance", "stream", "ttft_s", "duration_s", "status"}
    )
    tells: ClassVar[frozenset[str]] = frozenset({"model"})

    highlight: tuple[str, ...] = ()
    interval: str = "auto"
    input_step: int = 2_000
    output_step: int = 200

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.interval != "auto":
            Interval.parse(self.interval)
        Grid(self.input_step, self.output_step)

    def for_span(self, first: datetime, last: datetime) -> Self:
        """The same with `auto` replaced by the width for a trace from `first` to `last`."""
        return self if self.interval != "auto" else replace(self, interval=str(Interval.covering(first, last)))

    def partial(self, part: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        """The plan that summarises a part: a table per key of the state."""
        summaries = self._summaries()
        schemas = {**_SCHEMAS, **{name: one.schema for name, one in summaries.items()}}
        make = partial(_tables, summaries=summaries, grid=self._grid())
        return {
            "parameters": parameters.plan(
                highlight=self.highlight,
                interval=self._width(),
                steps=(self.input_step, self.output_step),
                bits=(tables.BITS, tables.BITS_BY_MODEL, grids.BITS, loads.BITS),
            ),
            "requests": counts(part),
            **tables_of(part.select(**NEEDS), schemas, make),
        }

    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time.

        Raises:
            ValueError: if they were made with different parameters.
        """
        combined = {table: combine([state[table] for state in states]) for table, combine in _COMBINE.items()}
        return {**combined, **loads.combine(states, _PANELS)}

    def accumulator(self) -> _Whole:
        """Histograms are pooled in place, the others are small enough to be combined by the dozen."""
        return _Whole()

    def finish(self, state: State) -> Result:
        """The result: counts and percentiles as scalars, `latencies` as the primary table."""
        overall, models = tables.latencies(state), tables.models(state)
        by_time, closed = tables.over_time(state), loads.closed(state, _PANELS)
        standing_out = tables.chosen(models, self.highlight)
        found = {
            "latencies": overall,
            "cdf": tables.cdf(state, standing_out),
            "by_model": tables.by_model(state, models),
            "over_time": by_time,
            **{name: grids.table(state["grids"], self._grid(), name) for name in GRIDS},
            **by_load.tables(closed),
        }
        scalars = {**tables.scalars(state, overall), **by_load.scalars(closed), "interval_s": self._width().seconds}
        return Result(
            command=self.name,
            parameters={
                "highlight": list(self.highlight),
                "interval": self.interval,
                "input_step": self.input_step,
                "output_step": self.output_step,
                "least_in_cell": grids.LEAST_REQUESTS,
                "least_in_hexagon": by_load.LEAST_REQUESTS,
                "hexagons_per_decade": hexagons.PER_DECADE,
            },
            scalars=scalars,
            tables=found,
            primary="latencies",
            notes=notes.notes(state, closed, scalars, self._grid(), standing_out),
            definitions=DEFINITIONS,
            shown=("load",) if found["load"].height else (),
        )

    def _summaries(self) -> dict[str, Summary]:
        """What is summarised of the columns that `measured` gives."""
        in_time = [MEASURES[name].column for name in IN_TIME]
        return {
            "overall": histogram.summary(_COLUMNS, bits=tables.BITS),
            "by_model": histogram.summary(_COLUMNS, bits=tables.BITS_BY_MODEL, by="model_key"),
            "intervals": histogram.summary(in_time, bits=tables.BITS_BY_MODEL, interval=self._width()),
            "grids": histogram.summary(list(GRIDS.values()), bits=grids.BITS, by="cell"),
            "models": sums.summary(by="model_key"),
        }

    def _grid(self) -> Grid:
        return Grid(self.input_step, self.output_step)

    def _width(self) -> Interval:
        if self.interval == "auto":
            raise ValueError("the interval is not fixed yet: call for_span first")
        return Interval.parse(self.interval)


class _Whole(Accumulator["State"]):
    """Brings the tables of a state together each by its own, but those on load, which belong together."""

    def __init__(self) -> None:
        """Have nothing yet."""
        pools = {"overall": Pool(_COLUMNS, tables.BITS), "by_model": Pool(_COLUMNS, tables.BITS_BY_MODEL)}
        pools["grids"] = Pool(tuple(GRIDS.values()), grids.BITS)
        self._tables = Tables({**{table: Counter(combine, _AT_ONCE) for table, combine in _COMBINE.items()}, **pools})
        self._loads = Counter[Mapping[str, pl.DataFrame]](partial(loads.combine, panels=_PANELS), _AT_ONCE)

    def add(self, state: State) -> None:
        """Take the state of the next part."""
        self._tables.add(state)
        self._loads.add({name: state[name] for name in loads.SCHEMAS})

    def total(self) -> State:
        """The state of all parts."""
        return {**self._tables.total(), **self._loads.total()}


def _tables(part: pl.DataFrame, summaries: Mapping[str, Summary], grid: Grid) -> dict[str, pl.DataFrame]:
    """The state of a part."""
    frame = joined(part)
    columns, left_out = measured(frame, grid)
    return {
        "left_out": left_out,
        "model_names": keys.behind(*intern(frame["model_key"].to_numpy()), frame["model"]),
        **{name: summary.summarise(columns) for name, summary in summaries.items()},
        **loads.summarise(columns, _PANELS, "instance_key", "tokens"),
    }
