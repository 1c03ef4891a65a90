"""Side tables: small files beside a trace that say more of its users or models, of any form that a trace may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from llmtrace.errors import InputError
from llmtrace.formats.cells import text
from llmtrace.formats.chutes import user_of_round
from llmtrace.formats.columns import among, shown
from llmtrace.formats.layout import Cell
from llmtrace.formats.source import find

if TYPE_CHECKING:
    from llmtrace.formats.layout import Raw
    from llmtrace.formats.source import Source

__all__ = ["SideTable", "of_cohorts", "of_names"]

_USER = ("user", "user_id", "account", "account_id", "id")
_ROUND = "rehash_round"
_COHORT = ("cohort", "release_cohort", "cohort_month", "first_month", "month", "first_seen", "first_timestamp")
_MODEL = ("model", "chute_id", "model_id", "id")
_NAME = ("name", "model_name")
_PAIR = ("model", "name")


@dataclass(frozen=True)
class SideTable:
    """A table that is still to be read.

    Attributes:
        source: its file.
        rows: its columns of text, under the names that they have for us.
    """

    source: Source
    rows: pl.LazyFrame


def of_cohorts(path: str) -> SideTable:
    """When users came first: `user` (as a trace of the same origin has it) and `cohort`, whatever that is.

    Raises:
        InputError: if the file cannot be read or lacks a column.
    """
    source, raw = _opened(path)
    user, cohort = _cell(raw, _USER, "users"), _cell(raw, _COHORT, "cohorts")
    rehash_round = among(raw, [_ROUND])
    named = user_of_round(user, _text(raw, rehash_round)) if rehash_round else user
    return SideTable(source, source.scan().select(named.value.alias("user"), cohort.value.alias("cohort")))


def of_names(path: str) -> SideTable:
    """By which name to know models: `model` and `name`; of a file of two other columns, these.

    Raises:
        InputError: if the file cannot be read or lacks a column.
    """
    source, raw = _opened(path)
    columns = shown(raw)
    if len(columns) == len(_PAIR) and not among(raw, _NAME):
        cells = [_text(raw, column) for column in columns]
    else:
        cells = [_cell(raw, _MODEL, "models"), _cell(raw, _NAME, "names")]
    return SideTable(source, source.scan().select(cell.value.alias(name) for cell, name in zip(cells, _PAIR, strict=True)))


def _opened(path: str) -> tuple[Source, Raw]:
    sources = find([path])
    if len(sources) != 1:
        raise InputError(f"{path} holds {len(sources)} files, not one table", "Name the file itself.")
    return sources[0], sources[0].raw()


def _cell(raw: Raw, names: tuple[str, ...], what: str) -> Cell:
    """The column that has one of these names, as text.

    Raises:
        InputError: if there is none.
    """
    column = among(raw, names)
    if column is None:
        raise InputError(
            f"{raw.name} has no column of {what}: it has {', '.join(shown(raw))}", f"Call the column one of: {', '.join(names)}."
        )
    return _text(raw, column)


def _text(raw: Raw, column: str) -> Cell:
    """A column as text, times in the form of ISO 8601."""
    dtype = raw.schema[column]
    if dtype.is_temporal():
        return Cell(pl.col(column).cast(pl.Datetime("us")).dt.to_string("%Y-%m-%dT%H:%M:%S%.f"), None, (column,))
    return text(column, dtype, written=raw.kind != "parquet")
