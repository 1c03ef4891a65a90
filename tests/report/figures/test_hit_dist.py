"""The figures of `hit-dist`, read back from their artists and compared with the tables they show."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.patches import StepPatch

from llmtrace.report import style
from llmtrace.report.figures.hit_dist import FIGURES
from llmtrace.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS = np.arange(101) / 100


def curve(scope: str, name: str | None, zero: float) -> pl.DataFrame:
    rows = {"hit_ratio": STEPS, "cumulative_ratio": zero + (1 - zero) * STEPS**2}
    return pl.DataFrame({"scope": scope, "name": pl.Series([name] * 101, dtype=pl.String), **rows})


def grid() -> pl.DataFrame:
    """Three cells with a TTFT, one with too few requests, and one of longer inputs."""
    return pl.DataFrame(
        {
            "input_tokens_from": [0, 0, 2_000, 2_000, 32_000],
            "input_tokens_to": [2_000, 2_000, 4_000, 4_000, 64_000],
            "hit_ratio_from": [0.0, 0.9, 0.0, 1.0, 0.0],
            "ttft_p50_s": [0.5, 0.25, 4.0, None, 60.0],
        }
    )


@pytest.fixture
def result() -> Result:
    requests, tokens = (np.array([number, *np.ones(48), number, 1.0]) for number in (50, 80))
    curves = [curve("all", None, 0.5), curve("input_length", "under 1,000", 0.6), curve("model", "org/a", 0.4)]
    tables = {
        "histogram": pl.DataFrame(
            {
                "hit_ratio_from": np.arange(51) / 50,
                "requests_ratio": requests / requests.sum(),
                "input_tokens_ratio": tokens / tokens.sum(),
            }
        ),
        "cdf": pl.concat(curves),
        "by_model": pl.DataFrame(
            {
                "model": ["a", "b", None, "c"],
                "measured_requests": [5_000, 101, 700, 100],
                "mean_request_hit_ratio": [0.25, 0.75, 0.5, 0.1],
            }
        ),
        "user_grid": pl.DataFrame(
            {
                "requests_from": [11, 512],
                "requests_to": [11, 575],
                "hit_ratio_from": [0.5, 0.995],
                "hit_ratio_to": [0.505, 1.0],
                "users": [40, 3],
            }
        ),
        "ttft_by_hit": grid(),
        "ttft_saved": pl.DataFrame(
            {
                "input_tokens_from": [0, 2_000, 128_000],
                "input_tokens_to": [2_000, 4_000, None],
                "ttft_without_hit_p50_s": [0.5, None, 20.0],
                "ttft_with_hit_p50_s": [0.3, 0.4, 0.6],
            }
        ),
    }
    scalars = {"share_zero": 0.5, "share_full": 0.125, "bimodality": 0.875, "valley_depth": 0.96875}
    return Result("hit-dist", {"zero_at": 0.0, "full_at": 0.95}, scalars, tables, "by_input_length")


def draw(result: Result, name: str) -> Figure:
    with style.look():
        drawing = FIGURES[name](result)
        style.save(drawing, "png")
    return drawing


def words(drawing: Figure) -> str:
    texts = [*drawing.texts, *(text for legend in drawing.legends for text in legend.get_texts())]
    return " ".join(text.get_text() for text in texts).replace("\n", " ")


def changed(result: Result, name: str, table: pl.DataFrame) -> Result:
    return replace(result, tables={**result.tables, name: table})


def hexagons(axes: Axes) -> tuple[Any, Any]:
    """Centres (the decimal logarithm of requests, and the ratio) and counts of the hexagons that are drawn."""
    [mesh] = [one for one in axes.collections if isinstance(one, PolyCollection)]
    return np.asarray(mesh.get_offsets()), np.asarray(mesh.get_array())


def test_the_histogram_shows_both_weights_and_says_what_its_ends_and_its_shape_are(result: Result) -> None:
    drawing = draw(result, "histogram")
    [axes] = drawing.axes
    table = result.tables["histogram"]
    stairs = [one for one in axes.patches if isinstance(one, StepPatch)]
    for one, name in zip(stairs, ("requests_ratio", "input_tokens_ratio"), strict=True):
        values, edges, _ = one.get_data()
        shares = table[name].to_list()
        assert values.tolist() == pytest.approx([*shares[:49], shares[49] + shares[50]])
        assert edges.tolist() == pytest.approx(np.arange(51) / 50)
    assert axes.get_yscale() == "log"
    said = words(drawing)
    assert "50.0% of requests at most 0; 12.5% of requests at least 0.95; Sarle 0.88; valley depth 0.97" in said
    assert "of requests of input tokens" in said


@pytest.mark.parametrize(
    ("name", "scope", "label"), [("cdf_by_input_length", "input_length", "under 1,000 tokens"), ("cdf_by_model", "model", "a")]
)
def test_cumulative_shares_rise_from_zero_at_no_hit(result: Result, name: str, scope: str, label: str) -> None:
    drawing = draw(result, name)
    [axes] = drawing.axes
    table = result.tables["cdf"]
    for line, wanted in zip(axes.get_lines(), ("all", scope), strict=True):
        assert np.asarray(line.get_xdata()).tolist() == [0.0, *STEPS]
        assert np.asarray(line.get_ydata()).tolist() == [0.0, *table.filter(pl.col("scope") == wanted)["cumulative_ratio"]]
    assert words(drawing).endswith(f"all requests {label}")


def test_models_with_more_than_a_hundred_requests_are_in_hexagons(result: Result) -> None:
    [axes, bar] = draw(result, "models").axes
    centres, counts = hexagons(axes)
    assert sorted(counts) == [1, 1]
    for requests, ratio in ((5_000, 0.25), (101, 0.75)):
        away = np.hypot((centres[:, 0] - np.log10(requests)) / 1.8, centres[:, 1] - ratio)
        assert away.min() < 0.03
    assert axes.get_xscale() == "log"
    assert bar.get_ylabel() == "Models"


def test_users_count_in_the_hexagon_of_their_cell(result: Result) -> None:
    [axes, bar] = draw(result, "users").axes
    centres, counts = hexagons(axes)
    assert sorted(counts) == [3, 40]
    assert centres[counts.argmax()] == pytest.approx([np.log10(11), 0.5], abs=0.05)
    assert centres[counts.argmin()] == pytest.approx([np.log10(543), 1.0], abs=0.05)
    assert bar.get_ylabel() == "Users"


def test_a_single_user_is_drawn_too(result: Result) -> None:
    [axes, _] = draw(changed(result, "user_grid", result.tables["user_grid"].head(1)), "users").axes
    assert hexagons(axes)[1].tolist() == [40]


def test_the_heat_map_has_a_cell_per_length_and_ratio_up_to_32_thousand(result: Result) -> None:
    drawing = draw(result, "ttft_by_hit")
    [axes, bar] = drawing.axes
    [mesh] = [one for one in axes.collections if isinstance(one, QuadMesh)]
    cells = np.ma.filled(np.ma.masked_invalid(np.asarray(mesh.get_array(), float)), np.nan).reshape(11, 16)
    assert {(int(row), int(column)): cells[row, column] for row, column in np.argwhere(~np.isnan(cells))} == {
        (0, 0): 0.5,
        (9, 0): 0.25,
        (0, 1): 4.0,
    }
    assert isinstance(mesh.norm, LogNorm)
    assert (mesh.norm.vmin, mesh.norm.vmax) == (0.25, 4.0)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "8 k", "16 k", "24 k", "32 k"]
    assert [tick.get_text() for tick in axes.get_yticklabels()][-1] == "whole\ninput"
    assert bar.get_ylabel() == "Median TTFT (s)"
    assert "cells of ≥ 200 requests" in words(drawing)


def test_what_is_saved_is_the_distance_of_two_lines(result: Result) -> None:
    drawing = draw(result, "ttft_saved")
    [axes] = drawing.axes
    without, with_hit = axes.get_lines()
    assert np.asarray(without.get_xdata()).tolist() == [1_000, 3_000, 192_000]
    assert np.asarray(without.get_ydata())[[0, 2]].tolist() == [0.5, 20.0]
    assert np.isnan(np.asarray(without.get_ydata())[1])
    assert np.asarray(with_hit.get_ydata()).tolist() == [0.3, 0.4, 0.6]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["0.5", "1", "2", "5", "10", "20"]
    assert words(drawing).endswith("less than 0.1 hit 0.9 or more hit")


@pytest.mark.parametrize(
    ("name", "table", "reason"),
    [
        ("histogram", "histogram", "no request has a hit ratio"),
        ("cdf_by_input_length", "cdf", "no request of a known input length has a hit ratio"),
        ("cdf_by_model", "cdf", "no request of a known model has a hit ratio"),
        ("models", "by_model", "no model has more than 100 requests with a hit ratio"),
        ("users", "user_grid", "no user has more than 10 requests with a hit ratio"),
        ("ttft_by_hit", "ttft_by_hit", "no group of 200 requests with a hit ratio has a TTFT"),
        ("ttft_saved", "ttft_saved", "no group of 200 requests with a hit ratio has a TTFT"),
    ],
)
def test_what_is_not_there_is_not_drawn(result: Result, name: str, table: str, reason: str) -> None:
    without = {other: frame for other, frame in result.tables.items() if other != table}
    for tables in ({**without, table: result.tables[table].clear()}, without):
        with pytest.raises(style.NoDataError, match=reason):
            FIGURES[name](replace(result, tables=tables))


def test_cells_of_long_inputs_alone_are_no_heat_map(result: Result) -> None:
    with pytest.raises(style.NoDataError, match="no cell up to 32,000 input tokens has 200 requests with a TTFT"):
        FIGURES["ttft_by_hit"](changed(result, "ttft_by_hit", grid().tail(1)))
