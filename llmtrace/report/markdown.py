"""Markdown: scalars, tables and notes as GitHub shows them, nothing rounded."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.report.caption import filters, period, rows, trace_name
from llmtrace.report.cells import plain_value, text_frame
from llmtrace.report.units import NULL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llmtrace.result import Result

__all__ = ["dumps"]

_SPECIAL = r"[\\`*<>|\[\]~]|\b_|_\b"
"""What GitHub takes for markup; an underscore only where a word begins or ends."""
_BREAKS = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+"
"""Line breaks, and control characters, with which a name could draw on the terminal."""


def dumps(result: Result, table: str | None = None) -> str:
    """The result as Markdown: a title, a table of scalars with their definitions, every table whole, the notes.

    With `table` only title, that table and notes. A value that is not known is a dash.

    Raises:
        UsageError: if there is no table of that name.
    """
    tables = dict(result.tables) if table is None else {table: result.table(table)}
    blocks = [_title(result)]
    if table is None and result.scalars:
        blocks.append(_scalars(result))
    blocks += [f"## {name}\n\n{_table(frame)}" for name, frame in tables.items()]
    if result.notes:
        blocks.append("## Notes\n\n" + "\n".join(f"- {_escaped(note)}" for note in result.notes))
    return "\n\n".join(blocks) + "\n"


def _title(result: Result) -> str:
    chosen = filters(result)
    facts = [period(result), rows(result), f"filters: {chosen}" if chosen else ""]
    title = f"# llmtrace {result.command}: {_escaped(trace_name(result))}"
    line = _escaped(", ".join(fact for fact in facts if fact))
    return f"{title}\n\n{line}" if line else title


def _scalars(result: Result) -> str:
    names = pl.Series("name", list(result.scalars), dtype=pl.String)
    values = [_text(plain_value(value)) for value in result.scalars.values()]
    meanings = [result.definitions.get(name) for name in result.scalars]
    columns = [names, pl.Series("value", values, dtype=pl.String), pl.Series("definition", meanings, dtype=pl.String)]
    return _lines(pl.DataFrame(columns), numeric={"value"})


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _table(table: pl.DataFrame) -> str:
    numeric = {name for name, dtype in table.schema.items() if dtype.is_numeric() or isinstance(dtype, pl.Duration)}
    return _lines(text_frame(table).cast(pl.String), numeric)


def _lines(texts: pl.DataFrame, numeric: set[str]) -> str:
    cell = pl.all().str.replace_all(_BREAKS, " ").str.replace_all(_SPECIAL, r"\$0").fill_null(NULL)
    body = texts.select(cell).select(pl.format("| {} |", pl.concat_str(pl.all(), separator=" | ")))
    head = _row(map(_escaped, texts.columns))
    rule = _row("---:" if name in numeric else "---" for name in texts.columns)
    return "\n".join([head, rule, *body.to_series()])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """One line of text in which nothing is markup."""
    return re.sub(_SPECIAL, r"\\\g<0>", re.sub(_BREAKS, " ", text))
