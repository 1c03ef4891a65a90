"""Columns: from names in a file to canonical cells, the work that all layouts share.

A layout is mostly a `Scheme`: which of its columns is which canonical one. `Draft` applies a scheme to a source, `--map`
first, and builds the cells by the columns' dtypes; the layout then replaces what it knows better, and takes the `Reading`.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.errors import InputError, MissingColumnError, UsageError
from llmtrace.formats import cells
from llmtrace.formats.layout import Reading
from llmtrace.formats.times import arrivals, dated
from llmtrace.schema import COLUMNS, REQUIRED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from llmtrace.formats.layout import Cell, Clock, Raw, ReadOptions, TimeUnit
    from llmtrace.formats.times import Arrivals

__all__ = ["SURPLUS", "Draft", "Scheme", "among", "plain", "shown", "unit_in", "without_unit"]

SURPLUS = "__surplus_field"
"""The raw column that holds the first field beyond a CSV header; null in every regular row."""

_WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNIT = re.compile(
    r"[^a-z0-9](?:(s|secs?|seconds?)|(ms|milli(?:s|seconds?)?)|(us|micro(?:s|seconds?)?)|(ns|nano(?:s|seconds?)?))$"
)
_MOST_SHOWN = 40


@dataclass(frozen=True)
class Scheme:
    """What a layout fixes.

    Attributes:
        layout: its name.
        names: canonical column to the names it may have in a file, the likeliest first; case, spaces and punctuation do not
            count.
        time_unit: unit of bare numbers in the time column; None if only their size can tell.
        first_turn: the number of a session's first turn.
        block_size: tokens per prefix block, unless the file says otherwise.
    """

    layout: str
    names: Mapping[str, tuple[str, ...]]
    time_unit: TimeUnit | None = None
    first_turn: int = 0
    block_size: int | None = None


@functools.cache
def plain(name: str) -> str:
    """A column name without case, spaces and punctuation; a dot, which leads into nested JSON, stays.

    >>> plain("Request tokens"), plain("usage.prompt_tokens")
    ('requesttokens', 'usage.prompttokens')
    """
    return re.sub(r"[^0-9a-z.]+", "", name.lower())


@functools.cache
def unit_in(name: str) -> TimeUnit | None:
    """The unit of time that a column name ends in.

    >>> unit_in("latency_ms"), unit_in("Total (s)"), unit_in("startTimeUnixNano"), unit_in("ttft"), unit_in("tokens")
    ('ms', 's', 'ns', None, None)
    """
    found = _UNIT.search(_words(name))
    units: tuple[TimeUnit, ...] = ("s", "ms", "us", "ns")
    return next((unit for unit, match in zip(units, found.groups(), strict=True) if match), None) if found else None


@functools.cache
def without_unit(name: str) -> str:
    """A column name without the unit of time that it ends in.

    >>> without_unit("latency_ms"), without_unit("startTimeUnixNano"), without_unit("ttft")
    ('latency', 'start_time_unix', 'ttft')
    """
    return name if unit_in(name) is None else _UNIT.sub("", _words(name))


def _words(name: str) -> str:
    """A name in lower case, its words apart, nothing but letters and digits at its end."""
    return re.sub(r"[^a-z0-9]+$", "", _WORD_BORDER.sub("_", name).lower())


def among(raw: Raw, names: Iterable[str]) -> str | None:
    """The first of these names that the source has, as it is spelled there.

    >>> from llmtrace.formats.layout import Raw
    >>> among(Raw("x.csv", "csv", {"Request tokens": pl.String()}, lambda _: pl.DataFrame()), ["prompt", "request_tokens"])
    'Request tokens'
    """
    spelled = {plain(column): column for column in reversed(list(raw.schema))}
    return next((spelled[plain(name)] for name in names if plain(name) in spelled), None)


def shown(raw: Raw) -> list[str]:
    """The source's columns, for a message."""
    names = [name for name in raw.schema if name != SURPLUS]
    return names if len(names) <= _MOST_SHOWN else [*names[:_MOST_SHOWN], f"and {len(names) - _MOST_SHOWN} more"]


