"""One generated year that the tests of the generator look at from all sides."""

from __future__ import annotations

import polars as pl
import pytest

from llmtrace.synth.frames import frames
from llmtrace.synth.workload import Workload

YEAR = Workload(requests=60_000, seed=7, cached_from=0.5)


@pytest.fixture(scope="session")
def year() -> pl.DataFrame:
    return pl.concat(frames(YEAR))


@pytest.fixture(scope="session")
def served(year: pl.DataFrame) -> pl.DataFrame:
    """Its requests that did not fail."""
    return year.filter(pl.col("status") == "ok")
