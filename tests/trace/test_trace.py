"""Opening a trace: clocks, columns, spans and slices, from footers and first rows alone."""

from __future__ import annotations

import gzip
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from llmtrace.engine.survey import survey
from llmtrace.errors import InputError
from llmtrace.formats.layout import ReadOptions
from llmtrace.trace import Interval, Trace, open_trace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

EPOCH, START = datetime(1970, 1, 1), datetime(2025, 4, 11)


def requests(times: Sequence[object] | pl.Series, **columns: object) -> pl.DataFrame:
    ones = [1] * len(times)
    return pl.DataFrame({"timestamp": times, "input_tokens": ones, "output_tokens": ones, **columns})


def minutes(*numbers: int) -> list[object]:
    return [START + timedelta(minutes=number) for number in numbers]


def rows(trace: Trace) -> int:
    return sum(part.frame(["timestamp"]).collect().height for part in survey(trace).parts(rows=2))


def test_row_groups_are_slices_with_their_bounds(tmp_path: Path) -> None:
    requests(minutes(0, 1, 2, 3, 4)).write_parquet(tmp_path / "t.parquet", row_group_size=2)
    trace = open_trace(str(tmp_path / "t.parquet"))
    assert [(piece.first_row, piece.rows, piece.first, piece.last) for piece in trace.slices] == [
        (0, 2, *minutes(0, 1)),
        (2, 2, *minutes(2, 3)),
        (4, 1, *minutes(4, 4)),
    ]
    assert all(piece.surveyed and piece.complete for piece in trace.slices)


@pytest.mark.parametrize(("numbers", "scans"), [((0, 1, 2, 3, 4), 1), ((4, 0, 1, 3, 2), 4)])
def test_row_groups_that_follow_each_other_are_read_by_one_scan(tmp_path: Path, numbers: tuple[int, ...], scans: int) -> None:
    requests(minutes(*numbers)).write_parquet(tmp_path / "t.parquet", row_group_size=1)
    [part] = open_trace(str(tmp_path / "t.parquet")).parts()
    assert part.read(["timestamp"]).explain().count("Parquet SCAN") == scans
    assert part.frame(["timestamp"]).collect()["timestamp"].to_list() == minutes(0, 1, 2, 3, 4)


def test_a_sentinel_in_the_statistics_hides_no_rows(tmp_path: Path) -> None:
    epoch = int(START.timestamp())
    requests([-1, epoch, epoch + 60, epoch + 120, -1, epoch + 180]).write_parquet(tmp_path / "t.parquet", row_group_size=3)
    trace = open_trace(str(tmp_path / "t.parquet"))
    assert len(trace.unsurveyed) == 2
    assert rows(trace) == 4
    counts = [part.intake(["timestamp"]).collect().row(0, named=True) for part in survey(trace).parts(rows=2)]
    assert (sum(count["rows"] for count in counts), sum(count["no_timestamp"] for count in counts)) == (6, 2)


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("mark", [datetime.min, datetime.max, 2**62, -(2**62)], ids=str)
def test_a_mark_for_no_time_in_parquet_is_a_row_without_a_time(tmp_path: Path, mark: object, *, statistics: bool) -> None:
    times = pl.concat([pl.Series(minutes(0, 1, 2)), pl.Series([mark]).cast(pl.Datetime("us"))])
    frame = requests([0] * 4).with_columns(times.alias("timestamp"))
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=2, statistics=statistics)
    trace = survey(open_trace(str(tmp_path / "t.parquet")))
    assert trace.span == Interval(START, START + timedelta(minutes=2))
    counts = [part.intake(["timestamp"]).collect().row(0, named=True) for part in trace.parts(rows=2)]
    assert (sum(count["rows"] for count in counts), sum(count["no_timestamp"] for count in counts)) == (4, 1)
    assert rows(trace) == 3


def test_statistics_that_vouch_leave_the_column_as_it_is(tmp_path: Path) -> None:
    requests(minutes(0, 1, 2)).write_parquet(tmp_path / "t.parquet")
    (opened,) = open_trace(str(tmp_path / "t.parquet")).opened
    assert opened.reading.cells["timestamp"].value.meta.eq(pl.col("timestamp"))


