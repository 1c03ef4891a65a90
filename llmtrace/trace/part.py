"""A part: one time interval of a trace, as lazy frames in canonical form.

A part is a description (files, readings, interval, filters) that pickles; its plan is built where it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from llmtrace.formats.layout import Reading
    from llmtrace.formats.source import Source
    from llmtrace.trace.parts import Interval, Slice

__all__ = ["Opened", "Part", "Piece", "canonical", "intake_columns"]


@dataclass(frozen=True)
class Opened:
    """A source together with its raw columns and how they are read."""

    source: Source
    reading: Reading
    schema: Mapping[str, pl.DataType]

    def reads_like(self, other: Opened) -> bool:
        """Whether both are Parquet of the same columns, read by the same expressions, so that one plan can read them together."""
        if self is other:
            return True
        parquet = self.source.kind == other.source.kind == "parquet"
        # Equal dicts may be in different orders, but frames are put together by the places of their columns.
        return parquet and list(self.schema.items()) == list(other.schema.items()) and _same(self.reading, other.reading)


@dataclass(frozen=True)
class Piece:
    """A slice of an opened source inside a part.

    Attributes:
        opened: the source.
        slice: its run of rows.
        whole: whether all of its arrivals lie in the part's interval.
        first_seen: whether this is the first part that reads the slice: rows without a readable time are counted there.
    """

    opened: Opened
    slice: Slice
    whole: bool
    first_seen: bool

    def scan(self) -> pl.LazyFrame:
        """Its raw rows, in file order."""
        source = self.opened.source
        return source.scan(self.slice.first_row, self.slice.rows) if source.kind == "parquet" else source.scan()


@dataclass(frozen=True)
class Part:
    """One time interval of a trace.

    Attributes:
        pieces: what it reads, in order of their first arrivals.
        interval: the time interval that it covers.
        predicate: the filters, or None.
        filter_columns: canonical columns that the filters read.
        ordered: whether the rows are known to be in order of time as read.
    """

    pieces: tuple[Piece, ...]
    interval: Interval
    predicate: pl.Expr | None
    filter_columns: frozenset[str]
    ordered: bool

    @property
    def opened(self) -> list[Opened]:
        """The sources that it reads, each once."""
        return list({id(piece.opened): piece.opened for piece in self.pieces}.values())

    @property
    def rows(self) -> int:
        """Rows that it is expected to read, those of neighbours included where slices overlap."""
        return sum(piece.slice.rows or 0 for piece in self.pieces)

    def frame(self, columns: Collection[str]) -> pl.LazyFrame:
        """The part's requests with these canonical columns, sorted by (timestamp, request_id), ties in file order.

        A column that a source lacks is null. `request_id` breaks ties only if it is among `columns`: it is not read for nothing.
        """
        wanted = _in_schema_order({*columns, "timestamp"})
        read = _in_schema_order({*wanted, *self.filter_columns})
        frames = [self._kept(group, read) for group in self._groups()] or [
            pl.LazyFrame(schema={name: COLUMNS[name].dtype for name in read})
        ]
        frame = pl.concat(frames, how="vertical_relaxed") if len(frames) > 1 else frames[0]
        kept = frame if self.predicate is None else frame.filter(self.predicate)
        selected = kept.select(wanted)
        return (
            selected
            if self.ordered and "request_id" not in wanted
            else selected.map_batches(_in_order, validate_output_schema=False)
        )

    def intake(self, columns: Collection[str]) -> pl.LazyFrame:
        """One row of counts over what is read for these columns, before any filter but the interval.

        Columns: `rows`; `no_timestamp` (rows left out); `bad_rows` (with an unreadable cell); `cached_above_input` (clamped);
        `bad_<column>` per canonical column; and whatever the readings count besides, under its sentence. Collected together with
        `frame` of the same columns, it shares its parsing.
        """
        read = _in_schema_order({*columns, "timestamp", *self.filter_columns})
        names = [*intake_columns(columns), *dict.fromkeys(text for piece in self.pieces for text in piece.opened.reading.counted)]
        counts = [_intake(piece, read, names, self.interval) for piece in self.pieces]
        return pl.concat([pl.LazyFrame(schema=dict.fromkeys(names, pl.Int64)), *counts]).sum()

    def _groups(self) -> list[list[Piece]]:
        """Neighbouring pieces that one plan can read: that is several times as fast as to parse each and put them together."""
        groups: list[list[Piece]] = []
        for piece in self.pieces:
            if groups and groups[-1][-1].opened.reads_like(piece.opened):
                groups[-1].append(piece)
            else:
                groups.append([piece])
        return groups

    def _kept(self, group: Sequence[Piece], read: Sequence[str]) -> pl.LazyFrame:
        scans = [piece.scan() for piece in group]
        raw = pl.concat(scans) if len(scans) > 1 else scans[0]
        frame = _parsed(raw, group[0].opened.reading, read).select(_clamped(read))
        if not all(piece.whole for piece in group):
            return frame.filter(_inside(self.interval))
        # A filter makes Parquet readers slow, so none is put where it would keep every row.
        return frame if all(piece.slice.complete for piece in group) else frame.filter(pl.col("timestamp").is_not_null())


def canonical(raw: pl.LazyFrame, reading: Reading, columns: Sequence[str]) -> pl.LazyFrame:
    """Raw rows as canonical columns: absent ones null, cached tokens clamped to the input."""
    return _parsed(raw, reading, columns).select(_clamped(columns))


def intake_columns(columns: Collection[str]) -> list[str]:
    """The names of the counts that `Part.intake` gives for these canonical columns."""
    return ["rows", "no_timestamp", "bad_rows", "cached_above_input", *(f"bad_{name}" for name in COLUMNS if name in columns)]


def _parsed(raw: pl.LazyFrame, reading: Reading, columns: Sequence[str]) -> pl.LazyFrame:
    """Canonical values as they stand in the source, and beside each that can be unreadable a flag `bad_<column>`.

    Values and flags are parsed here once; what is counted and what is kept are both taken from it.
    """
    names = [*columns, "input_tokens"] if "cached_tokens" in columns and "input_tokens" not in columns else columns
    values = [_value(reading, name).alias(name) for name in names]
    flags = {name: reading.cells[name].bad for name in columns if name in reading.cells}
    bad = [flag.alias(f"bad_{name}") for name, flag in flags.items() if flag is not None]
    return raw.select(*values, *bad, *(flag.alias(sentence) for sentence, flag in reading.counted.items()))


def _same(one: Reading, other: Reading) -> bool:
    if (one.layout, one.cells.keys(), one.counted.keys()) != (other.layout, other.cells.keys(), other.counted.keys()):
        return False
    return all(cell.value.meta.eq(other.cells[name].value) for name, cell in one.cells.items())


def _in_schema_order(names: Collection[str]) -> list[str]:
    return [name for name in COLUMNS if name in names]


def _value(reading: Reading, name: str) -> pl.Expr:
    return reading.cells[name].value if name in reading.cells else pl.lit(None, COLUMNS[name].dtype)


def _clamped(columns: Sequence[str]) -> list[pl.Expr]:
    cached, limit = pl.col("cached_tokens"), pl.col("input_tokens")
    clamped = pl.when(cached > limit).then(limit).otherwise(cached).alias("cached_tokens")
    return [clamped if name == "cached_tokens" else pl.col(name) for name in columns]


def _inside(interval: Interval) -> pl.Expr:
    return (pl.col("timestamp") >= interval.start) & (pl.col("timestamp") < interval.end)


def _intake(piece: Piece, columns: Sequence[str], names: Sequence[str], interval: Interval) -> pl.LazyFrame:
    reading = piece.opened.reading
    flagged = [name for name in columns if name in reading.cells and reading.cells[name].bad is not None]
    bad = [f"bad_{name}" for name in flagged]
    time = pl.col("timestamp")
    inside = time.is_not_null() if piece.whole else _inside(interval)
    mine = (inside | time.is_null()) if piece.first_seen else inside
    exceeds = pl.col("cached_tokens") > pl.col("input_tokens") if "cached_tokens" in columns else pl.lit(value=False)
    flags = {
        "rows": pl.lit(value=True),
        "no_timestamp": time.is_null(),
        "bad_rows": pl.any_horizontal(pl.lit(value=False), *bad),
        "cached_above_input": exceeds,
        **{name: pl.col(name) for name in (*bad, *reading.counted)},
    }
    nothing = pl.lit(value=False)
    counts = [(mine & flags.get(name, nothing).fill_null(value=False)).sum().cast(pl.Int64).alias(name) for name in names]
    # Text is parsed once, for this and for `frame`. Columns of Parquet are read again, the few that are counted, for less than it
    # costs to hold all of them for both.
    counted = {"timestamp", "cached_tokens", *flagged} if piece.opened.source.kind == "parquet" else columns
    return _parsed(piece.scan(), reading, [name for name in columns if name in counted]).select(counts)


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Sorted by time, then request id; untouched where it is already, or where a plan reads no time and so no order."""
    if "timestamp" not in frame.columns:
        return frame
    keys = ["timestamp", "request_id"] if "request_id" in frame.columns else ["timestamp"]
    return frame if _sorted(frame, keys) else frame.sort(keys, maintain_order=True)


def _sorted(frame: pl.DataFrame, keys: Sequence[str]) -> bool:
    if not frame["timestamp"].is_sorted():
        return False
    tied = pl.col("timestamp") == pl.col("timestamp").shift()
    return len(keys) == 1 or not frame.select((tied & (pl.col("request_id") < pl.col("request_id").shift())).any()).item()
