"""Counts of pairs of keys: `collections.Counter` is the oracle, whatever the cut."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import crosstab
from llmtrace.summaries.groups import group
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.unions import unite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.summaries.groups import Keys

    Rows = Sequence[tuple[int, int]]

OUTER, INNER = st.sampled_from([UNKNOWN, 3, 7, 2**64 - 1]), st.sampled_from([UNKNOWN, 2, 5, 8, 11])
ROWS = st.lists(st.tuples(OUTER, INNER), max_size=40)
CUTS = st.lists(st.integers(0, 40), max_size=4)


class Part:
    """A state, and the keys that its places refer to."""

    def __init__(self, outer: Keys, inner: Keys, state: dict[str, pl.DataFrame]) -> None:
        self.outer, self.inner, self.state = outer, inner, state

    @classmethod
    def of(cls, rows: Rows) -> Part:
        frame = pl.DataFrame(rows, {"outer": pl.UInt64, "inner": pl.UInt64}, orient="row")
        outer, inner = group(frame, "outer"), group(frame, "inner")
        rows_of, columns_of = (groups.labels["key"].to_numpy() for groups in (outer, inner))
        return cls(rows_of, columns_of, crosstab.summarise(outer, inner))

    @classmethod
    def together(cls, parts: Sequence[Part]) -> Part:
        outer, inner = unite([part.outer for part in parts]), unite([part.inner for part in parts])
        return cls(outer.keys, inner.keys, crosstab.combine([part.state for part in parts], outer, inner))

    def counts(self) -> dict[tuple[Any, Any], Any]:
        outer, (inner, requests) = crosstab.outer_places(self.state), self.state["pairs"].get_columns()
        pairs = zip(self.outer[outer].tolist(), self.inner[inner.to_numpy()].tolist(), strict=True)
        return dict(zip(pairs, requests.to_list(), strict=True))


def parts_of(rows: Rows, cuts: list[int]) -> list[Part]:
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    return [Part.of(rows[start:end]) for start, end in pairwise(borders)]


@given(rows=ROWS, cuts=CUTS)
def test_every_pair_of_known_keys_is_counted(rows: Rows, cuts: list[int]) -> None:
    found = Part.together(parts_of(rows, cuts))
    known = [row for row in rows if UNKNOWN not in row]
    assert found.counts() == Counter(known)
    assert found.outer.tolist() == sorted({outer for outer, _ in rows})
    assert found.state["breadth"]["pairs"].to_list() == [
        len({row for row in known if row[0] == outer}) for outer in found.outer.tolist()
    ]
    assert list(found.counts()) == sorted(Counter(known), key=lambda pair: pair[0])


@given(rows=ROWS, cuts=CUTS)
def test_groupings_change_nothing(rows: Rows, cuts: list[int]) -> None:
    parts, whole = parts_of(rows, cuts), Part.of(rows)
    one_by_one = parts[0]
    for part in parts[1:]:
        one_by_one = Part.together([one_by_one, part])
    for name, schema in crosstab.SCHEMAS.items():
        assert dict(whole.state[name].schema) == dict(schema)
        assert_frame_equal(one_by_one.state[name], whole.state[name])
        assert_frame_equal(Part.together(parts).state[name], whole.state[name])


def test_counts_beyond_32_bits_are_kept() -> None:
    part = Part.of([(3, 5)])
    many = Part(
        part.outer,
        part.inner,
        {**part.state, "pairs": part.state["pairs"].with_columns(pl.lit(2**32 - 1, pl.UInt32).alias("requests"))},
    )
    assert Part.together([many, part]).counts() == {(3, 5): 2**32}
    assert Part.together([Part.together([many, part]), part]).state["pairs"]["requests"].dtype == pl.UInt64
    assert np.uint64(2**32 + 1) in Part.together([Part.together([many, part]), part]).state["pairs"]["requests"].to_numpy()
