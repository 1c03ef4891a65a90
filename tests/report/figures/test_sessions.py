"""The figures of `sessions`, read back from their lines and compared with the tables they show."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from llmtrace.report import figures, style
from llmtrace.report.figures.sessions import ENOUGH, FIGURES, MEASURES
from llmtrace.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MODELS = ["org/one", "two"]


@pytest.fixture
def result() -> Result:
    turns = np.arange(50)
    requests = (10_000 / (turns + 1) ** 2).astype(np.int64)
    ratios = np.linspace(1, 1e-4, 40)
    lengths = pl.DataFrame({"turns": np.arange(1, 41), "at_least_ratio": ratios})
    curve = pl.DataFrame({"cumulative_ratio": np.linspace(0, 1, 101), "gap_s": np.geomspace(1e-3, 1e6, 101)})
    rules = pl.DataFrame({"varied": ["k"] * 3 + ["max_gap_s"] * 3, "k": [1, 10, 100, 10, 10, 10]})
    tables = {
        "turns": pl.DataFrame(
            {"turn": turns, "requests": requests, "mean_input_tokens": 100.0 * turns + 50, "mean_prefix_tokens": 100.0 * turns}
        ),
        "lengths": lengths,
        "lengths_by_model": pl.concat([lengths.select(pl.lit(model).alias("model"), pl.all()) for model in MODELS]),
        "gaps": pl.DataFrame(
            {
                "gap_s": np.geomspace(1e-3, 1e6, 60),
                "covered_ratio": np.linspace(0, 1, 60),
                "structural_reuse": np.linspace(0, 0.7, 60),
            }
        ),
        "gaps_by_model": pl.concat([curve.select(pl.lit(model).alias("model"), pl.all()) for model in MODELS]),
        "by_model": pl.DataFrame({"model": MODELS, "requests": [1_000, 20], "structural_reuse": [0.5, None]}),
        "sensitivity": rules.with_columns(
            pl.Series("max_gap_s", [None, None, None, 60.0, 3_600.0, None]),
            pl.Series("sessions", [9, 8, 7, 9, 8, 7]),
            *(pl.Series(name, np.linspace(0.1 * place, 0.9, 6)) for place, name in enumerate(MEASURES)),
        ),
    }
    return Result("sessions", {}, {}, tables, "turns")


def draw(result: Result, name: str) -> Figure:
    with style.look():
        drawing = FIGURES[name](result)
        style.save(drawing, "png")
    return drawing


def lines(axes: Axes) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()]  # type: ignore[arg-type]


def legend(drawing: Figure) -> list[str]:
    return [text.get_text() for one in drawing.legends for text in one.get_texts()]


def test_lengths_shows_every_model_and_all(result: Result) -> None:
    drawing = draw(result, "lengths")
    table = result.tables["lengths"]
    shown = (table["turns"].to_list(), table["at_least_ratio"].to_list())
    assert lines(drawing.axes[0]) == [shown] * 3
    assert legend(drawing) == ["one", "two", "all models"]
    alone = draw(replace(result, tables={"lengths": table}), "lengths")
    assert lines(alone.axes[0]) == [shown]
    assert legend(alone) == []


def test_gaps_shows_shares_above_and_reuse_below(result: Result) -> None:
    drawing = draw(result, "gaps")
    above, below = drawing.axes
    table, curve = result.tables["gaps"], result.tables["gaps_by_model"].head(101)
    of_model = (curve["gap_s"].to_list(), curve["cumulative_ratio"].to_list())
    assert lines(above) == [of_model, of_model, (table["gap_s"].to_list(), table["covered_ratio"].to_list())]
    assert lines(below) == [(table["gap_s"].to_list(), table["structural_reuse"].to_list())]


def test_turns_leaves_out_means_of_few_requests_and_says_so(result: Result) -> None:
    drawing = draw(result, "turns")
    above, below = drawing.axes
    table = result.tables["turns"]
    enough = table.filter(pl.col("requests") >= ENOUGH)
    assert 0 < enough.height < table.height
    assert lines(above) == [((table["turn"] + 1).to_list(), table["requests"].to_list())]
    places = (enough["turn"] + 1).to_list()
    assert lines(below) == [(places, enough[name].to_list()) for name in ("mean_input_tokens", "mean_prefix_tokens")]
    assert f"at least {ENOUGH} requests" in str(drawing.get_supxlabel()).replace("\n", " ")
    few = replace(result, tables={"turns": table.with_columns(requests=pl.lit(3))})
    assert len(lines(draw(few, "turns").axes[1])[0][0]) == table.height


def test_by_model_has_a_dot_for_each(result: Result) -> None:
    [(requests, reuse)] = lines(draw(result, "by_model").axes[0])
    assert (requests, reuse[0]) == ([1_000, 20], 0.5)
    assert np.isnan(reuse[1])


@pytest.mark.parametrize("parameter", ["k", "max_gap_s"])
def test_sensitivity_shows_every_measure_that_is_known(result: Result, parameter: str) -> None:
    name = "sensitivity_k" if parameter == "k" else "sensitivity_max_gap"
    table = result.tables["sensitivity"].filter(pl.col("varied") == parameter)
    drawing = draw(result, name)
    [axes] = drawing.axes
    places = [1, 10, 100] if parameter == "k" else [60, 3_600, 28_800]
    assert lines(axes) == [(places, table[measure].to_list()) for measure in MEASURES]
    assert legend(drawing) == list(MEASURES.values())
    words = ["1", "10", "100"] if parameter == "k" else ["1\nmin", "1\nh", "none"]
    assert [label.get_text() for label in axes.get_xticklabels()] == words
    unknown = result.tables["sensitivity"].with_columns(pl.lit(None, pl.Float64).alias(name) for name in ("precision", "recall"))
    without = draw(replace(result, tables={"sensitivity": unknown}), name)
    assert legend(without) == [MEASURES["structural_reuse"], MEASURES["single_turn_share"]]


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_without_data_says_why(result: Result, name: str) -> None:
    for tables in ({}, {table: frame.clear() for table, frame in result.tables.items()}):
        with pytest.raises(style.NoDataError):
            draw(replace(result, tables=tables), name)


def test_what_takes_an_option_is_left_out_in_silence(result: Result) -> None:
    said: list[str] = []
    tables = {name: frame.clear() if name == "sensitivity" else frame for name, frame in result.tables.items()}
    drawn = [name for name, _ in figures.figures(replace(result, tables=tables), said.append)]
    assert drawn == [name for name in FIGURES if not name.startswith("sensitivity")]
    assert said == []
