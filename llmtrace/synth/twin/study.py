"""Study: what a twin is made of, counted while a trace is read once, frame by frame in order of time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.synth.twin.bins import FINE_BITS, bins
from llmtrace.synth.twin.counts import Counts, pack
from llmtrace.synth.twin.visits import ANEW, visits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmtrace.synth.draws import Floats, Ints
    from llmtrace.synth.twin.visits import Visits

__all__ = ["LAST", "NULLABLE", "PERIODS", "RATIOS", "WARPED", "Grid", "Study", "gap_class", "rate_class"]

PERIODS = 16
"""Equal stretches of the trace: endpoints, statuses, streaming and what is null are counted in each."""
RATIOS = 50
"""Hit ratios are counted in fiftieths."""
WARPED = 1 << 32
"""One mean gap between visits, in the units in which gaps between them are counted."""
NULLABLE = ("input_tokens", "output_tokens", "stream", "session", "turn", "instance", "cached_tokens", "ttft_s", "duration_s")
LAST = 31
"""Stands for the class of the gap to come where a request is the last of its visit."""
_WORDS = ("endpoint", "status")
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens")
_MOST_TOKENS, _LONGEST_US = 1 << 40, 1 << 40
"""What is larger, which is absurd, counts as that."""
_MOST_PEOPLE = 100_000
"""People behind a word after whom no more are counted."""
_MARGIN_BITS = 5
_CLASS_BINS = 16


@dataclass(frozen=True)
class Grid:
    """Equal intervals of time, in microseconds: where they begin, how long one is, and how many there are."""

    start_us: int
    width_us: int
    intervals: int

    @classmethod
    def over(cls, start_us: int, end_us: int, rows: int, most: int = 4096, mean: int = 50) -> Grid:
        """The grid of a span in which an interval has about `mean` rows or more, and which has at most `most` of them."""
        span = max(end_us - start_us, 1)
        intervals = max(1, min(most, rows // mean, span))
        width = -(-span // intervals)
        return cls(start_us, width, -(-span // width))

    @property
    def end_us(self) -> int:
        """The end of the last interval."""
        return self.start_us + self.width_us * self.intervals

    def of(self, time_us: Ints) -> Ints:
        """The interval of each time."""
        return np.clip((time_us - self.start_us) // self.width_us, 0, self.intervals - 1)


def gap_class(binned: Ints) -> Ints:
    """Bins by two octaves; 0 holds no gap but those of 0 and the smallest."""
    return (binned + _CLASS_BINS - 1) // _CLASS_BINS


def rate_class(visits: Ints) -> Ints:
    """Visits to a model in an interval by powers of four."""
    return octave(visits) // 2


_TABLES = (
    "starts", "rows", "returns", "between", "size", "within", "kind", "length", "input_in_bin", "output_in_bin", "growth",
    "answer", "marks", "hits", "ttft", "duration", "margin",
)  # fmt: skip


@dataclass
class Study:
    """Counts of everything that a twin carries, by model.

    Attributes:
        columns: canonical columns that the trace has.
        grid: the intervals in which its rates are counted.
        counts: sparse histograms by name (`_TABLES`).
        models: models in the order in which they were met, None for requests without one.
        marks: (endpoint, status, stream, which columns are null) in the order met.
        people: pairs of model and user (hashed), their visits and the number of the last; rows `(model, who, visits, last)`.
        words: who used which endpoint or status; rows `(column, word, who)`.
        served: which instance (hashed) served which model.
        nobody: requests without a user, by model.
        requests: requests by model.
        tick_us: greatest common divisor of the arrivals since the first.
        cached_step: greatest common divisor of the cached tokens.
    """

    columns: frozenset[str]
    grid: Grid
    counts: dict[str, Counts] = field(default_factory=lambda: dict.fromkeys(_TABLES, Counts.none()))
    models: dict[str | None, int] = field(default_factory=dict)
    marks: dict[tuple[str | None, str | None, bool | None, int], int] = field(default_factory=dict)
    people: pl.DataFrame | None = None
    words: pl.DataFrame | None = None
    served: pl.DataFrame | None = None
    nobody: Counts = field(default_factory=Counts.none)
    requests: Counts = field(default_factory=Counts.none)
    tick_us: int = 0
    cached_step: int = 0
    _last_us: int | None = None

    def add(self, frame: pl.DataFrame) -> None:
        """Count the requests of a frame, which follow those of the last one in time."""
        if frame.is_empty():
            return
        frame = frame.with_columns(pl.col(*_TOKENS).clip(upper_bound=_MOST_TOKENS))
        model = self._model(frame)
        time = frame["timestamp"].dt.epoch("us").to_numpy()
        who = visits(frame, self.columns)
        self.requests = self.requests.plus(model)
        self._rates(model, time, who)
        self._inside(model, who)
        self._lengths(frame, model, who)
        self._marks(frame, model, time)
        self._service(frame, model, who)
        self._people(frame, model, who)
        self._margins(frame, time)

    def _tally(self, name: str, model: Ints | int, sub: Ints | int, value: Ints) -> None:
        self.counts[name] = self.counts[name].plus(pack(model, sub, value))

    def _model(self, frame: pl.DataFrame) -> Ints:
        for name in frame["model"].unique(maintain_order=True).to_list():
            self.models.setdefault(name, len(self.models))
        met = pl.DataFrame(
            {"model": list(self.models), "number": list(self.models.values())}, schema_overrides={"model": pl.String}
        )
        numbered = frame.select("model").join(met, on="model", how="left", nulls_equal=True, maintain_order="left")
        return numbered["number"].to_numpy()

    def _rates(self, model: Ints, time: Ints, who: Visits) -> None:
        """Visits and their requests by interval, and the gaps between visits in units of the mean gap at the time."""
        begins = who.place == 0
        row = np.sort(who.row[begins])
        size = np.empty(time.size, np.int64)
        size[who.row] = who.size
        interval = self.grid.of(time[row])
        self._tally("starts", model[row], 0, interval)
        self.counts["rows"] = self.counts["rows"].plus(pack(model[row], 0, interval), size[row])
        self._tally("size", model[row], 0, bins(size[row], FINE_BITS))
        order = np.argsort(model[row], kind="stable")
        warped, rate = self._warped(model[row][order], time[row][order])
        first = np.append(True, np.diff(model[row][order]) != 0)
        binned = bins(np.round(np.diff(warped, prepend=0.0) * WARPED))
        before = np.append(0, gap_class(binned)[:-1])
        linked = ~first & ~np.append(True, first[:-1])
        self._tally("between", model[row][order][linked], (rate_class(rate) * 64 + before)[linked], binned[linked])

    def _warped(self, model: Ints, time: Ints) -> tuple[Floats, Ints]:
        """How many visits to its model the rates expect up to each visit, and how many there are in its interval.

        Visits are ordered by model and time.
        """
        cell = model * self.grid.intervals + self.grid.of(time)
        starts = np.flatnonzero(np.append(True, np.diff(cell) != 0))
        count = np.diff(np.append(starts, cell.size))
        inside = (time - self.grid.start_us) / self.grid.width_us - self.grid.of(time)
        each = np.repeat(count, count)
        return np.asarray(np.repeat(starts, count) + inside * each), each

    def _inside(self, model: Ints, who: Visits) -> None:
        """Gaps and kinds of the requests of a visit after its first."""
        later = who.place > 0
        binned, of = bins(who.gap_us), model[who.row]
        before = np.append(0, gap_class(binned)[:-1])
        before[who.place == 1] = 0
        state = (octave(who.size) * 64 + before) * 2 + (who.turns > 0)
        self._tally("within", of[later], state[later], binned[later])
        state = (octave(who.size) * 32 + gap_class(binned)) * 8 + who.turns
        self._tally("kind", of[later], state[later], who.kind[later])

    def _lengths(self, frame: pl.DataFrame, model: Ints, who: Visits) -> None:
        known = frame.select(pl.col("input_tokens").is_not_null() & pl.col("output_tokens").is_not_null()).to_series().to_numpy()
        asked, answered = (frame[name].fill_null(0).to_numpy() for name in ("input_tokens", "output_tokens"))
        coarse = bins(asked), bins(answered)
        self._tally("input_in_bin", model[known], coarse[0][known], bins(asked, FINE_BITS)[known])
        self._tally("output_in_bin", model[known], coarse[1][known], bins(answered, FINE_BITS)[known])
        row, going = who.row, (who.kind != ANEW) & (who.total >= 0)
        fresh, grown = known[row] & ~going, known[row] & going
        coming = np.append(np.where(who.place[1:] > 0, gap_class(bins(who.gap_us))[1:], LAST), LAST)
        self._tally("length", model[row][fresh], coming[fresh], coarse[0][row][fresh] * 512 + coarse[1][row][fresh])
        more = asked[row][grown] - who.total[grown]
        self._tally("growth", model[row][grown], octave(who.total[grown]), np.where(more < 0, 0, 1 + bins(more)))
        self._tally("answer", model[row][grown], octave(asked[row][grown]), coarse[1][row][grown])

    def _marks(self, frame: pl.DataFrame, model: Ints, time: Ints) -> None:
        """Endpoint, status, streaming and which columns are null, all at once, by period."""
        nulls = pl.sum_horizontal(pl.col(name).is_null() * pl.lit(1 << place, pl.Int64) for place, name in enumerate(NULLABLE))
        marks = frame.select("endpoint", "status", "stream", nulls=nulls)
        for mark in marks.unique(maintain_order=True).rows():
            self.marks.setdefault(mark, len(self.marks))
        met = pl.DataFrame(
            [(*mark, number) for mark, number in self.marks.items()], schema={**marks.schema, "number": pl.Int64}, orient="row"
        )
        number = marks.join(met, on=marks.columns, how="left", nulls_equal=True, maintain_order="left")["number"].to_numpy()
        period = self.grid.of(time) * PERIODS // self.grid.intervals
        self._tally("marks", model, period, number)

    def _service(self, frame: pl.DataFrame, model: Ints, who: Visits) -> None:
        """Hit ratios by input length, and latencies by the tokens that they are spent on."""
        going = np.zeros(frame.height, np.int64)
        going[who.row] = who.kind != ANEW
        asked, cached = pl.col("input_tokens"), pl.col("cached_tokens")
        told = frame.select(
            asked=asked.fill_null(0), answered=pl.col("output_tokens").fill_null(0),
            cached=cached.fill_null(0), hit=cached.is_not_null() & (asked > 0),
            ttft=_us("ttft_s"), duration=_us("duration_s"),
        )  # fmt: skip
        asked_, answered, cached_, ttft, duration = (
            told[name].to_numpy() for name in ("asked", "answered", "cached", "ttft", "duration")
        )
        hit = told["hit"].fill_null(value=False).to_numpy()
        self.cached_step = int(np.gcd.reduce(cached_, initial=self.cached_step))
        self._tally("hits", model[hit], (going * 64 + octave(asked_))[hit], hit_class(asked_, cached_)[hit])
        first, last = ttft >= 0, duration >= 0
        self._tally("ttft", model[first], octave(asked_ - cached_)[first], bins(ttft)[first])
        after = np.where(first, np.maximum(duration - ttft, 0), duration)
        self._tally("duration", model[last], (first * 64 + octave(answered))[last], bins(after)[last])

    def _people(self, frame: pl.DataFrame, model: Ints, who: Visits) -> None:
        named = frame.select(pl.col("user").hash(1).alias("who"), model=pl.Series(model))
        nobody = frame["user"].is_null().to_numpy()
        self.nobody = self.nobody.plus(model[nobody])
        begins = np.sort(who.row[who.place == 0])
        self._returns(named[begins].filter(~pl.Series(nobody[begins])))
        served = frame.select(pl.col("instance").hash(1), model=pl.Series(model)).filter(frame["instance"].is_not_null()).unique()
        self.served = served if self.served is None else pl.concat([self.served, served]).unique()
        words = [frame.select(column=pl.lit(name), word=pl.col(name), who=self._person()).unique() for name in _WORDS]
        every = pl.concat([*words, *([] if self.words is None else [self.words])]).unique()
        self.words = every.filter(pl.int_range(pl.len()).over("column", "word") < _MOST_PEOPLE)

    def _returns(self, seen: pl.DataFrame) -> None:
        """How many visits to a model ago, one or more, its user was last there; 0 for a user who is new to it."""
        pair = ("model", "who")
        seen = seen.with_columns(at=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("model"))
        if self.people is not None:
            so_far = self.people.group_by("model").agg(so_far=pl.col("visits").sum())
            seen = seen.join(so_far, on="model", how="left", maintain_order="left")
            seen = seen.join(self.people.select(*pair, "last"), on=pair, how="left", maintain_order="left")
            seen = seen.with_columns(at=pl.col("at") + pl.col("so_far").fill_null(0))
        else:
            seen = seen.with_columns(last=pl.lit(None, pl.Int64))
        ago = seen.select(pl.col("at") - pl.coalesce(pl.col("at").shift(1).over(pair), "last")).to_series().fill_null(0)
        self._tally("returns", seen["model"].to_numpy(), 0, bins(ago.to_numpy()))
        fresh = seen.group_by(pair).agg(visits=pl.len().cast(pl.Int64), last=pl.col("at").max())
        together = fresh if self.people is None else pl.concat([self.people, fresh])
        self.people = together.group_by(pair).agg(pl.col("visits").sum(), pl.col("last").max())

    def _person(self) -> pl.Expr:
        """Who a request counts for: its user, else its session, else itself."""
        name = next((one for one in ("user", "session") if one in self.columns), None)
        return pl.col("timestamp").hash(9) if name is None else pl.col(name).hash(1)

    def _margins(self, frame: pl.DataFrame, time: Ints) -> None:
        """Lengths, gaps between all arrivals and hit ratios of the trace: the twin is compared by them, not made from them."""
        gaps = np.diff(time, prepend=time[0] if self._last_us is None else self._last_us)
        self.tick_us = int(np.gcd.reduce(time - self.grid.start_us, initial=self.tick_us))
        gaps = gaps[1:] if self._last_us is None else gaps
        self._last_us = int(time[-1])
        ratio = frame.select(
            (pl.col("cached_tokens") * 1000 // pl.col("input_tokens")).filter(pl.col("input_tokens") > 0).drop_nulls()
        )
        columns = (frame["input_tokens"].drop_nulls(), frame["output_tokens"].drop_nulls(), pl.Series(gaps), ratio.to_series())
        for place, values in enumerate(columns):
            self._tally("margin", place, 0, bins(values.to_numpy(), _MARGIN_BITS))


def _us(column: str) -> pl.Expr:
    """Microseconds of a column in seconds, -1 if unknown."""
    return (pl.col(column) * 1e6).fill_null(-1).fill_nan(-1).clip(upper_bound=_LONGEST_US)


def octave(tokens: Ints) -> Ints:
    """Powers of two: 0, 1, 2-3, 4-7, ... as 0, 1, 2, 3, ..."""
    return np.frexp(np.maximum(tokens, 0).astype(np.float64))[1].astype(np.int64)


def hit_class(asked: Ints, cached: Ints) -> NDArray[np.int64]:
    """Hit ratios: 0 is none, 1 to `RATIOS` are fiftieths, one more is all of the input."""
    part = 1 + np.minimum(RATIOS * cached // np.maximum(asked, 1), RATIOS - 1)
    return np.where(cached == 0, 0, np.where(cached >= asked, RATIOS + 1, part))
