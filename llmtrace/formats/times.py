"""Times: how arrivals are read, whichever of the many dialects they are written in.

A wall-clock time becomes UTC; a bare number counts from 1970 or from the start of the trace, which only its size tells. What
holds for a whole column (text or numbers, the unit, the clock) is decided once, from the first rows; what differs from row to
row (fractions of any length, offsets) is read row by row, in vectorised expressions.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import polars as pl

from llmtrace.errors import UsageError
from llmtrace.formats import iso
from llmtrace.formats.cells import PER_SECOND, is_missing, unreadable
from llmtrace.formats.layout import Cell
from llmtrace.schema import TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.formats.layout import Clock, Raw, TimeUnit

__all__ = ["Arrivals", "arrivals", "bounded", "dated"]

EPOCH = datetime(1970, 1, 1)
RELATIVE_BEFORE = pl.lit(datetime(1973, 3, 3, 9, 46, 40))
"""Times before 1e8 seconds of the epoch are elapsed: nothing was served in 1973, and three years are long for a trace."""
UNITS: tuple[tuple[float, float, TimeUnit], ...] = (
    (1e9, 4e9, "s"),
    (1e12, 4e12, "ms"),
    (1e15, 4e15, "us"),
    (1e18, 9.3e18, "ns"),
)
"""Size of a number of units since 1970, for the years 2001 to 2096."""
END_OF_TIME_US = 9_223_372_036_854_776
"""April 2262, where nanoseconds since 1970 end; as many before 1970, in 1677, times begin.

What lies outside is no arrival but a mark for "none" (the year 1, the year 9999) or damage, and arithmetic on it would overflow.
"""

_PER_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_NS_PER_US = 1_000


@dataclass(frozen=True)
class Arrivals:
    """A time column, understood.

    Attributes:
        cell: its times as naive Datetime[us], UTC or elapsed.
        clock: which of the two.
        counted: a sentence with `{count}` to an expression, true for the rows that the sentence counts.
    """

    cell: Cell
    clock: Clock
    counted: Mapping[str, pl.Expr] = field(default_factory=dict)


def arrivals(
    raw: Raw,
    column: str,
    *,
    unit: TimeUnit | None = None,
    tz: str | None = None,
    clock: Clock | None = None,
    undated: Clock | None = None,
) -> Arrivals:
    """Understand a time column.

    Args:
        raw: the source.
        column: its time column, of any dtype.
        unit: unit of bare numbers; without it, their size must tell.
        tz: IANA zone of wall-clock times without an offset; UTC without it.
        clock: the clock where the source says it; without it, times before 1973 are elapsed.
        undated: the clock if there is no time at all, as `raw.edges` can tell; without it, what dtype or unit suggest.

    Raises:
        UsageError: if `tz` is not a zone, or bare numbers are too small to tell their unit.
    """
    dtype, zone = raw.schema[column], _zone(tz)
    if _is_number(raw, column, unit):
        cell = _from_number(column, dtype, unit or _unit(raw, column))
        return Arrivals(cell, clock or _clock(raw, cell, "utc" if unit is None else "relative", undated))
    utc, wall = _moments(raw, column, apart=zone is not None)
    unknown: Clock = "relative" if isinstance(dtype, pl.Duration) else "utc"
    found = clock or _clock(raw, _cell(column, dtype, utc, wall), unknown, undated)
    if zone is None or wall is None or found == "relative":
        return Arrivals(_cell(column, dtype, utc, wall), found)
    return Arrivals(_cell(column, dtype, utc, _localised(wall, zone)), found, counted=_shifts(wall, zone))


def dated(found: Arrivals, epoch: datetime) -> Arrivals:
    """The same times, elapsed ones that they are, counted from a moment in UTC; those that come to lie out of bounds are bad.

    Where the cell checks nothing, as of a Parquet column of times, whoever asks for the bounds (see `bounded`) finds them moved.
    """
    moved = found.cell.value + pl.lit(epoch - EPOCH)
    if found.cell.bad is None:
        return replace(found, cell=replace(found.cell, value=moved))
    value = _bounded(moved)
    beyond = value.is_null() & found.cell.value.is_not_null()
    return replace(found, cell=replace(found.cell, value=value, bad=found.cell.bad | beyond))


def _is_number(raw: Raw, column: str, unit: TimeUnit | None) -> bool:
    """Whether a column holds numbers; of text whose first rows are all missing, a unit says so."""
    if not isinstance(raw.schema[column], pl.String):
        return raw.schema[column].is_numeric()
    words = _words(raw, column)
    numbers = pl.Series(words, dtype=pl.String).cast(pl.Float64, strict=False)
    if words or unit is None:
        return numbers.count() * 2 > len(words)
    return raw.first_rows([column])[column].count() > 0


def _words(raw: Raw, column: str) -> list[str]:
    """The time column's first values as text, missing ones left out."""
    words = raw.first_rows([column])[column].cast(pl.String, strict=False).drop_nulls().str.strip_chars()
    return words.filter(~is_missing(words, sentinel=True)).to_list()


