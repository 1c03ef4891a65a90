"""Convert: nothing lost, sorted, partitioned, atomic; destinations in the way are refused."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from llmtrace.engine import convert as module
from llmtrace.engine.convert import convert, partition_of
from llmtrace.errors import InputError, OutputError, UsageError
from llmtrace.formats.layout import ReadOptions
from llmtrace.schema import COLUMNS
from llmtrace.trace import Filters, open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from llmtrace.trace.store import Partition

START = datetime(2025, 4, 29, 23)


def everything(rows: int = 500) -> pl.DataFrame:
    """A frame with every canonical column, nulls in most."""
    rng = np.random.default_rng(5)
    data = {
        "timestamp": [START + timedelta(seconds=float(s)) for s in rng.uniform(0, 3 * 86_400, rows)],
        "input_tokens": rng.integers(1000, 9000, rows),
        "output_tokens": [None if n % 7 == 0 else n for n in range(rows)],
        "request_id": [f"r{n}" for n in range(rows)],
        "user": [None if n % 5 == 0 else f"u{n % 9}" for n in range(rows)],
        "model": ["org/a" if n % 2 else "b" for n in range(rows)],
        "instance": ["i1"] * rows,
        "endpoint": ["chat"] * rows,
        "session": [f"s{n // 3}" for n in range(rows)],
        "turn": [n % 3 for n in range(rows)],
        "stream": [None if n % 4 == 0 else n % 2 == 0 for n in range(rows)],
        "cached_tokens": [None if n % 3 == 0 else n for n in range(rows)],
        "ttft_s": rng.uniform(0, 2, rows),
        "duration_s": [None if n % 6 == 0 else n / 7 for n in range(rows)],
        "status": ["ok" if n % 11 else "timeout" for n in range(rows)],
        "block_hashes": [None if n % 8 == 0 else [2**64 - 1 - n, n] for n in range(rows)],
    }
    return pl.DataFrame(data, schema={name: column.dtype for name, column in COLUMNS.items()})


def ordered(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort("timestamp", "request_id")


def read(folder: Path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path, hive_partitioning=False) for path in sorted(folder.rglob("*.parquet"))])


@pytest.mark.parametrize(
    ("partition", "folders"),
    [
        ("day", ["date=2025-04-29", "date=2025-04-30", "date=2025-05-01", "date=2025-05-02"]),
        ("month", ["month=2025-04", "month=2025-05"]),
        ("none", ["part-0.parquet"]),
    ],
)
def test_round_trip_loses_nothing(tmp_path: Path, partition: Partition, folders: list[str]) -> None:
    frame = everything()
    frame.write_parquet(tmp_path / "source.parquet", row_group_size=60)
    intake = convert(open_trace(str(tmp_path / "source.parquet")), tmp_path / "out", partition)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == folders
    assert_frame_equal(read(tmp_path / "out"), ordered(frame))
    assert intake.kept == frame.height
    convert(open_trace(str(tmp_path / "out")), tmp_path / "again", "none")
    assert_frame_equal(read(tmp_path / "again"), ordered(frame))


def test_one_file_if_the_name_says_so(tmp_path: Path) -> None:
    everything().write_parquet(tmp_path / "source.parquet")
    convert(open_trace(str(tmp_path / "source.parquet")), tmp_path / "out.parquet", "day")
    assert_frame_equal(pl.read_parquet(tmp_path / "out.parquet"), ordered(everything()))


def test_footer_tells_schema_clock_and_order(tmp_path: Path) -> None:
    everything().write_parquet(tmp_path / "source.parquet")
    convert(open_trace(str(tmp_path / "source.parquet")), tmp_path / "out.parquet", "none")
    footer = pq.ParquetFile(tmp_path / "out.parquet")
    metadata = footer.schema_arrow.metadata
    assert metadata[b"llmtrace.schema"] == b"1"
    assert metadata[b"llmtrace.clock"] == b"utc"
    assert footer.metadata.row_group(0).sorting_columns[0].column_index == 0


def test_a_relative_clock_stays_relative_and_counts_days(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("timestamp,input_tokens,output_tokens\n5,1,1\n90000,2,2\n")
    convert(open_trace(str(tmp_path / "t.csv"), options=ReadOptions(time_unit="s")), tmp_path / "out", "day")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["day=00000", "day=00001"]
    assert open_trace(str(tmp_path / "out")).clock == "relative"


def test_long_text_is_staged_and_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flat = everything().drop("block_hashes")
    flat.write_csv(tmp_path / "t.csv")
    convert(open_trace(str(tmp_path / "t.csv")), tmp_path / "held", "day")
    monkeypatch.setattr(module, "MAX_TEXT_ROWS", 10)
    convert(open_trace(str(tmp_path / "t.csv")), tmp_path / "staged", "day")
    assert_frame_equal(read(tmp_path / "staged"), read(tmp_path / "held"))
    assert_frame_equal(
        read(tmp_path / "held").select("timestamp", "user", "cached_tokens", "stream"),
        ordered(flat).select("timestamp", "user", "cached_tokens", "stream"),
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["held", "staged", "t.csv"]


def test_filters_and_empty_results(tmp_path: Path) -> None:
    everything().write_parquet(tmp_path / "source.parquet")
    convert(open_trace(str(tmp_path / "source.parquet"), filters=Filters(where="turn = 0")), tmp_path / "some", "none")
    assert read(tmp_path / "some")["turn"].unique().to_list() == [0]
    convert(open_trace(str(tmp_path / "source.parquet"), filters=Filters(users=("nobody",))), tmp_path / "none", "none")
    assert read(tmp_path / "none").is_empty()


def test_a_destination_in_the_way_is_refused_and_replaced_by_force(tmp_path: Path) -> None:
    everything().write_parquet(tmp_path / "source.parquet")
    trace = open_trace(str(tmp_path / "source.parquet"))
    convert(trace, tmp_path / "out", "day")
    before = read(tmp_path / "out")
    with pytest.raises(OutputError, match="exists already"):
        convert(trace, tmp_path / "out", "none")
    assert_frame_equal(read(tmp_path / "out"), before)
    convert(trace, tmp_path / "out", "month", force=True)
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == ["month=2025-04", "month=2025-05"]
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    with pytest.raises(OutputError, match=r"thesis\.txt"):
        convert(trace, tmp_path / "out", "month", force=True)
    assert (tmp_path / "out" / "thesis.txt").exists()


def test_a_pipe_is_never_replaced(tmp_path: Path) -> None:
    """Nor is a device: root that writes to /dev/null must find it there again."""
    everything().write_parquet(tmp_path / "source.parquet")
    os.mkfifo(tmp_path / "pipe.parquet")
    with pytest.raises(OutputError, match="is a device or a pipe"):
        convert(open_trace(str(tmp_path / "source.parquet")), tmp_path / "pipe.parquet", "none", force=True)
    assert (tmp_path / "pipe.parquet").is_fifo()


@pytest.mark.parametrize("detour", ["out/../out", "out/.", "out/month=2025-04/..", "link/out", "back"])
def test_a_detour_to_the_destination_loses_nothing(tmp_path: Path, detour: str) -> None:
    everything().write_parquet(tmp_path / "source.parquet")
    trace = open_trace(str(tmp_path / "source.parquet"))
    convert(trace, tmp_path / "out", "month")
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "back").symlink_to(tmp_path / "out")
    there = sorted(tmp_path.iterdir())
    convert(trace, tmp_path / detour, "none", force=True)
    assert sorted(tmp_path.iterdir()) == there, "nothing is left aside"
    made = tmp_path / ("back" if detour == "back" else "out")
    assert [path.name for path in made.iterdir()] == ["part-0.parquet"]
    assert_frame_equal(read(made), ordered(everything()))


def test_a_way_that_goes_round_in_circles_is_an_output_error(tmp_path: Path) -> None:
    everything().write_parquet(tmp_path / "source.parquet")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OutputError, match="cannot be written"):
        convert(open_trace(str(tmp_path / "source.parquet")), tmp_path / "loop" / "out", "day")


def test_a_file_is_no_folder_even_by_force(tmp_path: Path) -> None:
    everything().write_parquet(tmp_path / "source.parquet")
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(OutputError, match="notes is a file, not a folder"):
        convert(open_trace(str(tmp_path / "source.parquet")), tmp_path / "notes", "day", force=True)
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.csv.gz"])
def test_a_trace_is_not_stored_under_the_name_of_text(tmp_path: Path, name: str) -> None:
    everything().write_parquet(tmp_path / "source.parquet")
    with pytest.raises(UsageError, match=f"{name}: traces are stored as Parquet"):
        convert(open_trace(str(tmp_path / "source.parquet")), tmp_path / name, "day")
    assert not (tmp_path / name).exists()


def test_a_destination_that_cannot_be_looked_at_is_an_output_error(tmp_path: Path) -> None:
    everything().write_parquet(tmp_path / "source.parquet")
    with pytest.raises(OutputError, match="File name too long"):
        convert(open_trace(str(tmp_path / "source.parquet")), tmp_path / ("a" * 300), "day")


def test_the_source_itself_is_never_the_destination(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    everything().write_parquet(tmp_path / "folder" / "source.parquet")
    trace = open_trace(str(tmp_path / "folder"))
    for destination in ("folder", "folder/source.parquet"):
        with pytest.raises(UsageError, match="is the source itself"):
            convert(trace, tmp_path / destination, "day", force=True)
    assert (tmp_path / "folder" / "source.parquet").exists()


def test_what_another_run_wrote_meanwhile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything().write_parquet(tmp_path / "source.parquet")
    trace, close = open_trace(str(tmp_path / "source.parquet")), pq.ParquetWriter.close

    def close_late(writer: pq.ParquetWriter) -> None:
        close(writer)
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out/part-0.parquet").write_text("another's")

    monkeypatch.setattr(pq.ParquetWriter, "close", close_late)
    with pytest.raises(OutputError, match="exists already"):
        convert(trace, tmp_path / "out", "none")
    assert (tmp_path / "out/part-0.parquet").read_text() == "another's"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source.parquet"]


@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError(13, "Permission denied")])
@pytest.mark.parametrize("step", [1, 2])
def test_a_replacement_that_fails_leaves_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: type[BaseException] | OSError, step: int
) -> None:
    everything().write_parquet(tmp_path / "source.parquet")
    trace, rename, renames = open_trace(str(tmp_path / "source.parquet")), type(tmp_path).rename, iter(range(1, 9))
    convert(trace, tmp_path / "out", "none")

    def fail_at(path: Path, target: Path) -> object:
        if next(renames) == step:
            raise problem
        return rename(path, target)

    monkeypatch.setattr(type(tmp_path), "rename", fail_at)
    with pytest.raises((KeyboardInterrupt, OutputError)):
        convert(trace, tmp_path / "out", "day", force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source.parquet"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["part-0.parquet"]


@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_nothing_stays_of_a_run_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: type[BaseException] | OSError
) -> None:
    everything().write_parquet(tmp_path / "source.parquet")

    def fail(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises((KeyboardInterrupt, OutputError)):
        convert(open_trace(str(tmp_path / "source.parquet")), tmp_path / "out", "day")
    assert [path.name for path in tmp_path.iterdir()] == ["source.parquet"]


def test_a_strict_run_that_finds_bad_cells_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("timestamp,input_tokens,output_tokens\n2025-04-11,x,1\n2025-04-11,3,1\n")
    with pytest.raises(InputError, match="unreadable input_tokens"):
        convert(open_trace(str(tmp_path / "t.csv"), strict=True), tmp_path / "out", "day")
    assert not (tmp_path / "out").exists()


def test_a_trace_is_partitioned_as_its_folders_say(tmp_path: Path) -> None:
    everything().write_parquet(tmp_path / "t.parquet")
    source = open_trace(str(tmp_path / "t.parquet"))
    partitions: tuple[Partition, ...] = ("day", "month", "none")
    for partition in partitions:
        convert(source, tmp_path / partition, partition)
        assert partition_of(open_trace(str(tmp_path / partition))) == partition
    assert partition_of(open_trace([str(tmp_path / "day"), str(tmp_path / "month")])) == "none"
    relative = tmp_path / "t.csv"
    relative.write_text("timestamp,input_tokens,output_tokens\n5,1,1\n90000,1,1\n")
    convert(open_trace(str(relative), options=ReadOptions(time_unit="s")), tmp_path / "relative", "day")
    assert partition_of(open_trace(str(tmp_path / "relative"))) == "day"
