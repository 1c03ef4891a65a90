"""Parquet footers: what they say of a column gives back the column's own values, for every dtype that can be a time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llmtrace.errors import InputError
from llmtrace.formats.source import RowGroup, find

if TYPE_CHECKING:
    from pathlib import Path

    from llmtrace.formats.source import Source

MOMENT = datetime(2025, 4, 11, 12, 0, 0, 1)


def test_a_type_that_not_every_reader_knows_is_told(tmp_path: Path) -> None:
    pl.DataFrame({"t": pl.Series([2**100], dtype=pl.Int128)}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="more than 64 bits not implemented") as caught:
        find([str(tmp_path / "t.parquet")])
    assert "Write it again" in caught.value.hint


def source(path: Path) -> Source:
    (found,) = find([str(path)])
    return found


COLUMNS: list[tuple[pl.DataType, list[Any]]] = [
    (pl.Datetime("us"), [MOMENT + timedelta(microseconds=us) for us in (3, 1, 2, 9, 7, 8)]),
    (pl.Datetime("ms"), [MOMENT.replace(microsecond=0) + timedelta(seconds=s) for s in (3, 1, 2, 9, 7, 8)]),
    (pl.Datetime("ns"), [MOMENT + timedelta(microseconds=us) for us in (3, 1, 2, 9, 7, 8)]),
    (pl.Datetime("us", "UTC"), [MOMENT.replace(tzinfo=UTC) + timedelta(microseconds=us) for us in (3, 1, 2, 9, 7, 8)]),
    (pl.Datetime("ns", "Asia/Tokyo"), [MOMENT.replace(tzinfo=UTC) + timedelta(microseconds=us) for us in (3, 1, 2, 9, 7, 8)]),
    (pl.Date(), [date(2025, 4, day) for day in (3, 1, 2, 9, 7, 8)]),
    (pl.Duration("ms"), [timedelta(seconds=s) for s in (3, 1, 2, 9, 7, 8)]),
    (pl.Int64(), [3, 1, 2, 2**63 - 1, 7, 8]),
    (pl.Int32(), [3, -1, 2, 9, 7, 8]),
    (pl.UInt64(), [3, 1, 2**63, 2**64 - 1, 7, 8]),
    (pl.UInt32(), [3, 1, 2, 2**32 - 1, 7, 8]),
    (pl.Float64(), [3.5, 1.25, 2.0, 9.0, 7.0, 8.0]),
    (pl.Float32(), [3.5, 1.25, 2.0, 9.0, 7.0, 8.0]),
    (pl.Decimal(20, 2), [Decimal(value) for value in ("3.50", "1.25", "2.00", "9.00", "7.00", "8.00")]),
]


@pytest.mark.parametrize(("dtype", "values"), COLUMNS, ids=[str(dtype) for dtype, _ in COLUMNS])
@pytest.mark.parametrize("writer", ["polars", "pyarrow"])
def test_bounds_are_values_of_the_column(tmp_path: Path, dtype: pl.DataType, values: list[Any], writer: str) -> None:
    frame = pl.DataFrame({"other": range(7), "t": pl.Series([*values, None], dtype=dtype)})
    path = tmp_path / "t.parquet"
    if writer == "polars":
        frame.write_parquet(path, row_group_size=3)
    else:
        pq.write_table(frame.to_arrow(), path, row_group_size=3)
    opened = source(path)
    groups = opened.row_groups("t")
    assert [(group.first_row, group.rows, group.nulls) for group in groups] == [(0, 3, 0), (3, 3, 0), (6, 1, 1)]
    read = opened.raw().schema["t"]
    bounds = pl.Series([bound for group in groups[:2] for bound in (group.minimum, group.maximum)], dtype=read, strict=False)
    expected = [frame["t"][:3].min(), frame["t"][:3].max(), frame["t"][3:6].min(), frame["t"][3:6].max()]
    assert bounds.to_list() == expected
    assert (groups[2].minimum, groups[2].maximum) == (None, None)


def test_what_has_no_usable_bounds(tmp_path: Path) -> None:
    frame = pl.DataFrame({"text": ["b", "a"], "list": [[1], [2]], "struct": [{"a": 1}, {"a": 2}], "t": [1, 2]})
    path = tmp_path / "key=5" / "t.parquet"
    path.parent.mkdir()
    frame.write_parquet(path)
    (opened,) = find([str(tmp_path)])
    for column in ("text", "list", "struct", "struct.a", "absent", "key"):
        assert opened.row_groups(column) == [RowGroup(0, 2, None, None, opened.row_groups(column)[0].nulls)]


def test_without_statistics_and_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"t": [3, 1]}), path, write_statistics=False)
    assert source(path).row_groups("t") == [RowGroup(0, 2, None, None, None)]
    pl.DataFrame({"t": []}, schema={"t": pl.Int64}).write_parquet(path)
    assert source(path).rows() == 0
    assert all(group.rows == 0 for group in source(path).row_groups("t"))


def test_old_timestamps_of_twelve_bytes(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"t": [MOMENT]}), path, use_deprecated_int96_timestamps=True)
    (group,) = source(path).row_groups("t")
    assert (group.minimum, group.maximum) == (None, None)
    assert source(path).raw().first_rows(["t"])["t"].dt.cast_time_unit("us").to_list() == [MOMENT]


def test_a_rewritten_file_is_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for rows in (3, 5):
        pl.DataFrame({"t": range(rows)}).write_parquet(path)
        assert source(path).rows() == rows


def test_pages_that_are_damaged_are_told_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"t": range(1000)}).write_parquet(path, compression="zstd")
    data = bytearray(path.read_bytes())
    data[40:200] = b"\xff" * 160
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"t\.parquet is damaged"):
        source(path).raw().first_rows(["t"])


def test_raw_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"t": range(1000), "l": [[1]] * 1000}).write_parquet(path, metadata={"llmtrace.clock": "relative"})
    raw = source(path).raw()
    assert (raw.kind, raw.metadata) == ("parquet", {"llmtrace.clock": "relative"})
    assert raw.schema == {"t": pl.Int64(), "l": pl.List(pl.Int64())}
    assert raw.first_rows(["t"])["t"].to_list() == list(range(100))


def test_an_address_is_read_like_a_path(tmp_path: Path) -> None:
    for day in (1, 2):
        folder = tmp_path / f"day={day}"
        folder.mkdir()
        pl.DataFrame({"t": [day]}).write_parquet(folder / "part.parquet")
    (one,) = find([f"file://{tmp_path}/day=1/part.parquet"])
    assert (one.rows(), one.row_groups("t")) == (1, [RowGroup(0, 1, 1, 1, 0)])
    assert one.scan().collect().rows() == [(1,)]
    for address in (f"file://{tmp_path}/", f"file://{tmp_path}/day=*/*.parquet"):
        found = find([address])
        assert [dict(each.hive) for each in found] == [{"day": "1"}, {"day": "2"}]
        assert [each.scan().collect().rows() for each in found] == [[(1, "1")], [(2, "2")]]
    for address in (
        f"file://{tmp_path}/none/",
        f"file://{tmp_path}/*.csv",
        f"file://{tmp_path}/none.parquet",
        "bucket://x/y.parquet",
    ):
        with pytest.raises(InputError):
            find([address])
