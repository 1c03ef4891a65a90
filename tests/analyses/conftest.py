"""What tests of analyses share: random requests, and running an analysis on a frame without an engine."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from llmtrace.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llmtrace.analyses.base import Analysis, State
    from llmtrace.result import Result


def summarised(analysis: Analysis, part: pl.DataFrame) -> State:
    """The state of a part that may lack columns."""
    whole = part.with_columns(pl.lit(None, COLUMNS[name].dtype).alias(name) for name in analysis.uses - set(part.columns))
    plans = analysis.partial(whole.lazy().select(sorted(analysis.uses)))
    return dict(zip(plans, pl.collect_all(plans.values()), strict=True))


def _measured(analysis: Analysis, frame: pl.DataFrame, cuts: Sequence[int] = ()) -> Result:
    times = frame["timestamp"] if frame.height else pl.Series([datetime(2025, 4, 11)])
    fixed = analysis.for_span(times.min(), times.max())  # type: ignore[arg-type]
    borders = [0, *sorted(cuts), frame.height]
    parts = [frame[start:end] for start, end in itertools.pairwise(borders)]
    return fixed.finish(fixed.combine([summarised(fixed, part) for part in parts]))


@pytest.fixture(scope="session")
def measured() -> Callable[..., Result]:
    """An analysis of a frame that is cut at some rows."""
    return _measured
