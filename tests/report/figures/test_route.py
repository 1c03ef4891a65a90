"""The figures of `route`, read back from their artists and compared with the tables they show."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from llmtrace.report import style
from llmtrace.report.figures.route import FIGURES
from llmtrace.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POLICIES = ("round-robin", "load-first", "sticky", "cache-first", "random", "least-requests", "preble")
CAPACITIES = (1_000, 20_000, 900_000)
INSTANCES = (2, 4, 8)


@pytest.fixture
def result() -> Result:
    cells = [(policy, count, size) for policy in POLICIES for count in INSTANCES for size in CAPACITIES]
    rows = [(*cell, place / 70, 1 + place / 50, 0.001 * (1 + place) ** 1.5) for place, cell in enumerate(cells)]
    names = ["policy", "instances", "capacity_tokens", "token_hit_ratio", "replication", "imbalance_ratio"]
    times = [datetime(2025, 5, 1) + timedelta(minutes=minute) for minute in range(5)]
    load = [
        (policy, time, float(10 * place + minute), None if minute == 0 else 0.1 * (1 + place))
        for place, policy in enumerate(POLICIES)
        for minute, time in enumerate(times)
    ]
    searched = [
        ("a", 0.1, 0.01, True, False),
        ("b", 0.5, 0.1, True, True),
        ("c", 0.4, 0.2, False, False),
        ("d", 0.6, 0.9, True, False),
    ]
    tables = {
        "tradeoff": pl.DataFrame(rows, names, orient="row"),
        "load": pl.DataFrame(load, ["policy", "time", "mean_tokens_per_s", "imbalance_ratio"], orient="row"),
        "searched": pl.DataFrame(
            searched, ["policy", "token_hit_ratio", "imbalance_ratio", "is_on_front", "is_recommended"], orient="row"
        ),
    }
    scalars = {"largest_instances": 8, "largest_capacity_tokens": 900_000, "ideal_token_hit_ratio": 0.95}
    return Result("route", {}, scalars, tables, "tradeoff")


def draw(result: Result, name: str) -> Figure:
    with style.look():
        return FIGURES[name](result)


def lines(axes: Axes) -> dict[int, tuple[list[float], list[float]]]:
    return {
        place: (np.asarray(line.get_xdata(), float).tolist(), np.asarray(line.get_ydata(), float).tolist())
        for place, line in enumerate(axes.get_lines())
    }


def legend(drawing: Figure) -> list[str]:
    return [text.get_text() for text in drawing.legends[0].get_texts()]


@pytest.mark.parametrize(("name", "column"), [("hit_by_capacity", "token_hit_ratio"), ("replication_by_capacity", "replication")])
def test_by_capacity_on_the_most_instances(result: Result, name: str, column: str) -> None:
    drawing = draw(result, name)
    drawn = lines(drawing.axes[0])
    for place, policy in enumerate(POLICIES):
        expected = result.tables["tradeoff"].filter(policy=policy, instances=8)
        assert drawn[place] == ([float(size) for size in CAPACITIES], expected[column].to_list())
    assert legend(drawing)[: len(POLICIES)] == list(POLICIES)
    assert drawing.axes[0].get_xscale() == "log"


def test_the_bound_of_all_routers_is_drawn(result: Result) -> None:
    drawing = draw(result, "hit_by_capacity")
    assert lines(drawing.axes[0])[len(POLICIES)][1] == [0.95, 0.95]
    assert legend(drawing)[-1] == "unlimited cache"


@pytest.mark.parametrize(
    ("name", "column", "size", "scale"),
    [("replication_by_instances", "replication", 20_000, 1), ("imbalance_by_instances", "imbalance_ratio", 900_000, 100)],
)
def test_by_instances(result: Result, name: str, column: str, size: int, scale: int) -> None:
    drawn = lines(draw(result, name).axes[0])
    for place, policy in enumerate(POLICIES):
        expected = result.tables["tradeoff"].filter(policy=policy, capacity_tokens=size)
        assert drawn[place][0] == [2.0, 4.0, 8.0]
        assert drawn[place][1] == pytest.approx((expected[column] * scale).to_list())


def test_policies_look_different(result: Result) -> None:
    axes = draw(result, "replication_by_capacity").axes[0]
    looks = {(line.get_color(), str(line.get_linestyle()), line.get_marker()) for line in axes.get_lines()}
    assert len(looks) == len(POLICIES)


def test_imbalances_that_are_alike_are_on_a_linear_axis(result: Result) -> None:
    near = result.tables["tradeoff"].with_columns(imbalance_ratio=0.1 + pl.col("imbalance_ratio") / 100)
    assert draw(result, "imbalance_by_instances").axes[0].get_yscale() == "log"
    assert draw(replace(result, tables={"tradeoff": near}), "imbalance_by_instances").axes[0].get_yscale() == "linear"


def test_load_over_time_of_the_first_policies(result: Result) -> None:
    drawing = draw(result, "load_over_time")
    above, below = (lines(axes) for axes in drawing.axes[:2])
    assert len(above) == 4
    assert above[1][1] == [10.0, 11.0, 12.0, 13.0, 14.0]
    assert np.isnan(below[1][1][0])
    assert below[1][1][1:] == pytest.approx([20.0] * 4)
    assert "the first 4 of 7 policies" in drawing.get_supxlabel().replace("\n", " ")


def test_the_front_and_what_is_beside_it(result: Result) -> None:
    drawing = draw(result, "pareto")
    front, others, taken, *policies = lines(drawing.axes[0]).values()
    assert front == ([1.0, 10.0, 90.0], [0.1, 0.5, 0.6])
    assert others == ([20.0], [0.4])
    assert taken == ([10.0], [0.5])
    assert len(policies) == len(POLICIES)
    assert legend(drawing)[:3] == ["Pareto front", "other weights", "recommended"]


def test_a_front_that_is_flat_beside_the_others_is_shown_again(result: Result) -> None:
    table = result.tables["searched"].with_columns(
        token_hit_ratio=pl.when("is_on_front").then(0.9 + pl.col("token_hit_ratio") / 100).otherwise("token_hit_ratio")
    )
    drawing = draw(replace(result, tables={**result.tables, "searched": table}), "pareto")
    whole, near = drawing.axes
    assert list(lines(whole).values()) == list(lines(near).values())
    assert whole.get_ylim()[0] < 0.5
    assert near.get_ylim() == pytest.approx((0.901 - 0.00125, 0.906 + 0.00125))


@pytest.mark.parametrize("name", FIGURES)
def test_one_cell_without_load_draws_nothing(result: Result, name: str) -> None:
    cell = result.tables["tradeoff"].head(1).with_columns(imbalance_ratio=pl.lit(None, pl.Float64))
    bare = replace(result, tables={"tradeoff": cell, "load": result.tables["load"].clear()})
    with pytest.raises(style.NoDataError):
        draw(bare, name)


def test_without_limit_there_is_a_figure_by_instances(result: Result) -> None:
    table = result.tables["tradeoff"].filter(capacity_tokens=1_000).with_columns(capacity_tokens=pl.lit(None, pl.Int64))
    scalars = {**result.scalars, "largest_capacity_tokens": None}
    drawing = draw(replace(result, tables={"tradeoff": table}, scalars=scalars), "replication_by_instances")
    assert "caches without limit" in drawing.get_supxlabel().replace("\n", " ")
