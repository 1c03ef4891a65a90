"""Names that are too long: told in short, counted, kept apart, and no larger in a result than others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from llmtrace.analyses.evolution import Evolution
from llmtrace.analyses.evolution.cohorts import Cohorts
from llmtrace.analyses.registry import ANALYSES
from llmtrace.analyses.reuse_time import ReuseTime
from llmtrace.analyses.stats import Stats
from llmtrace.engine.convert import convert
from llmtrace.engine.local import run
from llmtrace.engine.names import LONGEST_BYTES, shortened
from llmtrace.report import json
from llmtrace.trace import Filters, open_trace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llmtrace.analyses.base import Analysis
    from llmtrace.result import Result

EXAMPLES = [
    pytest.param(example, id=f"{name}-{place}") for name, examples in ANALYSES.items() for place, example in enumerate(examples)
]
HUGE = "m" * 1_000_000


def write(folder: Path) -> str:
    """Requests to two models of huge names that differ at their ends, to a third whose name differs in the middle, and to `m`."""
    models = [f"{HUGE}1", f"{HUGE}2", f"{HUGE[1:]}n{HUGE}1", "m"]
    columns = {"timestamp": range(1_700_000_000, 1_700_000_400), "input_tokens": 5, "output_tokens": 7}
    frame = pl.DataFrame(columns).with_columns(pl.Series("model", models * 100), pl.lit(HUGE).alias("endpoint"))
    frame.write_parquet(folder / "t.parquet")
    return str(folder / "t.parquet")


def test_only_names_of_more_bytes_are_shortened() -> None:
    names = ["", "a" * LONGEST_BYTES, "a" * (LONGEST_BYTES + 1), "é" * (LONGEST_BYTES // 2), "é" * LONGEST_BYTES, None]
    frame, counts = shortened(pl.DataFrame({"user": names, "request_id": names}))
    assert frame["request_id"].to_list() == names
    assert [name == short for name, short in zip(names, frame["user"], strict=True)] == [True, True, False, True, False, True]
    assert max(frame["user"].str.len_bytes().drop_nulls()) <= LONGEST_BYTES
    assert list(counts.values()) == [2]


def test_a_frame_without_them_is_left_alone() -> None:
    frame = pl.DataFrame({"user": ["u"], "timestamp": [1]})
    same, counts = shortened(frame)
    assert same is frame
    assert counts == {}
    assert shortened(pl.DataFrame({"timestamp": [1]}))[1] == {}


def test_results_stay_small_and_tell_huge_names_apart(tmp_path: Path) -> None:
    [result] = run(open_trace(write(tmp_path)), [Stats()])
    assert result.scalars["models"] == 4
    assert result.tables["lengths_by_model"]["model"].n_unique() == 4
    assert len(json.dumps(result)) < 1_000_000
    assert "300 rows have more than 1,000 bytes in model; results show the ends of such names." in result.notes
    assert "400 rows have more than 1,000 bytes in endpoint; results show the ends of such names." in result.notes


def test_filters_and_conversion_know_the_whole_name(tmp_path: Path) -> None:
    path = write(tmp_path)
    [result] = run(open_trace(path, filters=Filters(models=(f"{HUGE}2",))), [Stats()])
    assert result.scalars["requests"] == 100
    convert(open_trace(path), tmp_path / "made.parquet", "none")
    assert sorted(set(pl.read_parquet(tmp_path / "made.parquet")["model"])) == sorted(set(pl.read_parquet(path)["model"]))


def test_a_long_name_is_nothing_that_strict_forbids(tmp_path: Path) -> None:
    [result] = run(open_trace(write(tmp_path), strict=True), [Stats()])
    assert result.scalars["requests"] == 400


def texts_of(result: Result) -> Iterator[str]:
    """All texts in a result but those about its source."""
    yield from (text for text in (*result.scalars.values(), *result.notes) if isinstance(text, str))
    for table in result.tables.values():
        yield from (text for column in table.select(pl.col(pl.String)) for text in column.unique().drop_nulls())


@pytest.mark.parametrize("analysis", EXAMPLES)
def test_no_result_has_a_name_that_is_too_long(analysis: Analysis, tmp_path: Path) -> None:
    names = ["user", "model", "instance", "session", "endpoint", "status"]
    huge = {name: [f"{name} {HUGE[:2_000]}{row % 3}" for row in range(400)] for name in names}
    first = int(datetime(2025, 4, 11, tzinfo=UTC).timestamp())
    numbers = {"input_tokens": 5, "output_tokens": 7, "cached_tokens": 2, "ttft_s": 0.5, "duration_s": 1.5}
    pl.DataFrame({"timestamp": range(first, first + 400), **numbers, **huge}).write_parquet(tmp_path / "t.parquet")
    [result] = run(open_trace(str(tmp_path / "t.parquet")), [analysis])
    assert max(len(text) for text in texts_of(result)) <= LONGEST_BYTES
    assert {name for name in names if any(f"bytes in {name};" in note for note in result.notes)} == analysis.tells & set(names)


def test_keys_that_no_result_names_stay_whole(tmp_path: Path) -> None:
    users = [f"{HUGE[:2_000]}{row % 2}" for row in range(40)]
    trace = pl.DataFrame({"timestamp": range(1_700_000_000, 1_700_000_040), "input_tokens": 5, "output_tokens": 7, "user": users})
    trace.with_columns(model=pl.lit("m")).write_parquet(tmp_path / "t.parquet")
    side = pl.DataFrame({"user": users[:2], "cohort": ["2023-10", "2023-11"]})
    reuse, evolution = run(
        open_trace(str(tmp_path / "t.parquet")), [ReuseTime(), Evolution("month", cohorts=Cohorts.of("users.csv", side, None))]
    )
    assert reuse.scalars["keys"] == 2
    assert evolution.tables["cohorts"]["users"].to_list() == [1, 1]
    assert not [note for result in (reuse, evolution) for note in result.notes if "bytes" in note]
