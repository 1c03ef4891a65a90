"""JSON lines: one object a line, each of its fields a String."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from llmtrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Lines", "sniff"]

_DEPTH = 4
_MOST_NESTED = 500
# A control character that JSON may not hold unescaped, so that a line is always one field.
_NEVER = "\x1e"
_SCAN: dict[str, Any] = {
    "has_header": False,
    "separator": _NEVER,
    "quote_char": None,
    "schema": {"line": pl.String},
    "truncate_ragged_lines": True,
    "extra_columns": "ignore",
    "encoding": "utf8-lossy",
    "glob": False,
}


@dataclass(frozen=True)
class Lines:
    """How JSON lines are laid out.

    Attributes:
        fields: column name and JSON path of every field of the first lines; nested ones too, under dotted names, up to some 500.
    """

    fields: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(name for name, _ in self.fields)

    def scan(self, path: str) -> pl.LazyFrame:
        """The rows of a file, plain or compressed by gzip or zstd; blank lines are no rows.

        Numbers, truths and nested values are their JSON text; a line that is not a JSON object is a row of nulls. `NaN` and the
        infinities, which Python writes though they are no JSON, are these words.
        """
        return pl.scan_csv(path, **_SCAN).filter(_FILLED).with_columns(_JSON).select(*self._values())

    def head(self, path: str, rows: int) -> pl.DataFrame:
        """Its first rows."""
        return pl.read_csv(path, n_rows=rows, **_SCAN).filter(_FILLED).with_columns(_JSON).select(*self._values())

    def _values(self) -> Iterator[pl.Expr]:
        return (pl.col("line").str.json_path_match(path).alias(name) for name, path in self.fields)


_FILLED = pl.col("line").str.strip_chars() != ""
_NO_NUMBER = r"-?(?:NaN|Infinity)"
# A text or one of these words, whichever comes first, in quotes: so a text that holds such a word stays as it is.
_TEXT_OR_NO_NUMBER = rf'"((?:[^"\\]|\\.)*)"|({_NO_NUMBER})'
_SUSPECT = pl.when(pl.col("line").str.contains(_NO_NUMBER)).then("line")
_JSON = pl.coalesce(_SUSPECT.str.replace_all(_TEXT_OR_NO_NUMBER, '"$1$2"'), "line").alias("line")


def sniff(head: Iterable[str], name: str) -> Lines:
    """The layout of JSON lines: the union of the fields of the first of them.

    Raises:
        InputError: if none of them is a JSON object.
    """
    paths: dict[str, str] = {}
    for line in head:
        _collect(_parsed(line), (), paths)
    if not paths:
        raise InputError(f"{name} holds no JSON objects", "Give JSON lines (one object a line) or a JSON array of objects.")
    return Lines(tuple(paths.items()))


def _parsed(line: str) -> Any:  # noqa: ANN401 - JSON is whatever it is
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _collect(value: Any, above: tuple[str, ...], paths: dict[str, str]) -> None:  # noqa: ANN401 - JSON is whatever it is
    if not isinstance(value, dict) or len(above) == _DEPTH:
        return
    # All keys of a level come before those below it, so that a key with a dot in it wins over a nested one.
    keys = [(*above, key) for key in value if not {'"', "\\"} & set(key)]
    for key in keys:
        paths.setdefault(".".join(key), "$" + "".join(f'["{step}"]' for step in key))
    for key in keys if len(paths) < _MOST_NESTED else ():
        _collect(value[key[-1]], key, paths)
