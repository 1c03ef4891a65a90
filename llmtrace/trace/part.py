"""A part: one time interval of a trace, as lazy frames in canonical form.

A part is a description (files, readings, interval, filters) that pickles; its plan is built where it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.formats.source import with_constants
from llmtrace.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from llmtrace.formats.layout import Reading
    from llmtrace.formats.source import Source
    from llmtrace.trace.parts import Interval, Slice

__all__ = ["Opened", "Part", "Piece", "canonical", "intake_columns"]


@dataclass(frozen=True)
class Opened:
    """A source together with its raw columns and how they are read.

    Attributes:
        source: where its bytes are.
        reading: how its columns become canonical ones.
        schema: raw column name to dtype.
        is_empty: whether it is known to have no rows, as its first ones tell of text.
        rows: how many it has, as its footer said, which of many files is not kept; None of text, which must be read to know.
    """

    source: Source
    reading: Reading
    schema: Mapping[str, pl.DataType]
    is_empty: bool = False
    rows: int | None = None

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

    def follows(self, other: Piece) -> bool:
        """Whether its rows are the next ones of the same Parquet file."""
        same = self.opened is other.opened and self.opened.source.kind == "parquet"
        return same and other.slice.rows is not None and self.slice.first_row == other.slice.first_row + other.slice.rows


@dataclass(frozen=True)
class Part:
    """One time interval of a trace.

    Attributes:
        pieces: what it reads, in file order, or in order of their first arrivals where that breaks no tie.
        interval: the time interval that it covers.
        predicate: the filters, or None.
        filter_columns: canonical columns that the filters read.
    """

    pieces: tuple[Piece, ...]
    interval: Interval
    predicate: pl.Expr | None
    filter_columns: frozenset[str]

    @property
    def opened(self) -> list[Opened]:
        """The sources that it reads, each once."""
        return list({id(piece.opened): piece.opened for piece in self.pieces}.values())

    @property
    def rows(self) -> int:
        """Rows that it is expected to read, those of neighbours included where slices overlap."""
        return sum(piece.slice.rows or 0 for piece in self.pieces)

    def read(self, columns: Collection[str]) -> pl.LazyFrame:
        """All that `keep` and `count` need of the rows of the interval, and of those without a time, for these canonical columns.

        Canonical values as they stand in the source, and beside each that can be unreadable a flag `bad_<column>`; also the flags
        of whatever the readings count besides, under its sentence. What is counted and what is kept are both taken from it, so
        that nothing is parsed twice.
        """
        names = _in_schema_order({*columns, "timestamp", *self.filter_columns})
        frames = [self._read(group, names) for group in self._groups()]
        if not frames:
            return pl.LazyFrame(schema={name: COLUMNS[name].dtype for name in names})
        return pl.concat(frames, how="diagonal_relaxed") if len(frames) > 1 else frames[0]

    def keep(self, read: pl.LazyFrame, columns: Collection[str], *, within_input: bool = False) -> pl.LazyFrame:
        """The part's requests with these canonical columns, sorted by (timestamp, request_id), ties in file order.

        A column that a source lacks is null. `request_id` breaks ties only if it is among `columns`: it is not read for nothing.

        Args:
            read: what `read` gives for these columns, or more.
            columns: canonical columns.
            within_input: whether it is known that no more is cached than the input, so that the column stays as it is.
        """
        wanted = _in_schema_order({*columns, "timestamp"})
        tests = [] if self._complete else [pl.col("timestamp").is_not_null()]
        tests += [] if self.predicate is None else [self.predicate]
        is_cut = not within_input and "cached_tokens" in {*wanted, *self.filter_columns}
        clamped = read.with_columns(_clamped()) if is_cut else read
        kept = (clamped.filter(*tests) if tests else clamped).select(wanted)
        # Whatever a footer says of their order: to look takes next to no time, and kernels must not meet negative gaps.
        return kept.map_batches(_in_order, validate_output_schema=False)

    def count(self, read: pl.LazyFrame, columns: Collection[str]) -> pl.LazyFrame:
        """One row of counts over what is read for these columns, before any filter but the interval.

        Columns: `rows`; `no_timestamp` (rows left out); `bad_rows` (with an unreadable cell); `cached_above_input` (clamped);
        `bad_<column>` per canonical column; and whatever the readings count besides, under its sentence.
        """
        present = read.collect_schema().names()
        names = [*intake_columns(columns), *dict.fromkeys(text for piece in self.pieces for text in piece.opened.reading.counted)]
        bad = [name for name in present if name.startswith("bad_")]
        flags = {
            "no_timestamp": pl.col("timestamp").is_null(),
            "bad_rows": pl.any_horizontal(pl.lit(value=False), *bad),
            "cached_above_input": pl.col("cached_tokens") > pl.col("input_tokens") if "cached_tokens" in present else None,
            **{name: pl.col(name) for name in names if name in present},
        }
        counts = [_count(flags.get(name)).alias(name) for name in names if name != "rows"]
        return read.select(pl.len().cast(pl.Int64).alias("rows"), *counts)

    def frame(self, columns: Collection[str]) -> pl.LazyFrame:
        """`keep` of what is read for the same columns."""
        return self.keep(self.read(columns), columns)

    def intake(self, columns: Collection[str]) -> pl.LazyFrame:
        """`count` over what is read for the same columns."""
        return self.count(self.read(columns), columns)

    @property
    def _complete(self) -> bool:
        return all(piece.whole and piece.slice.complete for piece in self.pieces)

    def _groups(self) -> list[list[Piece]]:
        """Neighbouring pieces that one plan can read: that is several times as fast as to parse each and put them together."""
        groups: list[list[Piece]] = []
        for piece in self.pieces:
            latest = groups[-1][-1] if groups else None
            if latest and latest.first_seen == piece.first_seen and latest.opened.reads_like(piece.opened):
                groups[-1].append(piece)
            else:
                groups.append([piece])
        return groups

    def _read(self, group: Sequence[Piece], names: Sequence[str]) -> pl.LazyFrame:
        opened = group[0].opened
        expressions = _expressions(opened.reading, names)
        wanted = {column for one in expressions for column in one.meta.root_names()}
        scans = _scans(group, [column for column in opened.schema if column in wanted])
        read = (pl.concat(scans) if len(scans) > 1 else scans[0]).select(expressions)
        # A filter makes Parquet readers slow, so none is put where it would keep every row.
        if all(piece.whole and (piece.first_seen or piece.slice.complete) for piece in group):
            return read
        inside = _inside(self.interval)
        return read.filter((inside | pl.col("timestamp").is_null()) if group[0].first_seen else inside)


def _scans(pieces: Sequence[Piece], columns: Sequence[str]) -> list[pl.LazyFrame]:
    """These raw columns of pieces, in file order.

    One scan for all pieces that follow each other is twice as fast as one for each. Files whose hive keys are the same get them
    together: of columns that many scans add, each one by itself, Polars makes a plan in the square of their time.
    """
    runs: list[list[Piece]] = []
    for piece in pieces:
        if runs and piece.follows(runs[-1][-1]):
            runs[-1].append(piece)
        else:
            runs.append([piece])
    alike = groupby(runs, lambda run: run[0].opened.source.constants(columns))
    return [_alike(list(some), constants, columns) for constants, some in alike]


def _alike(runs: Sequence[Sequence[Piece]], constants: Mapping[str, str], columns: Sequence[str]) -> pl.LazyFrame:
    """These raw columns of runs that have the same constants."""
    # What is a key of one file may be a column of another; some column is needed, for without any there are no rows.
    stored = [column for column in columns if column not in constants] or pl.first()
    return with_constants(pl.concat([_scan(run).select(stored) for run in runs]), constants).select(columns)


def _scan(run: Sequence[Piece]) -> pl.LazyFrame:
    """The stored columns of a run."""
    opened, first_row = run[0].opened, run[0].slice.first_row
    rows = sum(piece.slice.rows or 0 for piece in run)
    # To name the rows of a whole file takes Polars long where there are many of them, as columns do in `_scans`.
    return opened.source.stored() if opened.rows in {None, rows} else opened.source.stored(first_row, rows)


def canonical(raw: pl.LazyFrame, reading: Reading, columns: Sequence[str]) -> pl.LazyFrame:
    """Raw rows as canonical columns: absent ones null, cached tokens clamped to the input."""
    parsed = raw.select(_expressions(reading, columns))
    return (parsed.with_columns(_clamped()) if "cached_tokens" in columns else parsed).select(columns)


def intake_columns(columns: Collection[str]) -> list[str]:
    """The names of the counts that `Part.intake` gives for these canonical columns."""
    return ["rows", "no_timestamp", "bad_rows", "cached_above_input", *(f"bad_{name}" for name in COLUMNS if name in columns)]


def _expressions(reading: Reading, columns: Sequence[str]) -> list[pl.Expr]:
    """Canonical values as they stand in the source, their flags, and those of what the reading counts besides."""
    names = [*columns, "input_tokens"] if "cached_tokens" in columns and "input_tokens" not in columns else columns
    values = [_value(reading, name).alias(name) for name in names]
    flags = {name: reading.cells[name].bad for name in columns if name in reading.cells}
    bad = [flag.alias(f"bad_{name}") for name, flag in flags.items() if flag is not None]
    return [*values, *bad, *(flag.alias(sentence) for sentence, flag in reading.counted.items())]


def _same(one: Reading, other: Reading) -> bool:
    if (one.layout, one.cells.keys(), one.counted.keys()) != (other.layout, other.cells.keys(), other.counted.keys()):
        return False
    return all(cell.value.meta.eq(other.cells[name].value) for name, cell in one.cells.items())


def _in_schema_order(names: Collection[str]) -> list[str]:
    return [name for name in COLUMNS if name in names]


def _value(reading: Reading, name: str) -> pl.Expr:
    return reading.cells[name].value if name in reading.cells else pl.lit(None, COLUMNS[name].dtype)


def _clamped() -> pl.Expr:
    cached, limit = pl.col("cached_tokens"), pl.col("input_tokens")
    return pl.when(cached > limit).then(limit).otherwise(cached).alias("cached_tokens")


def _count(flag: pl.Expr | None) -> pl.Expr:
    return pl.lit(0, pl.Int64) if flag is None else flag.sum().cast(pl.Int64)


def _inside(interval: Interval) -> pl.Expr:
    return (pl.col("timestamp") >= interval.start) & (pl.col("timestamp") < interval.end)


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
