from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from llmtrace.summaries import histogram, pooled
from llmtrace.summaries.pooled import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = ("input", "cached")


def some_parts(parts: int, keys: int) -> list[pl.DataFrame]:
    """Later parts have more keys than earlier ones, and one part has no row."""
    rng = np.random.default_rng(5)
    frames = []
    for part in range(parts):
        rows = 0 if part == 1 else 300
        values: dict[str, Any] = {name: (10 ** rng.uniform(0, 18.9, rows)).astype(np.int64) for name in COLUMNS}
        known = pl.Series(rng.random(rows) < 0.8)
        frame = pl.DataFrame({"key": rng.integers(0, keys * (part + 1), rows).astype(np.uint64), **values})
        frames.append(frame.with_columns(pl.when(known).then("cached").alias("cached")))
    return frames


@pytest.mark.parametrize("by", [None, "key"])
@pytest.mark.parametrize("bits", [6, 11])
@pytest.mark.parametrize("most_keys", [0, 3, pooled.MOST_KEYS])
def test_a_pool_gives_what_combining_gives(
    of_whole: Callable[..., pl.DataFrame], monkeypatch: pytest.MonkeyPatch, by: str | None, bits: int, most_keys: int
) -> None:
    monkeypatch.setattr(pooled, "MOST_KEYS", most_keys)
    summary = histogram.summary(COLUMNS, bits=bits, by=by)
    states = [of_whole(summary, part) for part in some_parts(11, 4)]
    before = [state.rows() for state in states]
    pool = Pool(COLUMNS, bits)
    for state in states:
        pool.add(state)
    assert_frame_equal(pool.total(), histogram.combine(states), check_exact=True)
    assert [state.rows() for state in states] == before