def test_counts_are_checked_only_where_statistics_do_not_vouch_for_them(tmp_path: Path) -> None:
    frame = requests(minutes(0, 1, 2), input_tokens=[5, -2, 7], cached_tokens=[None, 0, 3])
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=1)
    trace = survey(open_trace(str(tmp_path / "t.parquet")))
    cells = trace.opened[0].reading.cells
    assert cells["cached_tokens"].value.meta.eq(pl.col("cached_tokens"))
    assert not cells["input_tokens"].value.meta.eq(pl.col("input_tokens"))
    [part] = trace.parts()
    assert part.frame(["input_tokens", "cached_tokens"]).collect().select("input_tokens", "cached_tokens").rows() == [
        (5, None),
        (None, 0),
        (7, 3),
    ]
    assert part.intake(["input_tokens", "cached_tokens"]).collect()["bad_input_tokens"].item() == 1


def test_names_are_looked_at_only_where_one_may_be_empty(tmp_path: Path) -> None:
    frame = requests(minutes(0, 1, 2), user=["a", "", None], model=["m" * 5_000, None, "n"])
    frame.write_parquet(tmp_path / "t.parquet")
    trace = survey(open_trace(str(tmp_path / "t.parquet")))
    cells = trace.opened[0].reading.cells
    assert cells["model"].value.meta.eq(pl.col("model"))
    assert not cells["user"].value.meta.eq(pl.col("user"))
    [part] = trace.parts()
    found = part.frame(["user", "model"]).collect()
    assert found["user"].to_list() == ["a", None, None]
    assert found["model"].to_list() == frame["model"].to_list()


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"]])
def test_files_of_which_one_is_vouched_for_are_read_together(tmp_path: Path, order: list[str]) -> None:
    requests(minutes(0, 2), input_tokens=[5, 6]).write_parquet(tmp_path / f"{order[0]}.parquet")
    requests(minutes(1, 3), input_tokens=[-1, -7]).write_parquet(tmp_path / f"{order[1]}.parquet")
    [part] = survey(open_trace(str(tmp_path))).parts()
    assert part.frame(["input_tokens"]).collect()["input_tokens"].to_list() == [5, None, 6, None]
    assert part.intake(["input_tokens"]).collect().row(0, named=True) == {
        "rows": 4,
        "no_timestamp": 0,
        "bad_rows": 1,
        "cached_above_input": 0,
        "bad_input_tokens": 1,
    }


def test_rows_without_a_time_are_counted_once_however_it_is_cut(tmp_path: Path) -> None:
    requests([None, *minutes(0, 1), None, *minutes(2, 3), None, None]).write_parquet(tmp_path / "t.parquet", row_group_size=3)
    trace = survey(open_trace(str(tmp_path / "t.parquet")))
    counts = [part.intake(["timestamp"]).collect().row(0, named=True) for part in trace.parts(rows=1)]
    assert len(counts) > 1
    assert (sum(count["rows"] for count in counts), sum(count["no_timestamp"] for count in counts)) == (8, 4)


def test_text_is_one_part_and_too_much_of_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests(minutes(*range(9))).write_csv(tmp_path / "t.csv")
    trace = survey(open_trace(str(tmp_path / "t.csv")))
    assert len(trace.parts(rows=2)) == 1
    monkeypatch.setattr("llmtrace.trace.MAX_TEXT_ROWS", 8)
    with pytest.raises(InputError, match="9 rows of text") as caught:
        trace.parts()
    assert "llmtrace convert" in caught.value.hint


def test_ties_are_broken_by_request_id_if_it_is_read_else_by_file_order(tmp_path: Path) -> None:
    requests(minutes(1, 0, 0, 0), request_id=["d", "c", "a", "b"]).write_parquet(tmp_path / "t.parquet")
    [part] = open_trace(str(tmp_path / "t.parquet")).parts()
    assert part.frame(["request_id"]).collect()["request_id"].to_list() == ["a", "b", "c", "d"]
    requests(minutes(1, 0, 0, 0), user=["d", "c", "a", "b"]).write_parquet(tmp_path / "u.parquet")
    [part] = open_trace(str(tmp_path / "u.parquet")).parts()
    assert part.frame(["user"]).collect()["user"].to_list() == ["c", "a", "b", "d"]


@pytest.mark.parametrize("request_id", ["same", None])
def test_ties_that_no_id_tells_apart_stay_in_file_order(tmp_path: Path, request_id: str | None) -> None:
    users = [str(number) for number in range(500)]
    frame = requests([*minutes(1), *minutes(*[0] * 499)], user=users, request_id=pl.Series([request_id] * 500, dtype=pl.String))
    frame.write_parquet(tmp_path / "t.parquet")
    [part] = open_trace(str(tmp_path / "t.parquet")).parts()
    assert part.frame(["request_id", "user"]).collect()["user"].to_list() == [*users[1:], users[0]]


