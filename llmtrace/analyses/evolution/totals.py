"""The tables `models` and `lengths` of parts (see `part`), taken in order of time: only the latest period is open."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.summaries import cells
from llmtrace.summaries.accumulator import Accumulator
from llmtrace.summaries.frames import frame_of, moments
from llmtrace.summaries.interning import Interner
from llmtrace.summaries.tallies import ascending

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

__all__ = ["Lengths", "Models", "runs"]

_LOWER_BITS = 32


class Models(Accumulator[pl.DataFrame]):
    """The table `models` of all parts."""

    def __init__(self, schema: Mapping[str, pl.DataType]) -> None:
        """Know no part; the table has these columns, the sums behind `requests` in twos and threes of known, upper and lower."""
        self._schema = schema
        self._counts = [name for name in schema if name not in {"time", "key", "name"}]
        self._done = [pl.DataFrame(schema=dict(schema))]
        self._begin(None)

    def add(self, state: pl.DataFrame) -> None:
        """Take the table of the next part."""
        for start_us, rows in runs(state):
            if start_us != self._start_us:
                self._close()
                self._begin(start_us)
            self._take(rows)

    def total(self) -> pl.DataFrame:
        """The table of all parts."""
        self._close()
        return pl.concat(self._done)

    def _begin(self, start_us: int | None) -> None:
        self._start_us, self._numbers = start_us, Interner()
        self._names: list[pl.Series] = []
        self._sums = np.zeros((len(self._counts), 0), np.int64)

    def _take(self, rows: pl.DataFrame) -> None:
        known, places = self._numbers.keys.size, self._numbers.add(rows["key"].to_numpy())
        new = np.flatnonzero(places >= known)
        if new.size:
            self._names.append(rows["name"][new])
            self._sums = np.pad(self._sums, ((0, 0), (0, new.size)))
        for sums, name in zip(self._sums, self._counts, strict=True):
            sums[places] += rows[name].to_numpy()

    def _close(self) -> None:
        if self._start_us is None:
            return
        order = ascending(self._numbers.keys)
        sums = {name: own[order] for name, own in zip(self._counts, self._sums, strict=True)}
        for side in ("input", "output"):
            # The lower part of a sum is below 2^32 again.
            sums[f"{side}_upper"] += sums[f"{side}_lower"] >> _LOWER_BITS
            sums[f"{side}_lower"] &= (1 << _LOWER_BITS) - 1
        numbers = frame_of({"time": moments(self._start_us, order.size), "key": self._numbers.keys[order], **sums})
        self._done.append(numbers.insert_column(2, pl.concat(self._names)[order]))


class Lengths(Accumulator[pl.DataFrame]):
    """The table `lengths` of all parts."""

    def __init__(self, schema: Mapping[str, pl.DataType]) -> None:
        """Know no part; the table has these columns."""
        self._done = [pl.DataFrame(schema=dict(schema))]
        self._start_us: int | None = None
        self._counts: dict[str, Integers] = {}

    def add(self, state: pl.DataFrame) -> None:
        """Take the table of the next part."""
        for start_us, rows in runs(state):
            if start_us != self._start_us:
                self._close()
                self._start_us, self._counts = start_us, {}
            offsets, buckets, counts = cells.read(rows, "buckets")
            for column, (low, high) in zip(rows["column"], pairwise(offsets.tolist()), strict=True):
                own = buckets[low:high]
                sums = self._with_room(column, int(own.max()) + 1 if own.size else 0)
                sums[own] += counts[low:high]

    def total(self) -> pl.DataFrame:
        """The table of all parts."""
        self._close()
        return pl.concat(self._done)

    def _with_room(self, column: str, buckets: int) -> Integers:
        sums = self._counts.get(column, np.zeros(0, np.int64))
        self._counts[column] = np.pad(sums, (0, max(buckets - sums.size, 0)))
        return self._counts[column]

    def _close(self) -> None:
        for column, sums in sorted(self._counts.items()):
            occurring = np.flatnonzero(sums)
            offsets, columns = np.array([0, occurring.size]), [pl.Series("column", [column])]
            times = pl.Series("time", [self._start_us], dtype=pl.Int64).cast(pl.Datetime("us"))
            found = cells.lists((offsets, occurring.astype(np.uint32), sums[occurring]), "buckets")
            self._done.append(pl.DataFrame([times, *columns, *found]))


def runs(table: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
    """The rows of each period of a table in order of time, and when it begins, in microseconds since 1970."""
    times_us = table["time"].to_physical().to_numpy()
    borders = [0, *(np.flatnonzero(times_us[1:] != times_us[:-1]) + 1).tolist(), times_us.size]
    return [(int(times_us[low]), table[low:high]) for low, high in pairwise(borders if times_us.size else [])]
