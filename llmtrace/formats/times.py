"""Times: how arrivals are read, whichever of the many dialects they are written in.

A wall-clock time becomes UTC; a bare number counts from 1970 or from the start of the trace, which only its size tells. What
holds for a whole column (text or numbers, the unit, the clock) is decided once, from the first rows; what differs from row to
row (fractions of any length, offsets) is read row by row, in vectorised expressions.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import polars as pl

from llmtrace.errors import UsageError
from llmtrace.formats.cells import MISSING, PER_SECOND
from llmtrace.formats.layout import Cell
from llmtrace.schema import TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.formats.layout import Clock, Raw, TimeUnit

__all__ = ["Arrivals", "arrivals"]

RELATIVE_BEFORE = datetime(1973, 3, 3, 9, 46, 40)
"""Times before 1e8 seconds of the epoch are elapsed: nothing was served in 1973, and three years are long for a trace."""
UNITS: tuple[tuple[float, float, TimeUnit], ...] = (
    (1e9, 4e9, "s"),
    (1e12, 4e12, "ms"),
    (1e15, 4e15, "us"),
    (1e18, 9.3e18, "ns"),
)
"""Size of a number of units since 1970, for the years 2001 to 2096."""
END_OF_TIME_US = 253_402_300_800_000_000
"""The year 10000, where Python's dates end."""

_PER_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_NS_PER_US = 1_000
_MINUTE_US = 60_000_000
_AFTER_SECONDS = r"^((?:[.,]\d+)?)\s*((?:Z|z|UTC|GMT|[+-](?:[01]\d|2[0-3]):?(?:[0-5]\d)?(?:\s[A-Z]{3,4})?)?)$"
_NO_OFFSET = ("", "Z", "z", "UTC", "GMT", "+00:00", "+0000", "+00", "-00:00")
_DAY_ONLY = r"^(\d{4}-\d{2}-\d{2})$"
_TO_THE_MINUTE = r"^(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2})((?:Z|[+-]\d{2}:?\d{2})?)$"


@dataclass(frozen=True)
class Arrivals:
    """A time column, understood.

    Attributes:
        cell: its times as naive Datetime[us], UTC or elapsed.
        clock: which of the two.
        notes: what was decided that a reader of the numbers must know.
        counted: a sentence with `{count}` to an expression, true for the rows that the sentence counts.
    """

    cell: Cell
    clock: Clock
    notes: tuple[str, ...] = ()
    counted: Mapping[str, pl.Expr] = field(default_factory=dict)


def arrivals(
    raw: Raw, column: str, *, unit: TimeUnit | None = None, tz: str | None = None, clock: Clock | None = None
) -> Arrivals:
    """Understand a time column.

    Args:
        raw: the source.
        column: its time column, of any dtype.
        unit: unit of bare numbers; without it, their size must tell.
        tz: IANA zone of wall-clock times without an offset; UTC without it.
        clock: the clock where the source says it; without it, times before 1973 are elapsed.

    Raises:
        UsageError: if `tz` is not a zone, or bare numbers are too small to tell their unit.
    """
    dtype, zone = raw.schema[column], _zone(tz)
    if _is_number(raw, column):
        cell = _from_number(column, dtype, unit or _unit(raw, column))
        return Arrivals(cell, clock or _clock(raw, cell, "utc" if unit is None else "relative"))
    wall, bare = _wall(column, dtype)
    found = clock or _clock(raw, Cell(wall, None, (column,)), "relative" if isinstance(dtype, pl.Duration) else "utc")
    if zone is None or found == "relative":
        return Arrivals(Cell(wall, _bad(column, dtype, wall), (column,)), found)
    value = pl.when(bare).then(_localised(wall, zone)).otherwise(wall)
    return Arrivals(Cell(value, _bad(column, dtype, wall), (column,)), found, counted=_shifts(wall, bare, zone))


def _is_number(raw: Raw, column: str) -> bool:
    if not isinstance(raw.schema[column], pl.String):
        return raw.schema[column].is_numeric()
    words = [word for word in _words(raw, column) if word]
    numbers = pl.Series(words, dtype=pl.String).cast(pl.Float64, strict=False)
    return numbers.count() * 2 > len(words)


def _words(raw: Raw, column: str) -> list[str]:
    """The time column's first values as text, missing ones left out."""
    words = raw.head[column].cast(pl.String, strict=False).drop_nulls().str.strip_chars().to_list()
    return [word for word in words if word.lower() not in MISSING]


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
    shown = f", such as {typical:g}" if numbers else ""
    raise UsageError(
        f"{raw.name}: the numbers in '{column}'{shown} do not tell their unit",
        "Give it with --time-unit s, ms, us or ns; numbers that count from the start of the trace always need it.",
    )


def _clock(raw: Raw, cell: Cell, unknown: Clock) -> Clock:
    latest = raw.head.select(cell.value.max()).item() if raw.head.height else None
    if latest is None:
        return unknown
    return "relative" if latest < RELATIVE_BEFORE else "utc"


def _from_number(column: str, dtype: pl.DataType, unit: TimeUnit) -> Cell:
    """Times from bare numbers: whole ones exactly, others to the nearest microsecond; -1 is missing, other negatives are bad."""
    raw = pl.col(column)
    number = raw.str.strip_chars().cast(pl.Float64, strict=False) if isinstance(dtype, pl.String) else raw.cast(pl.Float64)
    us = _microseconds(_integer(raw, dtype), number, unit)
    in_range = (number >= 0) & (number < END_OF_TIME_US * PER_SECOND[unit] / PER_SECOND["us"])
    value = pl.when(in_range).then(us).cast(TIMESTAMP)
    missing = (number == -1) | number.is_nan()
    if isinstance(dtype, pl.String):
        missing |= raw.str.strip_chars().str.to_lowercase().is_in(MISSING)
    return Cell(value, value.is_null() & raw.is_not_null() & ~missing.fill_null(value=False), (column,))


