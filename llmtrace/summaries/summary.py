"""What a summary is, and how several of them share one pass over a part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Summary", "joined", "plans", "tables_of"]


@dataclass(frozen=True)
class Summary:
    """How to summarise a part.

    Attributes:
        needs: the columns that `summarise` reads, by name. One name has one meaning, whichever summary needs it.
        schema: the columns of the summary.
        summarise: from a part, collected into one chunk without nulls, to its summary. Called once per part.
    """

    needs: Mapping[str, pl.Expr]
    schema: Mapping[str, pl.DataType]
    summarise: Callable[[pl.DataFrame], pl.DataFrame]


def plans(frame: pl.LazyFrame, summaries: Mapping[str, Summary]) -> dict[str, pl.LazyFrame]:
    """A plan for each summary, which gather the part once if they are collected together.

    Args:
        frame: the requests of a part, in the order that the summaries ask for.
        summaries: by the name of the table that each makes.
    """
    needs = {name: need for summary in summaries.values() for name, need in summary.needs.items()}
    schemas = {name: summary.schema for name, summary in summaries.items()}
    return tables_of(frame.select(**needs), schemas, partial(_summarised, summaries=summaries))


def tables_of(
    frame: pl.LazyFrame,
    schemas: Mapping[str, Mapping[str, pl.DataType]],
    summarise: Callable[[pl.DataFrame], Mapping[str, pl.DataFrame]],
) -> dict[str, pl.LazyFrame]:
    """A plan for each table that one function makes of a part.

    Args:
        frame: the requests of a part.
        schemas: of each table.
        summarise: from a part, in as many chunks as it has, to its tables. Called once per part.
    """
    # One plan makes all tables and the plan of each table takes its own: as columns of one frame they would be copied twice.
    made: dict[str, pl.DataFrame] = {}
    once = frame.map_batches(partial(_note, summarise=summarise, made=made), schema={"tables": pl.UInt32}).cache()
    return {
        # Numbers that need more bits than the schema says have them, which Polars would refuse; the tests check all others.
        name: once.map_batches(partial(_take, name=name, made=made), schema=dict(schema), validate_output_schema=False)
        for name, schema in schemas.items()
    }


def joined(part: pl.DataFrame) -> pl.DataFrame:
    """A part with each column in one chunk, which it loses: column by column, so that the part is not held twice."""
    return pl.DataFrame([part.drop_in_place(name).rechunk() for name in part.columns])


def _summarised(part: pl.DataFrame, *, summaries: Mapping[str, Summary]) -> dict[str, pl.DataFrame]:
    whole = joined(part)
    return {name: summary.summarise(whole) for name, summary in summaries.items()}


def _note(
    frame: pl.DataFrame, *, summarise: Callable[[pl.DataFrame], Mapping[str, pl.DataFrame]], made: dict[str, pl.DataFrame]
) -> pl.DataFrame:
    made.update(summarise(frame))
    return pl.DataFrame({"tables": [len(made)]}, schema={"tables": pl.UInt32})


def _take(_: pl.DataFrame, *, name: str, made: dict[str, pl.DataFrame]) -> pl.DataFrame:
    return made.pop(name)
