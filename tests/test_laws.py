"""The laws that every registered analysis keeps, whatever it measures."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime, timedelta
from functools import reduce
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.analyses.registry import ANALYSES
from llmtrace.schema import COLUMNS
from llmtrace.summaries import following

if TYPE_CHECKING:
    from pathlib import Path

    from llmtrace.analyses.base import Analysis, State
    from llmtrace.result import Result

EXAMPLES = [
    pytest.param(example, id=f"{name}-{place}") for name, examples in ANALYSES.items() for place, example in enumerate(examples)
]
FIRST, LAST = datetime(2025, 4, 10, 22, 59), datetime(2025, 4, 11, 2)


def some_requests(seed: int, rows: int) -> pl.DataFrame:
    """Every canonical column with nulls in it; ties in time, times on and beside borders of hours, values of all sizes."""
    rng = np.random.default_rng(seed)
    spread_us = (LAST - FIRST) // timedelta(microseconds=1)
    on_borders = rng.integers(0, 4, rows) * 3_600_000_000 + 60_000_000 + rng.integers(-1, 2, rows)
    offsets = np.where(rng.random(rows) < 0.4, np.minimum(on_borders, spread_us), rng.integers(0, spread_us, rows))
    tokens = (10 ** rng.uniform(0, rng.choice([3, 18.9]), (3, rows))).astype(np.int64)
    values: dict[str, Any] = {
        "timestamp": np.datetime64(FIRST, "us") + np.sort(offsets).astype("timedelta64[us]"),
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "cached_tokens": np.minimum(tokens[0], tokens[2] - 1),
        "request_id": [f"r{row}" for row in range(rows)],
        **{name: rng.choice([f"{name}-{number}" for number in range(5)], rows) for name in ("user", "model", "instance")},
        "session": rng.choice(["s1", "s2", "s3"], rows),
        "turn": rng.integers(0, 3, rows),
        "endpoint": rng.choice(["chat", "completion"], rows),
        "stream": rng.random(rows) < 0.5,
        "ttft_s": rng.random(rows),
        "duration_s": 1 + rng.random(rows),
        "status": rng.choice(["ok", "ok", "timeout"], rows),
        "block_hashes": [rng.integers(0, 9, 2).tolist() for _ in range(rows)],
    }
    frame = pl.DataFrame(values).cast({name: column.dtype for name, column in COLUMNS.items()})
    unknown = {name: pl.Series(rng.random(rows) < rng.choice([0, 0.2, 1])) for name in COLUMNS if name != "timestamp"}
    return frame.with_columns(pl.when(~nulls).then(name).alias(name) for name, nulls in unknown.items())


REQUESTS = st.builds(some_requests, st.integers(0, 10**6), st.integers(0, 40))
CUTS = st.lists(st.integers(0, 40), max_size=4)


def fixed(analysis: Analysis) -> Analysis:
    return analysis.for_span(FIRST, LAST)


def state_of(analysis: Analysis, part: pl.DataFrame) -> State:
    plans = analysis.partial(part.lazy().select(sorted(analysis.uses)))
    return dict(zip(plans, pl.collect_all(plans.values()), strict=True))


def states_of(analysis: Analysis, frame: pl.DataFrame, cuts: list[int]) -> list[State]:
    borders = [0, *sorted(min(cut, frame.height) for cut in cuts), frame.height]
    return [state_of(analysis, frame[start:end]) for start, end in pairwise(borders)]


def assert_same_state(left: State, right: State) -> None:
    assert left.keys() == right.keys()
    for name in left:
        assert_frame_equal(left[name], right[name], check_exact=True)


def assert_same_result(left: Result, right: Result) -> None:
    assert left.scalars == right.scalars
    assert left.notes == right.notes
    assert left.parameters == right.parameters
    assert left.tables.keys() == right.tables.keys()
    for name in left.tables:
        assert_frame_equal(left.tables[name], right.tables[name], check_exact=True)


@pytest.mark.parametrize("example", EXAMPLES)
@given(frame=REQUESTS, cuts=CUTS)
def test_cutting_anywhere_gives_the_answer_of_the_whole_and_changes_no_input(
    example: Analysis, frame: pl.DataFrame, cuts: list[int]
) -> None:
    analysis = fixed(example)
    rows = frame.rows()
    states = states_of(analysis, frame, cuts)
    before = [{name: table.rows() for name, table in state.items()} for state in states]
    result = analysis.finish(analysis.combine(states))
    assert [{name: table.rows() for name, table in state.items()} for state in states] == before
    assert frame.rows() == rows
    assert_same_result(result, analysis.finish(state_of(analysis, frame)))


@pytest.mark.parametrize("example", EXAMPLES)
@given(frame=REQUESTS, cuts=CUTS)
def test_combining_in_other_groups_or_one_by_one_changes_nothing(example: Analysis, frame: pl.DataFrame, cuts: list[int]) -> None:
    analysis = fixed(example)
    states = states_of(analysis, frame, cuts)
    at_once = analysis.combine(states)
    assert_same_state(reduce(lambda left, right: analysis.combine([left, right]), states), at_once)
    assert_same_state(reduce(lambda right, left: analysis.combine([left, right]), reversed(states)), at_once)
    accumulator = analysis.accumulator()
    for state in states:
        accumulator.add(state)
    assert_same_state(accumulator.total(), at_once)


@pytest.mark.parametrize("example", EXAMPLES)
@given(frame=REQUESTS, cuts=CUTS)
def test_what_brings_all_states_together_gives_the_same_result(example: Analysis, frame: pl.DataFrame, cuts: list[int]) -> None:
    analysis = fixed(example)
    states = states_of(analysis, frame, cuts)
    with patch.object(following, "MOST_WAITING", 0):
        at_once = analysis.finish(analysis.combine(states))
        assert_same_result(analysis.finish(analysis.accumulator_of_all().together(states)), at_once)


@pytest.mark.parametrize("example", EXAMPLES)
@given(frame=REQUESTS)
def test_an_empty_part_changes_nothing(example: Analysis, frame: pl.DataFrame) -> None:
    analysis = fixed(example)
    state, empty = state_of(analysis, frame), state_of(analysis, frame.clear())
    for states in ([empty, state], [state, empty], [empty, state, empty]):
        assert_same_state(analysis.combine(states), state)


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_state_survives_parquet(example: Analysis, tmp_path: Path) -> None:
    analysis = fixed(example)
    states = states_of(analysis, some_requests(7, 60), [25])
    read: list[State] = []
    for number, state in enumerate(states):
        paths = {name: tmp_path / f"{number}-{name}.parquet" for name in state}
        for name, path in paths.items():
            state[name].write_parquet(path)
        read.append({name: pl.read_parquet(path) for name, path in paths.items()})
        assert_same_state(read[-1], state)
    assert_same_state(analysis.combine(read), analysis.combine(states))
    assert_same_result(analysis.finish(analysis.combine(read)), analysis.finish(analysis.combine(states)))


@pytest.mark.parametrize("name", [name for name, examples in ANALYSES.items() if fields(examples[0])])  # type: ignore[arg-type]
def test_states_of_other_parameters_refuse_to_combine(name: str) -> None:
    frame = some_requests(3, 20)
    pairs = [(one, other) for one, other in combinations(map(fixed, ANALYSES[name]), 2) if one != other]
    assert pairs, "register an analysis with examples whose parameters differ"
    for one, other in pairs:
        with pytest.raises(ValueError, match="different parameters"):
            one.combine([state_of(one, frame[:10]), state_of(other, frame[10:])])


@pytest.mark.parametrize("example", EXAMPLES)
def test_no_requests_give_a_result_with_every_name(example: Analysis) -> None:
    analysis = fixed(example)
    empty, full = (analysis.finish(state_of(analysis, some_requests(1, rows))) for rows in (0, 40))
    assert empty.scalars.keys() == full.scalars.keys()
    assert {name: table.schema for name, table in empty.tables.items()} == {
        name: table.schema for name, table in full.tables.items()
    }


@pytest.mark.parametrize("rows", [0, 1, 40])
@pytest.mark.parametrize("example", EXAMPLES)
def test_tables_have_the_columns_that_plans_promise(example: Analysis, rows: int) -> None:
    analysis = fixed(example)
    plans = analysis.partial(some_requests(2, rows).lazy().select(sorted(analysis.uses)))
    for name, table in zip(plans, pl.collect_all(plans.values()), strict=True):
        # Tokens that do not fit into 32 bits have 64 there.
        found = {**table.schema, **({"what": pl.Array(pl.UInt32, 3)} if name.startswith("visits") else {})}
        assert found == dict(plans[name].collect_schema())


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_number_is_defined(example: Analysis) -> None:
    analysis = fixed(example)
    result = analysis.finish(state_of(analysis, some_requests(5, 40)))
    columns = {f"{name}.{column}" for name, table in result.tables.items() for column in table.columns}
    assert result.definitions.keys() == result.scalars.keys() | columns
    assert all(sentence.endswith(".") for sentence in result.definitions.values())


@pytest.mark.parametrize("name", ["burstiness", "reuse-time", "evolution"])
def test_time_does_not_go_backwards(name: str) -> None:
    frame = some_requests(3, 20)
    for analysis in map(fixed, ANALYSES[name]):
        states = [state_of(analysis, part) for part in (frame[10:], frame[:10])]
        with pytest.raises(ValueError, match="in order of time"):
            analysis.combine(states)
        with pytest.raises(ValueError, match="in order of time"):
            analysis.accumulator().together(states)


@pytest.mark.parametrize("name", ANALYSES)
def test_an_analysis_is_registered_under_its_name(name: str) -> None:
    assert {example.name for example in ANALYSES[name]} == {name}
    assert all(example.requires | example.tells <= example.uses <= COLUMNS.keys() for example in ANALYSES[name])
