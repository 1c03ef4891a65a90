"""JSON: the whole result, nothing rounded, with a line for every scalar and every row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from llmtrace.report.cells import plain_frame, plain_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from llmtrace.result import Result

__all__ = ["dumps"]


def dumps(result: Result) -> str:
    """The result as one JSON object.

    Its keys: `command`, `parameters`, `scalars`, `tables`, `primary`, `notes`, `provenance`, `definitions`. `tables` maps each
    name to a list of rows, which are objects. Times are ISO 8601 with `Z` (see `llmtrace.report.cells`); what is not known, and
    what is not a finite number, is null. Keys stand in the order of the result.
    """
    members = {
        "command": _encoded(result.command),
        "parameters": _object(result.parameters),
        "scalars": _object(result.scalars),
        "tables": _members({name: _rows(table) for name, table in result.tables.items()}, "  "),
        "primary": _encoded(result.primary),
        "notes": _list([_encoded(note) for note in result.notes], "  "),
        "provenance": _object(result.provenance),
        "definitions": _object(result.definitions),
    }
    return _members(members, "") + "\n"


def _encoded(value: object) -> str:
    return json.dumps(plain_value(value), ensure_ascii=False, allow_nan=False)


def _object(mapping: Mapping[str, object]) -> str:
    return _members({name: _encoded(value) for name, value in mapping.items()}, "  ")


def _members(encoded: Mapping[str, str], indent: str) -> str:
    lines = [f"{indent}  {_encoded(name)}: {value}" for name, value in encoded.items()]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}" if lines else "{}"


def _list(encoded: list[str], indent: str) -> str:
    lines = [f"{indent}  {item}" for item in encoded]
    return "[\n" + ",\n".join(lines) + f"\n{indent}]" if lines else "[]"


def _rows(table: pl.DataFrame) -> str:
    # Polars encodes rows ten times as fast as the standard library: a table may have 100,000 of them.
    if table.is_empty():
        return "[]"
    return _list(plain_frame(table).write_ndjson().rstrip("\n").split("\n"), "    ")
