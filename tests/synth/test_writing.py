from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import polars as pl
import pyarrow.parquet as pq
import pytest

from llmtrace.errors import OutputError, UsageError
from llmtrace.schema import METADATA_BLOCK_SIZE, METADATA_CLOCK, METADATA_SCHEMA
from llmtrace.synth.arrivals import Arrivals
from llmtrace.synth.dressing import Dress, frame_of
from llmtrace.synth.frames import frames, tables
from llmtrace.synth.layouts import LAYOUTS
from llmtrace.synth.population import population
from llmtrace.synth.service import Service
from llmtrace.synth.workload import Workload
from llmtrace.synth.writing import Partition, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Given = ParamSpec("Given")
Made = TypeVar("Made")
WORKLOAD = Workload(requests=800, days=40, seed=2)


def stored(folder: Path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(file, hive_partitioning=False) for file in sorted(folder.rglob("*.parquet"))])


@pytest.mark.parametrize(("partition", "folders"), [("day", 40), ("month", 2), ("none", 1), ("auto", 2)])
def test_however_it_is_cut_the_requests_are_the_same(tmp_path: Path, partition: Partition, folders: int) -> None:
    assert write(WORKLOAD, tmp_path / "trace", partition=partition) == 800
    assert len(list((tmp_path / "trace").rglob("*.parquet"))) == folders
    assert stored(tmp_path / "trace").equals(pl.concat(frames(WORKLOAD)))


@pytest.mark.parametrize("rows", [1, 100, 10_000])
@pytest.mark.parametrize("most", [1, 5])
def test_however_many_are_drawn_ahead_and_joined_the_requests_are_the_same(
    monkeypatch: pytest.MonkeyPatch, rows: int, most: int
) -> None:
    monkeypatch.setattr("llmtrace.synth.frames._FEW_BLOCKS", most)
    made = [frame_of(table) for table in tables(WORKLOAD, rows)]
    assert pl.concat(made).equals(pl.concat(frames(WORKLOAD)))
    assert all(one.height + other.height > rows for one, other in pairwise(made))


@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads_change_no_byte(tmp_path: Path, threads: str) -> None:
    write(WORKLOAD, tmp_path / "here.parquet")
    command = [sys.executable, "-m", "llmtrace", "generate", str(tmp_path / "there.parquet")]
    command += ["--requests", "800", "--days", "40", "--seed", "2", "--quiet"]
    limits = dict.fromkeys(("POLARS_MAX_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"), threads)
    subprocess.run(command, check=True, env=os.environ | limits)
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()


def test_many_requests_a_day_make_a_folder_per_day(tmp_path: Path) -> None:
    write(Workload(requests=200_000, days=2, block_size=0), tmp_path / "trace")
    assert sorted(path.name for path in (tmp_path / "trace").iterdir()) == ["date=2025-04-11", "date=2025-04-12"]


def test_files_say_what_they_are_and_are_sorted(tmp_path: Path) -> None:
    write(WORKLOAD, tmp_path / "trace")
    for file in (tmp_path / "trace").rglob("*.parquet"):
        parquet = pq.ParquetFile(file)
        assert parquet.metadata.metadata[METADATA_SCHEMA.encode()] == b"1"
        assert parquet.metadata.metadata[METADATA_CLOCK.encode()] == b"utc"
        assert parquet.metadata.metadata[METADATA_BLOCK_SIZE.encode()] == b"512"
        group = parquet.metadata.row_group(0)
        assert parquet.metadata.num_row_groups == 1
        assert [order.column_index for order in group.sorting_columns] == [0]
        assert group.column(0).statistics.has_min_max


def test_without_blocks_there_is_no_block_size(tmp_path: Path) -> None:
    write(Workload(requests=50, days=1, block_size=0), tmp_path / "trace.parquet")
    assert METADATA_BLOCK_SIZE.encode() not in pq.ParquetFile(tmp_path / "trace.parquet").metadata.metadata


