"""The figures of `balance`, read back from their artists and compared with the tables they show."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import LineCollection, QuadMesh

from llmtrace.report import style
from llmtrace.report.figures.balance import FIGURES
from llmtrace.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from llmtrace.result import Scalar

START = datetime(2025, 4, 11, 6)
SPREAD = {
    "instances_per_key": [1.0, 1.5, 2.5],
    "scattered_instances_per_key": [1.1, 1.9, 3.5],
    "new_instance_ratio": [0.0, 0.1, 0.2],
    "scattered_new_instance_ratio": [0.1, 0.2, 0.3],
    "replication": [1.0, 1.2, 1.8],
}


def cells(rows: int, minutes: int) -> pl.DataFrame:
    """Every one of some minutes on every one of some instances."""
    return pl.DataFrame(
        [
            {"row": row, "instance": f"i{row}", "time": START + timedelta(minutes=minute), "requests": 1 + (row * minute) % 9}
            for row in range(1, rows + 1)
            for minute in range(minutes)
        ]
    )


@pytest.fixture
def result() -> Result:
    bands = {"load_from_tokens_per_s": [100, 200, 500], "load_to_tokens_per_s": [200, 500, 1_000], "keys": [90, 60, 30], **SPREAD}
    regimes = pl.DataFrame(
        {
            "pick": ["top", "top", "top", "min"],
            "user": ["u1", "u1", "u1", "u2"],
            "instance": ["i1", "i2", "i3", "i1"],
            "requests": [60, 30, 10, 200],
            "requests_ratio": [0.6, 0.3, 0.1, 1.0],
            "token_hit_ratio": [0.8, 0.1, None, 0.5],
        }
    )
    tables = {
        "load": pl.DataFrame(
            {
                "time": [START + timedelta(hours=hour) for hour in range(4)],
                "requests": [600, 0, 900, 30],
                "instances": [4.0, None, 5.5, 1.0],
                "max_mean": [1.5, None, 2.5, None],
            }
        ),
        "heat_map": cells(3, 600),
        "replication_by_load": pl.concat([pl.DataFrame({"load_of": [of] * 3, **bands}) for of in ("model", "instance")]),
        "regimes": regimes,
        "load_ttft": pl.DataFrame({"load_tokens_per_s": [1e3], "input_tokens": [1e3], "ttft_p90_s": [0.1]}),
        "load_decode": pl.DataFrame({"load_tokens_per_s": [1e3], "output_tokens": [10.0], "decode_p90_s": [2.0]}),
    }
    parameters = {
        "window": "15m",
        "by": "user",
        "min_requests": 200,
        "least_requests": 10,
        "least_instances": 2,
        "least_keys": 30,
        "high_at": 0.4,
        "low_at": 0.2,
        "least_in_hexagon": 30,
        "hexagons_per_decade": 9,
    }
    scalars: dict[str, Scalar] = {"busiest_day_time": START, "heat_map_p5_requests": 2.0, "heat_map_p99_requests": 8.0}
    return Result("balance", parameters, scalars, tables, "load")


def draw(result: Result, name: str) -> Figure:
    with style.look():
        drawing = FIGURES[name](result)
        style.save(drawing, "png")
    return drawing


def without(result: Result, table: str, condition: pl.Expr) -> Result:
    return replace(result, tables={**result.tables, table: result.tables[table].filter(~condition)})


def lines(axes: Axes) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()]  # type: ignore[arg-type]


def words(drawing: Figure) -> str:
    texts = [*drawing.texts, *(text for legend in drawing.legends for text in legend.get_texts())]
    return " ".join(text.get_text() for text in texts).replace("\n", " ")


def test_load_has_a_panel_for_each_of_figure_17_a_to_c(result: Result) -> None:
    drawing = draw(result, "load")
    for axes, name in zip(drawing.axes, ("requests", "instances", "max_mean"), strict=True):
        [(_, y)] = lines(axes)
        np.testing.assert_array_equal(y, result.tables["load"][name].cast(pl.Float64).to_numpy())
    assert "minutes of ≥ 2 instances and ≥ 10 requests" in words(drawing)


def test_load_without_a_valid_minute_shows_the_others(result: Result) -> None:
    bare = result.tables["load"].with_columns(pl.lit(None, pl.Float64).alias("max_mean"))
    assert len(draw(replace(result, tables={"load": bare}), "load").axes) == 2


def test_a_full_heat_map_is_a_mesh(result: Result) -> None:
    axes, bar = draw(result, "heat_map").axes
    [mesh] = [one for one in axes.collections if isinstance(one, QuadMesh)]
    found = np.ma.filled(np.ma.masked_invalid(np.asarray(mesh.get_array())), 0).reshape(3, 1_440)
    expected = np.zeros((3, 1_440))
    for row in result.tables["heat_map"].iter_rows(named=True):
        expected[row["row"] - 1, (row["time"] - START) // timedelta(minutes=1)] = row["requests"]
    np.testing.assert_array_equal(found, expected)
    assert mesh.get_clim() == (2, 8)
    assert axes.get_xlabel() == "Hours from 2025-04-11 06:00 UTC on"
    assert axes.get_ylim() == (3.5, 0.5)
    assert bar.get_ylabel() == "Requests per minute"


def test_a_sparse_heat_map_has_a_stroke_for_each_minute_the_busiest_last(result: Result) -> None:
    sparse = cells(3, 20).filter(pl.col("row") < 3)
    axes = draw(replace(result, tables={"heat_map": sparse}), "heat_map").axes[0]
    [strokes] = [one for one in axes.collections if isinstance(one, LineCollection)]
    order = np.asarray(strokes.get_array())
    assert (np.diff(order) >= 0).all()
    outlines = [np.asarray(path.vertices) for path in strokes.get_paths()]
    places = {(round(outline[0, 0] * 60 - 0.5), round(outline[:, 1].mean())) for outline in outlines}
    assert places == {((row["time"] - START) // timedelta(minutes=1), row["row"]) for row in sparse.iter_rows(named=True)}


def test_a_heat_map_on_a_relative_clock_counts_from_its_seconds(result: Result) -> None:
    relative = replace(result, provenance={"clock": "relative"}).on_relative_clock(START - timedelta(seconds=90))
    axes = draw(relative, "heat_map").axes[0]
    [mesh] = [one for one in axes.collections if isinstance(one, QuadMesh)]
    assert np.asarray(mesh.get_array()).reshape(3, 1_440)[0, 5] == 6
    assert axes.get_xlabel() == "Hours from 1 min 30 s on"


def shown_ticks(axes: Axes) -> list[str]:
    """The numbers on the y axis between its ends."""
    low, high = sorted(axes.get_ylim())
    return [tick.get_text() for tick in axes.get_yticklabels() if low <= tick.get_position()[1] <= high]


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_instances_are_whole(result: Result, rows: int) -> None:
    axes = draw(replace(result, tables={"heat_map": cells(rows, 600)}), "heat_map").axes[0]
    assert shown_ticks(axes) == [str(row) for row in range(1, rows + 1)]


def test_a_hundred_instances_have_few_ticks(result: Result) -> None:
    axes = draw(replace(result, tables={"heat_map": cells(100, 200)}), "heat_map").axes[0]
    assert shown_ticks(axes) == ["20", "40", "60", "80", "100"]


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(1.0, 1.0, ["1", "2"]), (1.05, 1.99, ["1", "2"]), (2.0, 3.5, ["2", "3", "4"])]
)
def test_requests_of_colours_are_whole(result: Result, low: float, high: float, expected: list[str]) -> None:
    bounds: dict[str, Scalar] = {"heat_map_p5_requests": low, "heat_map_p99_requests": high}
    bar = draw(replace(result, scalars={**result.scalars, **bounds}), "heat_map").axes[1]
    assert shown_ticks(bar) == expected


def test_a_heat_map_says_where_its_colours_end(result: Result) -> None:
    assert "colours from p5 to p99 of the other cells" in words(draw(result, "heat_map"))


@pytest.mark.parametrize("of", ["model", "instance"])
def test_replication_has_room_above_its_highest_mark(result: Result, of: str) -> None:
    close = {name: [1.095, 1.143, 1.16] for name in SPREAD}
    table = result.tables["replication_by_load"].with_columns(pl.Series(name, values * 2) for name, values in close.items())
    drawing = draw(replace(result, tables={"replication_by_load": table}), f"replication_by_{of}_load")
    with style.look():
        drawing.draw_without_rendering()
    for axes in drawing.axes:
        for line in axes.get_lines():
            top = axes.transData.transform((1, np.max(np.asarray(line.get_ydata()))))[1]
            radius = line.get_markersize() / 2 * drawing.dpi / 72
            assert top + radius < axes.get_window_extent().y1


@pytest.mark.parametrize("of", ["model", "instance"])
def test_replication_is_a_curve_beside_that_of_scattered_requests(result: Result, of: str) -> None:
    drawing = draw(result, f"replication_by_{of}_load")
    middles = [np.sqrt(100 * 200), np.sqrt(200 * 500), np.sqrt(500 * 1_000)]
    names = (
        "instances_per_key",
        "scattered_instances_per_key",
        "new_instance_ratio",
        "scattered_new_instance_ratio",
        "replication",
    )
    drawn = [line for axes in drawing.axes for line in lines(axes)]
    for (x, y), name in zip(drawn, names, strict=True):
        assert x == pytest.approx(middles)
        assert y == SPREAD[name]
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == [
        "found",
        "if scattered over the model's active instances",
    ]
    assert "a key: a user with a model, in a window of 15m; bands of ≥ 30 keys" in words(drawing)


def test_bands_of_few_keys_and_of_no_load_are_not_drawn(result: Result) -> None:
    few = result.tables["replication_by_load"].with_columns(
        keys=pl.Series([90, 29, 30] * 2), load_from_tokens_per_s=pl.Series([0, 200, 500] * 2)
    )
    drawing = draw(replace(result, tables={"replication_by_load": few}), "replication_by_model_load")
    assert [y for _, y in lines(drawing.axes[2])] == [[1.8]]


def test_regimes_have_two_bars_for_each_instance(result: Result) -> None:
    drawing = draw(result, "regimes")
    for axes, pick in zip(drawing.axes, ("top", "min"), strict=True):
        rows = result.tables["regimes"].filter(pick=pick)
        heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
        np.testing.assert_array_equal(heights[0], rows["requests_ratio"].to_numpy())
        np.testing.assert_array_equal(heights[1], rows["token_hit_ratio"].cast(pl.Float64).to_numpy())
        assert [line[1][0] for line in lines(axes)] == [0.4, 0.2]
    assert [axes.get_title(loc="left") for axes in drawing.axes] == ["u1: most requests (100)", "u2: fewest requests (200)"]


def test_of_many_instances_the_busiest_have_bars(result: Result) -> None:
    rows = [("top", "u", f"i{row}", 1 + row % 7, 0.01, 0.5) for row in range(100)]
    schema = ["pick", "user", "instance", "requests", "requests_ratio", "token_hit_ratio"]
    many = pl.DataFrame(rows, schema, orient="row").with_columns(requests_ratio=pl.int_range(100) / 100)
    axes = draw(replace(result, tables={"regimes": many}), "regimes").axes[0]
    busiest = sorted(range(100), key=lambda row: (-rows[row][3], row))[:40]
    assert [bar.get_height() for bar in axes.containers[0]] == pytest.approx([row / 100 for row in sorted(busiest)])
    assert axes.get_title(loc="left") == "u: most requests (395), the busiest 40 of 100 instances"


def test_one_user_is_one_panel(result: Result) -> None:
    assert len(draw(without(result, "regimes", pl.col("pick") == "min"), "regimes").axes) == 1


@pytest.mark.parametrize("name", ["load_ttft", "load_decode"])
def test_latency_by_load_is_drawn_as_in_latency(result: Result, name: str) -> None:
    assert "hexagons of ≥ 30 requests" in words(draw(result, name))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("load", "no request names an instance"),
        ("heat_map", "no request names an instance, or nothing was asked for"),
        ("replication_by_model_load", "no band of loads has enough keys"),
        ("regimes", "no user has enough requests in an hour"),
        ("load_ttft", "no hexagon has enough requests"),
    ],
)
def test_what_is_missing_is_said(result: Result, name: str, reason: str) -> None:
    empty: dict[str, Any] = {table: frame.clear() for table, frame in result.tables.items()}
    for tables in (empty, {}):
        with pytest.raises(style.NoDataError, match=reason):
            draw(replace(result, tables=tables), name)
