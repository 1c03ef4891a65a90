from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
import pytest

from llmtrace.commands.generate import Likeness, Size, generate
from llmtrace.errors import UsageError
from llmtrace.options import Storing
from llmtrace.synth.workload import Workload

if TYPE_CHECKING:
    from pathlib import Path


def test_defaults_are_the_workloads() -> None:
    assert Size().workload() == Workload()


def test_every_option_reaches_the_workload() -> None:
    size = Size(
        requests=10,
        days=2,
        seed=3,
        start=datetime(2024, 2, 29),
        users=4,
        models=5,
        instances=6,
        block_size=64,
        cached_from=0.25,
    )
    workload = size.workload()
    assert not Size(unserved=True).workload().service
    assert workload == Workload(10, 2, 3, 4, 5, 6, datetime(2024, 2, 29).date(), 64, 0.25)


def test_without_service_there_are_no_columns_of_it(tmp_path: Path) -> None:
    generate(str(tmp_path / "whole.parquet"), Size(requests=300, days=9), storing=Storing(quiet=True))
    generate(str(tmp_path / "trace.parquet"), Size(requests=300, days=9, unserved=True), storing=Storing(quiet=True))
    whole, trace = (pl.read_parquet(tmp_path / name) for name in ("whole.parquet", "trace.parquet"))
    assert set(whole.columns) - set(trace.columns) == {"instance", "cached_tokens", "ttft_s", "duration_s"}
    assert trace.equals(whole.select(trace.columns))


@pytest.mark.parametrize(
    ("options", "shape", "likeness", "message"),
    [
        ({"instances": 3}, "canonical", Likeness(), "--no-service --instances"),
        ({"cached_from": 0.5}, "canonical", Likeness(), "--no-service --cached-from"),
        ({}, "chutes", Likeness(), "--no-service: the layout chutes"),
        ({}, "canonical", Likeness(sources=["trace.parquet"]), "--like takes days, population and columns"),
    ],
)
def test_what_service_alone_gives_cannot_be_asked_for_without_it(
    tmp_path: Path, options: dict[str, Any], shape: Literal["canonical", "chutes"], likeness: Likeness, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        generate(str(tmp_path / "trace"), Size(requests=30, unserved=True, **options), likeness, shape, storing=Storing())
    assert list(tmp_path.iterdir()) == []


def test_it_writes_the_trace_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generate(str(tmp_path / "trace.parquet"), Size(requests=30, days=2), storing=Storing())
    assert pl.read_parquet(tmp_path / "trace.parquet").height == 30
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"llmtrace: wrote {tmp_path}/trace.parquet: 30 synthetic requests\n"


def test_it_says_what_a_layout_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generate(str(tmp_path / "trace.csv"), Size(requests=1000, days=2), shape="azure-2024", storing=Storing())
    rows = len((tmp_path / "trace.csv").read_text().splitlines()) - 1
    note, wrote = capsys.readouterr().err.splitlines()
    assert note == f"llmtrace: note: azure-2024 has no place for failed requests; {1000 - rows} are left out"
    assert wrote.endswith(f": {rows} synthetic requests")


def test_quiet_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generate(str(tmp_path / "trace.csv"), Size(requests=1000, days=2), shape="azure-2024", storing=Storing(quiet=True))
    assert capsys.readouterr() == ("", "")


def test_a_negative_number_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--requests -1"):
        generate(str(tmp_path / "trace"), Size(requests=-1), storing=Storing())
    assert list(tmp_path.iterdir()) == []