@dataclass
class Draft:
    """A reading in the making: a scheme applied to one source.

    Attributes:
        raw: the source.
        options: what the user says about it.
        scheme: what the layout says about it.
        said_clock: the clock, where the source itself says it.
        columns: canonical column to raw column, `options.mapping` first.
        cells: canonical column to cell; to be changed through `put`.
        clock: the clock of the times.
        notes: what a reader of the numbers must know.
    """

    raw: Raw
    options: ReadOptions
    scheme: Scheme
    said_clock: Clock | None = None
    columns: dict[str, str] = field(init=False)
    cells: dict[str, Cell] = field(init=False)
    clock: Clock = field(init=False)
    notes: list[str] = field(init=False)

    def __post_init__(self) -> None:
        """Bind the columns and build their cells.

        Raises:
            MissingColumnError: if a required column, or one that `options` names, is not there.
            UsageError: if the time column cannot be understood, or `options` makes no sense, as a date for the zero of a clock
                that has dates.
        """
        self.notes = list(self.raw.notes)
        self.columns = self._bound()
        times = self.times("timestamp")
        self.clock, self._counted = times.clock, dict(times.counted)
        if self.options.epoch is not None:
            self._date(self.options.epoch)
        self.cells = {"timestamp": times.cell}
        self.cells |= {name: self._cell(name, column) for name, column in self.columns.items() if name != "timestamp"}

    def times(self, name: str, column: str | None = None) -> Arrivals:
        """A column of times, understood: the canonical one of that name, or another on the same clock."""
        source = column or self.columns[name]
        unit = self.options.time_unit or (None if name in self.options.mapping else self.scheme.time_unit) or unit_in(source)
        epoch = self.options.epoch
        undated: Clock | None = None if epoch is None else "relative"
        found = arrivals(self.raw, source, unit=unit, tz=self.options.tz, clock=self.said_clock, undated=undated)
        return found if epoch is None else dated(found, epoch)

    def column(self, *names: str) -> str | None:
        """The first of these columns that the source has, canonical or not."""
        return among(self.raw, names)

    def put(self, name: str, cell: Cell) -> None:
        """Read a canonical column by this cell, unless the user has named another column for it."""
        if name not in self.options.mapping:
            self.cells[name] = cell

    def reading(self, block_size: int | None = None) -> Reading:
        """The reading, in canonical order.

        Raises:
            InputError: if the rows name several block sizes.
            MissingColumnError: if cached tokens are to be added to the input and there are none.
        """
        if self.options.cached_mode == "exclusive":
            self._add_cached()
        counted = self._counted | self._surplus()
        ordered = {name: self.cells[name] for name in COLUMNS if name in self.cells}
        size = (block_size or self._block_size()) if "block_hashes" in ordered else None
        return Reading(self.scheme.layout, self.clock, ordered, size, tuple(self.notes), counted)

    def _bound(self) -> dict[str, str]:
        mapped = {name: self._mapped(name, column) for name, column in self.options.mapping.items()}
        own = {name: among(self.raw, names) for name, names in self.scheme.names.items()}
        bound = {name: column for name, column in own.items() if column is not None} | mapped
        if missing := [name for name in REQUIRED if name not in bound]:
            wanted = [self.scheme.names.get(name, (name,))[0] for name in missing]
            raise MissingColumnError.among(wanted, shown(self.raw), f"{self.raw.name} as {self.scheme.layout}")
        return bound

    def _mapped(self, name: str, column: str) -> str:
        if name not in COLUMNS:
            raise UsageError(
                f"--map {name}={column}: there is no canonical column '{name}'", f"Choose one of: {', '.join(COLUMNS)}."
            )
        found = column if column in self.raw.schema else among(self.raw, [column])
        if found is None:
            raise MissingColumnError(
                f"--map {name}={column}: {self.raw.name} has no column '{column}'", f"It has: {', '.join(shown(self.raw))}."
            )
        return found

    def _date(self, epoch: datetime) -> None:
        """Have dates for elapsed times, and say so."""
        if self.clock != "relative":
            raise UsageError(
                f"--epoch {epoch:%Y-%m-%dT%H:%M:%SZ}: the times in {self.raw.name} are dates already",
                "Leave it out: it says when a clock that counts from zero stood there.",
            )
        self.clock = "utc"
        self.notes.append(f"Elapsed times are counted from {epoch:%Y-%m-%d %H:%M:%S} UTC (--epoch).")

    def _cell(self, name: str, column: str) -> Cell:
        dtype, canonical = self.raw.schema[column], COLUMNS[name].dtype
        written, comma = self.raw.kind != "parquet", self.raw.metadata.get("separator") == ";"
        match canonical:
            case pl.Int64():
                return cells.count(column, dtype, decimal_comma=comma)
            case pl.Int32():
                return cells.position(column, dtype, first=self.scheme.first_turn)
            case pl.Float64():
                return cells.seconds(column, dtype, unit=unit_in(column) or "s", decimal_comma=comma)
            case pl.Boolean():
                return cells.flag(column, dtype)
            case pl.List():
                return cells.hashes(column, dtype)
        read = cells.identity if name == "request_id" else cells.text
        return read(column, dtype, written=written)

    def _add_cached(self) -> None:
        if "cached_tokens" not in self.cells:
            raise MissingColumnError.among(["cached_tokens"], shown(self.raw), f"{self.raw.name}: --cached-mode exclusive")
        self.cells["input_tokens"] = cells.add(self.cells["input_tokens"], self.cells["cached_tokens"])
        self.notes.append("Cached tokens were added to the input tokens (--cached-mode exclusive).")

    def _surplus(self) -> dict[str, pl.Expr]:
        if SURPLUS not in self.raw.schema:
            return {}
        sentence = "{count} {row has|rows have} more fields than the header; the surplus was not read."
        return {sentence: pl.col(SURPLUS).is_not_null()}

    def _block_size(self) -> int | None:
        """Tokens per block as the rows say it, else as the layout does."""
        column = self.column("block_size")
        first = self.raw.first_rows([column])[column] if column else pl.Series(dtype=pl.Float64)
        sizes = first.cast(pl.Float64, strict=False).drop_nulls().unique()
        if len(sizes) > 1:
            raise InputError(
                f"{self.raw.name} has prefix blocks of {', '.join(f'{size:g}' for size in sizes.sort())} tokens",
                "Split the trace by block size: prefixes can only be compared in blocks of one size.",
            )
        return int(sizes[0]) if len(sizes) else self.scheme.block_size
