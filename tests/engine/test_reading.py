"""Reading a part: what comes of it, whatever the files are like."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from llmtrace.engine import reading
from llmtrace.engine.reading import read
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ["timestamp", "input_tokens", "output_tokens", "user"]


@pytest.mark.parametrize(("fewest", "chunks"), [(1, 8), (5, 8), (6, 1)])
def test_many_small_files_make_one_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fewest: int, chunks: int) -> None:
    monkeypatch.setattr(reading, "_FEW_ROWS", fewest)
    start = datetime(2025, 4, 11)
    rows = [(start + timedelta(minutes=number), number, 1, f"u{number % 7}") for number in range(40)]
    whole = pl.DataFrame(rows, COLUMNS, orient="row")
    for first in range(0, 40, 5):
        whole[first : first + 5].write_parquet(tmp_path / f"{first:02d}.parquet")
    [part] = open_trace(str(tmp_path)).parts()
    frame, counts = read(part, COLUMNS)
    assert frame.n_chunks() == chunks
    assert_frame_equal(frame.select(COLUMNS), whole)
    assert counts["rows"].item() == 40
