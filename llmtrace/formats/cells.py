"""Tolerant cells: how one canonical value is read from a raw column of whatever dtype.

Every function looks at the column's dtype and returns a `Cell`: the value, null where the source is missing or cannot be
read, and where it is missing rather than unreadable. Text costs one parse where it is plain; only what that parse refuses
(spaces, `63.0`, `1,234`, missing markers) goes through the slower expressions, as a column that is null elsewhere.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import TYPE_CHECKING, ParamSpec, cast

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
    "is_missing",
    "position",
    "seconds",
    "text",
    "unreadable",
]

_Takes = ParamSpec("_Takes")

MISSING = ("", "-", "null", "none", "na", "n/a", "nan", "\\n")
"""What stands for "no number", in lower case and without the spaces around it."""
MISSING_TEXT = ("", "-", "NULL", "null", "None", "\\N", "nan", "NaN", "N/A")
"""What stands for "no text" in CSV and JSON; NA is left alone, for it is also a name."""
PER_SECOND: dict[TimeUnit, int] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_TRUE = ("true", "t", "yes", "y", "1", "1.0")
_FALSE = ("false", "f", "no", "n", "0", "0.0")
_BLANK = r"^\s*(?:" + "|".join(map(re.escape, MISSING)) + r")\s*$"
_BLANK_OR_MINUS_ONE = r"^\s*(?:" + "|".join(map(re.escape, MISSING)) + r"|-1(?:[.,]0*)?)\s*$"
_SPACES = "' \u00a0\u202f"
"""What may stand between thousands besides the comma: an apostrophe, and spaces of three kinds."""
_THOUSANDS = r"[1-9]\d{0,2}(?:[%s]\d{3})+"
_GROUPED = rf"^\s*([+-]?{_THOUSANDS % (',' + _SPACES)}(?:\.\d+)?)\s*$"
_GROUPED_WITH_POINT = rf"^\s*([+-]?{_THOUSANDS % (',' + _SPACES)}\.\d+)\s*$"
_WITH_COMMA = rf"^\s*([+-]?(?:\d+,\d+|{_THOUSANDS % ('.' + _SPACES)},\d+|{_THOUSANDS % _SPACES}))\s*$"
# Numbers of at most 19 digits are below 2^64, so none of them turns into a null on its way to UInt64.
_NUMBERS = r"^\s*\[ *\d{1,19} *(?:, *\d{1,19} *)*\]\s*$"
_NAMES = r'^\s*\[ *(?:-?\d+|"[^"\\,]*") *(?:, *(?:-?\d+|"[^"\\,]*") *)*\]\s*$'
_EMPTY = r"^\s*\[\s*\]\s*$"
_SPOILT = "[\0\ufffd]"
"""What stands for bytes that are no text: two names that differ in such bytes alone would become one."""
_NEXT = "[89ab]."
_UTF8_IN_HEX = (
    rf"^(?:[0-7].|(?:c[2-9a-f]|d.){_NEXT}|(?:e0[ab].|ed[89].|e[1-9a-cef]{_NEXT}){_NEXT}"
    rf"|(?:f0[9ab].|f48.|f[1-3]{_NEXT}){_NEXT}{_NEXT})*$"
)
"""Bytes that are UTF-8 (table 3-7 of the Unicode standard), for Polars has no cast that makes others null."""
_LARGEST = sys.float_info.max
_SEED = 0


def _kept(make: Callable[_Takes, Cell]) -> Callable[_Takes, Cell]:
    """Keep what is made for a column: thousands of files have the same ones, and expressions take long to put together."""
    return cast("Callable[_Takes, Cell]", functools.lru_cache(maxsize=1 << 10)(make))


@_kept
def count(column: str, dtype: pl.DataType, *, decimal_comma: bool = False) -> Cell:
    """A whole number of tokens as Int64: `63`, `63.0`, ` 12 `, `1,234`; -1 and the markers of `MISSING` are missing.

    Any other negative number, a fraction, a number of 2^63 or more and all other content is null and bad.

    >>> cell = count("it", pl.String())
    >>> pl.DataFrame({"it": ["63.0", "-1", "-2", "many"]}).select(cell.value, bad=cell.bad).rows()
    [(63, False), (None, False), (None, True), (None, True)]
    """
    raw = pl.col(column)
    if dtype.is_integer():
        return _count_from_integer(column, dtype)
    if isinstance(dtype, pl.String):
        exact = raw.str.to_integer(strict=False)
        number = pl.coalesce(exact, _whole(_decimal(_refused(raw, exact), _WITH_COMMA if decimal_comma else _GROUPED)))
    elif dtype.is_float() or dtype.is_decimal():
        number = _whole(raw.cast(pl.Float64))
    else:
        return _unreadable(column, dtype, pl.Int64())
    # Through UInt64, which refuses what is negative, and reads its column only once.
    value = number.cast(pl.UInt64, strict=False).cast(pl.Int64)
    return Cell(value, unreadable(column, dtype, value, sentinel=True), (column,))


def _count_from_integer(column: str, dtype: pl.DataType) -> Cell:
    """A count from integers: two comparisons, for this is how long traces come."""
    raw = pl.col(column)
    if dtype.is_unsigned_integer():
        value = raw.cast(pl.Int64, strict=False)
        return Cell(value, unreadable(column, dtype, value) if dtype in {pl.UInt64, pl.UInt128} else None, (column,))
    value = pl.when(raw >= 0).then(raw).cast(pl.Int64, strict=False)
    bad = (raw < -1) | (raw > 2**63 - 1) if dtype == pl.Int128 else raw < -1
    return Cell(value, bad.fill_null(value=False), (column,))


def position(column: str, dtype: pl.DataType, *, first: int = 0) -> Cell:
    """A position counted from `first` in the source, as Int32 from 0."""
    cell = count(column, dtype)
    value = (cell.value - first).cast(pl.Int32, strict=False)
    return Cell(pl.when(value >= 0).then(value), cell.bad, cell.sources)


@_kept
def seconds(column: str, dtype: pl.DataType, *, unit: TimeUnit = "s", decimal_comma: bool = False) -> Cell:
    """A length of time in seconds as Float64, from a bare number in `unit` or a Duration; negative and infinite ones are bad.

    >>> cell = seconds("latency_ms", pl.String(), unit="ms")
    >>> pl.DataFrame({"latency_ms": ["183", "", "-5"]}).select(cell.value, bad=cell.bad).rows()
    [(0.183, False), (None, False), (None, True)]
    """
    raw = pl.col(column)
    if isinstance(dtype, pl.Duration):
        number = raw.dt.total_microseconds() / PER_SECOND["us"]
    elif isinstance(dtype, pl.String):
        plain = raw.cast(pl.Float64, strict=False)
        rest = _decimal(_refused(raw, plain), _WITH_COMMA if decimal_comma else _GROUPED_WITH_POINT)
        number = _in_seconds(pl.coalesce(plain, rest), unit)
    elif dtype.is_numeric():
        number = _in_seconds(raw.cast(pl.Float64), unit)
    else:
        return _unreadable(column, dtype, pl.Float64())
    value = pl.when(number.is_between(0, _LARGEST)).then(number)
    return Cell(value, unreadable(column, dtype, value), (column,))


def _in_seconds(number: pl.Expr, unit: TimeUnit) -> pl.Expr:
    return number if unit == "s" else number / PER_SECOND[unit]


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
        value: pl.Expr = pl.when(word.is_in(_TRUE)).then(pl.lit(value=True)).when(word.is_in(_FALSE)).then(pl.lit(value=False))
    elif dtype.is_numeric():
        number = raw.cast(pl.Float64)
        value = pl.when((number == 0) | (number == 1)).then(number == 1)
    else:
        return _unreadable(column, dtype, pl.Boolean())
    return Cell(value, unreadable(column, dtype, value), (column,))


@_kept
def text(column: str, dtype: pl.DataType, *, written: bool = True) -> Cell:
    """An id or a name as String; the empty one is missing, one with bytes that are no UTF-8 is bad.

    Args:
        column: the raw column.
        dtype: its dtype; whole floats lose their `.0`, for they are ids that met a missing value on their way.
        written: whether the text was typed or printed (CSV, JSON): then spaces around it do not count and the markers of
            `MISSING_TEXT` are missing. A Parquet string is taken as it stands.
    """
    raw = pl.col(column)
    if isinstance(dtype, pl.String):
        if not written:
            return Cell(pl.when(raw != "").then(raw), None, (column,))
        word, spoilt = raw.str.strip_chars(), raw.str.contains(_SPOILT).fill_null(value=False)
        return Cell(pl.when(~word.is_in(MISSING_TEXT) & ~spoilt).then(word), spoilt, (column,))
    if dtype.is_float():
        whole = _whole(raw.cast(pl.Float64))
        name = pl.coalesce(whole.cast(pl.String), raw.cast(pl.String))
        return Cell(pl.when(raw.is_not_nan()).then(name), None, (column,))
    if dtype.is_nested() or isinstance(dtype, pl.Object):
        return _unreadable(column, dtype, pl.String())
    if isinstance(dtype, pl.Binary):
        readable = raw.bin.encode("hex").str.contains(_UTF8_IN_HEX)
        # Not null elsewhere, but empty: the cast looks at what lies under nulls too.
        word = pl.when(readable).then(raw).otherwise(pl.lit(b"")).cast(pl.String)
        return Cell(pl.when(word != "").then(word), ~readable, (column,))
    word = raw.cast(pl.String)
    return Cell(pl.when(word != "").then(word), None, (column,))


def identity(column: str, dtype: pl.DataType, *, written: bool = True) -> Cell:
    """A request id: Int64 where the source has integers, else String."""
    if not dtype.is_integer():
        return text(column, dtype, written=written)
    value = pl.col(column).cast(pl.Int64, strict=False)
    return Cell(value, unreadable(column, dtype, value), (column,))


def hashes(column: str, dtype: pl.DataType) -> Cell:
    """Prefix block ids as List(UInt64), from a list or its JSON text.

    Numbers keep their value, up to 2^64-1; negative ones and names become a 64-bit hash of their text, so equal ids stay
    equal. A list that holds anything else, a null included, is bad as a whole.

    >>> cell = hashes("hash_ids", pl.String())
    >>> pl.DataFrame({"hash_ids": ["[0, 18446744073709551615]", "[0"]}).select(cell.value, bad=cell.bad).rows()
    [([0, 18446744073709551615], False), (None, True)]
    """
    raw = pl.col(column)
    inner = getattr(dtype, "inner", None)
    if isinstance(dtype, pl.Array):
        raw = raw.arr.to_list()
    if isinstance(dtype, pl.String):
        numeric = raw.str.contains(_NUMBERS)
        others = pl.when(~numeric).then(raw)
        named = pl.when(others.str.contains(_NAMES)).then(_split(others).list.eval(_id(pl.element())))
        none = pl.when(others.str.contains(_EMPTY)).then(pl.lit([], dtype=pl.List(pl.UInt64)))
        numbers = _split(raw).cast(pl.List(pl.UInt64), strict=False)
        value = pl.when(numeric).then(numbers).otherwise(pl.coalesce(named, none))
    elif inner is not None and (inner.is_integer() or inner in {pl.String, pl.Null}):
        value = pl.when(~raw.list.contains(None)).then(_listed(raw, inner))
    else:
        return _unreadable(column, dtype, pl.List(pl.UInt64()))
    return Cell(value, unreadable(column, dtype, value), (column,))


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


def is_missing(words: pl.Series, *, sentinel: bool = False) -> pl.Series:
    """Which of these words stand for "no number"; -1 does where it is a sentinel."""
    return words.str.to_lowercase().str.contains(_BLANK_OR_MINUS_ONE if sentinel else _BLANK)


def unreadable(column: str, dtype: pl.DataType, value: pl.Expr, *, sentinel: bool = False) -> pl.Expr:
    """Where a column holds something that is not missing and yet has no value.

    Args:
        column: the raw column.
        dtype: its dtype: text is missing by the markers of `MISSING`, a float by NaN.
        value: what was read of it.
        sentinel: whether -1 is missing.
    """
    left = pl.when(value.is_null()).then(pl.col(column))
    if isinstance(dtype, pl.String):
        there = ~left.str.to_lowercase().str.contains(_BLANK_OR_MINUS_ONE if sentinel else _BLANK)
    elif dtype.is_numeric():
        number = left.cast(pl.Float64)
        there = number.is_not_nan() & (number != -1) if sentinel else number.is_not_nan()
    else:
        there = left.is_not_null()
    return there.fill_null(value=False)


def _unreadable(column: str, dtype: pl.DataType, wanted: pl.DataType) -> Cell:
    """The cell of a column whose dtype has no meaning here."""
    missing = pl.col(column).is_null()
    return Cell(pl.when(missing).then(pl.lit(None, dtype=wanted)), None if isinstance(dtype, pl.Null) else ~missing, (column,))


def _refused(raw: pl.Expr, parsed: pl.Expr) -> pl.Expr:
    """What a first parse did not take; null everywhere else."""
    return pl.when(parsed.is_null()).then(raw)


def _decimal(text: pl.Expr, grouped: str) -> pl.Expr:
    """Float64 of a number with spaces around it, or grouped in a way that the pattern takes."""
    digits = text.str.extract(grouped, 1)
    if grouped == _WITH_COMMA:
        plain = digits.str.replace_all(f"[.{_SPACES}]", "").str.replace(",", ".", literal=True)
    else:
        plain = digits.str.replace_all(f"[,{_SPACES}]", "")
    return pl.coalesce(plain, text.str.strip_chars()).cast(pl.Float64, strict=False)


def _whole(number: pl.Expr) -> pl.Expr:
    """Int64 of a Float64 without a fraction, null for every other and for 2^63 and beyond."""
    return pl.when(number % 1 == 0).then(number).cast(pl.Int64, strict=False)


def _split(listing: pl.Expr) -> pl.Expr:
    return listing.str.strip_chars("[] \t\r\n").str.replace_all(" ", "", literal=True).str.split(",")


def _id(name: pl.Expr) -> pl.Expr:
    bare = name.str.strip_chars('"')
    return pl.coalesce(bare.cast(pl.UInt64, strict=False), bare.hash(_SEED))


def _listed(ids: pl.Expr, inner: pl.DataType) -> pl.Expr:
    evaluate: Callable[[pl.Expr], pl.Expr] = ids.list.eval
    if inner == pl.String:
        return evaluate(_id(pl.element()))
    if inner.is_signed_integer():
        signed = pl.element().cast(pl.Int64)
        return evaluate(pl.when(signed >= 0).then(signed).cast(pl.UInt64).fill_null(signed.cast(pl.String).hash(_SEED)))
    return ids.cast(pl.List(pl.UInt64))
