"""Histograms of many parts pooled in place, where `histogram.combine` makes them anew with every part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries import cells, histogram
from llmtrace.summaries.accumulator import Accumulator, Counter
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.pages import Pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.summaries.groups import Integers

__all__ = ["Pool"]

MOST_ROWS = 1 << 15
"""Rows that are pooled in place; those of keys that appear later are merged as lists, which is slower but small if they are."""
_AT_ONCE = 8


class Pool(Accumulator[pl.DataFrame]):
    """Takes `histogram` summaries, by key or of all requests, at the cost of what each holds."""

    def __init__(self, columns: Sequence[str], bits: int) -> None:
        """Take summaries of these columns, made with so many bits."""
        self._columns = pl.Enum(sorted(columns))
        self._keys = Interner()
        self._totals = Counter(_added, _AT_ONCE)
        self._pages = Pages(histogram.bucket_count(bits))
        self._later = Counter(histogram.combine, _AT_ONCE)

    def add(self, state: pl.DataFrame) -> None:
        """Take the summary of the next part."""
        rows = self._rows(state)
        if rows.max(initial=0) >= MOST_ROWS:
            fits = rows < MOST_ROWS
            self._later.add(state.filter(pl.Series(~fits)))
            state, rows = state.filter(pl.Series(fits)), rows[fits]
        self._totals.add(state.drop("buckets", "counts"))
        self._pages.add(rows, histogram.lists(state))

    def total(self) -> pl.DataFrame:
        """The summary of all parts."""
        totals = self._totals.total()
        pooled = cells.lists(self._pages.cells(self._rows(totals)), "buckets")
        self._later.add(totals.with_columns(pooled))
        return self._later.total()

    def _rows(self, labels: pl.DataFrame) -> Integers:
        """The number of each row: that of its key, then of its column."""
        keys = self._keys.add(labels["key"].to_numpy()) if "key" in labels.columns else np.zeros(labels.height, np.uint32)
        columns = labels["column"].cast(self._columns).to_physical().to_numpy()
        rows: Integers = keys.astype(np.int64) * len(self._columns.categories) + columns
        return rows


def _added(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Totals of equal labels as one, rows ascending by their labels."""
    rows = pl.concat(frames)
    labels = [name for name in rows.columns if name in {"column", "key"}]
    return rows.group_by(labels).agg(pl.col("known", "sum").sum(), pl.col("min").min(), pl.col("max").max()).sort(labels)
