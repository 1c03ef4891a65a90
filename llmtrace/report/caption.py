"""Where a result comes from, in words: trace, period, filters. Titles of tables and captions of figures say the same."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from llmtrace.report.units import duration, shortened, visible
from llmtrace.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.result import Result

__all__ = ["caption", "filters", "is_relative", "period", "rows", "trace_name"]

NAME_LENGTH = 48
MAX_NAMES = 2
_SINGLE = {"models": "model", "users": "user", "endpoints": "endpoint"}
_DESCRIPTOR = re.compile(r"/dev/fd/\d+|/proc/(?:self|\d+)/fd/\d+")
"""What a shell puts in the place of <(...): a number alone would name nothing."""
DATES_FROM, MINUTES_FROM = 14 * 86_400, 6 * 3_600
"""A period of so many seconds is named by its dates alone; by minutes; a shorter one to the second."""


def is_relative(result: Result) -> bool:
    """Whether the trace's clock has no dates, so that its times are seconds from the first arrival."""
    return result.provenance.get("clock") == "relative"


def trace_name(result: Result) -> str:
    """The sources without their folders, of many the first two and how many more; generated ones are called synthetic."""
    sources = [str(source) for source in result.provenance.get("sources", ())]
    names = [shortened(visible(_last_part(source)), NAME_LENGTH) for source in sources[:MAX_NAMES]]
    if len(sources) > MAX_NAMES:
        names.append(f"{len(sources) - MAX_NAMES:,} more")
    label = " (synthetic)" if result.provenance.get("synthetic") else ""
    return (", ".join(names) or "unnamed trace") + label


def period(result: Result) -> str:
    """From the first to the last request; only its length on a relative clock; empty if the trace is."""
    if is_relative(result):
        span = _span(result)
        return "" if span is None else f"{duration(span)} on a relative clock"
    first, last = (_moment(result.provenance.get(end)) for end in ("first", "last"))
    if first is None or last is None:
        return ""
    span_s = (last - first).total_seconds()
    if span_s >= DATES_FROM:
        return f"{first:%Y-%m-%d} to {last:%Y-%m-%d} UTC"
    clock = "%H:%M" if span_s >= MINUTES_FROM else "%H:%M:%S"
    end = clock if first.date() == last.date() else f"%Y-%m-%d {clock}"
    return f"{first:%Y-%m-%d} {first:{clock}} to {last:{end}} UTC"


def filters(result: Result) -> str:
    """The filters that were set, as `since 2025-05-01, model a or b`; empty if none were."""
    chosen: Mapping[str, object] = result.provenance.get("filters") or {}
    set_ones = {name: value for name, value in chosen.items() if value not in (None, [], ())}
    return ", ".join(visible(f"{_SINGLE.get(name, name)} {_alternatives(value)}") for name, value in set_ones.items())


def rows(result: Result) -> str:
    """How many rows count, and of how many that were read if filters left some out; empty if not known."""
    kept, read = (result.provenance.get(name) for name in ("rows", "rows_read"))
    if kept is None:
        return ""
    return f"{kept:,} of {counted(read, 'row')}" if read not in (None, kept) else counted(kept, "row")


def caption(result: Result) -> str:
    """One line under a figure: trace, period, filters."""
    parts = (trace_name(result), period(result), filters(result))
    return " · ".join(part for part in parts if part)


def _last_part(source: str) -> str:
    if _DESCRIPTOR.fullmatch(source):
        return source
    name = source.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return {"-": "standard input"}.get(name, name or source)


def _alternatives(value: object) -> str:
    return " or ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _span(result: Result) -> float | None:
    span = result.scalars.get("span_s")
    if isinstance(span, (int, float)):
        return span
    first, last = (_moment(result.provenance.get(end)) for end in ("first", "last"))
    return None if first is None or last is None else (last - first).total_seconds()


def _moment(value: object) -> datetime | None:
    """A time of the provenance, which is JSON-ready: ISO text, or seconds on a relative clock."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, (int, float)):
        value = datetime.fromtimestamp(value, UTC)
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
