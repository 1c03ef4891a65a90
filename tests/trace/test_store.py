"""Store: rows go to the partitions of their times, words stay words, and each column is encoded as suits it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.schema import COLUMNS
from llmtrace.trace.store import Footer, Store

if TYPE_CHECKING:
    from pathlib import Path

    from llmtrace.formats.layout import Clock
    from llmtrace.trace.store import Partition

EPOCH = datetime(1970, 1, 1)
WORDS = ["gpt", "llama", "qwen", "never used"]


def requests(rows: int, **columns: list[Any]) -> pl.DataFrame:
    data = {
        "timestamp": [EPOCH + timedelta(hours=7 * row) for row in range(rows)],
        "input_tokens": list(range(rows)),
        "output_tokens": [None if row % 5 == 0 else row % 3 for row in range(rows)],
        **columns,
    }
    return pl.DataFrame(data, schema={name: COLUMNS[name].dtype for name in data})


def stored(folder: Path) -> dict[str, pl.DataFrame]:
    return {path.parent.name: pl.read_parquet(path, hive_partitioning=False) for path in sorted(folder.rglob("*.parquet"))}


def encodings(file: Path) -> dict[str, set[str]]:
    group = pq.ParquetFile(file).metadata.row_group(0)
    return {group.column(place).path_in_schema: set(group.column(place).encodings) for place in range(group.num_columns)}


@pytest.mark.parametrize(
    ("partition", "clock", "folder"),
    [
        ("day", "utc", "date={:%Y-%m-%d}"),
        ("month", "utc", "month={:%Y-%m}"),
        ("day", "relative", "day={day:05}"),
        ("month", "relative", "day={day:05}"),
    ],
)
@given(hours=st.lists(st.integers(-5000, 5000), min_size=1, max_size=30).map(sorted), cut=st.integers(0, 30))
def test_each_row_is_in_the_folder_of_its_time(
    tmp_path_factory: pytest.TempPathFactory, partition: Partition, clock: Clock, folder: str, hours: list[int], cut: int
) -> None:
    times = [EPOCH + timedelta(hours=hour) for hour in hours]
    frame = requests(len(times), timestamp=times)
    place = tmp_path_factory.mktemp("store") / "trace"
    with Store(place, partition, Footer(clock)) as store:
        for piece in (frame[:cut], frame[cut:]):
            if piece.height:
                store.append(piece)
    expected: dict[str, list[int]] = {}
    for time, number in zip(times, frame["input_tokens"].to_list(), strict=True):
        expected.setdefault(folder.format(time, day=(time - EPOCH).days), []).append(number)
    assert {name: part["input_tokens"].to_list() for name, part in stored(place).items()} == expected
    assert store.rows == frame.height


@pytest.mark.parametrize("partition", ["day", "month", "none"])
def test_dictionaries_are_written_as_their_words_and_no_others(tmp_path: Path, partition: Partition) -> None:
    rows, rng = 300, np.random.default_rng(1)
    frame = requests(rows)
    indices = pa.array(rng.integers(0, 3, rows).astype(np.int32), mask=rng.random(rows) < 0.2)
    words = pa.DictionaryArray.from_arrays(indices, pa.array(WORDS))
    table = frame.to_arrow().append_column("model", words).append_column("user", words.dictionary_decode())
    with Store(tmp_path / "trace", partition, Footer("utc")) as store:
        store.append(table.slice(0, 100))
        store.append(table.slice(100))
    read = pl.concat(stored(tmp_path / "trace").values())
    assert read.schema["model"] == pl.String
    assert read["model"].to_list() == words.to_pylist() == read["user"].to_list()
    assert read.select(frame.columns).equals(frame)
    for file in (tmp_path / "trace").rglob("*.parquet"):
        for chunk in pq.ParquetFile(file, read_dictionary=["model"]).read(["model"])["model"].chunks:
            assert set(chunk.dictionary.to_pylist()) == set(chunk.to_pylist()) - {None}


def test_every_column_of_every_row_group_has_its_least_and_greatest(tmp_path: Path) -> None:
    frame = requests(50, user=[WORDS[row % 3] for row in range(50)])
    words = pa.DictionaryArray.from_arrays(pa.array([row % 3 for row in range(50)], pa.int32()), pa.array(WORDS))
    table = frame.to_arrow().append_column("model", words)
    with Store(tmp_path / "trace.parquet", "none", Footer("utc")) as store:
        store.append(table.slice(0, 20))
        store.append(table.slice(20))
    metadata = pq.ParquetFile(tmp_path / "trace.parquet").metadata
    assert metadata.num_row_groups == 2
    for number, rows in enumerate((table.slice(0, 20), table.slice(20))):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            column, values = group.column(place), [value for value in rows.column(place).to_pylist() if value is not None]
            assert (column.statistics.min, column.statistics.max) == (min(values), max(values))
            assert column.statistics.null_count == rows.num_rows - len(values)


@pytest.mark.parametrize("synthetic", [True, False])
@pytest.mark.parametrize("numbered", [True, False])
def test_columns_are_encoded_by_what_they_hold(tmp_path: Path, *, synthetic: bool, numbered: bool) -> None:
    frame = requests(9, session=["s"] * 9, user=["u"] * 9, block_hashes=[[7, 8]] * 9)
    ids = pl.Series("request_id", range(9), dtype=pl.Int64)
    frame = frame.with_columns(ids if numbered else ids.cast(pl.String))
    with Store(tmp_path / "trace.parquet", "none", Footer("utc", 16, synthetic=synthetic)) as store:
        store.append(frame)
    found = encodings(tmp_path / "trace.parquet")
    by_difference = {name for name, used in found.items() if "DELTA_BINARY_PACKED" in used}
    by_dictionary = {name for name, used in found.items() if "RLE_DICTIONARY" in used}
    hashes = "block_hashes.list.element"
    assert by_difference == {"timestamp", "input_tokens"} | ({"request_id"} if numbered else set()) | (
        {hashes} if synthetic else set()
    )
    assert by_dictionary == {"output_tokens", "user"} | (set() if numbered else {"request_id"})
    assert pl.read_parquet(tmp_path / "trace.parquet").equals(frame)