@pytest.mark.parametrize("layout", ["canonical", *LAYOUTS])
def test_what_exists_is_kept_unless_forced(tmp_path: Path, layout: str) -> None:
    place = tmp_path / f"trace.{LAYOUTS[layout].kind if layout in LAYOUTS else 'parquet'}"
    write(WORKLOAD, place, layout=layout)
    before = place.read_bytes()
    other = Workload(requests=700, days=40, seed=3)
    with pytest.raises(OutputError, match="exists already"):
        write(other, place, layout=layout)
    assert place.read_bytes() == before
    write(other, place, layout=layout, force=True)
    assert place.read_bytes() != before
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize("layout", ["canonical", "csv"])
def test_a_pipe_is_never_replaced(tmp_path: Path, layout: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="is a device or a pipe"):
        write(WORKLOAD, tmp_path / "pipe", layout=layout, force=True)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("layout", ["canonical", "azure-2023", "jsonl", "chutes"])
def test_an_interrupted_run_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, interruption: type[BaseException]
) -> None:
    monkeypatch.setattr("llmtrace.synth.writing.FRAME_ROWS", 100)

    def interrupt(done: int, _: int) -> None:
        if done > 200:
            raise interruption

    with pytest.raises(interruption):
        write(WORKLOAD, tmp_path / "trace", layout=layout, progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_no_kernel_runs_where_an_interruption_could_be_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def watched(work: Callable[Given, Made]) -> Callable[Given, Made]:
        def watch(*args: Given.args, **kwargs: Given.kwargs) -> Made:
            threads.append(threading.get_ident())
            return work(*args, **kwargs)

        return watch

    monkeypatch.setattr("llmtrace.synth.frames.population", watched(population))
    monkeypatch.setattr(Arrivals, "of", watched(Arrivals.of))
    monkeypatch.setattr(Service, "serve", watched(Service.serve))
    monkeypatch.setattr(Dress, "table", watched(Dress.table))
    write(WORKLOAD, tmp_path / "trace")
    assert len(threads) > 40
    assert threading.get_ident() not in threads


def test_an_interrupted_replacement_leaves_the_old(tmp_path: Path) -> None:
    write(WORKLOAD, tmp_path / "log.csv", layout="csv")
    before = (tmp_path / "log.csv").read_bytes()

    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(WORKLOAD, tmp_path / "log.csv", layout="csv", force=True, progress=interrupt)
    assert (tmp_path / "log.csv").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_what_another_run_wrote_meanwhile_is_kept(tmp_path: Path) -> None:
    def meanwhile(*_: int) -> None:
        (tmp_path / "log.csv").write_text("another's")

    with pytest.raises(OutputError, match="exists already"):
        write(WORKLOAD, tmp_path / "log.csv", layout="csv", progress=meanwhile)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["another's"]


def test_progress_ends_at_the_total_even_where_failures_are_left_out(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    written = write(WORKLOAD, tmp_path / "a.csv", layout="azure-2024", progress=lambda *call: calls.append(call))
    failed = pl.concat(frames(WORKLOAD)).filter(pl.col("status") != "ok").height
    assert calls[-1] == (800, 800)
    assert written == 800 - failed < 800


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "excel"}, "--layout excel"),
        ({"layout": "azure-2023", "partition": "day"}, "--partition day"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        write(WORKLOAD, tmp_path / "trace", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("layout", "name", "kind"),
    [("chutes", "t.csv", "Parquet"), ("azure-2023", "t.jsonl.gz", "CSV"), ("mooncake", "t.parquet", "JSON lines")],
)
def test_a_layout_is_not_written_under_the_name_of_another_kind(tmp_path: Path, layout: str, name: str, kind: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: the layout {layout} is {kind}"):
        write(Workload(requests=10, days=1, block_size=512), tmp_path / name, layout=layout)
    assert list(tmp_path.iterdir()) == []


def test_mooncake_has_one_block_size(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="512 tokens"):
        write(Workload(requests=10, days=1, block_size=64), tmp_path / "trace.jsonl", layout="mooncake")


def test_a_foreign_layout_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="is a folder"):
        write(WORKLOAD, tmp_path / "folder", layout="csv", force=True)


@pytest.mark.parametrize("layout", ["canonical", "csv"])
def test_a_place_that_cannot_be_written_to(tmp_path: Path, layout: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        write(WORKLOAD, tmp_path / "file" / "trace", layout=layout)
