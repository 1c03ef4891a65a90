from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from llmtrace.commands.generate import Size, generate
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
    assert workload == Workload(10, 2, 3, 4, 5, 6, datetime(2024, 2, 29).date(), 64, 0.25)


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
