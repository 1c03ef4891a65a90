"""Token shapes of keys: NumPy's median of the values is the oracle, to within the bound of the histogram."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import profiles, shapes
from llmtrace.summaries.groups import group
from llmtrace.summaries.histogram import relative_error
from llmtrace.summaries.keys import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rows = Sequence[tuple[int, int, int]]

TOKENS = st.integers(-1, 200) | st.integers(0, 10**6) | st.integers(2**62, 2**63 - 1)
ROWS = st.lists(st.tuples(st.sampled_from([UNKNOWN, 3, 7, 2**64 - 1]), TOKENS, TOKENS), max_size=40)


def summarised(rows: Rows) -> pl.DataFrame:
    frame = pl.DataFrame(rows, {"key": pl.UInt64, "input": pl.Int64, "output": pl.Int64}, orient="row")
    return shapes.summarise(group(frame, "key"), frame["input"].to_numpy(), frame["output"].to_numpy())


@given(rows=ROWS, cuts=st.lists(st.integers(0, 40), max_size=3))
def test_medians_are_within_their_bound_whatever_the_cut(rows: Rows, cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [summarised(rows[start:end]) for start, end in pairwise(borders)]
    found = shapes.combine(parts)
    assert dict(summarised(rows).schema) == dict(shapes.SCHEMA)
    assert_frame_equal(found, summarised(rows))
    assert_frame_equal(shapes.combine([parts[0], shapes.combine(parts[1:])]) if parts[1:] else found, found)
    assert found["key"].to_list() == sorted({row[0] for row in rows})
    for place, side in ((1, "input"), (2, "output")):
        for key, median in zip(found["key"].to_list(), shapes.medians(found, side).tolist(), strict=True):
            values = [row[place] for row in rows if row[0] == key and row[place] >= 0]
            if values:
                assert median == pytest.approx(float(np.median(values)), rel=relative_error(profiles.BITS))
            else:
                assert np.isnan(median)


def test_small_values_are_exact() -> None:
    rows = [(3, value, 127) for value in (5, 6, 9, 100)]
    assert shapes.medians(summarised(rows), "input").tolist() == [7.5]
    assert shapes.medians(summarised(rows), "output").tolist() == [127.0]
