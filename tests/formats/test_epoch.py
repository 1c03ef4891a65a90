"""`--epoch`: dates for the times of a relative clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from llmtrace.engine.convert import convert
from llmtrace.engine.survey import survey
from llmtrace.errors import UsageError
from llmtrace.formats.layout import ReadOptions
from llmtrace.options import Reading
from llmtrace.trace import Filters, open_trace

if TYPE_CHECKING:
    from pathlib import Path

ZERO, EPOCH = datetime(1970, 1, 1), datetime(2025, 4, 11, 4)
ELAPSED = [timedelta(0), timedelta(days=19, hours=20), timedelta(days=31)]


@pytest.fixture
def chutes(tmp_path: Path) -> Path:
    """Three requests of the Chutes layout, the second of which did not complete."""
    columns: dict[str, Any] = {
        "invocation_id": [1, 2, 3],
        "chute_id": ["m", "m", "m"],
        "user_id": ["u1_0000001", "u1_0000001", "u1_0000002"],
        "started_at": [ZERO + one for one in ELAPSED],
        "completed_at": [ZERO + ELAPSED[0] + timedelta(seconds=2), None, ZERO + ELAPSED[2] + timedelta(seconds=3)],
        "it": [10.0, 20.0, 30.0],
        "ot": [1.0, 2.0, 3.0],
    }
    path = tmp_path / "chutes.parquet"
    pl.DataFrame(columns).write_parquet(path, row_group_size=2)
    return path


def requests(path: Path, epoch: datetime | None = EPOCH, *, since: str | None = None, until: str | None = None) -> pl.DataFrame:
    trace = survey(open_trace(str(path), options=ReadOptions(epoch=epoch), filters=Filters(since, until)))
    parts = [part.frame({"timestamp", "duration_s", "status"}) for part in trace.parts()]
    return pl.concat(parts).sort("timestamp").collect()


def test_elapsed_times_become_dates_and_durations_stay(chutes: Path) -> None:
    dated, elapsed = requests(chutes), requests(chutes, epoch=None)
    assert dated["timestamp"].to_list() == [EPOCH + one for one in ELAPSED]
    assert dated["duration_s"].to_list() == elapsed["duration_s"].to_list() == [2.0, None, 3.0]
    assert dated["status"].to_list() == ["ok", "incomplete", "ok"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_dates_after_many_rows_without_a_time_are_dates_already(tmp_path: Path, kind: str) -> None:
    times = pl.Series([None] * 150 + [EPOCH], dtype=pl.Datetime("us"))
    frame = pl.DataFrame({"timestamp": times}).with_columns(pl.lit(1).alias("input_tokens"), pl.lit(1).alias("output_tokens"))
    path = tmp_path / f"t.{kind}"
    frame.write_csv(path) if kind == "csv" else frame.write_parquet(path, statistics=False)
    with pytest.raises(UsageError, match="are dates already"):
        open_trace(str(path), options=ReadOptions(epoch=EPOCH))


def test_the_clock_is_utc_then_and_a_note_says_since_when(chutes: Path) -> None:
    trace = open_trace(str(chutes), options=ReadOptions(epoch=EPOCH))
    assert trace.clock == "utc"
    assert trace.span is not None
    assert (trace.span.start, trace.span.end) == (EPOCH, EPOCH + ELAPSED[-1])
    assert "Elapsed times are counted from 2025-04-11 04:00:00 UTC (--epoch)." in trace.notes


def test_windows_may_be_named_by_date_then(chutes: Path) -> None:
    assert requests(chutes, since="2025-05-01")["timestamp"].to_list() == [EPOCH + one for one in ELAPSED[1:]]
    assert requests(chutes, until="2025-05-01T00:00:01")["timestamp"].to_list() == [EPOCH + one for one in ELAPSED[:2]]


def test_our_own_parquet_on_a_relative_clock_gets_dates_too(chutes: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.parquet"
    convert(open_trace(str(chutes)), copy, "none")
    assert open_trace(str(copy)).clock == "relative"
    assert requests(copy)["timestamp"].to_list() == [EPOCH + one for one in ELAPSED]


def test_text_and_numbers_get_dates_too(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("arrival_s,prompt_tokens,completion_tokens\n0,1,1\n1.5,1,1\n")
    assert requests(path)["timestamp"].to_list() == [EPOCH, EPOCH + timedelta(seconds=1.5)]


def test_a_clock_with_dates_has_no_zero(tmp_path: Path) -> None:
    path = tmp_path / "dated.csv"
    path.write_text("timestamp,input_tokens,output_tokens\n2025-04-11T00:00:00Z,1,1\n")
    with pytest.raises(UsageError, match=r"--epoch 2025-04-11T04:00:00Z: the times in .*dated.csv are dates already"):
        open_trace(str(path), options=ReadOptions(epoch=EPOCH))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (None, None),
        ("2025-04-11T04:00:00Z", EPOCH),
        ("2025-04-11T06:00:00+02:00", EPOCH),
        ("2025-04-11T04:00", EPOCH),
        ("2025-04-11", datetime(2025, 4, 11)),
    ],
)
def test_the_option_takes_iso_times(text: str | None, moment: datetime | None) -> None:
    assert Reading([], epoch=text).began == moment


@pytest.mark.parametrize("text", ["", "noon", "36h", "0001-01-01T00:00:00+14:00"])
def test_the_option_takes_nothing_else(text: str) -> None:
    with pytest.raises(UsageError, match="not a time"):
        _ = Reading([], epoch=text).began


@pytest.mark.parametrize("text", ["0001-01-01", "1677-12-31", "2262-01-01", "9999-12-31", "2261-12-31T23:00:00-02:00"])
def test_the_option_takes_only_years_in_which_times_may_lie(text: str) -> None:
    with pytest.raises(UsageError, match=f"--epoch {text}: times lie in the years 1678 to 2261"):
        _ = Reading([], epoch=text).began


@pytest.mark.parametrize("kind", ["numbers.csv", "numbers.parquet", "times.parquet"])
def test_a_time_that_passes_the_end_is_none(tmp_path: Path, kind: str) -> None:
    path, late = tmp_path / kind, 2 * 365 * 86_400
    arrivals = pl.Series("arrival_s", [0, 60, late])
    frame = pl.DataFrame([arrivals]).with_columns(pl.lit(1).alias("input_tokens"), pl.lit(1).alias("output_tokens"))
    if kind.startswith("times"):
        since_zero = [ZERO, ZERO + timedelta(minutes=1), ZERO + timedelta(seconds=late)]
        frame = frame.with_columns(pl.Series("arrival_s", since_zero, pl.Datetime("us")))
    frame.write_csv(path) if kind.endswith("csv") else frame.write_parquet(path)
    epoch = datetime(2260, 6, 1)
    options = ReadOptions({"timestamp": "arrival_s"}, epoch=epoch)
    trace = survey(open_trace(str(path), options=options))
    [part] = trace.parts()
    kept = part.frame({"timestamp"}).collect()["timestamp"].to_list()
    counts = part.intake({"timestamp"}).collect().row(0, named=True)
    assert kept == [epoch, epoch + timedelta(minutes=1)]
    assert (counts["rows"], counts["no_timestamp"], counts["bad_timestamp"]) == (3, 1, 1)