@pytest.mark.parametrize("parts", [1, 2])
def test_ties_between_row_groups_and_files_are_broken_by_file_order(tmp_path: Path, parts: int) -> None:
    """Also where a later row group, or a later file, has earlier rows."""
    times, names = (5, 1, 1, 0, 9, 5, 1, 7), list("abcdefgh")
    requests(minutes(*times[:6]), user=names[:6]).write_parquet(tmp_path / "a.parquet", row_group_size=2)
    requests(minutes(*times[6:]), user=names[6:]).write_parquet(tmp_path / "b.parquet", row_group_size=2)
    cut = open_trace(str(tmp_path)).parts(rows=8 // parts)
    assert len(cut) == parts
    found = [name for part in cut for name in part.frame(["user"]).collect()["user"].to_list()]
    assert found == [name for _, name in sorted(zip(times, names, strict=True), key=lambda row: row[0])]


def test_row_groups_in_no_order_are_read_at_once(tmp_path: Path) -> None:
    requests(minutes(5, 1, 1, 0, 9, 5)).write_parquet(tmp_path / "t.parquet", row_group_size=1)
    [part] = open_trace(str(tmp_path / "t.parquet")).parts()
    assert part.read(["user"]).explain().count("Parquet SCAN") == 1


def test_sources_with_different_columns_are_one_trace(tmp_path: Path) -> None:
    requests(minutes(0, 2), user=["a", "b"]).write_parquet(tmp_path / "a.parquet")
    requests(minutes(1, 3), model=["m", "n"]).write_parquet(tmp_path / "b.parquet")
    trace = open_trace([str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")])
    assert trace.columns == ("timestamp", "input_tokens", "output_tokens", "user", "model")
    [part] = trace.parts()
    frame = part.frame(["user", "model"]).collect()
    assert frame.drop("timestamp").rows() == [("a", None), (None, "m"), ("b", None), (None, "n")]


def test_sources_with_their_columns_in_another_order_are_one_trace(tmp_path: Path) -> None:
    requests(minutes(0, 2), user=["a", "b"]).write_parquet(tmp_path / "a.parquet")
    requests(minutes(1, 3), user=["c", "d"]).select("user", "timestamp", "output_tokens", "input_tokens").write_parquet(
        tmp_path / "b.parquet"
    )
    [part] = open_trace([str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")]).parts()
    assert part.frame(["user"]).collect()["user"].to_list() == ["a", "c", "b", "d"]


def test_a_hive_key_fills_only_the_files_without_its_column(tmp_path: Path) -> None:
    for name in ("m", "n"):
        (tmp_path / f"model={name}").mkdir()
    requests(minutes(0, 2), user=["a", "b"]).write_parquet(tmp_path / "model=m/a.parquet")
    requests(minutes(1, 3), model=["x", "y"], user=["c", "d"]).write_parquet(tmp_path / "model=n/b.parquet")
    trace = open_trace(str(tmp_path))
    [part] = trace.parts()
    # Of all columns, so that the plan leaves none out before it puts the files together.
    read = part.frame(trace.columns).collect()
    assert read.select("user", "model").rows() == [("a", "m"), ("c", "x"), ("b", "m"), ("d", "y")]


@pytest.mark.parametrize("columns", [["user", "model"], ["user"], ["model"]])
def test_a_hive_key_may_be_a_column_of_another_file_that_the_same_plan_reads(tmp_path: Path, columns: list[str]) -> None:
    for name in ("m", "n", "o"):
        (tmp_path / f"model={name}").mkdir()
    requests(minutes(0, 3), user=["a", "b"]).write_parquet(tmp_path / "model=m/a.parquet")
    requests(minutes(1, 4), user=["c", "d"], model=["x", ""]).write_parquet(tmp_path / "model=n/b.parquet")
    requests(minutes(2, 5), user=["e", "f"]).write_parquet(tmp_path / "model=o/c.parquet")
    trace = open_trace(str(tmp_path))
    first, *others = trace.opened
    assert all(first.reads_like(other) for other in others)
    [part] = trace.parts()
    expected = {"user": list("acebdf"), "model": ["m", "x", "o", "m", None, "o"]}
    assert part.frame(columns).collect().select(columns).to_dict(as_series=False) == {name: expected[name] for name in columns}


def test_rows_are_not_lost_where_only_hive_keys_are_wanted(tmp_path: Path) -> None:
    for day, size, own in ((11, 3, {}), (12, 2, {}), (14, 1, {"day": "2025-04-13T00:00"})):
        folder = tmp_path / f"day=2025-04-{day}T00%3A00"
        folder.mkdir()
        pl.DataFrame({"input_tokens": [1] * size, "output_tokens": [1] * size, **own}).write_parquet(folder / "t.parquet")
    trace = survey(open_trace(str(tmp_path), options=ReadOptions(mapping={"timestamp": "day"})))
    [part] = trace.parts()
    days = [0, 0, 0, 1, 1, 2]
    assert part.frame(["timestamp"]).collect()["timestamp"].to_list() == [START + timedelta(days=day) for day in days]


def test_rows_are_named_only_of_files_that_are_cut(tmp_path: Path) -> None:
    for name, numbers in (("a", range(12)), ("b", range(12, 14)), ("c", range(14, 16))):
        requests(minutes(*numbers)).write_parquet(tmp_path / f"{name}.parquet", row_group_size=2)
    parts = open_trace(str(tmp_path)).parts(rows=8)
    assert [(part.rows, part.read(["timestamp"]).explain().count("SLICE")) for part in parts] == [(8, 1), (8, 1)]
    assert [time for part in parts for time in part.frame(["timestamp"]).collect()["timestamp"]] == minutes(*range(16))


def test_clocks_do_not_mix(tmp_path: Path) -> None:
    requests(minutes(0)).write_parquet(tmp_path / "utc.parquet")
    requests([5.5]).write_csv(tmp_path / "relative.csv")
    with pytest.raises(InputError, match=r"relative\.csv is on a relative clock, .*utc\.parquet on an absolute one"):
        open_trace([str(tmp_path / "utc.parquet"), str(tmp_path / "relative.csv")], options=ReadOptions(time_unit="s"))


@pytest.mark.parametrize("times", [[], [None, None]])
@pytest.mark.parametrize("epoch", [None, datetime(2025, 4, 11)])
def test_a_source_without_a_time_is_on_the_clock_of_the_others(tmp_path: Path, times: list[None], epoch: datetime | None) -> None:
    elapsed = [EPOCH + timedelta(seconds=second) for second in (5, 7)]
    for name, column in (("a", times), ("b", elapsed), ("c", times)):
        requests(pl.Series(column, dtype=pl.Datetime("us"))).write_parquet(tmp_path / f"{name}.parquet")
    trace = open_trace(str(tmp_path), options=ReadOptions(epoch=epoch))
    assert trace.clock == ("relative" if epoch is None else "utc")
    [part] = trace.parts()
    assert part.frame({"timestamp"}).collect()["timestamp"].to_list() == [one - EPOCH + (epoch or EPOCH) for one in elapsed]


@pytest.mark.parametrize("epoch", [None, datetime(2025, 4, 11)])
def test_text_without_rows_is_on_the_clock_of_the_others(tmp_path: Path, epoch: datetime | None) -> None:
    for name, times in (("a", list[float]()), ("b", [5.0, 7.0]), ("c", list[float]())):
        requests(times).write_csv(tmp_path / f"{name}.csv")
    trace = open_trace(str(tmp_path), options=ReadOptions(time_unit="s", epoch=epoch))
    assert trace.clock == ("relative" if epoch is None else "utc")
    assert [piece.rows for piece in trace.slices] == [0, None, 0]
    [part] = survey(trace).parts()
    found = part.frame({"timestamp"}).collect()["timestamp"].to_list()
    assert found == [(epoch or EPOCH) + timedelta(seconds=second) for second in (5, 7)]


@pytest.mark.parametrize("kind", ["gzip", "parquet"])
def test_damage_in_the_middle_names_the_file(tmp_path: Path, kind: str) -> None:
    frame = requests(minutes(*range(20_000)), user=[f"user {number * 7919 % 20_000}" for number in range(20_000)])
    path = tmp_path / f"damaged.{kind}"
    if kind == "gzip":
        path.write_bytes(gzip.compress(frame.write_csv().encode())[:-9000])
    else:
        frame.write_parquet(path, row_group_size=1000)
        content = bytearray(path.read_bytes())
        content[9_000:12_000] = bytes(3_000)
        path.write_bytes(content)
    from llmtrace.analyses.check import Check
    from llmtrace.engine.local import run

    with pytest.raises(InputError, match=f"damaged.{kind}"):
        run(open_trace(str(path)), [Check()])
