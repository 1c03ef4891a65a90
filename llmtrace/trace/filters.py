"""The filters that every command shares, as one elementwise predicate on canonical columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from llmtrace.errors import MissingColumnError, UsageError
from llmtrace.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from llmtrace.formats.layout import Clock

__all__ = ["Filters"]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_CALLS = re.compile(r"(\.?[a-z_][\w.]*)\(")
_ROW_BY_ROW = re.compile(
    r"col|\.(?:dt\.\w+|str\.(?!join|concat)\w+|(?:sql_)?is_in|is_null|is_not_null|is_between|not|cast|strict_cast"
    r"|abs|round|floor|ceil|sql_rem|coalesce|when|then|otherwise)"
)
_LONGEST = 5_000
"""Characters up to which a predicate with other functions is looked at part by part."""
_STRINGS = re.compile(r"('(?:[^']|'')*'|\"[^\"]*\")")
_QUERY = re.compile(r"\b(?:select|read_\w+)\b", re.IGNORECASE)
_FROM_A_FILE = re.compile(r"\bfrom\b.*\bread_(?:csv|ipc|(?:nd)?json|parquet)\b", re.IGNORECASE | re.DOTALL)
_TIME_WITH_TEXT = "'date/datetime/time' to a string"
"""In what Polars says of a time that is compared with text."""


@dataclass(frozen=True)
class Filters:
    """Which requests count: a time window, names, and a free predicate; an empty one lets everything through.

    Attributes:
        since: ISO time (UTC unless it carries an offset), or a duration from the trace's first arrival; inclusive.
        until: the same, exclusive.
        models: keep requests to these models.
        users: keep requests of these users.
        endpoints: keep requests to these endpoints.
        where: a Polars SQL predicate on canonical columns; rows for which it is null are left out, as in SQL.
    """

    since: str | None = None
    until: str | None = None
    models: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    where: str | None = None

    def described(self) -> dict[str, Any]:
        """The filters that are set, JSON-ready, for provenance and captions."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items() if value}

    def window(self, first: datetime, clock: Clock) -> tuple[datetime | None, datetime | None]:
        """The time window [since, until) on the trace's clock, whose first arrival is `first`.

        Raises:
            UsageError: if a time cannot be read, is a date on a relative clock, or the window is empty.
        """
        since = _moment("--since", self.since, first, clock)
        until = _moment("--until", self.until, first, clock)
        if since is not None and until is not None and since >= until:
            raise UsageError(
                f"--since {self.since} is not before --until {self.until}", "Give a window that begins before it ends."
            )
        return since, until

    def columns(self) -> frozenset[str]:
        """Canonical columns that the filters read, besides the timestamp."""
        named = {name for name, values in self._names().items() if values}
        return frozenset(named | (set() if self.where is None else set(_parsed(self.where).meta.root_names())))

    def predicate(self) -> pl.Expr | None:
        """One expression for all filters but the time window; None lets everything through."""
        tests = [pl.col(name).is_in(list(values)) for name, values in self._names().items() if values]
        tests += [] if self.where is None else [_parsed(self.where)]
        return pl.all_horizontal(tests) if tests else None

    def check(self, available: Collection[str]) -> None:
        """Raise unless the filters can be applied to a trace with the `available` columns.

        Raises:
            MissingColumnError: if a filter reads a column that is not there.
            UsageError: if `where` is not a predicate on single rows.
        """
        for name, values in self._names().items():
            if values and name not in available:
                raise MissingColumnError.among([name], _in_order(available), f"--{name}")
        if self.where is not None:
            _check_where(self.where, _in_order(available))

    def _names(self) -> dict[str, tuple[str, ...]]:
        return {"model": self.models, "user": self.users, "endpoint": self.endpoints}


def _in_order(names: Collection[str]) -> list[str]:
    return [name for name in COLUMNS if name in names]


def _moment(option: str, text: str | None, first: datetime, clock: Clock) -> datetime | None:
    if text is None:
        return None
    if parts := _DURATION.findall(text):
        if _DURATION.sub("", text).strip():
            raise _unreadable(option, text)
        return _moved(first, sum(float(number) * _SECONDS[unit] for number, unit in parts))
    if clock == "relative":
        raise UsageError(
            f"{option} {text}: this trace is on a relative clock, which has no dates",
            f"Give the time since the first arrival, as in {option} 36h.",
        )
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        raise _unreadable(option, text) from None


