"""The requests of a part in the chunks that it was read in, so that as little as can be is copied."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.schema import succeeded
from llmtrace.summaries import keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llmtrace.summaries.interning import Keys

__all__ = ["chunk_sizes", "cut", "cut_keys", "with_known"]


def with_known(part: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The part with -1 for tokens that are not known, among them those of failed requests.

    Where all are known, as mostly, nothing is worked out: Polars would copy every column.

    Args:
        part: `status` and the columns.
        columns: those of tokens.
    """
    if part["status"].null_count() < part.height:
        part = part.with_columns(pl.when(succeeded()).then(column).alias(column) for column in columns)
    unknown = [column for column in columns if part[column].null_count()]
    return part.with_columns(pl.col(unknown).fill_null(-1)) if unknown else part


def chunk_sizes(part: pl.DataFrame) -> list[int]:
    """How long the chunks are that most columns of a part have: a filter leaves its own column in others.

    >>> halves = pl.DataFrame({"user": ["a", "b"], "model": ["m", "n"]})
    >>> chunk_sizes(pl.concat([halves, halves], rechunk=False).with_columns(pl.lit(None).alias("status")))
    [2, 2]
    """
    sizes = Counter(tuple(_sizes(column)) for column in part)
    return list(sizes.most_common(1)[0][0])


def cut(column: pl.Series, sizes: Sequence[int]) -> list[pl.Series]:
    """A column in chunks of these sizes; as they are where it has them."""
    if _sizes(column) == list(sizes):
        return column.get_chunks()
    whole, ends = column.rechunk(), np.cumsum(sizes).tolist()
    return [whole[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _sizes(column: pl.Series) -> list[int]:
    return [chunk.len() for chunk in column.get_chunks()]


def cut_keys(part: pl.DataFrame, levels: Sequence[Sequence[str]], sizes: Sequence[int]) -> Iterator[list[Keys]]:
    """Chunk by chunk, the keys of each level.

    Args:
        part: its requests.
        levels: of each the columns that its keys are made of.
        sizes: those of the chunks.

    >>> part = pl.DataFrame({"user": ["a", "b", None]})
    >>> [[found.tolist() for found in chunk] for chunk in cut_keys(part, [["user"]], [1, 2])] == [
    ...     [keys.of(part["user"][:1]).tolist()],
    ...     [keys.of(part["user"][1:]).tolist()],
    ... ]
    True
    """
    # One column is hashed where it is, what several make is not: Polars has to put them together first.
    made = [part.select(keys.key(*level)).to_series() if len(level) > 1 else part[level[0]] for level in levels]
    hashed = [len(level) > 1 for level in levels]
    for chunks in zip(*(cut(column, sizes) for column in made), strict=True):
        found = iter(keys.of_each(pl.DataFrame([chunk for chunk, is_key in zip(chunks, hashed, strict=True) if not is_key])))
        yield [chunk.to_numpy() if is_key else next(found) for chunk, is_key in zip(chunks, hashed, strict=True)]
