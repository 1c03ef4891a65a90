"""Names that are too long: told in short, counted, kept apart, and no larger in a result than others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.analyses.stats import Stats
from llmtrace.engine.convert import convert
from llmtrace.engine.local import run
from llmtrace.engine.names import LONGEST_BYTES, shortened
from llmtrace.report import json
from llmtrace.trace import Filters, open_trace

if TYPE_CHECKING:
    from pathlib import Path

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
