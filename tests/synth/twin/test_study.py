"""What is counted of a trace, against plain loops."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.schema import COLUMNS
from llmtrace.synth.twin.study import Grid, Study
from llmtrace.trace import open_trace
from tests.synth.twin.conftest import twin_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

START = datetime(2025, 1, 1)
START_US = (START - datetime(1970, 1, 1)) // timedelta(microseconds=1)
COMERS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("mn")), min_size=1, max_size=30)


def framed(comers: list[tuple[str, str]]) -> pl.DataFrame:
    """One request every two hours, so that each is a visit."""
    times = [START + timedelta(hours=2 * place) for place in range(len(comers))]
    told = {"timestamp": times, "user": [user for user, _ in comers], "model": [model for _, model in comers]}
    rest = [pl.lit(None, column.dtype).alias(name) for name, column in COLUMNS.items() if name not in told]
    return pl.DataFrame(told).select(pl.col("timestamp").cast(pl.Datetime("us")), "user", "model", *rest)


def studied(frame: pl.DataFrame, cuts: list[int]) -> Study:
    study = Study(frozenset({"timestamp", "user", "model"}), Grid.over(START_US, START_US + 10**12, frame.height))
    borders = sorted({0, *(min(cut, frame.height) for cut in cuts), frame.height})
    for first, last in pairwise(borders):
        study.add(frame[first:last])
    return study


@given(COMERS, st.lists(st.integers(0, 30), max_size=3))
def test_returns_count_visits_to_the_model_since_the_users_last_one_across_parts(
    comers: list[tuple[str, str]], cuts: list[int]
) -> None:
    expected: Counter[tuple[int, int]] = Counter()
    seen: dict[tuple[str, str], int] = {}
    visits: Counter[str] = Counter()
    models = list(dict.fromkeys(model for _, model in comers))
    for user, model in comers:
        visits[model] += 1
        ago = visits[model] - seen[user, model] if (user, model) in seen else 0
        seen[user, model] = visits[model]
        expected[models.index(model), min(ago, 16 + ago // 2 - 8 if ago > 15 else ago)] += 1
    study = studied(framed(comers), cuts)
    number, _, value = study.counts["returns"].unpacked()
    found = zip(number.tolist(), value.tolist(), strict=True)
    assert dict(zip(found, study.counts["returns"].counts.tolist(), strict=True)) == expected
    assert study.models == {name: place for place, name in enumerate(models)}


@given(COMERS, st.lists(st.integers(0, 30), max_size=3))
def test_rates_are_the_visits_of_each_interval_however_the_trace_is_cut(comers: list[tuple[str, str]], cuts: list[int]) -> None:
    frame = framed(comers)
    study = studied(frame, cuts)
    grid = study.grid
    interval = [(moment - START) // timedelta(microseconds=1) // grid.width_us for moment in frame["timestamp"]]
    expected = Counter(zip([study.models[name] for name in frame["model"]], interval, strict=True))
    model, _, value = study.counts["starts"].unpacked()
    found = dict(zip(zip(model.tolist(), value.tolist(), strict=True), study.counts["starts"].counts.tolist(), strict=True))
    assert found == expected
    assert np.array_equal(study.counts["rows"].counts, study.counts["starts"].counts)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**7))
def test_a_grid_covers_its_span_with_at_most_as_many_intervals_as_it_may_have(start: int, span: int, rows: int) -> None:
    grid = Grid.over(start, start + span, rows)
    assert grid.start_us == start
    assert grid.end_us >= start + span
    assert grid.end_us - grid.width_us <= start + span
    assert 1 <= grid.intervals <= 4096


def test_the_same_seed_gives_the_same_twin_of_a_trace_in_parts(
    month: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pl.read_parquet(month).write_parquet(tmp_path / "cut.parquet", row_group_size=4000)
    monkeypatch.setattr("llmtrace.engine.ordered.part_rows", lambda _: 4000)
    assert len(open_trace(str(tmp_path / "cut.parquet")).parts(4000)) > 5
    one, same = (twin_of(tmp_path / "cut.parquet", tmp_path / f"{threads}.parquet", threads=threads) for threads in (1, 4))
    assert one.equals(same)
    assert one.height == 40_000
    users = [frame["user"].n_unique() for frame in (pl.read_parquet(month), one)]
    assert abs(users[0] - users[1]) < 0.1 * users[0]
