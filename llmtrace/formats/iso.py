"""ISO 8601 text as times in UTC, at the speed of the plainest spelling.

A column is written in one spelling, by and large, and Polars has fast parsers for a few fixed ones. So the spelling of an example
is tried first, and what it does not fit is parsed by the general forms, as a column that is null elsewhere.
"""

from __future__ import annotations

import re
import statistics
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["apart", "together"]

_SPELLING = re.compile(r"\d{4}-\d{2}-\d{2}([T ])\d{2}:\d{2}:\d{2}(?:\.(\d+))?(Z|[+-]\d{2}:?(?:\d{2})?)?")
_DAY, _SECONDS = len("2025-04-11"), len("2025-04-11 00:00:00")
_MILLI, _MICRO = 3, 6
"""Digits of the fractions that have a fast parser."""
_UTC = ("", "Z", "+00", "+0000", "+00:00")
_SAME = {"T": " ", "t": " ", ",": ".", "z": "Z", "+0000 UTC": "Z", " UTC": "Z", "UTC": "Z", " GMT": "Z", "GMT": "Z"}
"""Other spellings of the same: the letter between day and time, a comma before the fraction, other names for Z."""
_SHORT = re.compile(r"\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?:Z|[+-].*)?)?")


def together(text: pl.Expr, words: Sequence[str]) -> pl.Expr:
    """Times as naive UTC; those without an offset are UTC already. Fractions are truncated to microseconds.

    Args:
        text: the column.
        words: its first values, whose spellings decide which are tried: the commonest first, times without seconds only if there
            are some.
    """
    first, rest, _ = _split(text, _typical(words))
    return pl.coalesce(first, *_utc(rest, words), *_wall(rest, words))


def apart(text: pl.Expr, words: Sequence[str]) -> tuple[pl.Expr, pl.Expr]:
    """Times that carry an offset, as naive UTC, and the wall clocks that carry none; each is null where the other is not."""
    first, rest, zoned = _split(text, _typical(words))
    utc, wall = _utc(rest, words), _wall(rest, words)
    return (pl.coalesce(first, *utc), pl.coalesce(wall)) if zoned else (pl.coalesce(utc), pl.coalesce(first, *wall))


def _typical(words: Sequence[str]) -> str:
    """The first word of the commonest length."""
    length = statistics.mode(map(len, words)) if words else 0
    return next((word for word in words if len(word) == length), "")


def _split(text: pl.Expr, example: str) -> tuple[pl.Expr, pl.Expr, bool]:
    """The times that are spelled as the example, the text of all others, tidied up, and whether the example has an offset."""
    spelling = _SPELLING.fullmatch(example)
    between, fraction, offset = spelling.groups(default="") if spelling else (" ", "", "")
    digits = min(len(fraction), _MICRO)
    if offset not in _UTC or digits not in {0, _MILLI, _MICRO}:
        form = f"%Y-%m-%d{between}%H:%M:%S%.f"
        first = _parsed(text, form + "%#z") if offset else _parsed(text, form)
        return first, _tidied(text, first.is_null()), offset != ""
    length = _SECONDS + digits + (digits > 0)
    form = f"%Y-%m-%d{between}%H:%M:%S" + (f".%{digits}f" if digits else "")
    # Whether the spelling fits is asked of the text, not of what was parsed: the engine does not share what two expressions have
    # in common, and would parse twice.
    fraction_form = (rf"\.\d{{{digits}}}" + (r"\d*" if digits == _MICRO else "")) if digits else ""
    fits = text.str.slice(_DAY).str.contains(rf"^{between}\d\d:\d\d:\d\d{fraction_form}{re.escape(offset)}$")
    return pl.when(fits).then(_parsed(text.str.slice(0, length), form)), _tidied(text, ~fits), offset != ""


def _tidied(text: pl.Expr, wanted: pl.Expr) -> pl.Expr:
    return pl.when(wanted).then(text).str.strip_chars().str.replace_many(_SAME, leftmost=True)


def _utc(text: pl.Expr, words: Sequence[str]) -> list[pl.Expr]:
    short = any(_SHORT.fullmatch(word) for word in words)
    return [_parsed(text, form) for form in ("%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M%#z")[: 1 + short]]


def _wall(text: pl.Expr, words: Sequence[str]) -> list[pl.Expr]:
    short = any(_SHORT.fullmatch(word) for word in words)
    return [_parsed(text, form) for form in ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")[: 1 + 2 * short]]


def _parsed(text: pl.Expr, form: str) -> pl.Expr:
    if not form.endswith("z"):
        return text.str.to_datetime(form, time_unit="us", strict=False)
    return text.str.to_datetime(form, time_unit="us", time_zone="UTC", strict=False).dt.replace_time_zone(None)
