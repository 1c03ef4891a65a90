"""Studies and twins that the tests look at from all sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from llmtrace.commands.twin import Twin, make_twin, study_of
from llmtrace.synth.frames import frames
from llmtrace.synth.workload import Workload
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from llmtrace.synth.twin.study import Study


def study(path: Path) -> Study:
    return study_of(open_trace(str(path)), Twin(path, quiet=True))[0]


def twin_of(
    path: Path, made: Path, *, requests: int | None = None, seed: int = 1, min_users: int = 5, threads: int | None = None
) -> pl.DataFrame:
    """A twin as one frame."""
    twin = Twin(made, requests=requests, seed=seed, min_users=min_users, threads=threads, quiet=True)
    make_twin(open_trace(str(path)), twin)
    return pl.read_parquet(made)


@pytest.fixture(scope="session")
def month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated original with every column."""
    path = tmp_path_factory.mktemp("original") / "month.parquet"
    pl.concat(frames(Workload(requests=40_000, days=30, models=12, cached_from=0.5))).write_parquet(path)
    return path


@pytest.fixture(scope="session")
def month_twin(month: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("twin") / "twin.parquet"
    twin_of(month, made)
    return made
