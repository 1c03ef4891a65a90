"""Requests dealt into shards and arranged by key: sorting rows is the oracle."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from hypothesis import example, given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.summaries import visits
from llmtrace.summaries.keys import UNKNOWN
from llmtrace.summaries.visits import INNER, INPUT, SHARDS, TOKENS, Chunk, arrange, deal, pieces, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rows = Sequence[tuple[int, int, int, int, int]]

KEYS = st.sampled_from([UNKNOWN, 3, 7, 1 << 58, (1 << 58) + 1, 2**63, 2**64 - 1])
TOKENS_OF = st.integers(-1, 9) | st.sampled_from([2**31 - 1, 2**32 - 1, 2**63 - 1])
ROWS = st.lists(st.tuples(st.integers(-50, 50), KEYS, st.integers(0, 3), TOKENS_OF, TOKENS_OF), max_size=40).map(sorted)
CUTS = st.lists(st.integers(0, 40), max_size=3)


def chunk_of(rows: Rows) -> Chunk:
    times, outer, inner, inputs, outputs = zip(*rows, strict=True) if rows else ((),) * 5
    numbers = (np.array(column, np.int64) for column in (times, inputs, outputs))
    time, *tokens = numbers
    return Chunk(np.array(outer, np.uint64), np.array(inner, np.uint32), time, *tokens)


def cut(rows: Rows, cuts: list[int]) -> list[Rows]:
    borders = [0, *sorted(min(place, len(rows)) for place in cuts), len(rows)]
    return [rows[start:end] for start, end in pairwise(borders)]


def known(rows: Rows) -> list[tuple[int, int, int, int, int]]:
    """Visits by (outer key, time), in the order in which they stand."""
    added = (
        (time, key, inner, max(a, 0), min(max(a, 0) + max(b, 0), 2**63 - 1)) for time, key, inner, a, b in rows if key != UNKNOWN
    )
    return list(added)


def rows_of(table: pl.DataFrame) -> list[tuple[int, int, int, int, int]]:
    return [(time, key, *what) for key, time, what in table.iter_rows()]


@example(rows=[(0, 3, 0, 2**32 - 1, -1)], cuts=[])
@example(rows=[(0, 3, 0, 2**32 - 2, -1)], cuts=[])
@given(rows=ROWS, cuts=CUTS)
def test_visits_are_dealt_by_the_first_bits_of_keys_and_stay_in_order(rows: Rows, cuts: list[int]) -> None:
    table = deal([chunk_of(some) for some in cut(rows, cuts)])
    is_wide = any(tokens >= (1 << 32) - 1 for *_, tokens in known(rows))
    assert dict(table.schema) == {**visits.SCHEMA, **({"what": pl.Array(pl.Int64(), 3)} if is_wide else {})}
    assert rows_of(table) == sorted(known(rows), key=lambda row: row[1] >> 58)


@given(rows=ROWS, cuts=CUTS)
def test_several_tables_make_the_one_of_the_whole(rows: Rows, cuts: list[int]) -> None:
    numbers = np.array([2, 0, 3, 1], np.uint32)
    tables = [deal([chunk_of(some)]) for some in cut(rows, cuts)]
    renumbered = [(time, key, int(numbers[inner]), a, b) for time, key, inner, a, b in rows]
    assert_frame_equal(together(tables, [numbers] * len(tables)), deal([chunk_of(renumbered)]))


@given(rows=ROWS, cuts=CUTS, older=st.sets(st.sampled_from([3, 5, 2**63])))
def test_the_visits_of_a_shard_stand_by_key_and_in_order(rows: Rows, cuts: list[int], older: set[int]) -> None:
    given_pieces = [piece for some in cut(rows, cuts) for piece in pieces(deal([chunk_of(some)]))]
    inner = np.array([10, 11, 12, 13], np.uint32)
    found = []
    for shard in range(SHARDS):
        before = np.array(sorted(key for key in older if key >> 58 == shard), np.uint64)
        arranged = arrange(before, [(piece.between(*edges[shard : shard + 2]), inner) for piece, edges in given_pieces])
        keys = sorted({row[1] for row in known(rows) if row[1] >> 58 == shard} | set(before.tolist()))
        assert arranged.keys.tolist() == keys
        assert arranged.before.tolist() == [before.tolist().index(key) if key in before else -1 for key in keys]
        for key, (start, end) in zip(keys, pairwise(arranged.offsets.tolist()), strict=True):
            own = zip(arranged.times_us[start:end].tolist(), arranged.what[start:end].tolist(), strict=True)
            found += [(time, key, what[INNER] - 10, what[INPUT], what[TOKENS]) for time, what in own]
    assert found == sorted(known(rows), key=lambda row: row[1])