def _integer(raw: pl.Expr, dtype: pl.DataType) -> pl.Expr | None:
    if isinstance(dtype, pl.String):
        return raw.str.to_integer(strict=False)
    return raw.cast(pl.Int64, strict=False) if dtype.is_integer() else None


def _microseconds(whole: pl.Expr | None, number: pl.Expr, unit: TimeUnit) -> pl.Expr:
    """Microseconds; a whole number keeps every digit, which a Float64 of nanoseconds since 1970 does not."""
    scaled = number / _NS_PER_US if unit == "ns" else number * _PER_US[unit]
    rounded = scaled.round().cast(pl.Int64, strict=False)
    if whole is None:
        return rounded
    return pl.coalesce(whole // _NS_PER_US if unit == "ns" else whole * _PER_US[unit], rounded)


def _wall(column: str, dtype: pl.DataType) -> tuple[pl.Expr, pl.Expr]:
    """Wall-clock times, offsets taken off, and whether each one has none; both of any dtype but a number."""
    raw = pl.col(column)
    always, never = pl.lit(value=True), pl.lit(value=False)
    if isinstance(dtype, pl.Datetime):
        if dtype.time_zone is None:
            return _to_microseconds(raw, dtype), always
        utc = raw if dtype.time_zone == "UTC" else raw.dt.convert_time_zone("UTC")
        return _to_microseconds(utc.dt.replace_time_zone(None), dtype), never
    if isinstance(dtype, pl.Date):
        return raw.cast(TIMESTAMP), always
    if isinstance(dtype, pl.Duration):
        return raw.dt.total_microseconds().cast(TIMESTAMP), never
    if isinstance(dtype, pl.String):
        return _iso(raw)
    return pl.lit(None, dtype=TIMESTAMP), never


def _to_microseconds(time: pl.Expr, dtype: pl.Datetime) -> pl.Expr:
    return time if dtype.time_unit == "us" else time.cast(TIMESTAMP, strict=False)


def _bad(column: str, dtype: pl.DataType, value: pl.Expr) -> pl.Expr | None:
    raw = pl.col(column)
    if isinstance(dtype, pl.String):
        # Spaces and case of what was read do not matter, so they are looked at only where nothing was.
        left = pl.when(value.is_null()).then(raw).str.strip_chars().str.to_lowercase()
        return left.is_not_null() & ~left.is_in(MISSING)
    if isinstance(dtype, (pl.Datetime, pl.Date, pl.Duration, pl.Null)):
        return None
    return raw.is_not_null()


def _iso(raw: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """ISO 8601 text in UTC, and whether it had no offset.

    `T` or a space, a fraction of any length after point or comma (truncated to microseconds), `Z`, `+00:00`, `+0200`, `+02`;
    shorter forms are filled up with zeros, which costs nothing where there are none.
    """
    text = raw.str.strip_chars()
    time, zone = _to_the_second(text)
    rest = pl.when(time.is_null()).then(text)
    filled = rest.str.replace(_DAY_ONLY, "${1} 00:00:00").str.replace(_TO_THE_MINUTE, "${1}:00${2}")
    filled_time, filled_zone = _to_the_second(filled)
    return pl.coalesce(time, filled_time), pl.coalesce(zone, filled_zone) == ""


def _to_the_second(text: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """UTC and offset of `YYYY-MM-DD hh:mm:ss` followed by a fraction and an offset or not; null where the text is otherwise."""
    # Without a fraction and an offset this format has a parser of its own, twenty times as fast as any other.
    whole = (
        text.str.slice(0, 19)
        .str.replace("T", " ", literal=True)
        .str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
    )
    after = text.str.slice(19).str.extract_groups(_AFTER_SECONDS)
    fraction, zone = after.struct.field("1"), after.struct.field("2")
    micros = fraction.str.slice(1, 6).str.pad_end(6, "0").str.to_integer(strict=False)
    return whole + pl.duration(microseconds=micros - _offset(zone), time_unit="us"), pl.when(whole.is_not_null()).then(zone)


def _offset(zone: pl.Expr) -> pl.Expr:
    """Microseconds east of Greenwich."""
    other = pl.when(~zone.is_in(_NO_OFFSET)).then(zone)
    digits = other.str.extract_groups(r"^([+-]\d{2}):?(\d{2})?")
    hours = digits.struct.field("1").str.to_integer(strict=False)
    minutes = digits.struct.field("2").str.to_integer(strict=False).fill_null(0)
    sign = pl.when(other.str.starts_with("-")).then(-1).otherwise(1)
    return ((hours * 60 + sign * minutes) * _MINUTE_US).fill_null(0)


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


def _shifts(wall: pl.Expr, bare: pl.Expr, zone: str) -> dict[str, pl.Expr]:
    earlier, later = _utc(wall, zone, "earliest"), _utc(wall, zone, "latest")
    return {
        f"{{count}} times lie in an hour that {zone} has twice; the earlier one was taken.": bare & (earlier != later),
        f"{{count}} times lie in an hour that {zone} skips; they were moved to its end.": bare
        & wall.is_not_null()
        & earlier.is_null(),
    }
