"""Result: what a command found, as data.

Table, CSV, JSON and figures all read the same `Result` and compute nothing new, so they cannot disagree. Units are part of
names (`_s`, `_tokens`, `_ratio`); nothing is rounded here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from llmtrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Result", "Scalar"]

_WEEKDAY = "weekday"

Scalar: TypeAlias = int | float | str | datetime | date | None


@dataclass(frozen=True)
class Result:
    """The outcome of one command.

    Attributes:
        command: the command's name, as typed.
        parameters: the parameters that shaped the numbers, JSON-ready.
        scalars: name to number, text, time or None; None means "not known", never zero.
        tables: name to frame, rows in reading order.
        primary: the table that CSV prints unless another is named.
        notes: sentences a reader must know to read the numbers rightly.
        provenance: where the numbers come from: sources, filters, clock, rows read, version.
        definitions: scalar, or `table.column`, to one sentence that defines it with its unit.
        shown: tables that a terminal shows in full below the primary one.
    """

    command: str
    parameters: Mapping[str, Any]
    scalars: Mapping[str, Scalar]
    tables: Mapping[str, pl.DataFrame]
    primary: str
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    definitions: Mapping[str, str] = field(default_factory=dict)
    shown: tuple[str, ...] = ()

    def table(self, name: str | None = None) -> pl.DataFrame:
        """The table of that name, or the primary one.

        Raises:
            UsageError: if there is no such table; the hint lists those there are.
        """
        wanted = self.primary if name is None else name
        if wanted not in self.tables:
            raise UsageError(f"--table {wanted}: {self.command} has no such table", f"Choose one of: {', '.join(self.tables)}.")
        return self.tables[wanted]

    def with_provenance(self, provenance: Mapping[str, Any], notes: tuple[str, ...] = ()) -> Result:
        """The same result, knowing where it comes from; `notes` go before its own."""
        return replace(self, provenance={**self.provenance, **provenance}, notes=(*notes, *self.notes))

    def on_relative_clock(self, origin: datetime) -> Result:
        """The same result with every time as seconds from `origin`, the trace's first arrival.

        A trace on a relative clock has no dates, so none may be printed. It has no weekdays either: tables by them are emptied,
        and a note says so.
        """
        scalars = {name: _seconds(value, origin) for name, value in self.scalars.items()}
        tables = {name: _in_seconds(table, origin) for name, table in self.tables.items()}
        weekly = [name for name, table in tables.items() if _WEEKDAY in table.columns and table.height]
        tables |= {name: tables[name].clear() for name in weekly}
        notes = [f"The trace is on a relative clock, which has no days of the week: {name} is empty." for name in weekly]
        return replace(self, scalars=scalars, tables=tables, notes=(*self.notes, *notes))


def _seconds(value: Scalar, origin: datetime) -> Scalar:
    return (value - origin).total_seconds() if isinstance(value, datetime) else value


def _in_seconds(table: pl.DataFrame, origin: datetime) -> pl.DataFrame:
    times = [name for name, dtype in table.schema.items() if dtype.is_temporal() and not isinstance(dtype, pl.Duration)]
    elapsed = (pl.col(times).cast(pl.Datetime("us")) - pl.lit(origin)).dt.total_microseconds() / 1e6
    return table.with_columns(elapsed) if times else table