def _moved(first: datetime, seconds: float) -> datetime:
    """So many seconds later, or the end of all time if that comes first."""
    try:
        return first + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max


def _unreadable(option: str, text: str) -> UsageError:
    return UsageError(
        f"{option} {text}: not a time",
        f"Give an ISO time ({option} 2025-04-11T08:00) or a duration from the start ({option} 36h).",
    )


def _parsed(where: str) -> pl.Expr:
    # `user` is a reserved word of SQL and a column of ours: outside quotes it always means the column.
    pieces = _STRINGS.split(where)
    # Polars opens the files that a query names as soon as it parses it; quotes in a comment can hide one from us.
    if _QUERY.search(" ".join(pieces[::2])) or _FROM_A_FILE.search(where):
        raise UsageError(f"--where {where}: a query within it is not a test of one request", _WHERE_HINT)
    quoted = [
        piece if index % 2 else re.sub(r"\buser\b", '"user"', piece, flags=re.IGNORECASE) for index, piece in enumerate(pieces)
    ]
    try:
        return pl.sql_expr("".join(quoted))
    except pl.exceptions.PolarsError as error:
        raise _refused(where, error) from None


_WHERE_HINT = "Give a SQL predicate on canonical columns, as in --where \"input_tokens > 1000 AND model LIKE 'org/%'\"."
_TIME_HINT = "Write it as a time, as in --where \"timestamp > timestamp '2025-04-11 12:00:00'\"."


def _check_where(where: str, available: Sequence[str]) -> None:
    expression = _parsed(where)
    if any(name.startswith("_POLARS") for name in expression.meta.root_names()):
        raise UsageError(f"--where {where}: a query within it is not a test of one request", _WHERE_HINT)
    missing = [name for name in dict.fromkeys(expression.meta.root_names()) if name not in available]
    if missing:
        raise MissingColumnError.among(missing, available, f"--where {where}")
    nothing = pl.DataFrame(schema={name: COLUMNS[name].dtype for name in available})
    try:
        [dtype] = nothing.lazy().select(expression).collect_schema().dtypes()
        if _sees_other_rows(expression, nothing):
            raise UsageError(f"--where {where}: an aggregate or window is not a test of one request", _WHERE_HINT)
        if not expression.meta.root_names():
            raise UsageError(f"--where {where}: says the same of every request", _WHERE_HINT)
        if dtype != pl.Boolean:
            raise UsageError(f"--where {where}: gives {dtype}, not true or false", _WHERE_HINT)
        nothing.filter(expression)
    except pl.exceptions.PolarsError as error:
        raise _refused(where, error) from None


def _refused(where: str, error: Exception) -> UsageError:
    said = str(error).strip().splitlines()[0]
    if _TIME_WITH_TEXT in said:
        return UsageError(f"--where {where}: compares a time with text", _TIME_HINT)
    return UsageError(f"--where {where}: {said}", _WHERE_HINT)


def _sees_other_rows(expression: pl.Expr, nothing: pl.DataFrame) -> bool:
    """Whether the value for a row depends on the rows beside it, and so on how the trace is cut.

    Wherever it stands in the expression, an aggregate makes a row out of none; windows show themselves in what is printed. So do
    functions that are known to see a row alone, of which long predicates are made: to evaluate each part of those takes minutes.
    """
    printed = _STRINGS.sub("", str(expression))
    if ".over(" in printed or ".explode(" in printed:
        return True
    if all(_ROW_BY_ROW.fullmatch(call) for call in _CALLS.findall(printed)):
        return False
    if len(printed) > _LONGEST:
        raise UsageError("--where is too long to be looked through for aggregates", _WHERE_HINT)
    makes_a_row = bool(expression.meta.root_names() or "len()" in printed) and nothing.select(expression).height > 0
    return makes_a_row or any(_sees_other_rows(inner, nothing) for inner in expression.meta.pop(schema=nothing.schema))
