"""What a summary is, and how several of them share one pass over a part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Summary", "plans"]


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
    tables = {name: pl.List(pl.Struct(dict(summary.schema))) for name, summary in summaries.items()}
    packed = frame.select(**needs).map_batches(partial(_packed, summaries=summaries), schema=tables).cache()
    return {name: packed.select(pl.col(name).explode(empty_as_null=False)).unnest(name) for name in summaries}


def _packed(frame: pl.DataFrame, *, summaries: Mapping[str, Summary]) -> pl.DataFrame:
    """One row: each table as a list of its rows."""
    # Column by column, so that chunks are freed as they are joined and the part is not held twice.
    whole = pl.DataFrame([frame.drop_in_place(name).rechunk() for name in frame.columns])
    tables = {name: summary.summarise(whole) for name, summary in summaries.items()}
    return pl.DataFrame([table.to_struct(name).implode() for name, table in tables.items()])
