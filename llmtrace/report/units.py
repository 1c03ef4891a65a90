"""Units of the names in a result, and numbers, durations and times as people write them.

A result's names carry their units (`span_s`, `input_tokens_per_s`, `stream_ratio`). Here a name gives its unit and its
label, and a number gives its text for people. Programs read CSV and JSON, which round nothing and use none of this but labels.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

__all__ = [
    "NULL",
    "aligned",
    "duration",
    "is_duration",
    "is_time",
    "label",
    "moment",
    "number",
    "per",
    "shortened",
    "unit",
    "visible",
]

NULL = "\u2013"
"""How a value that is not known is shown to people. It is never zero."""

SIGNIFICANT = 4
MOST_DECIMALS = 7
"""Decimals that the smallest number written without an exponent needs."""
SMALLEST, PLAIN_LIMIT = 1e-4, 1e15
"""Outside these a float is written with an exponent."""
COMPACT_FROM = 10_000_000
MOST_MARKS = 3
"""So many marks stand over or under a letter, as in Greek or Hindi. More of them would run over the lines around."""
_MARKS = frozenset({"Mn", "Me"})
"""The Unicode categories of marks that take no room beside a letter."""

_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SPANS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_FRACTIONS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "\u00b5s"), (1e-9, "ns"))
_INTERVALS = {1: "second", 60: "minute", 3_600: "hour", 86_400: "day", 604_800: "week"}
_TIMES = frozenset({"time", "timestamp", "month", "day", "week", "first", "last", "start", "end"})
_COUNTED = ("tokens", "requests", "users", "models", "instances", "sessions", "gaps", "bytes")


def is_duration(name: str) -> bool:
    """Whether a number of that name is a length of time in seconds; `_all` at its end says over what, not what.

    >>> [is_duration(name) for name in ("span_s", "p50_s_all", "requests_per_s", "tokens")]
    [True, True, False, False]
    """
    stem = name.removesuffix("_all")
    return stem.endswith("_s") and not stem.endswith("_per_s")


def is_time(name: str) -> bool:
    """Whether a value of that name is a point in time; on a relative clock it is a number of seconds from the first arrival.

    >>> [is_time(name) for name in ("time", "first_timestamp", "span_s")]
    [True, True, False]
    """
    return name in _TIMES or name.endswith(("_timestamp", "_time"))


def unit(name: str) -> str:
    """The unit of a number of that name; empty for a ratio and for what the name does not tell.

    >>> [unit(name) for name in ("ttft_s", "input_tokens", "requests_per_s", "stream_ratio", "cv")]
    ['s', 'tokens', 'requests/s', '', '']
    """
    amount, _, divisor = name.partition("_per_")
    if divisor:
        return f"{unit(amount) or '1'}/{divisor}"
    if is_duration(name):
        return "s"
    if "_to_" in name:
        return ""
    return next((counted for counted in _COUNTED if name == counted or name.endswith(f"_{counted}")), "")


def label(name: str) -> str:
    """A name as words, for a column header or an axis; a unit of time is left to the values.

    >>> [label(name) for name in ("input_tokens_per_s", "span_s", "p50_s_all", "stream_ratio")]
    ['input tokens/s', 'span', 'p50 all', 'stream ratio']
    """
    stem = re.sub(r"_s(_all)?$", r"\1", name) if is_duration(name) else name
    return stem.replace("_per_", "/").replace("_", " ")


def number(value: float) -> str:
    """An integer in full, any other number with four significant digits and never fewer than its integer digits.

    >>> [number(value) for value in (18059974, 2047.8, 12.3456, 0.5, 0.0136153, 0.0000012345)]
    ['18,059,974', '2,048', '12.35', '0.5', '0.01362', '1.234e-06']
    """
    exact = math.isfinite(value) and math.isclose(value, float(f"{value:.{SIGNIFICANT}g}"), rel_tol=1e-12)
    return _digits(value, _decimals(value) if exact else MOST_DECIMALS)


def aligned(values: Sequence[float | None]) -> list[str]:
    """The numbers of a column, each with four significant digits, all with the decimals that one of them needs.

    A column with a number from ten million on is written with SI prefixes; what is not known is a dash.

    >>> aligned([0.5, 12.3456, 1234.5]), aligned([25_000, 20_000_000]), aligned([0.1, 0.25])
    (['0.50', '12.35', '1,234'], ['25 k', '20 M'], ['0.10', '0.25'])
    """
    known = [value for value in values if value is not None]
    compact = any(abs(value) >= COMPACT_FROM for value in known if math.isfinite(value))
    scaled = [None if value is None else _scaled(value) if compact else (value, "") for value in values]
    decimals = max((_decimals(pair[0]) for pair in scaled if pair), default=0)
    if decimals >= SIGNIFICANT:  # numbers of very different size: no common form would suit them
        return [number(pair[0]) + pair[1] if pair else NULL for pair in scaled]
    return [_digits(pair[0], decimals) + pair[1] if pair else NULL for pair in scaled]


def _scaled(value: float) -> tuple[float, str]:
    """A number over an SI prefix, and the prefix."""
    if not math.isfinite(value):
        return value, ""
    rounded = abs(float(f"{value:.{SIGNIFICANT}g}"))
    size, prefix = next((pair for pair in _PREFIXES if rounded >= pair[0]), (1, ""))
    return (value / size, f" {prefix}") if prefix else (value, "")


def _decimals(value: float) -> int:
    """How many decimals a number needs to show its significant digits, zeros at the end not counted."""
    if not math.isfinite(value) or isinstance(value, int):
        return 0
    return len(f"{float(f'{value:.{SIGNIFICANT}g}'):.{MOST_DECIMALS}f}".rstrip("0").partition(".")[2])


def _digits(value: float, decimals: int) -> str:
    """A number with four significant digits, but at most so many decimals."""
    if not math.isfinite(value):
        return NULL
    if isinstance(value, int):
        return f"{value:,}"
    size = abs(float(f"{value:.{SIGNIFICANT}g}"))
    if size >= PLAIN_LIMIT or 0 < size < SMALLEST:
        return f"{value:.{SIGNIFICANT - 1}e}"
    whole = math.floor(math.log10(size)) if size else 0
    return f"{value:,.{max(0, min(decimals, SIGNIFICANT - 1 - whole))}f}"


def duration(seconds: float) -> str:
    """A length of time in its two largest units; below a minute with four significant digits.

    >>> [duration(value) for value in (31_691_520, 12_000, 3_536.999, 12.3456, 0.1, 0)]
    ['366 d 19 h', '3 h 20 min', '58 min 57 s', '12.35 s', '100 ms', '0 s']
    """
    if not math.isfinite(seconds):
        return NULL
    if seconds < 0:
        return f"-{duration(-seconds)}"
    rounded = float(f"{seconds:.{SIGNIFICANT}g}")
    if rounded < _SPANS[2][1]:
        size, symbol = next((pair for pair in _FRACTIONS if rounded >= pair[0]), _FRACTIONS[0 if rounded == 0 else -1])
        return f"{number(rounded / size)} {symbol}"
    place = next(place for place, (_, size) in enumerate(_SPANS) if seconds >= size - 0.5)
    large, small = _SPANS[place], _SPANS[place + 1]
    count, rest = divmod(round(seconds / small[1]), large[1] // small[1])
    return f"{count:,} {large[0]} {rest} {small[0]}" if rest else f"{count:,} {large[0]}"


def moment(time: datetime) -> str:
    """A point in time without silly zeros: the date alone at midnight, the fraction only as long as it is.

    >>> from datetime import datetime
    >>> moment(datetime(2023, 11, 16, 18, 17, 3, 979960)), moment(datetime(2025, 4, 1))
    ('2023-11-16 18:17:03.97996', '2025-04-01')
    """
    if (time.hour, time.minute, time.second, time.microsecond) == (0, 0, 0, 0):
        return f"{time:%Y-%m-%d}"
    text = f"{time:%Y-%m-%d %H:%M:%S}"
    return text if time.microsecond == 0 else f"{text}.{time.microsecond:06}".rstrip("0")


def per(seconds: float) -> str:
    """What follows "requests per" for an interval of that length.

    >>> [per(value) for value in (3600, 86400, 300)]
    ['hour', 'day', '5 min']
    """
    return _INTERVALS.get(int(seconds), duration(seconds)) if float(seconds).is_integer() else duration(seconds)


def shortened(text: str, length: int) -> str:
    """A text of at most `length` characters: what does not fit goes from its middle, and an ellipsis says so.

    >>> shortened("organisation/very-long-model-name-32b", 20)
    'organisati…-name-32b'
    """
    if len(text) <= length:
        return text
    tail = (length - 1) // 2
    return f"{text[: length - 1 - tail]}…{text[len(text) - tail :]}"


def visible(text: str) -> str:
    r"""The text with what cannot be printed as escapes: a name in a trace must not steer a terminal or break a line.

    Nor may it run over other lines: marks that are stacked higher than in any word are escapes too.

    >>> visible("red \x1b[31m"), visible("Z" + "\u0303" * 4)
    ('red \\x1b[31m', 'Z\u0303\u0303\u0303\\u0303')
    """
    shown, stacked = list[str](), 0
    for character in text:
        stacked = stacked + 1 if unicodedata.category(character) in _MARKS else 0
        shown.append(character if character.isprintable() and stacked <= MOST_MARKS else ascii(character)[1:-1])
    return "".join(shown)
