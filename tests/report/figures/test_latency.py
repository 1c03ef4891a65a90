"""The figures of `latency`, read back from their artists and compared with the tables they show."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import FillBetweenPolyCollection, PolyCollection, QuadMesh

from llmtrace.report import style
from llmtrace.report.figures.latency import BANDS, FIGURES
from llmtrace.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

START = datetime(2025, 4, 11)
SHARES = [step / 100 for step in range(101)]
MEASURES = {"ttft_s": 0.4, "duration_s": 6.0, "timed_duration_s": 5.0, "prefill_share": 0.1, "tpot_s": 0.02}


def curve(model: str | None, measure: str, median: float) -> pl.DataFrame:
    values = np.clip(median * np.exp(2 * (np.array(SHARES) - 0.5)), 0, 1e3)
    return pl.DataFrame({"model": [model] * 101, "measure": measure, "cumulative_ratio": SHARES, "value": values}).cast(
        {"model": pl.String}
    )


def tail(name: str, median: float, rows: int) -> dict[str, Any]:
    return {f"{name}_p{percent}_s": median * percent / 50 * (1 + np.arange(rows)) for percent in (50, 90, 99)}


@pytest.fixture
def result() -> Result:
    models = [None, "org/one", "two"]
    tables = {
        "latencies": pl.DataFrame({"measure": ["ttft_s", "decode_s"], "p5": [0.2, 1.0], "p95": [3.0, 30.0]}),
        "cdf": pl.concat(
            curve(model, name, at * (1 + place)) for place, model in enumerate(models) for name, at in MEASURES.items()
        ),
        "duration_grid": pl.DataFrame(
            {"input_tokens": [0, 0, 4_000], "output_tokens": [0, 200, 400], "duration_p50_s": [2.0, 4.0, 40.0]}
        ),
        "ttft_grid": pl.DataFrame({"input_tokens": [2_000], "output_tokens": [0], "ttft_p50_s": [0.5]}),
        "load": pl.DataFrame(
            {
                "load_from_tokens_per_s": [0, 1_000, 2_000, 10**17],
                "load_to_tokens_per_s": [1, 2_000, 5_000, None],
                **tail("ttft", 0.3, 4),
                **tail("tpot", 0.02, 4),
            }
        ),
        "load_ttft": pl.DataFrame(
            {"load_tokens_per_s": [1e3, 1e4, 1e5], "input_tokens": [1e3, 2e3, 5e4], "ttft_p90_s": [0.1, 1.0, 9.0]}
        ),
        "load_decode": pl.DataFrame(
            {"load_tokens_per_s": [1e3, 1e4], "output_tokens": [10.0, 300.0], "decode_p90_s": [2.0, 20.0]}
        ),
        "over_time": pl.DataFrame(
            {
                "time": [START + timedelta(days=day) for day in (0, 1, 2, 7)],
                **tail("ttft", 0.3, 4),
                **tail("duration", 5.0, 4),
                **tail("tpot", 0.02, 4),
            }
        ),
    }
    parameters = {"input_step": 2_000, "output_step": 200, "least_in_cell": 50, "least_in_hexagon": 30, "hexagons_per_decade": 9}
    return Result("latency", parameters, {"interval_s": 86_400.0}, tables, "latencies")


def draw(result: Result, name: str) -> Figure:
    with style.look():
        drawing = FIGURES[name](result)
        style.save(drawing, "png")
    return drawing


def lines(axes: Axes) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()]  # type: ignore[arg-type]


def words(drawing: Figure) -> str:
    texts = [*drawing.texts, *(text for legend in drawing.legends for text in legend.get_texts())]
    return " ".join(text.get_text() for text in texts).replace("\n", " ")


def without(result: Result, table: str, condition: pl.Expr) -> Result:
    return replace(result, tables={**result.tables, table: result.tables[table].filter(~condition)})


@pytest.mark.parametrize(
    ("name", "measure", "unit"),
    [
        ("duration_cdf", "timed_duration_s", 1),
        ("prefill_share_cdf", "prefill_share", 1),
        ("ttft_cdf", "ttft_s", 1),
        ("tpot_cdf", "tpot_s", 1_000),
    ],
)
def test_a_distribution_has_a_line_for_all_and_one_per_model(result: Result, name: str, measure: str, unit: int) -> None:
    drawing = draw(result, name)
    [axes] = drawing.axes
    curves = result.tables["cdf"].filter(measure=measure)
    for place, (x, y) in enumerate(lines(axes)):
        rows = curves[place * 101 : (place + 1) * 101]
        assert x == pytest.approx((rows["value"] * unit).to_list())
        assert y == rows["cumulative_ratio"].to_list()
    assert len(lines(axes)) == 3
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == ["all requests", "one", "two"]


def test_durations_are_those_with_a_ttft_where_there_are_any(result: Result) -> None:
    assert "requests with a TTFT only" in words(draw(result, "duration_cdf"))
    bare = without(result, "cdf", pl.col("measure") == "timed_duration_s")
    drawing = draw(bare, "duration_cdf")
    assert "TTFT" not in words(drawing)
    assert lines(drawing.axes[0])[0][0] == result.tables["cdf"].filter(measure="duration_s")["value"].head(101).to_list()


def test_more_models_than_there_are_looks_are_told(result: Result) -> None:
    many = pl.concat(curve(model, "ttft_s", 1.0) for model in [None, *(f"m{number}" for number in range(9))])
    drawing = draw(replace(result, tables={"cdf": many}), "ttft_cdf")
    assert len(lines(drawing.axes[0])) == 7
    assert "6 of 9 models" in words(drawing)


def test_a_grid_has_a_colour_for_every_cell_that_is_there(result: Result) -> None:
    drawing = draw(result, "duration_grid")
    axes, bar = drawing.axes
    [mesh] = [one for one in axes.collections if isinstance(one, QuadMesh)]
    cells = np.asarray(mesh.get_array()).reshape(3, 3)
    expected = np.full((3, 3), np.nan)
    expected[0, 0], expected[1, 0], expected[2, 2] = 2, 4, 40
    np.testing.assert_array_equal(np.ma.filled(np.ma.masked_invalid(cells), np.nan), expected)
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, 6_000), (0, 600))
    assert mesh.get_clim() == (2, 40)
    assert bar.get_ylabel() == "Median duration (s)"
    assert "cells of ≥ 50 requests" in words(drawing)


def test_a_single_cell_is_a_grid_too(result: Result) -> None:
    axes = draw(result, "ttft_grid").axes[0]
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, 4_000), (0, 200))


@pytest.mark.parametrize(
    ("name", "tokens", "took", "limits"),
    [("load_ttft", "input_tokens", "ttft_p90_s", (0.2, 3.0)), ("load_decode", "output_tokens", "decode_p90_s", (1.0, 30.0))],
)
def test_hexagons_stand_around_their_centres(
    result: Result, name: str, tokens: str, took: str, limits: tuple[float, float]
) -> None:
    drawing = draw(result, name)
    axes = drawing.axes[0]
    [mesh] = [one for one in axes.collections if isinstance(one, PolyCollection)]
    table = result.tables[name]
    corners = [np.asarray(path.vertices)[:6] for path in mesh.get_paths()]
    middles = np.array([10 ** np.log10(outline).mean(axis=0) for outline in corners])
    assert middles == pytest.approx(table.select("load_tokens_per_s", tokens).to_numpy())
    assert np.asarray(mesh.get_array()).tolist() == table[took].to_list()
    assert mesh.get_clim() == limits
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    low, high = axes.get_xlim()
    assert low < min(outline[:, 0].min() for outline in corners) < max(outline[:, 0].max() for outline in corners) < high
    assert "hexagons of ≥ 30 requests" in words(drawing)


def test_hexagons_are_regular_and_meet(result: Result) -> None:
    """In decades, each corner is as far from the centre, and neighbours share a side."""
    step = 10 ** (1 / 9)
    pair = pl.DataFrame({"load_tokens_per_s": [1e3, 1e3 * step], "input_tokens": [1e3, 1e3], "ttft_p90_s": [1.0, 1.0]})
    axes = draw(replace(result, tables={**result.tables, "load_ttft": pair}), "load_ttft").axes[0]
    [mesh] = [one for one in axes.collections if isinstance(one, PolyCollection)]
    left, right = (np.log10(np.asarray(path.vertices)[:6]) for path in mesh.get_paths())
    away = np.hypot(*(left - left.mean(axis=0)).T)
    assert away == pytest.approx(np.full(6, away[0]))
    assert left[:, 0].max() == pytest.approx(right[:, 0].min())


def test_load_draws_bands_that_have_two_ends(result: Result) -> None:
    drawing = draw(result, "load")
    above, below = drawing.axes
    inside = result.tables["load"][1:3]
    middles = [np.sqrt(1_000 * 2_000), np.sqrt(2_000 * 5_000)]
    for axes, name, unit in ((above, "ttft", 1), (below, "tpot", 1_000)):
        for (x, y), percent in zip(lines(axes), (50, 90, 99), strict=True):
            assert x == pytest.approx(middles)
            assert y == pytest.approx((inside[f"{name}_p{percent}_s"] * unit).to_list())
    assert words(drawing).endswith("p50 p90 p99")


def test_over_time_draws_bands_and_breaks_where_nothing_came(result: Result) -> None:
    drawing = draw(result, "over_time")
    table = result.tables["over_time"]
    for axes, name, unit in zip(drawing.axes, ("ttft", "duration", "tpot"), (1, 1, 1_000), strict=True):
        [(_, y)] = lines(axes)
        medians = (table[f"{name}_p50_s"] * unit).to_list()
        assert y == pytest.approx([*medians[:3], np.nan, medians[3]], nan_ok=True)
        bands = [one for one in axes.collections if isinstance(one, FillBetweenPolyCollection)]
        for (low, high, _), band in zip(BANDS, bands, strict=True):
            found = np.concatenate([np.asarray(path.vertices)[:, 1] for path in band.get_paths()])
            for edge in (low, high):
                assert set((table[f"{name}_{edge}_s"] * unit).round(9)) <= set(found.round(9))
    assert drawing.axes[-1].get_xlabel() == "Time (UTC)"


def test_only_what_is_known_has_a_panel(result: Result) -> None:
    unknown = [f"{name}_p{percent}_s" for name in ("ttft", "tpot") for percent in (50, 90, 99)]
    table = result.tables["over_time"].with_columns(pl.lit(None, pl.Float64).alias(name) for name in unknown)
    drawing = draw(replace(result, tables={**result.tables, "over_time": table}), "over_time")
    assert [axes.get_ylabel() for axes in drawing.axes] == ["Duration (s)"]


def test_a_relative_clock_shows_no_dates(result: Result) -> None:
    table = result.tables["over_time"].with_columns(time=pl.Series([0.0, 86_400.0, 172_800.0, 604_800.0]))
    drawing = draw(replace(result, tables={**result.tables, "over_time": table}), "over_time")
    assert drawing.axes[-1].get_xlabel() == "Time since first request (days)"


def test_a_latency_of_zero_has_a_colour_and_a_scale(result: Result) -> None:
    zero = result.tables["load_decode"].with_columns(decode_p90_s=0.0)
    tables = {**result.tables, "load_decode": zero, "latencies": result.tables["latencies"].with_columns(p5=0.0, p95=0.0)}
    assert draw(replace(result, tables=tables), "load_decode").axes


@pytest.mark.parametrize(
    ("name", "table", "reason"),
    [
        ("duration_cdf", "cdf", "no request has this latency"),
        ("prefill_share_cdf", "cdf", "no request has this latency"),
        ("duration_grid", "duration_grid", "no cell of input and output tokens has enough requests"),
        ("ttft_grid", "ttft_grid", "no cell of input and output tokens has enough requests"),
        ("load_ttft", "load_ttft", "no hexagon has enough requests"),
        ("load_decode", "load_decode", "no hexagon has enough requests"),
        ("load", "load", "no band of loads has enough requests"),
        ("over_time", "over_time", "no request has a latency"),
    ],
)
def test_what_is_not_there_is_not_drawn(result: Result, name: str, table: str, reason: str) -> None:
    for tables in ({**result.tables, table: result.tables[table].clear()}, {}):
        with pytest.raises(style.NoDataError, match=reason):
            FIGURES[name](replace(result, tables=tables))


def test_times_of_zero_need_no_logarithmic_axis(result: Result) -> None:
    """A server that sends each answer at once has no decode time."""
    over_time = result.tables["over_time"].with_columns(pl.col("^tpot_.*$") * 0)
    cdf = result.tables["cdf"].with_columns(pl.when(pl.col("measure") != "tpot_s").then("value").otherwise(0.0))
    still = replace(result, tables={**result.tables, "over_time": over_time, "cdf": cdf})
    assert [axes.get_ylabel() for axes in draw(still, "over_time").axes] == ["TTFT (s)", "Duration (s)"]
    [axes] = draw(still, "tpot_cdf").axes
    assert axes.get_xscale() == "linear"
    assert set(lines(axes)[0][0]) == {0.0}
