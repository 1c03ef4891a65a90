from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from llmtrace.errors import UsageError
from llmtrace.synth.workload import Workload


@pytest.mark.parametrize(
    ("option", "parameters"),
    [
        ("--requests", {"requests": 0}),
        ("--requests", {"requests": -5}),
        ("--days", {"days": 0}),
        ("--days", {"days": -1}),
        ("--seed", {"seed": -1}),
        ("--users", {"users": -1}),
        ("--models", {"models": 10**9}),
        ("--instances", {"instances": 10**9}),
        ("--block-size", {"block_size": 8}),
        ("--block-size", {"block_size": 1_000_000}),
        ("--cached-from", {"cached_from": 1.5}),
        ("--cached-from", {"cached_from": float("nan")}),
        ("--start", {"start": date(9999, 12, 1)}),
        ("--start", {"start": date(2261, 1, 2)}),
        ("--start", {"start": date(1973, 3, 3)}),
    ],
)
def test_a_parameter_out_of_range_names_its_option(option: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        Workload(**parameters)
    assert caught.value.message.startswith(f"{option} ")
    assert caught.value.hint


def test_population_follows_from_the_requests() -> None:
    small, large = Workload(requests=1), Workload(requests=100_000_000)
    assert (small.users, small.models, small.instances) == (4, 1, 11)
    assert (large.users, large.models, large.instances) == (40_000, 1_250, 110_000)


def test_population_can_be_given() -> None:
    workload = Workload(users=3, models=2, instances=1)
    assert (workload.users, workload.models, workload.instances) == (3, 2, 1)


def test_end_is_the_day_after_the_last() -> None:
    assert Workload(days=365, start=date(2025, 4, 11)).end == date(2026, 4, 11)


def test_a_short_trace_is_the_beginning_of_a_year() -> None:
    assert Workload(days=73).progress(73) == pytest.approx(0.2)
    assert Workload(days=730).progress(365) == pytest.approx(0.5)