def _unit(raw: Raw, column: str) -> TimeUnit:
    """The unit that the size of the first numbers tells.

    Raises:
        UsageError: if they are not of the size of a time since 1970 in any unit.
    """
    numbers = pl.Series(_words(raw, column), dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls().to_list()
    typical = statistics.median_low([number for number in numbers if number > 0] or [0.0])
    for low, high, unit in UNITS:
        if low <= typical < high:
            return unit
    shown = f", such as {typical or numbers[0]:g}," if numbers else ""
    raise UsageError(
        f"{raw.name}: the numbers in '{column}'{shown} do not tell their unit",
        "Give it with --time-unit s, ms, us or ns; numbers that count from the start of the trace always need it.",
    )


def _clock(raw: Raw, cell: Cell, unknown: Clock, undated: Clock | None) -> Clock:
    """The clock that the footer tells, if all times are on one side, or else that of the latest of the first rows."""
    (column,) = cell.sources
    edges = raw.edges(column)
    if undated and edges is not None and not edges:
        return undated
    times = pl.DataFrame({column: pl.Series(edges or (), dtype=raw.schema[column], strict=False)})
    sides = set(times.select(_bounded(cell.value) < RELATIVE_BEFORE).to_series())
    if len(sides) == 1 and None not in sides:
        [is_elapsed] = sides
    else:
        first_rows = raw.first_rows(cell.sources)
        is_elapsed = first_rows.select(_bounded(cell.value).max() < RELATIVE_BEFORE).item() if first_rows.height else None
    return unknown if is_elapsed is None else "relative" if is_elapsed else "utc"


def bounded(cell: Cell, dtype: pl.DataType) -> Cell:
    """The cell of a typed column of times, bad where a time is out of bounds."""
    (column,) = cell.sources
    value = _bounded(cell.value)
    return Cell(value, unreadable(column, dtype, value), (column,))


def _bounded(time: pl.Expr) -> pl.Expr:
    """Null where nanoseconds since 1970 cannot hold the time; naming it once, so that it is not parsed for each bound."""
    return time.cast(pl.Datetime("ns"), strict=False).cast(TIMESTAMP)


def _from_number(column: str, dtype: pl.DataType, unit: TimeUnit) -> Cell:
    """Times from bare numbers: whole ones exactly, others to the nearest microsecond; -1 is missing, other negatives are bad."""
    raw = pl.col(column)
    last = END_OF_TIME_US * PER_SECOND[unit] // PER_SECOND["us"] - 1
    number = raw.str.strip_chars().cast(pl.Float64, strict=False) if isinstance(dtype, pl.String) else raw.cast(pl.Float64)
    scaled = number / _NS_PER_US if unit == "ns" else number * _PER_US[unit]
    # A Float64 cannot tell the last microsecond from the end.
    us: pl.Expr = pl.when(scaled.is_between(0, END_OF_TIME_US, closed="left")).then(scaled.round().cast(pl.Int64, strict=False))
    if isinstance(dtype, pl.String) or dtype.is_integer():
        # A whole number keeps every digit, which a Float64 of nanoseconds since 1970 does not.
        integer = raw.str.to_integer(strict=False) if isinstance(dtype, pl.String) else raw.cast(pl.Int64, strict=False)
        whole = pl.when(integer.is_between(0, min(last, 2**63 - 1))).then(integer)
        us = pl.coalesce(whole // _NS_PER_US if unit == "ns" else whole * _PER_US[unit], us)
    value = us.cast(TIMESTAMP)
    return Cell(value, unreadable(column, dtype, value, sentinel=True), (column,))


def _moments(raw: Raw, column: str, *, apart: bool) -> tuple[pl.Expr | None, pl.Expr | None]:
    """The times of a column that holds no numbers: as UTC those that are or carry an offset, and the wall clocks without one.

    Text can hold both; unless they are wanted apart, its wall clocks are taken as UTC.
    """
    dtype, value = raw.schema[column], pl.col(column)
    if isinstance(dtype, pl.Datetime):
        if dtype.time_zone is None:
            return None, _to_microseconds(value, dtype)
        utc = value if dtype.time_zone == "UTC" else value.dt.convert_time_zone("UTC")
        return _to_microseconds(utc.dt.replace_time_zone(None), dtype), None
    if isinstance(dtype, pl.Date):
        return None, value.cast(TIMESTAMP)
    if isinstance(dtype, pl.Duration):
        return value.dt.total_microseconds().cast(TIMESTAMP), None
    if isinstance(dtype, pl.String):
        words = _words(raw, column)
        return iso.apart(value, words) if apart else (iso.together(value, words), None)
    return pl.when(value.is_null()).then(pl.lit(None, dtype=TIMESTAMP)), None


def _to_microseconds(time: pl.Expr, dtype: pl.Datetime) -> pl.Expr:
    return time if dtype.time_unit == "us" else time.cast(TIMESTAMP, strict=False)


def _cell(column: str, dtype: pl.DataType, utc: pl.Expr | None, wall: pl.Expr | None) -> Cell:
    """The cell of both kinds of times together. A Parquet column of times stays itself, so that its statistics still serve."""
    kinds = [times for times in (utc, wall) if times is not None]
    value = kinds[0] if len(kinds) == 1 else pl.coalesce(kinds)
    if isinstance(dtype, (pl.Datetime, pl.Date, pl.Duration, pl.Null)):
        return Cell(value, None, (column,))
    value = _bounded(value)
    return Cell(value, unreadable(column, dtype, value), (column,))


def _zone(tz: str | None) -> str | None:
    if tz is None or tz == "UTC":
        return None
    try:
        ZoneInfo(tz)
    except (ValueError, OSError, KeyError):
        raise UsageError(f"--tz {tz}: there is no such time zone", "Give an IANA name, such as Europe/Berlin or UTC.") from None
    return tz


def _localised(wall: pl.Expr, zone: str) -> pl.Expr:
    """UTC of a local wall clock: the earlier of a doubled hour, and the end of the gap for a time inside one."""
    return pl.coalesce(_utc(wall, zone, "earliest"), _after_gap(wall, zone))


def _utc(wall: pl.Expr, zone: str, ambiguous: str) -> pl.Expr:
    local = wall.dt.replace_time_zone(zone, ambiguous=pl.lit(ambiguous), non_existent="null")
    return local.dt.convert_time_zone("UTC").dt.replace_time_zone(None)


def _after_gap(wall: pl.Expr, zone: str) -> pl.Expr:
    """UTC of the end of the gap that a local time lies in: clocks skip from a full hour, and its offset is the day before's."""
    # Taking the end, not the time plus the gap, keeps times in their order.
    day = timedelta(days=1)
    return _utc(wall.dt.truncate("1h") - day, zone, "earliest") + day


def _shifts(wall: pl.Expr, zone: str) -> dict[str, pl.Expr]:
    earlier, later = _utc(wall, zone, "earliest"), _utc(wall, zone, "latest")
    return {
        f"{{count}} {{time lies|times lie}} in an hour that {zone} has twice; the earlier one was taken.": earlier != later,
        f"{{count}} {{time lies|times lie}} in an hour that {zone} skips; the end of that hour was taken.": wall.is_not_null()
        & earlier.is_null(),
    }
