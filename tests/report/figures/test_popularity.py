"""The figures of `popularity`, read back from their artists and compared with the tables they show."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import to_hex

from llmtrace.report import style
from llmtrace.report.figures.popularity import FIGURES, FIT, LOOKS
from llmtrace.result import Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

START = datetime(2025, 4, 11)
RANKS = [1, 2, 5, 10, 100]


def curve(of: str, by: str, scale: float) -> pl.DataFrame:
    shares = scale / np.array(RANKS)
    return pl.DataFrame(
        {
            "of": [of] * 5,
            "by": [by] * 5,
            "rank": RANKS,
            "ratio": shares,
            "cumulative_ratio": np.linspace(0.2, 1, 5),
            "fitted_ratio": [*(shares[:4] * 1.1), None],
        }
    )


def dots(of: str, other: str, rank: int, rows: int) -> pl.DataFrame:
    seconds = [86_400.0 * row for row in range(rows)]
    return pl.DataFrame(
        {
            "rank": [rank] * rows,
            of: [f"{of} {rank}"] * rows,
            "row": range(1, rows + 1),
            other: [f"{other} {row}" for row in range(rows)],
            "time": [START + timedelta(seconds=second) for second in seconds],
            "elapsed_s": seconds,
            "requests": [1] * rows,
        }
    )


def raster(of: str, rank: int, entities: int, rows: int) -> dict[str, object]:
    end = START + timedelta(days=31)
    return {
        "of": of,
        "rank": rank,
        "name": f"{of} {rank}",
        "start": START,
        "end": end,
        "span_s": 31 * 86_400.0,
        "step_s": 900.0,
        "requests": 12_345,
        "entities": entities,
        "rows": rows,
    }


@pytest.fixture
def result() -> Result:
    tables = {
        "models": pl.DataFrame(
            {
                "requests": [10_000, 1_000, 900, 50],
                "users": [400, 90, 80, 3],
                "users_for_90": [30, 81, 1, 2],
                "top_user_ratio": [0.2, 0.02, 0.95, 0.6],
                "median_input_tokens": [4_000.0, 300.0, 310.0, None],
                "median_output_tokens": [200.0, 90.0, 95.0, None],
                "positive_gaps": [9_000, 900, 850, 49],
            }
        ),
        "zipf": pl.DataFrame({"of": ["model"], "by": ["requests"], "exponent": [0.8123], "last_rank": [1_234]}),
        "rank_frequency": pl.concat([curve(*kind, 0.1 * (place + 1)) for place, kind in enumerate(LOOKS)]),
        "user_breadth": pl.DataFrame({"requests": [11.0, 11.0, 5_000.0], "models": [2.0, 3.0, 40.0], "users": [7, 2, 1]}),
        "user_lengths": pl.DataFrame(
            {"median_input_tokens": [50.0, 2_000.0], "median_output_tokens": [60.0, 100.0], "users": [5, 30]}
        ),
        "rasters": pl.DataFrame([raster("user", 1, 3, 3), raster("user", 7, 2, 2), raster("model", 2, 5_000, 800)]),
        "user_access": pl.concat([dots("user", "model", 1, 3), dots("user", "model", 7, 2)]),
        "model_access": dots("model", "user", 2, 30),
    }
    return Result("popularity", {}, {}, tables, "models")


def draw(result: Result, name: str) -> Figure:
    with style.look():
        drawing = FIGURES[name](result)
        style.save(drawing, "png")
    return drawing


def lines(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {str(line.get_color()): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()}  # type: ignore[arg-type]


def words(drawing: Figure) -> str:
    texts = [*drawing.texts, *(text for legend in drawing.legends for text in legend.get_texts())]
    return " ".join(text.get_text() for text in texts).replace("\n", " ")


def changed(result: Result, name: str, table: pl.DataFrame) -> Result:
    tables: Mapping[str, pl.DataFrame] = {**result.tables, name: table}
    return replace(result, tables=tables)


def counts(drawing: Figure) -> list[float]:
    """How many are in each hexagon, ascending."""
    [mesh] = [one for one in drawing.axes[0].collections if isinstance(one, PolyCollection)]
    return sorted(np.asarray(mesh.get_array()).tolist())


def test_ranks_are_drawn_with_the_law_that_is_fitted_to_them(result: Result) -> None:
    drawing = draw(result, "rank_frequency")
    for axes, of in zip(drawing.axes, ("model", "user"), strict=True):
        own = result.tables["rank_frequency"].filter(pl.col("of") == of)
        drawn = lines(axes)
        for place, by in enumerate(("requests", "tokens")):
            assert drawn[style.LINES[place][0]] == (RANKS, own.filter(pl.col("by") == by)["ratio"].to_list())
        fitted = own.filter(pl.col("by") == "requests")["fitted_ratio"].drop_nulls()
        assert drawn[FIT] == (RANKS[:4], fitted.to_list())
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert "by requests by tokens c·rank⁻ˢ, by requests" in words(drawing)
    assert "s of models 0.81 by requests (to rank 1,234)" in words(drawing)


def test_models_alone_and_no_fit_make_one_panel_without_a_law(result: Result) -> None:
    alone = result.tables["rank_frequency"].filter(pl.col("of") == "model", pl.col("by") == "requests")
    bare = changed(result, "rank_frequency", alone.with_columns(fitted_ratio=pl.lit(None, pl.Float64)))
    drawing = draw(changed(bare, "zipf", result.tables["zipf"].clear()), "rank_frequency")
    assert len(drawing.axes) == 1
    assert len(drawing.axes[0].get_lines()) == 1
    assert "rank⁻ˢ" not in words(drawing)


def test_few_ranks_are_whole_numbers(result: Result) -> None:
    few = result.tables["rank_frequency"].filter(pl.col("rank") <= 5)
    axes = draw(changed(result, "rank_frequency", few), "rank_frequency").axes[-1]
    assert list(axes.get_xticks()) == [1, 2, 3, 4, 5]


def test_concentration_draws_what_the_first_ranks_have_together(result: Result) -> None:
    drawing = draw(result, "concentration")
    drawn = lines(drawing.axes[0])
    assert {color for color, _, _ in style.LINES[:4]} == drawn.keys()
    for (x, y), (_, own) in zip(
        drawn.values(), result.tables["rank_frequency"].group_by("of", "by", maintain_order=True), strict=True
    ):
        assert (x, y) == (RANKS, own["cumulative_ratio"].to_list())
    assert "requests by model tokens by model requests by user tokens by user" in words(drawing)


def test_models_with_few_gaps_are_not_in_figure_5(result: Result) -> None:
    drawing = draw(result, "model_breadth")
    assert sum(counts(drawing)) == 3
    assert "models with at least 100 positive gaps" in words(drawing)
    (left, right), (low, high) = drawing.axes[0].get_xlim(), drawing.axes[0].get_ylim()
    assert [left < 900, right > 10_000, low < 80, high > 400] == [True] * 4


def test_cells_of_users_count_as_many_as_are_in_them(result: Result) -> None:
    assert counts(draw(result, "user_breadth")) == [1, 2, 7]
    assert counts(draw(result, "user_lengths")) == [5, 30]
    assert sum(counts(draw(result, "model_lengths"))) == 3


def test_counts_have_no_fractions(result: Result) -> None:
    alike = result.tables["user_breadth"].with_columns(models=pl.lit(2), requests=pl.lit(12))
    alone = result.tables["models"].head(1).with_columns(users=pl.lit(1), users_for_90=pl.lit(1))
    for drawing in (
        draw(changed(result, "user_breadth", alike), "user_breadth"),
        draw(changed(result, "models", alone), "users_per_model"),
    ):
        axes = drawing.axes[0]
        for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            found = [tick for tick in axis.get_ticklocs() if ends[0] <= tick <= ends[1]]
            assert len(found) >= 2
            assert all(tick == int(tick) for tick in found)


def test_the_share_of_a_single_key_ends_at_one(result: Result) -> None:
    alone = result.tables["rank_frequency"].filter(pl.col("rank") == 1).with_columns(ratio=1.0, fitted_ratio=None)
    drawing = draw(changed(result, "rank_frequency", alone), "rank_frequency")
    for axes in drawing.axes:
        low, high = axes.get_ylim()
        assert 1 < high < 1.2
        assert [tick for tick in axes.get_yticks() if low <= tick <= high][-1] == 1


def test_the_line_of_equal_lengths_stays_within_the_figure(result: Result) -> None:
    drawing = draw(result, "user_lengths")
    axes = drawing.axes[0]
    [(x, y)] = lines(axes).values()
    assert "line: output as long as input" in words(drawing)
    assert x == y
    for low, high in (axes.get_xlim(), axes.get_ylim()):
        assert low <= min(x) < max(x) <= high
    far = result.tables["user_lengths"].with_columns(median_output_tokens=pl.lit(3.0))
    without = draw(changed(result, "user_lengths", far), "user_lengths")
    assert lines(without.axes[0]) == {}
    assert "line" not in words(without)


def test_a_dot_is_a_model_with_its_users(result: Result) -> None:
    drawing = draw(result, "users_per_model")
    [shown] = [one for one in drawing.axes[0].collections if isinstance(one, PathCollection)]
    offsets = np.asarray(shown.get_offsets())
    models = result.tables["models"]
    assert offsets.tolist() == models.select(pl.col("users", "users_for_90").cast(pl.Float64)).to_numpy().tolist()
    assert np.asarray(shown.get_array()).tolist() == models["top_user_ratio"].to_list()
    x, y = lines(drawing.axes[0])[style.OVERALL[0]]
    assert y == pytest.approx([0.9 * end for end in x])


def test_rasters_have_a_panel_each_and_a_dot_per_row_and_step(result: Result) -> None:
    drawing = draw(result, "user_access")
    assert [axes.get_title("left") for axes in drawing.axes] == [
        "user 1 (rank 1): 12,345 requests, 3 models",
        "user 7 (rank 7): 12,345 requests, 2 models",
    ]
    for axes, rank in zip(drawing.axes, (1, 7), strict=True):
        own = result.tables["user_access"].filter(pl.col("rank") == rank)
        [shown] = axes.collections
        assert isinstance(shown, PathCollection)
        expected = own.select(pl.col("elapsed_s") / 86_400, pl.col("row").cast(pl.Float64)).to_numpy()
        assert np.asarray(shown.get_offsets()).tolist() == expected.tolist()
        assert [to_hex(color).upper() for color in np.asarray(shown.get_facecolor())] == [
            style.LINES[row][0].upper() for row in range(own.height)
        ]
        bottom, top = axes.get_ylim()
        assert top < 1 < own.height < bottom
        assert all(1 <= tick <= own.height for tick in axes.get_yticks())
    assert drawing.axes[-1].get_xlabel() == "Time since the user's first request (days)"


def test_a_raster_says_that_it_is_a_sample(result: Result) -> None:
    drawing = draw(result, "model_access")
    assert drawing.axes[0].get_title("left") == "model 2 (rank 2): 12,345 requests, 800 of 5,000 users"
    assert "rows: a sample of the users" in words(drawing)


@pytest.mark.parametrize(("span_s", "unit"), [(200_000.0, "days"), (20_000.0, "h"), (400.0, "min"), (30.0, "s")])
def test_a_raster_has_the_unit_of_its_length(result: Result, span_s: float, unit: str) -> None:
    short = result.tables["rasters"].with_columns(span_s=pl.lit(span_s))
    drawing = draw(changed(result, "rasters", short), "model_access")
    assert drawing.axes[0].get_xlabel().endswith(f"({unit})")


def test_many_rasters_share_one_figure(result: Result) -> None:
    rasters = pl.DataFrame([raster("user", rank, 2, 2) for rank in (1, 2, 3, 4)])
    access = pl.concat([dots("user", "model", rank, 2) for rank in (1, 2, 3, 4)])
    assert len(draw(changed(changed(result, "rasters", rasters), "user_access", access), "user_access").axes) == 4


@pytest.mark.parametrize(
    ("figure", "table", "reason"),
    [
        ("rank_frequency", "rank_frequency", "the trace names neither models nor users"),
        ("concentration", "rank_frequency", "the trace names neither models nor users"),
        ("model_breadth", "models", "no model has at least 100 positive gaps, and users"),
        ("user_breadth", "user_breadth", "no user has more than 10 requests, to more than one model"),
        ("model_lengths", "models", "no model has requests with input and output tokens"),
        ("user_lengths", "user_lengths", "no user with more than 10 requests has input and output tokens"),
        ("users_per_model", "models", "the trace does not say which user goes to which model"),
        ("user_access", "user_access", "no user is chosen, by --user NAME or --user-rank N"),
        ("model_access", "model_access", "no model is chosen, by --model NAME or --model-rank N"),
    ],
)
def test_what_has_no_data_is_not_drawn(result: Result, figure: str, table: str, reason: str) -> None:
    with pytest.raises(style.NoDataError, match=reason):
        draw(changed(result, table, result.tables[table].clear()), figure)
    missing = replace(result, tables={name: frame for name, frame in result.tables.items() if name != table})
    with pytest.raises(style.NoDataError, match=reason):
        draw(missing, figure)
