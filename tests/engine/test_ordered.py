"""Requests in order: whatever the files are like, frames follow each other in time, few at once, and the result is completed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from llmtrace.engine.ordered import in_order
from llmtrace.engine.reading import ahead
from llmtrace.errors import InputError
from llmtrace.formats.layout import ReadOptions
from llmtrace.result import Result
from llmtrace.trace import Filters, Trace, open_trace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llmtrace.trace.part import Part

ROWS = 3_000
START = datetime(2025, 4, 11)
COLUMNS = ("timestamp", "input_tokens", "request_id", "user")


@pytest.fixture(name="pool")
def _pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture(name="small_parts")
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Trace.parts
    monkeypatch.setattr(Trace, "parts", lambda trace, _rows=None: parts(trace, rows=200))


def requests() -> pl.DataFrame:
    """Requests in no order, with many ties in time."""
    rng = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "timestamp": pl.Series(
                [START + timedelta(seconds=int(s)) for s in rng.integers(0, 900, ROWS)], dtype=pl.Datetime("us")
            ),
            "input_tokens": rng.integers(1, 1000, ROWS),
            "output_tokens": rng.integers(1, 1000, ROWS),
            "request_id": [f"r{n:05}" for n in rng.permutation(ROWS)],
            "user": [f"u{user}" for user in rng.integers(0, 50, ROWS)],
        }
    )


def expected(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort("timestamp", "request_id").select(COLUMNS)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("threads", [None, 1, 3])
def test_frames_are_the_trace_in_order_whatever_the_files(tmp_path: Path, threads: int | None) -> None:
    frame = requests()
    frame.sort("timestamp").write_parquet(tmp_path / "sorted.parquet", row_group_size=150)
    frame.write_parquet(tmp_path / "unsorted.parquet", row_group_size=400)
    (tmp_path / "halves").mkdir()
    frame.head(ROWS // 3).write_parquet(tmp_path / "halves" / "a.parquet", row_group_size=100)
    frame.tail(ROWS - ROWS // 3).write_parquet(tmp_path / "halves" / "b.parquet", row_group_size=170)
    frame.write_csv(tmp_path / "trace.csv")
    for name, least in (("sorted.parquet", 10), ("unsorted.parquet", 10), ("halves", 10), ("trace.csv", 1)):
        seen: list[tuple[int, int]] = []
        ordered = in_order(
            open_trace(str(tmp_path / name)), COLUMNS, threads=threads, progress=lambda *done, to=seen: to.append(done)
        )
        frames = list(ordered)
        assert len(frames) >= least
        assert_frame_equal(pl.concat(frames), expected(frame))
        assert len(seen) == len(frames)
        assert seen[-1][0] == seen[-1][1] >= ROWS
        assert ordered.intake.kept == ROWS


@pytest.mark.usefixtures("small_parts")
def test_filters_prepared_columns_and_provenance(tmp_path: Path) -> None:
    frame = requests()
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=150)
    trace = open_trace(str(tmp_path / "t.parquet"), filters=Filters(users=("u1", "u7")))
    threads: set[str] = set()

    def doubled(part: pl.DataFrame) -> pl.DataFrame:
        threads.add(threading.current_thread().name)
        return part.with_columns(twice=pl.col("input_tokens") * 2)

    ordered = in_order(trace, COLUMNS, prepare=doubled)
    kept = expected(frame).filter(pl.col("user").is_in(["u1", "u7"]))
    assert_frame_equal(pl.concat(ordered), kept.with_columns(twice=pl.col("input_tokens") * 2))
    assert all(name.startswith("llmtrace-read") for name in threads)
    result = ordered.complete(Result("test", {}, {"first": kept["timestamp"][0]}, {}, ""))
    assert result.provenance["rows"] == kept.height
    assert result.provenance["filters"]["users"] == ["u1", "u7"]
    assert result.scalars["first"] == kept["timestamp"][0]


def test_an_empty_window_gives_one_frame_without_rows(tmp_path: Path) -> None:
    requests().write_parquet(tmp_path / "t.parquet")
    ordered = in_order(open_trace(str(tmp_path / "t.parquet"), filters=Filters(since="2026-01-01")), [*COLUMNS, "model"])
    [frame] = ordered
    assert (frame.height, set(frame.columns)) == (0, {*COLUMNS, "model"})
    assert "No request passes the filters." in ordered.complete(Result("test", {}, {}, {}, "")).notes


def test_a_result_is_not_completed_before_the_end(tmp_path: Path) -> None:
    requests().write_parquet(tmp_path / "t.parquet")
    ordered = in_order(open_trace(str(tmp_path / "t.parquet")), COLUMNS)
    next(iter(ordered))
    with pytest.raises(RuntimeError, match="end"):
        ordered.complete(Result("test", {}, {}, {}, ""))


def test_unreadable_cells_are_told_and_an_error_if_strict(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("timestamp,input_tokens,output_tokens\n103,many,1\n100.5,1,1\nnever,5,1\n")
    options = ReadOptions(time_unit="s")
    ordered = in_order(open_trace(str(path), options=options), ["input_tokens"])
    assert pl.concat(ordered)["input_tokens"].to_list() == [1, None]
    result = ordered.complete(Result("test", {}, {"last": datetime(1970, 1, 1, 0, 1, 43)}, {}, ""))
    assert "1 of 3 rows has an unreadable input_tokens, taken as missing." in result.notes
    assert result.scalars["last"] == 2.5
    with pytest.raises(InputError, match="no readable timestamp"):
        list(in_order(open_trace(str(path), options=options, strict=True), ["input_tokens"]))


def test_long_names_are_shortened_unless_the_trace_is_to_be_written_again(tmp_path: Path) -> None:
    requests().head(1).with_columns(user=pl.lit("u" * 2_000)).write_parquet(tmp_path / "t.parquet")
    trace = open_trace(str(tmp_path / "t.parquet"))
    lengths = [pl.concat(in_order(trace, COLUMNS, whole_names=whole))["user"].str.len_bytes().item() for whole in (False, True)]
    assert lengths[0] < 300
    assert lengths[1] == 2_000


class _Counting:
    """What reads parts, and knows how many were begun and not yet taken at most."""

    def __init__(self) -> None:
        self.begun, self.taken, self.most, self.lock = 0, 0, 0, threading.Lock()

    def __call__(self, part: Part) -> int:
        with self.lock:
            self.begun += 1
            self.most = max(self.most, self.begun - self.taken)
        return part.rows


@pytest.mark.usefixtures("small_parts")
def test_few_parts_are_begun_and_none_after_it_is_left(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    requests().write_parquet(tmp_path / "t.parquet", row_group_size=150)
    parts = open_trace(str(tmp_path / "t.parquet")).parts()
    work = _Counting()
    going = ahead(pool, work, parts, 3)
    for taken, (part, rows) in enumerate(going):
        assert (part, rows) == (parts[taken], parts[taken].rows)
        work.taken = taken + 1
    assert work.begun == len(parts) > 10
    assert work.most <= 4
    work = _Counting()
    left = ahead(pool, work, parts, 3)
    next(left)
    left.close()
    pool.shutdown()
    assert work.begun <= 3
