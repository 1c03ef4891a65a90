"""Tolerant cells: how one canonical value is read from a raw column of whatever dtype.

Every function looks at the column's dtype and returns a `Cell`: the value, null where the source is missing or cannot be
read, and where it is missing rather than unreadable. Text costs one parse where it is plain; only what that parse refuses
(spaces, `63.0`, `1,234`, missing markers) goes through the slower expressions, as a column that is null elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.formats.layout import Cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from llmtrace.formats.layout import TimeUnit

__all__ = [
    "MISSING",
    "PER_SECOND",
    "add",
    "chained",
    "count",
    "elapsed",
    "flag",
    "hashes",
    "identity",
    "position",
    "seconds",
    "text",
]

MISSING = ("", "-", "null", "none", "na", "n/a", "nan", "\\n")
"""What stands for "no number", in lower case and without the spaces around it."""
MISSING_TEXT = ("", "-", "NULL", "null", "None", "\\N", "nan", "NaN", "N/A")
"""What stands for "no text" in CSV and JSON; NA is left alone, for it is also a name."""
PER_SECOND: dict[TimeUnit, int] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_TRUE = ("true", "t", "yes", "y", "1", "1.0")
_FALSE = ("false", "f", "no", "n", "0", "0.0")
_GROUPED = r"^[+-]?[1-9]\d{0,2}(?:[,' \u{a0}\u{202f}]\d{3})+(?:\.\d+)?$"
_GROUPED_WITH_POINT = r"^[+-]?[1-9]\d{0,2}(?:[,' \u{a0}\u{202f}]\d{3})+\.\d+$"
_IDS = r"^\s*\[[\d\s,]*\]\s*$"
_NAMED_IDS = r'^\s*\[\s*(?:-?\d+|"[^"\\,]*")(?:\s*,\s*(?:-?\d+|"[^"\\,]*"))*\s*\]\s*$'
_SEED = 0


def count(column: str, dtype: pl.DataType, *, decimal_comma: bool = False) -> Cell:
    """A whole number of tokens as Int64: `63`, `63.0`, ` 12 `, `1,234`; -1 and the markers of `MISSING` are missing.

    Any other negative number, a fraction, a number of 2^63 or more and all other content is null and bad.

    >>> cell = count("it", pl.String())
    >>> pl.DataFrame({"it": ["63.0", "-1", "-2", "many"]}).select(cell.value, bad=cell.bad).rows()
    [(63, False), (None, False), (None, True), (None, True)]
    """
    raw = pl.col(column)
    if isinstance(dtype, pl.String):
        exact = raw.str.to_integer(strict=False)
        rest = _rest(raw, exact)
        number = pl.coalesce(exact, _whole(_decimal(rest, decimal_comma, _GROUPED)))
        return _cell(column, _natural(number), (number == -1) | rest.is_in(MISSING))
    if dtype.is_float() or dtype.is_decimal():
        number = _whole(raw.cast(pl.Float64))
        return _cell(column, _natural(number), (number == -1) | raw.cast(pl.Float64).is_nan())
    if dtype.is_integer():
        number = raw.cast(pl.Int64, strict=False)
        return _cell(column, _natural(number), number == -1)
    return _unreadable(column, pl.Int64())


def position(column: str, dtype: pl.DataType, *, first: int = 0) -> Cell:
    """A position counted from `first` in the source, as Int32 from 0."""
    cell = count(column, dtype)
    value = (cell.value - first).cast(pl.Int32, strict=False)
    return Cell(pl.when(value >= 0).then(value), cell.bad, cell.sources)


def seconds(column: str, dtype: pl.DataType, *, unit: TimeUnit = "s", decimal_comma: bool = False) -> Cell:
    """A length of time in seconds as Float64, from a bare number in `unit` or a Duration; negative and infinite ones are bad.

    >>> cell = seconds("latency_ms", pl.String(), unit="ms")
    >>> pl.DataFrame({"latency_ms": ["183", "", "-5"]}).select(cell.value, bad=cell.bad).rows()
    [(0.183, False), (None, False), (None, True)]
    """
    raw = pl.col(column)
    if isinstance(dtype, pl.Duration):
        return _cell(column, _duration(raw.dt.total_microseconds() / PER_SECOND["us"]), pl.lit(value=False))
    if isinstance(dtype, pl.String):
        plain = raw.cast(pl.Float64, strict=False)
        rest = _rest(raw, plain)
        number = pl.coalesce(plain, _decimal(rest, decimal_comma, _GROUPED_WITH_POINT))
        return _cell(column, _duration(number / PER_SECOND[unit]), number.is_nan() | rest.is_in(MISSING))
    if dtype.is_numeric():
        number = raw.cast(pl.Float64)
        return _cell(column, _duration(number / PER_SECOND[unit]), number.is_nan())
    return _unreadable(column, pl.Float64())


def elapsed(start: Cell, end: Cell) -> Cell:
    """Seconds from one time to another; an end before its start is bad."""
    gap = (end.value - start.value).dt.total_microseconds() / PER_SECOND["us"]
    backwards = (gap < 0).fill_null(value=False)
    bad = backwards if end.bad is None else backwards | end.bad
    return Cell(pl.when(gap >= 0).then(gap), bad, (*start.sources, *end.sources))


def flag(column: str, dtype: pl.DataType) -> Cell:
    """A yes or no: a Boolean, 0 or 1, or one of true/false, t/f, yes/no, y/n in any case."""
    raw = pl.col(column)
    if isinstance(dtype, pl.Boolean):
        return Cell(raw, None, (column,))
    if isinstance(dtype, pl.String):
        word = raw.str.strip_chars().str.to_lowercase()
        return _cell(column, _either(word.is_in(_TRUE), word.is_in(_FALSE)), word.is_in(MISSING))
    if dtype.is_numeric():
        number = raw.cast(pl.Float64)
        return _cell(column, _either(number == 1, number == 0), number.is_nan())
    return _unreadable(column, pl.Boolean())


def text(column: str, dtype: pl.DataType, *, written: bool = True) -> Cell:
    """An id or a name as String; the empty one is missing.

    Args:
        column: the raw column.
        dtype: its dtype; whole floats lose their `.0`, for they are ids that met a missing value on their way.
        written: whether the text was typed or printed (CSV, JSON): then spaces around it do not count and the markers of
            `MISSING_TEXT` are missing. A Parquet string is taken as it stands.
    """
    raw = pl.col(column)
    if isinstance(dtype, pl.String):
        word = raw.str.strip_chars() if written else raw
        return Cell(pl.when(~word.is_in(MISSING_TEXT if written else ("",))).then(word), None, (column,))
    if dtype.is_float():
        whole = raw.cast(pl.Float64).cast(pl.Int64, strict=False)
        name = pl.when(whole == raw).then(whole.cast(pl.String)).otherwise(raw.cast(pl.String))
        return Cell(pl.when(raw.is_not_nan()).then(name), None, (column,))
    if dtype.is_nested() or isinstance(dtype, pl.Object):
        return _unreadable(column, pl.String())
    word = raw.cast(pl.String, strict=False)
    return _cell(column, pl.when(word != "").then(word), word == "")


def identity(column: str, dtype: pl.DataType, *, written: bool = True) -> Cell:
    """A request id: Int64 where the source has integers, else String."""
    if not dtype.is_integer():
        return text(column, dtype, written=written)
    return _cell(column, pl.col(column).cast(pl.Int64, strict=False), pl.lit(value=False))


def hashes(column: str, dtype: pl.DataType) -> Cell:
    """Prefix block ids as List(UInt64), from a list or its JSON text.

    Numbers keep their value, up to 2^64-1; negative ones and names become a 64-bit hash of their text, so equal ids stay
    equal. A list that holds anything else, a null included, is bad as a whole.

    >>> cell = hashes("hash_ids", pl.String())
    >>> pl.DataFrame({"hash_ids": ["[0, 18446744073709551615]", "[0"]}).select(cell.value, bad=cell.bad).rows()
    [([0, 18446744073709551615], False), (None, True)]
    """
    if isinstance(dtype, pl.String):
        raw = pl.col(column)
        plain = pl.when(raw.str.contains(_IDS)).then(raw)
        named = pl.when(raw.str.contains(_NAMED_IDS) & plain.is_null()).then(raw)
        ids = pl.coalesce(_split(plain).cast(pl.List(pl.UInt64), strict=False), _split(named).list.eval(_id(pl.element())))
        value = pl.when(plain.str.strip_chars("[] \t\r\n") == "").then(pl.lit([], dtype=pl.List(pl.UInt64))).otherwise(_full(ids))
        return _cell(column, value, raw.str.strip_chars().str.to_lowercase().is_in(MISSING))
    inner = getattr(dtype, "inner", None)
    if inner is not None and (inner.is_integer() or isinstance(inner, (pl.String, pl.Null))):
        return _cell(column, _full(_listed(pl.col(column), inner)), pl.lit(value=False))
    return _unreadable(column, pl.List(pl.UInt64()))


def chained(ids: Cell) -> Cell:
    """Prefix keys from ids that name a block by itself: each key stands for its block and all those before it.

    Key k is the sum over j <= k, modulo 2^64, of a hash of (id j, j): equal for equal prefixes, and else by accident only.
    Ids that are chained already keep their classes of equality.
    """
    place = pl.int_range(pl.len(), dtype=pl.UInt64)
    keys = ids.value.list.eval(pl.struct(pl.element(), place.alias("place")).hash(_SEED).cum_sum())
    return Cell(keys, ids.bad, ids.sources)


def add(tokens: Cell, more: Cell) -> Cell:
    """The sum of two counts where both are known, else the first; null and bad where it passes 2^63-1."""
    fits = (tokens.value <= (2**63 - 1) - more.value).fill_null(value=True)
    total = pl.when(fits).then(tokens.value + more.value.fill_null(0))
    return Cell(total, ~fits if tokens.bad is None else tokens.bad | ~fits, (*tokens.sources, *more.sources))


def _cell(column: str, value: pl.Expr, missing: pl.Expr) -> Cell:
    """A cell that is bad where it has no value although its source is neither null nor missing."""
    bad = value.is_null() & pl.col(column).is_not_null() & ~missing.fill_null(value=False)
    return Cell(value, bad, (column,))


def _unreadable(column: str, dtype: pl.DataType) -> Cell:
    return Cell(pl.lit(None, dtype=dtype), pl.col(column).is_not_null(), (column,))


def _rest(raw: pl.Expr, parsed: pl.Expr) -> pl.Expr:
    """What a first parse refused, trimmed and in lower case; null everywhere else."""
    return pl.when(parsed.is_null()).then(raw).str.strip_chars().str.to_lowercase()


def _decimal(text: pl.Expr, decimal_comma: bool, grouped: str) -> pl.Expr:  # noqa: FBT001 - internal, always from a keyword
    """Float64 of text that may group its thousands, or, with a decimal comma, group them by points."""
    if decimal_comma:
        point = text.str.replace_all(r"[.' \u{a0}\u{202f}](\d{3})", "${1}").str.replace(",", ".", literal=True)
        return pl.when(text.str.contains(",", literal=True)).then(point).otherwise(text).cast(pl.Float64, strict=False)
    bare = text.str.replace_all(r"[,' \u{a0}\u{202f}]", "")
    return pl.when(text.str.contains(grouped)).then(bare).otherwise(text).cast(pl.Float64, strict=False)


def _whole(number: pl.Expr) -> pl.Expr:
    """Int64 of a Float64 without a fraction, null for every other and for 2^63 and beyond."""
    return pl.when(number == number.floor()).then(number).cast(pl.Int64, strict=False)


def _natural(number: pl.Expr) -> pl.Expr:
    return pl.when(number >= 0).then(number)


def _duration(number: pl.Expr) -> pl.Expr:
    return pl.when((number >= 0) & number.is_finite()).then(number)


def _either(yes: pl.Expr, no: pl.Expr) -> pl.Expr:
    return pl.when(yes).then(pl.lit(value=True)).when(no).then(pl.lit(value=False))


def _split(listing: pl.Expr) -> pl.Expr:
    return listing.str.strip_chars("[] \t\r\n").str.replace_all(r"\s", "").str.split(",")


def _id(name: pl.Expr) -> pl.Expr:
    bare = name.str.strip_chars('"')
    return pl.coalesce(bare.cast(pl.UInt64, strict=False), bare.hash(_SEED))


def _listed(ids: pl.Expr, inner: pl.DataType) -> pl.Expr:
    evaluate: Callable[[pl.Expr], pl.Expr] = ids.list.eval
    if isinstance(inner, pl.String):
        return evaluate(_id(pl.element()))
    if inner.is_signed_integer():
        signed = pl.element().cast(pl.Int64)
        return evaluate(pl.when(signed >= 0).then(signed).cast(pl.UInt64).fill_null(signed.cast(pl.String).hash(_SEED)))
    return ids.cast(pl.List(pl.UInt64))


def _full(ids: pl.Expr) -> pl.Expr:
    """The lists without a hole; one with a null in it becomes null."""
    return pl.when(ids.list.drop_nulls().list.len() == ids.list.len()).then(ids)
