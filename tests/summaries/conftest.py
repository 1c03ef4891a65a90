"""What tests of summaries share: a summary of one frame, and of a frame cut into parts."""

from __future__ import annotations

import itertools
from functools import reduce
from typing import TYPE_CHECKING, Protocol

import pytest

from llmtrace.summaries.summary import Summary, plans

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    Combine = Callable[[Sequence[pl.DataFrame]], pl.DataFrame]


class OfParts(Protocol):
    """Summaries of a frame cut at some rows, combined from left to right, from right to left, and all at once."""

    def __call__(self, summary: Summary, combine: Combine, frame: pl.DataFrame, cuts: Sequence[int]) -> list[pl.DataFrame]: ...


def summarised(summary: Summary, frame: pl.DataFrame) -> pl.DataFrame:
    return plans(frame.lazy(), {"table": summary})["table"].collect()


def _of_parts(summary: Summary, combine: Combine, frame: pl.DataFrame, cuts: Sequence[int]) -> list[pl.DataFrame]:
    borders = [0, *sorted(min(cut, frame.height) for cut in cuts), frame.height]
    parts = [summarised(summary, frame[start:end]) for start, end in itertools.pairwise(borders)]
    from_left = reduce(lambda left, right: combine([left, right]), parts)
    from_right = reduce(lambda right, left: combine([left, right]), reversed(parts))
    return [from_left, from_right, combine(parts)]


@pytest.fixture(scope="session")
def of_whole() -> Callable[[Summary, pl.DataFrame], pl.DataFrame]:
    return summarised


@pytest.fixture(scope="session")
def of_parts() -> OfParts:
    return _of_parts
