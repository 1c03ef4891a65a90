"""Counts: how often each value was seen under each key, added up as a trace is read; and tables to draw values from.

A cell is a model, a sub-key and a value, packed into one integer, so that any number of sparse histograms is two arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.synth.draws import Ints

__all__ = ["ANY", "NOTHING", "Counts", "Table", "pack", "sample", "table"]

_VALUE_BITS, _SUB_BITS = 22, 16
ANY = (1 << _SUB_BITS) - 1
"""The sub-key under which all values of a model stand together."""
NOTHING = -1
"""What is drawn where nothing was ever seen."""


class Counts(NamedTuple):
    """Cells in ascending order and how often each was seen."""

    cells: Ints
    counts: Ints

    @classmethod
    def none(cls) -> Counts:
        """Nothing seen yet."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    def plus(self, cells: Ints, counts: Ints | None = None) -> Counts:
        """These and further cells; each counts once unless `counts` says how often."""
        more = np.ones(cells.size, np.int64) if counts is None else counts
        found, place = np.unique(np.concatenate([self.cells, cells]), return_inverse=True)
        summed = np.zeros(found.size, np.int64)
        np.add.at(summed, place, np.concatenate([self.counts, more]))
        return Counts(found, summed)

    def of_models(self, merged: Ints) -> Counts:
        """The same with each model's number replaced by `merged[number]`."""
        model = self.cells >> (_VALUE_BITS + _SUB_BITS)
        rest = self.cells - (model << (_VALUE_BITS + _SUB_BITS))
        return Counts.none().plus((merged[model] << (_VALUE_BITS + _SUB_BITS)) + rest, self.counts)

    def unpacked(self) -> tuple[Ints, Ints, Ints]:
        """Model, sub-key and value of each cell."""
        keys = self.cells >> _VALUE_BITS
        return keys >> _SUB_BITS, keys & ANY, self.cells & ((1 << _VALUE_BITS) - 1)


class Table(NamedTuple):
    """Several histograms in one: weighted values by kind, model and sub-key.

    The values of key k are `values[first[k]:first[k + 1]]`, and `reached` the running total of their counts. A kind has `models`
    models, and one more that stands for all of them.
    """

    keys: Ints
    first: Ints
    values: Ints
    reached: Ints
    models: int


def pack(model: Ints | int, sub: Ints | int, value: Ints) -> Ints:
    """Cells of models, sub-keys (below 2^16 - 1) and values (below 2^22)."""
    return np.asarray((((model + np.zeros_like(value)) << _SUB_BITS) + sub << _VALUE_BITS) + value, np.int64)


def table(kinds: Sequence[Counts], models: int, least: int) -> Table:
    """The table of the kinds' counts by model and sub-key, by model alone, and of all models together.

    A distribution of fewer than `least` observations is left out: a wider one stands in for it (`sample`).
    """
    together = [_widened(counts, models, least) for counts in kinds]
    keys = [(place * (models + 1) << _SUB_BITS) + (one.cells >> _VALUE_BITS) for place, one in enumerate(together)]
    cells, counts = (np.concatenate(column) for column in zip(*together, strict=True))
    found, first = np.unique(np.concatenate(keys), return_index=True)
    ends = np.append(first, cells.size).astype(np.int64)
    return Table(found, ends, cells & ((1 << _VALUE_BITS) - 1), np.append(0, np.cumsum(counts)), models)


def _widened(counts: Counts, models: int, least: int) -> Counts:
    """The counts, those of any sub-key and of all models, without distributions of fewer than `least` observations."""
    model, sub, value = counts.unpacked()
    every, whole = np.full_like(model, models), np.full_like(sub, ANY)
    cells = Counts.none()
    for one, other in ((model, sub), (model, whole), (every, sub), (every, whole)):
        cells = cells.plus(pack(one, other, value), counts.counts)
    _, place = np.unique(cells.cells >> _VALUE_BITS, return_inverse=True)
    kept = np.bincount(place, cells.counts)[place] >= least if place.size else place == 0
    return Counts(cells.cells[kept], cells.counts[kept])


@njit(nogil=True, cache=True)
def sample(source: Table, kind: int, model: int, sub: int, share: float) -> int:
    """The value at `share` (0 to 1) of a model's distribution of a kind under a sub-key.

    Where there is none, that of all models under it; else of the model under any; else of all; else `NOTHING`.
    """
    mine, every = kind * (source.models + 1) + model, kind * (source.models + 1) + source.models
    row = _row(source, mine, sub)
    if row < 0:
        row = _row(source, every, sub)
    if row < 0:
        row = _row(source, mine, ANY)
    if row < 0:
        row = _row(source, every, ANY)
    if row < 0:
        return NOTHING
    left, right = source.first[row], source.first[row + 1]
    before = source.reached[left]
    target = before + int(share * (source.reached[right] - before))
    place = np.searchsorted(source.reached[left + 1 : right + 1], target, side="right")
    return int(source.values[left + place])


@njit(nogil=True, cache=True)
def _row(source: Table, model: int, sub: int) -> int:
    key = (model << _SUB_BITS) + sub
    row = np.searchsorted(source.keys, key)
    return int(row) if row < source.keys.size and source.keys[row] == key else -1
