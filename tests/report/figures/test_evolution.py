"""The figures of `evolution`, read back from their artists and compared with the tables they show."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import FillBetweenPolyCollection, QuadMesh
from matplotlib.colors import rgb_to_hsv, to_rgb
from matplotlib.patches import Rectangle

from llmtrace.report import figures, style
from llmtrace.report.figures.evolution import FIGURES, MOST_NUMBERS, NUMBERED_FROM, OTHERS, STACK
from llmtrace.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MONTHS = [datetime(2025, month, 1) for month in (4, 5, 6, 7)]
PARTIAL = [True, False, False, False]
PERCENTS = (10, 25, 50, 75, 90)


def bands(scale: float) -> dict[str, list[float]]:
    return {
        f"p{percent}_{side}_tokens": [scale * by * percent * (1 + month) for month in range(4)]
        for side, by in (("input", 10), ("output", 1))
        for percent in PERCENTS
    }


@pytest.fixture
def result() -> Result:
    grid = {"time": MONTHS, "partial": PARTIAL}
    shares = {"org/one": (0.5, 0.4, 0.2, 0.1), "two": (0.0, 0.3, 0.6, 0.7), None: (0.5, 0.3, 0.2, 0.2)}
    mix = pl.concat(
        pl.DataFrame({**grid, "rank": rank, "model": model or "Others", "requests_ratio": of, "tokens_ratio": of[::-1]})
        for (model, of), rank in zip(shares.items(), (1, 2, None), strict=True)
    )
    retained = {(0, 1): 0.5, (0, 2): 0.4, (0, 3): 0.3, (1, 2): 0.6, (1, 3): 0.2, (2, 3): 0.9}
    retained |= {(month, month): 1.0 for month in range(4)}
    tables = {
        "active": pl.DataFrame(
            {**grid, "models": [3, 4, 5, 4], "new_models": [3, 1, 2, 0], "users": [9, 8, 7, 6], "new_users": [9, 4, 2, 1]}
        ),
        "model_share": mix.sort("time", maintain_order=True),
        "tokens_by_month": pl.DataFrame({**grid, "requests": 50, **bands(1)}),
        "cohorts": pl.DataFrame({**grid, "eligible_users": [5, 5, 5, 5], **bands(2)}),
        "retention": pl.DataFrame(
            [(MONTHS[a], MONTHS[b], b - a, ratio, b == 0) for (a, b), ratio in sorted(retained.items())],
            ["cohort_time", "time", "age", "retained_ratio", "partial"],
            orient="row",
        ),
        "switching": pl.DataFrame(
            {"time": MONTHS[1:], "users": [8, 0, 4], "switched_ratio": [0.25, None, 0.5], "partial": PARTIAL[:3]}
        ),
        "transitions": pl.DataFrame(
            [("org/one", "org/one", 0.75), ("org/one", "two", 0.25), ("Others", "two", 1.0)],
            ["from_model", "to_model", "users_ratio"],
            orient="row",
        ),
        "drift": pl.DataFrame(
            {
                "time": [month for month in MONTHS for _ in range(2)],
                "column": ["input_tokens", "output_tokens"] * 4,
                "is_reference": [False, False, True, True, *[False] * 4],
                "psi": [0.2, 0.01, 0.0, 0.0, 0.15, 0.4, 0.05, 1.5],
                "psi_level": ["noise", "noise", None, None, "noise", "major", "stable", "major"],
                "wasserstein_log10": [0.1, 0.02, 0.0, 0.0, 0.2, 0.3, 0.05, 0.5],
                "partial": [True, True, *[False] * 6],
            }
        ),
    }
    return Result("evolution", {}, {"interval": "month", "partial_periods": 1}, tables, "active")


def draw(result: Result, name: str) -> Figure:
    with style.look():
        drawing = FIGURES[name](result)
        style.save(drawing, "png")
    return drawing


def words(drawing: Figure) -> str:
    texts = [*drawing.texts, *(text for legend in drawing.legends for text in legend.get_texts())]
    return " ".join(text.get_text() for text in texts).replace("\n", " ")


def drawn(axes: Axes) -> list[list[float]]:
    """The values of each line, marks of partial periods after the line itself."""
    return [np.asarray(line.get_ydata(), float).tolist() for line in axes.get_lines()]


def with_table(result: Result, name: str, table: pl.DataFrame) -> Result:
    return replace(result, tables={**result.tables, name: table})


def stacked(axes: Axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def test_shares_of_models_are_stacked_and_partial_periods_hatched(result: Result) -> None:
    drawing = draw(result, "model_mix")
    assert len(drawing.axes) == 2
    for axes, column in zip(drawing.axes, ("requests_ratio", "tokens_ratio"), strict=True):
        bars = stacked(axes)
        heights = np.array([bar.get_height() for bar in bars if not bar.get_hatch()]).reshape(3, 4)
        table = result.tables["model_share"].sort("rank", "time", nulls_last=True)
        assert heights == pytest.approx(table[column].to_numpy().reshape(3, 4))
        bottoms = np.array([bar.get_y() for bar in bars if not bar.get_hatch()]).reshape(3, 4)
        assert bottoms == pytest.approx(np.vstack([np.zeros(4), np.cumsum(heights, axis=0)[:2]]))
        [hatched] = [bar for bar in bars if bar.get_hatch()]
        assert hatched.get_x() == bars[0].get_x()
        assert hatched.get_height() == pytest.approx(1)
        widths = {round(bar.get_width()) for bar in bars}
        assert widths == {30, 31}
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == ["1 one", "2 two", "Others"]
    assert "hatched: 1 partial period" in words(drawing)


def test_bars_that_have_room_for_it_are_numbered_by_rank(result: Result) -> None:
    for axes, column in zip(draw(result, "model_mix").axes, ("requests_ratio", "tokens_ratio"), strict=True):
        bars = [bar for bar in stacked(axes) if not bar.get_hatch()]
        roomy = [
            (bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height() / 2, str(place // 4 + 1))
            for place, bar in enumerate(bars[:8])
            if bar.get_height() >= NUMBERED_FROM and place % 4
        ]
        assert roomy, column
        numbers = sorted((*text.get_position(), text.get_text()) for text in axes.texts)
        for found, expected in zip(numbers, sorted(roomy), strict=True):
            assert found[:2] == pytest.approx(expected[:2])
            assert found[2] == expected[2]


@pytest.mark.parametrize("name", ["m{}", "{:02}c75da6-8b9f-58d1-8615-b35f9186cc3"])
def test_fifty_models_leave_the_bars_their_room(result: Result, name: str) -> None:
    models = pl.DataFrame({"rank": range(1, 51), "model": [name.format(place) for place in range(50)]})
    months = result.tables["active"].select("time", "partial")
    table = months.join(models, how="cross").with_columns(requests_ratio=pl.lit(0.02), tokens_ratio=pl.lit(0.02))
    drawing = draw(with_table(result, "model_share", table), "model_mix")
    drawing.draw_without_rendering()
    [legend] = drawing.legends
    for axes in drawing.axes:
        assert axes.get_window_extent().height > 0.75 * drawing.dpi
        assert axes.get_window_extent().y1 < legend.get_window_extent().y0
    assert legend.get_window_extent().y1 <= drawing.bbox.y1


def test_narrow_bars_have_one_number_a_model_where_it_is_highest(result: Result) -> None:
    days = pl.datetime_range(datetime(2025, 4, 1), datetime(2025, 5, 10), "1d", eager=True)
    shares = [0.5 + 0.01 * day for day in range(days.len())]
    table = pl.DataFrame(
        {
            "time": days,
            "rank": 1,
            "model": "one",
            "requests_ratio": shares,
            "tokens_ratio": [None] * days.len(),
            "partial": False,
        },
        schema_overrides={"tokens_ratio": pl.Float64},
    )
    [axes] = draw(with_table(result, "model_share", table), "model_mix").axes
    [number] = axes.texts
    assert number.get_text() == "1"
    assert number.get_position()[1] == pytest.approx(max(shares) / 2)


def test_neighbours_in_the_stack_differ_in_grey() -> None:
    def grey(color: str) -> float:
        return float(np.dot(to_rgb(color), (0.299, 0.587, 0.114)))

    for one, other in zip(STACK, [*STACK[1:], STACK[0]], strict=True):
        assert abs(grey(one) - grey(other)) > 0.2
    assert all(abs(grey(OTHERS) - grey(color)) > 0.05 for color in STACK)
    assert rgb_to_hsv(to_rgb(OTHERS))[1] == 0


def test_without_tokens_the_mix_has_one_panel(result: Result) -> None:
    table = result.tables["model_share"].with_columns(tokens_ratio=pl.lit(None, pl.Float64))
    assert len(draw(with_table(result, "model_share", table), "model_mix").axes) == 1


@pytest.mark.parametrize(("name", "table"), [("tokens", "tokens_by_month"), ("cohorts", "cohorts")])
def test_bands_hold_the_percentiles_around_the_median(result: Result, name: str, table: str) -> None:
    drawing = draw(result, name)
    for axes, side in zip(drawing.axes, ("input", "output"), strict=True):
        median = result.tables[table][f"p50_{side}_tokens"].to_list()
        assert drawn(axes) == [median, median[:1]]
        fills = [one for one in axes.collections if isinstance(one, FillBetweenPolyCollection)]
        for fill, (low, high) in zip(fills, (("p10", "p90"), ("p25", "p75")), strict=True):
            edges = np.asarray(fill.get_paths()[0].vertices)[:, 1]
            own = result.tables[table].select(f"{low}_{side}_tokens", f"{high}_{side}_tokens").to_numpy()
            assert {round(float(edge), 6) for edge in edges} == {round(float(value), 6) for value in own.ravel()}
        assert axes.get_yscale() == ("log" if name == "tokens" else "linear")
        assert f"{side.capitalize()} tokens" in axes.get_ylabel()
    assert "hollow: 1 partial period" in words(drawing)


@pytest.mark.parametrize("origin", [None, datetime(2025, 4, 11)])
@pytest.mark.parametrize(("name", "table"), [("tokens", "tokens_by_month"), ("cohorts", "cohorts"), ("model_mix", "model_share")])
def test_a_period_alone_fills_the_axis(result: Result, name: str, table: str, origin: datetime | None) -> None:
    """April, in dates or in days from its eleventh, on an axis from its first day to its last."""
    rows = result.tables[table].filter(pl.col("time") == MONTHS[0])
    if origin is not None:
        rows = rows.with_columns((pl.col("time") - origin).dt.total_seconds().cast(pl.Float64))
    axes = draw(with_table(result, table, rows), name).axes[-1]
    low, high = axes.get_xlim()
    april = (MONTHS[0] - datetime(1970, 1, 1)).days
    assert (low, high - low) == ((april, 30) if origin is None else (-10, pytest.approx(30, abs=1.5)))
    for fill in axes.collections:
        assert (fill.get_datalim(axes.transData).x0, fill.get_datalim(axes.transData).x1) == (low, high)
    for bar in stacked(axes):
        assert (bar.get_x(), bar.get_x() + bar.get_width()) == (low, high)
    for line in axes.get_lines():
        assert set(np.asarray(line.get_xdata(), float)) <= {(low + high) / 2}


def test_one_point_is_no_figure(result: Result) -> None:
    for name in ("active", "switching"):
        one = with_table(result, name, result.tables[name].head(1))
        with pytest.raises(style.NoDataError, match=r"one period only|one pair of such periods only"):
            draw(one, name)


def test_a_cohort_without_eligible_users_is_left_out(result: Result) -> None:
    table = result.tables["cohorts"].with_columns(eligible_users=pl.Series([0, 5, 5, 5]))
    drawing = draw(with_table(result, "cohorts", table), "cohorts")
    assert "hollow" not in words(drawing)
    assert drawn(drawing.axes[0])[0] == table["p50_input_tokens"].to_list()[1:]
    assert "first request" in drawing.axes[-1].get_xlabel()


def test_active_and_new_models_and_users(result: Result) -> None:
    drawing = draw(result, "active")
    table = result.tables["active"]
    for axes, name in zip(drawing.axes, ("models", "users"), strict=True):
        lines = drawn(axes)
        assert lines == [
            table[name].to_list(),
            table[name].to_list()[:1],
            table[f"new_{name}"].to_list(),
            table[f"new_{name}"].to_list()[:1],
        ]
        assert axes.get_ylabel() == f"Active {name}\nper month"
        assert -0.1 * axes.get_ylim()[1] < axes.get_ylim()[0] < 0
    without = table.with_columns(users=pl.lit(None, pl.Int64))
    assert [axes.get_ylabel() for axes in draw(with_table(result, "active", without), "active").axes] == [
        "Active models\nper month"
    ]


def test_partial_periods_at_the_ends_of_many_are_hollow_too(result: Result) -> None:
    days = pl.datetime_range(datetime(2025, 4, 1), datetime(2025, 5, 30), "1d", eager=True)
    partial = [True, *[False] * (days.len() - 2), True]
    table = pl.DataFrame({"time": days, "models": 3, "new_models": 1, "users": None, "partial": partial})
    drawing = draw(with_table(result, "active", table), "active")
    assert drawn(drawing.axes[0]) == [[3] * 60, [3, 3], [1] * 60, [1, 1]]
    assert "hollow: 2 partial periods" in words(drawing)


def cells(drawing: Figure) -> list[list[float | None]]:
    [mesh] = [one for one in drawing.axes[0].collections if isinstance(one, QuadMesh)]
    found: list[list[float | None]] = np.ma.masked_invalid(np.asarray(mesh.get_array()) / 100).tolist()
    return found


def test_retention_is_a_heat_map_of_later_periods(result: Result) -> None:
    drawing = draw(result, "retention")
    axes = drawing.axes[0]
    expected = [[0.5, 0.4, 0.3], [None, 0.6, 0.2], [None, None, 0.9]]
    assert cells(drawing) == expected
    assert [text.get_text() for text in axes.texts] == ["50", "40", "30", "60", "20", "90"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["2025-04*", "2025-05", "2025-06"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["2025-05", "2025-06", "2025-07"]
    assert axes.yaxis_inverted()
    assert "*: 1 partial period" in words(drawing)


def test_a_heat_map_of_many_periods_has_no_numbers_and_few_labels(result: Result) -> None:
    days = [datetime(2025, 1 + day // 28, 1 + day % 28) for day in range(60)]
    rows = [(one, other, 1, 0.5, False) for place, one in enumerate(days) for other in days[place + 1 :]]
    table = pl.DataFrame(rows, ["cohort_time", "time", "age", "retained_ratio", "partial"], orient="row")
    assert len(days) > MOST_NUMBERS
    axes = draw(with_table(result, "retention", table), "retention").axes[0]
    assert not axes.texts
    assert len(axes.get_xticklabels()) <= 24


def test_periods_of_a_relative_clock_are_days(result: Result) -> None:
    table = result.tables["retention"].with_columns(
        ((pl.col(name) - MONTHS[0]).dt.total_seconds().cast(pl.Float64)).alias(name) for name in ("cohort_time", "time")
    )
    axes = draw(with_table(result, "retention", table), "retention").axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["30 d", "61 d", "91 d"]


@pytest.mark.parametrize(
    ("interval", "expected"),
    [("1d", "04-02"), ("2w", "04-02"), ("6h", "04-02 09:03"), ("1m", "04-02 09:03"), ("30s", "04-02 09:03:00")],
)
def test_periods_have_their_month(result: Result, interval: str, expected: str) -> None:
    times = [datetime(2025, 4, 1, 9), datetime(2025, 4, 2, 9, 3)]
    table = result.tables["retention"].filter(age=1).head(1).with_columns(cohort_time=times[0], time=times[1])
    timed = replace(with_table(result, "retention", table), scalars={"interval": interval})
    drawing = draw(timed, "retention")
    with style.look():
        drawing.draw_without_rendering()
    axes, bar = drawing.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == [expected]
    assert bar.yaxis.label.get_window_extent().y1 <= drawing.bbox.y1


def test_the_label_of_cohorts_leaves_room_for_the_date_in_the_corner(result: Result) -> None:
    minutes = pl.Series([datetime(2025, 3, 3, 9, minute) for minute in range(4)])
    table = result.tables["cohorts"].with_columns(time=minutes).head(3)
    drawing = draw(with_table(result, "cohorts", table), "cohorts")
    with style.look():
        drawing.draw_without_rendering()
    axis = drawing.axes[-1].xaxis
    assert axis.get_offset_text().get_text() == "2025-Mar-03 09:02"
    assert axis.label.get_window_extent().x1 < axis.get_offset_text().get_window_extent().x0


@pytest.mark.parametrize(("interval", "expected"), [("month", "2025-04"), ("1d", "2025-04-01"), ("1m", "2025-04-01 00:00")])
@pytest.mark.parametrize("name", ["cohorts", "tokens"])
def test_a_period_alone_is_all_that_its_axis_names(result: Result, name: str, interval: str, expected: str) -> None:
    table = {"cohorts": "cohorts", "tokens": "tokens_by_month"}[name]
    one = replace(with_table(result, table, result.tables[table].head(1)), scalars={"interval": interval})
    axes = draw(one, name).axes[-1]
    assert [text.get_text() for text in axes.get_xticklabels()] == [expected]
    assert axes.xaxis.get_offset_text().get_text() == ""


def test_names_that_the_font_cannot_show_warn_nobody(result: Result) -> None:
    named = result.tables["model_share"].with_columns(pl.col("model").replace({"org/one": "通义千问", "two": "名前モデル"}))
    drawing = draw(with_table(result, "model_share", named), "model_mix")
    assert "1 通义千问" in words(drawing)


def test_switching_shows_periods_with_users_alone(result: Result) -> None:
    drawing = draw(result, "switching")
    assert drawn(drawing.axes[0]) == [[0.25, 0.5], [0.25]]
    assert "hollow: 1 pair with a partial period" in words(drawing)
    assert "another main model" in drawing.axes[0].get_ylabel()


def test_a_share_of_zero_lies_above_the_axis(result: Result) -> None:
    nobody = result.tables["switching"].with_columns(switched_ratio=pl.when(pl.col("users") > 0).then(0.0))
    [axes] = draw(with_table(result, "switching", nobody), "switching").axes
    assert -0.1 < axes.get_ylim()[0] < 0
    assert [tick for tick in axes.get_yticks() if tick < 0] == []


def test_transitions_are_shares_of_the_row(result: Result) -> None:
    drawing = draw(result, "transitions")
    axes = drawing.axes[0]
    assert cells(drawing) == [[0.75, 0.25, 0.0], [None, None, None], [0.0, 1.0, 0.0]]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["one  1", "two  2", "Others"]
    assert [(text.get_text(), text.get_rotation()) for text in axes.get_xticklabels()] == [("1", 0), ("2", 0), ("Others", 90)]
    assert axes.get_ylabel() == "Main model in a period"


def test_transitions_between_models_with_long_names_are_legible(result: Result) -> None:
    """Four models that are called by identifiers of 36 letters: every word lies in the picture, which is a map first of all."""
    called = [f"{place}c75da6-8b9f-58d1-8615-b35f9186{place}cc3" for place in range(1, 5)]
    shares = pl.DataFrame({"model": called, "rank": [1, 2, 3, 4]})
    moves = [(one, other, 0.25) for one in called for other in called]
    table = pl.DataFrame(moves, ["from_model", "to_model", "users_ratio"], orient="row")
    drawing = draw(with_table(with_table(result, "model_share", shares), "transitions", table), "transitions")
    drawing.draw_without_rendering()
    axes, bar = drawing.axes
    whole = drawing.bbox
    texts = [axes.xaxis.label, axes.yaxis.label, bar.yaxis.label, *axes.get_xticklabels(), *axes.get_yticklabels()]
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= whole.x1
        assert box.y1 <= whole.y1
    assert len({text.get_text() for text in axes.get_yticklabels()}) == 4
    assert axes.get_window_extent().width > 0.35 * whole.width
    assert axes.get_window_extent().height > 0.6 * whole.height


def test_drift_is_drawn_with_its_levels_and_reference(result: Result) -> None:
    drawing = draw(result, "drift")
    upper, lower = drawing.axes
    table = result.tables["drift"]
    own = [table.filter(column=f"{side}_tokens") for side in ("input", "output")]
    curves = [line for line in drawn(upper) if len(line) == 4]
    assert curves == [one["psi"].to_list() for one in own]
    factors = [line for line in drawn(lower) if len(line) == 4]
    assert factors == [pytest.approx((10 ** one["wasserstein_log10"]).to_list()) for one in own]
    assert [0.1, 0.1] in drawn(upper)
    assert [0.25, 0.25] in drawn(upper)
    places = [np.asarray(line.get_xdata(), float).tolist() for line in upper.get_lines()]
    verticals = {x[0] for x, y in zip(places, drawn(upper), strict=True) if y == [0, 1]}
    assert verticals == {places[0][1]}
    assert upper.get_ylim()[1] > 1.5
    assert "the first whole period" in words(drawing)
    assert "3 of 6 points are noise" in words(drawing)


def test_a_reference_alone_is_no_drift(result: Result) -> None:
    alone = with_table(result, "drift", result.tables["drift"].filter("is_reference"))
    with pytest.raises(style.NoDataError, match="nothing to compare it with"):
        draw(alone, "drift")


def test_everything_is_drawn(result: Result) -> None:
    assert tuple(name for name, _ in figures.figures(result, pytest.fail)) == figures.names("evolution") == tuple(FIGURES)


def test_what_is_not_there_is_not_drawn(result: Result) -> None:
    said: list[str] = []
    empty = replace(result, tables={name: table.clear() for name, table in result.tables.items()})
    for nothing in (empty, replace(result, tables={}), replace(empty, scalars={})):
        assert list(figures.figures(nothing, said.append)) == []
    assert [line.split(" is not drawn: ")[0] for line in said] == [f"Figure {name}" for name in figures.names("evolution")] * 3


def test_cohorts_of_which_nobody_comes_back_are_white(result: Result) -> None:
    nobody = result.tables["retention"].with_columns(pl.when(pl.col("age") == 0).then(1.0).otherwise(0.0).alias("retained_ratio"))
    axes, bar = draw(with_table(result, "retention", nobody), "retention").axes
    [mesh] = [collection for collection in axes.collections if isinstance(collection, QuadMesh)]
    assert mesh.get_clim() == (0, 1)
    assert bar.get_ylabel() == "Users that are active (%)"
