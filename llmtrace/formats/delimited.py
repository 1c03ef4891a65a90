"""Delimited text: CSV, TSV and their relatives, every column a String."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import polars as pl

from llmtrace.errors import InputError
from llmtrace.formats.columns import SURPLUS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Delimited", "sniff"]

SEPARATORS = (",", ";", "\t", "|")
_IS_FILLED = "__is_filled"
_MOST_TOLD = 5
"""How many of the columns that are not read a note names."""
_EXCEL_HINT = re.compile(r"^\s*sep=(.)\s*$", re.IGNORECASE)
_DATUM = re.compile(r"^\s*(?:[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?|\d{4}-\d{2}-\d{2}(?:[T ].*)?)\s*$")


@dataclass(frozen=True)
class Delimited:
    """How delimited text is laid out.

    Attributes:
        separator: the character between fields.
        columns: the header's names, unique.
        skip_lines: physical lines up to the end of the header.
        line_end: the character that ends a line.
        renamed: those columns that have the name of an earlier one in the header, by the name they got here.
    """

    separator: str
    columns: tuple[str, ...]
    skip_lines: int
    line_end: str
    renamed: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know about it."""
        if not self.renamed:
            return ()
        more = "" if len(self.renamed) <= _MOST_TOLD else f" and {len(self.renamed) - _MOST_TOLD:,} more"
        told = ", ".join(f"'{name}'" for name in self.renamed[:_MOST_TOLD])
        return (f"Of columns with one name the first is read; the others are called {told}{more}, if --map should name them.",)

    def scan(self, path: str) -> pl.LazyFrame:
        """The rows of a file, plain or compressed by gzip or zstd; lines that hold nothing but separators are no rows.

        A short row ends in nulls; the first field beyond the header goes to the column `SURPLUS`.
        """
        # The flag has a column of its own: pushed into the scan as a predicate, a thousand columns would cost seconds a file.
        rows = pl.scan_csv(path, glob=False, **self._options()).with_columns(self._filled().alias(_IS_FILLED))
        return rows.filter(_IS_FILLED).drop(_IS_FILLED)

    def head(self, path: str, rows: int) -> pl.DataFrame:
        """Its first rows."""
        return pl.read_csv(path, n_rows=rows, glob=False, **self._options()).filter(self._filled())

    def _options(self) -> dict[str, Any]:
        # The header is skipped and its names are given by position, so that repeated and empty ones need no rules of Polars'.
        return {
            "has_header": False,
            "skip_lines": self.skip_lines,
            "separator": self.separator,
            "eol_char": self.line_end,
            "schema": dict.fromkeys((*self.columns, SURPLUS), pl.String),
            "missing_columns": "insert",
            "extra_columns": "ignore",
            "truncate_ragged_lines": True,
            "encoding": "utf8-lossy",
        }

    def _filled(self) -> pl.Expr:
        first, *others = self.columns
        return pl.any_horizontal(pl.col(first).str.strip_chars() != "", pl.col(*others, SURPLUS).is_not_null())


def sniff(head: str, name: str) -> Delimited:
    """The layout of delimited text, from its first lines.

    Raises:
        InputError: if there is no header.
    """
    line_end = "\r" if "\r" in head and "\n" not in head else "\n"
    lines = head.split(line_end)
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    hint = _EXCEL_HINT.match(lines[first])
    first += 1 if hint else 0
    separators = (hint[1],) if hint else SEPARATORS
    fields, used, separator = max((_header(lines, first, one) for one in separators), key=lambda found: len(found[0]))
    if not any(fields) or any(_DATUM.match(field) for field in fields):
        raise InputError(
            f"{name} has no header: its first line is {lines[first].strip()[:80]!r}",
            "Put a line with the column names on top of it.",
        )
    columns = tuple(_unique(fields))
    renamed = tuple(column for column, field in zip(columns, fields, strict=True) if field not in {"", column})
    return Delimited(separator, columns, first + used, line_end, renamed)


def _header(lines: list[str], first: int, separator: str) -> tuple[list[str], int, str]:
    """The fields of the first record, the physical lines it takes, and the separator that was tried."""
    reader = csv.reader((line.rstrip("\r") + "\n" for line in lines[first:]), delimiter=separator)
    try:
        fields = [field.strip() for field in next(reader, [""])]
    except csv.Error:
        return [""], 1, separator
    return fields, reader.line_num, separator


def _unique(fields: list[str]) -> Iterator[str]:
    """The names, with a number behind those that are there already and a name for empty ones."""
    seen: set[str] = set()
    for place, field in enumerate(fields, start=1):
        base = field or f"column_{place}"
        name = base if base not in seen else next(numbered for n in count(2) if (numbered := f"{base}_{n}") not in seen)
        seen.add(name)
        yield name
