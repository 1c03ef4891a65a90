"""The engine: one scan for all analyses, any cut, any number of threads, any file layout, the same answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import polars as pl
import pytest

from llmtrace.analyses.base import Analysis, Engine, State
from llmtrace.engine.local import run
from llmtrace.errors import InputError, MissingColumnError
from llmtrace.result import Result
from llmtrace.summaries.accumulator import Counter
from llmtrace.trace import Filters, Trace, open_trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ROWS = 5000
START = datetime(2025, 4, 11)


@dataclass(frozen=True)
class Tally(Analysis):
    """Counts requests and tokens, and remembers that parts come in order; wants columns that a trace may lack."""

    name: ClassVar[str] = "tally"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses: ClassVar[frozenset[str]] = frozenset({"timestamp", "input_tokens", "cached_tokens", "user"})

    def for_span(self, first: datetime, last: datetime) -> Self:
        assert first <= last
        return self

    def partial(self, part: pl.LazyFrame) -> Mapping[str, pl.LazyFrame]:
        time = pl.col("timestamp")
        return {
            "sums": part.select(
                pl.len().cast(pl.Int64).alias("requests"), pl.col("input_tokens", "cached_tokens").sum(), pl.col("user").count()
            ),
            "order": part.select(time.first().alias("first"), time.last().alias("last"), time.is_sorted().alias("sorted")),
        }

    def combine(self, states: Sequence[State]) -> State:
        return {
            "sums": pl.concat([state["sums"] for state in states]).sum(),
            "order": pl.concat([state["order"] for state in states]),
        }

    def accumulator(self) -> Counter[State]:
        return Counter(self.combine)

    def finish(self, state: State) -> Result:
        order = state["order"].drop_nulls()
        assert order["sorted"].all()
        assert (order["first"].slice(1) > order["last"].head(order.height - 1)).all()
        first = order.select(pl.col("first").min()).item()
        return Result("tally", {}, {**state["sums"].row(0, named=True), "first": first}, {"order": order}, "order")


def requests(rows: int = ROWS) -> pl.DataFrame:
    rng = np.random.default_rng(7)
    return pl.DataFrame(
        {
            "timestamp": pl.Series(
                [START + timedelta(seconds=int(s)) for s in rng.integers(0, 86_400, rows)], dtype=pl.Datetime("us")
            ),
            "input_tokens": rng.integers(1, 1000, rows),
            "output_tokens": rng.integers(1, 1000, rows),
            "user": [f"u{user}" for user in rng.integers(0, 50, rows)],
        }
    )


def scalars(trace: Trace, threads: int | None = None) -> dict[str, object]:
    [result] = run(trace, [Tally()], threads=threads)
    return dict(result.scalars)


@pytest.fixture(name="small_parts")
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Trace.parts
    monkeypatch.setattr(Trace, "parts", lambda trace, _rows=None: parts(trace, rows=300))


def expected(frame: pl.DataFrame) -> dict[str, object]:
    return {
        "requests": frame.height,
        "input_tokens": frame["input_tokens"].sum(),
        "cached_tokens": 0,
        "user": frame.height,
        "first": frame["timestamp"].min(),
    }


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_file_layout_gives_the_same_answer(tmp_path: Path, threads: int) -> None:
    frame = requests()
    shuffled = frame.sample(fraction=1, shuffle=True, seed=3)
    frame.sort("timestamp").write_parquet(tmp_path / "sorted.parquet", row_group_size=250)
    frame.write_parquet(tmp_path / "unsorted.parquet", row_group_size=400)
    (tmp_path / "halves").mkdir()
    shuffled.head(ROWS // 3).write_parquet(tmp_path / "halves" / "a.parquet", row_group_size=100)
    shuffled.tail(ROWS - ROWS // 3).write_parquet(tmp_path / "halves" / "b.parquet")
    frame.write_parquet(tmp_path / "bare.parquet", statistics=False, row_group_size=400)
    frame.write_csv(tmp_path / "trace.csv")
    for name in ("sorted.parquet", "unsorted.parquet", "halves", "bare.parquet", "trace.csv"):
        assert scalars(open_trace(str(tmp_path / name)), threads=threads) == expected(frame), name


@pytest.mark.usefixtures("small_parts")
def test_a_trace_is_really_cut_and_progress_reaches_the_end(tmp_path: Path) -> None:
    requests().sort("timestamp").write_parquet(tmp_path / "t.parquet", row_group_size=250)
    seen: list[tuple[int, int]] = []
    [result] = run(open_trace(str(tmp_path / "t.parquet")), [Tally()], progress=lambda done, total: seen.append((done, total)))
    assert result.tables["order"].height > 10
    assert seen[-1][0] == seen[-1][1] >= ROWS
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_parts_are_large_where_all_analyses_have_them_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Large(Tally):
        rows_at_once = 1

    requests().sort("timestamp").write_parquet(tmp_path / "t.parquet", row_group_size=250)
    monkeypatch.setattr("llmtrace.engine.local.part_rows", lambda _: 500)
    monkeypatch.setattr("llmtrace.engine.local.large_part_rows", lambda rows, threads, at_once: at_once and rows // (2 * threads))
    trace = open_trace(str(tmp_path / "t.parquet"))
    for analyses, count in (([Tally()], 10), ([Large()], 4), ([Large(), Large()], 4), ([Large(), Tally()], 10)):
        assert [result.tables["order"].height for result in run(trace, analyses, threads=2)] == [count] * len(analyses)
    half = open_trace(str(tmp_path / "t.parquet"), filters=Filters(until="12h"))
    assert run(half, [Large()], threads=1)[0].tables["order"].height == 2


def test_plans_run_with_the_engine_of_their_analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class InMemory(Tally):
        engine = "in-memory"

    called, collect_all = [], pl.collect_all

    def noting(plans: Sequence[pl.LazyFrame], *, engine: Engine) -> list[pl.DataFrame]:
        called.append((engine, len(plans)))
        return collect_all(plans, engine=engine)

    monkeypatch.setattr("polars.collect_all", noting)
    frame = requests()
    frame.write_parquet(tmp_path / "t.parquet")
    results = run(open_trace(str(tmp_path / "t.parquet")), [Tally(), InMemory(), Tally()])
    assert [dict(result.scalars) for result in results] == [expected(frame)] * 3
    assert called == [("streaming", 4), ("in-memory", 2)]


def test_an_engine_that_polars_does_not_have_is_no_silence(tmp_path: Path) -> None:
    class Misspelt(Tally):
        engine = "in_memory"  # type: ignore[assignment]

    requests().write_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="in_memory"):
        run(open_trace(str(tmp_path / "t.parquet")), [Misspelt()])


def test_no_analysis_gives_no_result(tmp_path: Path) -> None:
    requests().write_parquet(tmp_path / "t.parquet")
    assert run(open_trace(str(tmp_path / "t.parquet")), []) == []


def test_how_polars_works_is_not_changed_for_the_caller(tmp_path: Path) -> None:
    requests().write_parquet(tmp_path / "t.parquet")
    before = pl.Config.state()
    run(open_trace(str(tmp_path / "t.parquet")), [Tally()])
    assert pl.Config.state() == before


@pytest.mark.usefixtures("small_parts")
def test_filters_window_and_names(tmp_path: Path) -> None:
    frame = requests()
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=250)
    filters = Filters(since="6h", until="2025-04-11T12:00", users=("u1", "u2"), where="input_tokens > 500")
    first = frame["timestamp"].min()
    assert isinstance(first, datetime)
    kept = frame.filter(
        pl.col("timestamp") >= first + timedelta(hours=6),
        pl.col("timestamp") < datetime(2025, 4, 11, 12),
        pl.col("user").is_in(["u1", "u2"]),
        pl.col("input_tokens") > 500,
    )
    [result] = run(open_trace(str(tmp_path / "t.parquet"), filters=filters), [Tally()])
    assert dict(result.scalars) == expected(kept)
    assert result.provenance["rows"] == kept.height
    assert result.provenance["filters"]["users"] == ["u1", "u2"]


def test_no_requests_after_the_filters_is_an_answer(tmp_path: Path) -> None:
    requests().write_parquet(tmp_path / "t.parquet")
    for filters in (Filters(since="2026-01-01"), Filters(until="2025-01-01"), Filters(users=("nobody",))):
        [result] = run(open_trace(str(tmp_path / "t.parquet"), filters=filters), [Tally()])
        assert result.scalars["requests"] == 0
        assert "No request passes the filters." in result.notes


def test_several_analyses_share_the_run(tmp_path: Path) -> None:
    requests().write_parquet(tmp_path / "t.parquet")
    first, second = run(open_trace(str(tmp_path / "t.parquet")), [Tally(), Tally()])
    assert first.scalars == second.scalars


def test_unreadable_cells_are_counted_said_and_an_error_if_strict(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "timestamp,input_tokens,output_tokens\n2025-04-11T00:00:00Z,10,1\n2025-04-11T00:00:01Z,many,1\nnever,5,1\n2025-04-11T00:00:02Z,-7,1\n"
    )
    [result] = run(open_trace(str(path)), [Tally()])
    assert result.scalars["requests"] == 3
    assert result.scalars["input_tokens"] == 10
    assert "1 of 4 rows has no readable timestamp and is left out." in result.notes
    assert "2 of 4 rows have an unreadable input_tokens, taken as missing." in result.notes
    assert result.provenance["intake"]["bad_rows"] == 3
    with pytest.raises(InputError, match="no readable timestamp"):
        run(open_trace(str(path), strict=True), [Tally()])


def test_cached_above_input_is_cut_counted_and_said(tmp_path: Path) -> None:
    frame = requests(4).with_columns(input_tokens=pl.Series([10, 10, None, 10]), cached_tokens=pl.Series([10, 15, 5, None]))
    frame.write_parquet(tmp_path / "t.parquet")
    [result] = run(open_trace(str(tmp_path / "t.parquet")), [Tally()])
    assert result.scalars["cached_tokens"] == 25
    assert any("1 of 4 rows has more cached than input tokens" in note for note in result.notes)


def test_a_missing_required_column_is_named(tmp_path: Path) -> None:
    requests().write_parquet(tmp_path / "t.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tally, "requires", frozenset({"cached_tokens"}))
        with pytest.raises(MissingColumnError, match="tally needs the column 'cached_tokens'"):
            run(open_trace(str(tmp_path / "t.parquet")), [Tally()])


def test_a_relative_clock_gives_seconds_from_the_first_arrival(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("timestamp,input_tokens,output_tokens\n100.5,1,1\n103,2,1\n")
    from llmtrace.formats.layout import ReadOptions

    [result] = run(open_trace(str(path), options=ReadOptions(time_unit="s")), [Tally()])
    assert result.scalars["first"] == 0.0
    assert result.tables["order"]["last"].to_list() == [2.5]
    assert result.provenance["clock"] == "relative"
    assert result.provenance["last"] == 2.5


def test_a_relative_clock_starts_with_the_trace_whatever_the_window(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("timestamp,input_tokens,output_tokens\n100,1,1\n103,2,1\n107,2,1\n")
    from llmtrace.formats.layout import ReadOptions

    trace = open_trace(str(path), options=ReadOptions(time_unit="s"), filters=Filters(since="2s"))
    [result] = run(trace, [Tally()])
    assert (result.scalars["first"], result.provenance["first"], result.provenance["last"]) == (3.0, 3.0, 7.0)


def test_what_a_layout_counts_besides_is_said(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "timestamp,input_tokens,output_tokens\n2025-10-26 02:30:00,1,1\n2025-10-26 05:00:00,1,1,extra\n2025-10-27,1,1\n"
    )
    from llmtrace.formats.layout import ReadOptions

    [result] = run(open_trace(str(path), options=ReadOptions(tz="Europe/Berlin")), [Tally()])
    assert "1 time lies in an hour that Europe/Berlin has twice; the earlier one was taken." in result.notes
    assert "1 row has more fields than the header; the surplus was not read." in result.notes
    assert result.scalars["first"] == datetime(2025, 10, 26, 0, 30)
    assert all("{" not in name for name in result.provenance["intake"])
