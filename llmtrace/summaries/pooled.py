"""Histograms of many parts pooled in place, where `histogram.combine` makes them anew with every part."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries import cells, histogram
from llmtrace.summaries.accumulator import Accumulator, Counter
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.pages import Pages, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.summaries.interning import Ids

__all__ = ["Pool"]

MOST_KEYS = 1 << 14
"""Keys that are pooled in place; those that appear later are merged as lists, which is slower but small if they are."""
_AT_ONCE = 4


class Pool(Accumulator[pl.DataFrame]):
    """Takes `histogram` summaries, by key or of all requests, at the cost of what each holds."""

    def __init__(self, columns: Sequence[str], bits: int) -> None:
        """Take summaries of these columns, made with so many bits."""
        self._keys = Interner()
        self._totals = Counter(_added, _AT_ONCE)
        self._pages = {column: Pages(histogram.bucket_count(bits)) for column in sorted(columns)}
        self._later = Counter(histogram.combine, _AT_ONCE)

    def add(self, state: pl.DataFrame) -> None:
        """Take the summary of the next part."""
        rows = self._rows(state)
        if rows.max(initial=0) >= MOST_KEYS:
            fits = rows < MOST_KEYS
            self._later.add(state.filter(pl.Series(~fits)))
            state, rows = state.filter(pl.Series(fits)), rows[fits]
        self._totals.add(state.drop("buckets", "counts"))
        for column, run in _runs(state).items():
            self._pages[column].add(rows[run], histogram.lists(state[run]))

    def total(self) -> pl.DataFrame:
        """The summary of all parts."""
        totals = self._totals.total()
        rows, runs = self._rows(totals), _runs(totals)
        books = [(self._pages.pop(column), rows[runs.get(column, slice(0))]) for column in list(self._pages)]
        self._later.add(totals.with_columns(cells.lists(listed(books), "buckets")))
        return self._later.total()

    def _rows(self, labels: pl.DataFrame) -> Ids:
        """In which row of its column's pages each is."""
        return self._keys.add(labels["key"].to_numpy()) if "key" in labels.columns else np.zeros(labels.height, np.uint32)


def _runs(labels: pl.DataFrame) -> dict[str, slice]:
    """The rows of each column that has any; they stand together."""
    runs = labels["column"].rle().struct.unnest()
    borders = pairwise(np.cumsum([0, *runs["len"]]).tolist())
    return {column: slice(*border) for column, border in zip(runs["value"], borders, strict=True)}


def _added(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Totals of equal labels as one, rows ascending by their labels."""
    rows = pl.concat(frames)
    labels = [name for name in rows.columns if name in {"column", "key"}]
    return rows.group_by(labels).agg(pl.col("known", "sum").sum(), pl.col("min").min(), pl.col("max").max()).sort(labels)
