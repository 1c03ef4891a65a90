"""Sparse histograms, against dictionaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.synth.twin.counts import NOTHING, Counts, pack, sample, table

CELLS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 6)), max_size=60)


def counted(cells: list[tuple[int, int, int]]) -> Counts:
    columns = np.array(cells, np.int64).reshape(-1, 3).T
    return Counts.none().plus(pack(*columns))


def unpacked(counts: Counts) -> dict[tuple[int, ...], int]:
    columns = (column.tolist() for column in (*counts.unpacked(), counts.counts))
    return {tuple(cell): count for *cell, count in zip(*columns, strict=True)}


@given(CELLS, CELLS)
def test_cells_add_up(one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]) -> None:
    together = counted(one).plus(counted(other).cells, counted(other).counts)
    assert unpacked(together) == Counter(one + other)


@given(CELLS)
def test_models_merge(cells: list[tuple[int, int, int]]) -> None:
    merged = counted(cells).of_models(np.array([1, 0, 1, 0]))
    assert unpacked(merged) == Counter((1 - model % 2, sub, value) for model, sub, value in cells)


def drawn(cells: list[tuple[int, int, int]], model: int, sub: int, least: int = 1) -> Counter[int]:
    """What even shares draw of the second of two kinds, the first of which holds other values."""
    source = table([counted([(0, 0, 99)] * 9), counted(cells)], 4, least)
    wanted = sum(1 for cell in cells if cell[:2] == (model, sub)) or 1
    return Counter(sample(source, 1, model, sub, (place + 0.5) / wanted) for place in range(wanted))


@given(CELLS.filter(bool))
def test_a_sample_follows_the_counts(cells: list[tuple[int, int, int]]) -> None:
    for model, sub in {cell[:2] for cell in cells}:
        assert drawn(cells, model, sub) == Counter(value for *key, value in cells if key == [model, sub])


def test_what_was_not_seen_falls_back_on_what_is_wider() -> None:
    cells = [(0, 1, 5), (0, 1, 5), (1, 2, 6)]
    assert drawn(cells, 1, 1) == {5: 1}, "all models under the sub-key"
    assert drawn([(0, 1, 5), (1, 2, 6)], 0, 3) == {5: 1}, "the model under any"
    assert drawn([(0, 1, 5)], 3, 3) == {5: 1}, "all"
    assert drawn([], 0, 0) == {NOTHING: 1}


def test_a_distribution_of_too_few_is_not_carried() -> None:
    cells = [(0, 1, 5)] + [(1, 1, 6)] * 9
    assert drawn(cells, 0, 1, least=1) == {5: 1}
    source = table([counted(cells)], 2, 3)
    draws = Counter(sample(source, 0, 0, 1, (place + 0.5) / 10) for place in range(10))
    assert draws == {5: 1, 6: 9}, "the pooled one, in which ten requests stand together"
    assert sample(table([counted(cells[:1])], 2, 3), 0, 0, 1, 0.5) == NOTHING
