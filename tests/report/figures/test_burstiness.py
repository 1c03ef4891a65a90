"""The figures of `burstiness`, read back from their artists and compared with the tables they show."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.dates import date2num

from llmtrace.report import style
from llmtrace.report.figures.burstiness import FIGURES
from llmtrace.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

START = datetime(2025, 4, 11)


@pytest.fixture
def result() -> Result:
    generator = np.random.default_rng(4)
    widths = [1.0, 2.0, 10.0, 60.0, 3600.0, 86_400.0]
    windows = [window for window in range(40) if window not in (10, 11, 30)]
    gap_s = np.geomspace(1e-5, 30, 50)
    by_hour = {
        "model": [f"m{number}" for number in range(60)],
        "mean_requests_per_hour": 10 ** generator.uniform(1, 4, 60),
        "cv_mean": generator.lognormal(0.2, 0.8, 60),
        "lag1_spearman": [None, *generator.uniform(-0.2, 0.9, 59)],
    }
    tables = {
        "by_hour": pl.DataFrame(by_hour),
        "dispersion": pl.DataFrame(
            {
                "window_s": widths,
                "windows": [9_000, 4_500, 900, 150, 10, 2],
                "index_of_dispersion": [1.1, 1.5, 3.0, 8.0, 40.0, None],
            }
        ),
        "cv_windows": pl.DataFrame(
            {
                "time": [START + timedelta(minutes=5 * window) for window in windows],
                "requests_per_s": generator.uniform(1, 4, len(windows)),
                "cv": [None, *generator.uniform(1, 4, len(windows) - 1)],
            }
        ).with_columns(pl.col("time").cast(pl.Datetime("us"))),
        "survival": pl.DataFrame(
            {
                "gap_s": gap_s,
                "empirical": [*np.geomspace(1, 1e-5, 49), 0.0],
                "exponential": np.exp(-gap_s),
                "gamma": None,
                "weibull": np.exp(-(gap_s**0.5)),
                "lognormal": np.exp(-(gap_s**0.4)),
            },
            schema_overrides={"gamma": pl.Float64},
        ),
    }
    return Result("burstiness", {"by": "model"}, {}, tables, "by_hour")


def draw(name: str, result: Result) -> Figure:
    with style.look():
        drawing = FIGURES[name](result)
        style.save(drawing, "png")
    return drawing


def without(result: Result, name: str) -> Result:
    return replace(result, tables={**result.tables, name: result.tables[name].clear()})


def labels(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def test_dispersion(result: Result) -> None:
    drawing = draw("dispersion", result)
    [axes] = drawing.axes
    measured, poisson = axes.get_lines()
    assert np.asarray(measured.get_xdata()).tolist() == [1.0, 2.0, 10.0, 60.0, 3600.0]
    assert np.asarray(measured.get_ydata()).tolist() == [1.1, 1.5, 3.0, 8.0, 40.0]
    assert set(np.asarray(poisson.get_ydata())) == {1}
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert labels(axes) == ["1 s", "10 s", "1 min", "10 min", "1 h"]
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == ["this trace", "Poisson stream"]


def test_dispersion_of_few_windows_is_hollow(result: Result) -> None:
    table = result.tables["dispersion"].with_columns(windows=pl.Series([50, 25, 10, 9, 4, 2]))
    drawing = draw("dispersion", replace(result, tables={"dispersion": table}))
    hollow = drawing.axes[0].get_lines()[1]
    assert [list(data) for data in hollow.get_data()] == [[60.0, 3600.0], [8.0, 40.0]]  # type: ignore[arg-type]
    assert hollow.get_markerfacecolor() == "white"
    assert "hollow: fewer than 10 windows" in drawing.get_supxlabel()
    assert "hollow" not in draw("dispersion", result).get_supxlabel()


def test_load_and_cv(result: Result) -> None:
    drawing = draw("load_and_cv", result)
    axes, scale = drawing.axes
    [mesh] = [artist for artist in axes.collections if isinstance(artist, PolyCollection)]
    assert np.asarray(mesh.get_array()).sum() == result.tables["by_hour"].height
    assert (axes.get_xscale(), axes.get_yscale(), scale.get_ylabel()) == ("log", "log", "Models")


def test_load_and_lag1_shows_the_sign_without_colours_too(result: Result) -> None:
    drawing = draw("load_and_lag1", result)
    above, below = (artist for artist in drawing.axes[0].collections if isinstance(artist, PathCollection))
    known = result.tables["by_hour"].filter(pl.col("lag1_spearman").is_not_null())
    for dots, keys in ((above, known.filter(pl.col("lag1_spearman") >= 0)), (below, known.filter(pl.col("lag1_spearman") < 0))):
        assert keys.height > 3
        np.testing.assert_array_equal(dots.get_offsets(), keys.select("mean_requests_per_hour", "cv_mean").to_numpy())
        np.testing.assert_array_equal(dots.get_array(), keys["lag1_spearman"].to_numpy())
        assert (dots.norm.vmin, dots.norm.vmax) == (-1, 1)
    assert len(above.get_paths()[0]) != len(below.get_paths()[0])
    assert "triangles: below zero" in drawing.get_supxlabel()


def test_load_and_lag1_explains_no_triangles_where_there_are_none(result: Result) -> None:
    positive = result.tables["by_hour"].with_columns(pl.col("lag1_spearman").abs())
    drawing = draw("load_and_lag1", replace(result, tables={"by_hour": positive}))
    assert len([artist for artist in drawing.axes[0].collections if isinstance(artist, PathCollection)]) == 1
    assert "triangles" not in drawing.get_supxlabel()


def test_cv_over_time_breaks_where_windows_are_missing(result: Result) -> None:
    above, below = draw("cv_over_time", result).axes
    table = result.tables["cv_windows"]
    for axes, name in ((above, "requests_per_s"), (below, "cv")):
        line = axes.get_lines()[0]
        x, y = (np.asarray(data, np.float64) for data in line.get_data())
        shown = dict(zip(x, y, strict=True))
        positions = date2num(table["time"].to_numpy())  # type: ignore[no-untyped-call]
        np.testing.assert_array_equal([shown.pop(at) for at in positions], table[name].to_numpy())
        assert len(shown) == 2
        assert np.isnan(list(shown.values())).all()
        assert axes.get_ylim()[1] > np.nanmax(y)


@pytest.mark.parametrize(
    ("name", "other"), [("load_and_cv", "models"), ("load_and_lag1", "a model"), ("cv_over_time", "this trace")]
)
def test_the_line_at_one_is_named(result: Result, name: str, other: str) -> None:
    drawing = draw(name, result)
    poisson = drawing.axes[1 if name == "cv_over_time" else 0].get_lines()[-1]
    assert set(np.asarray(poisson.get_ydata())) == {1}
    [legend] = drawing.legends
    assert [text.get_text() for text in legend.get_texts()] == [other, "Poisson stream"]
    named = legend.get_lines()[-1]
    assert (named.get_color(), named.get_linestyle()) == (poisson.get_color(), poisson.get_linestyle())


def test_survival(result: Result) -> None:
    drawing = draw("survival", result)
    [axes] = drawing.axes
    table = result.tables["survival"].head(49)
    for line, name in zip(axes.get_lines(), ["empirical", "exponential", "weibull", "lognormal"], strict=True):
        np.testing.assert_array_equal(line.get_xdata(), table["gap_s"].to_numpy())
        np.testing.assert_array_equal(line.get_ydata(), table[name].to_numpy())
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == ["measured", "exponential", "Weibull", "lognormal"]
    assert [text.get_text() for text in axes.get_yticklabels() if "e" in text.get_text()] == []
    low, high = axes.get_ylim()
    assert 0 < low < 1e-5
    assert high > 1


def test_survival_is_that_of_positive_gaps(result: Result) -> None:
    ties = replace(result, scalars={"tie_share": 0.902})
    drawing = draw("survival", ties)
    assert drawing.axes[0].get_ylabel().replace("\n", " ") == "Share of positive gaps that are longer"
    assert "zero gaps (90.2% of all) are left out" in drawing.get_supxlabel()
    for without in (replace(result, scalars={"tie_share": 0.0}), replace(ties, parameters={"jitter": 1})):
        assert "zero" not in draw("survival", without).get_supxlabel()


def test_gaps_that_are_alike_have_an_axis_around_them(result: Result) -> None:
    alike = result.tables["survival"].with_columns(gap_s=np.linspace(2.997, 3.003, 50))
    [axes] = draw("survival", replace(result, tables={"survival": alike})).axes
    low, high = axes.get_xlim()
    shown = [float(tick.get_text()) for tick in axes.get_xticklabels() if low <= tick.get_position()[0] <= high]
    assert shown == pytest.approx([2.97, 2.98, 2.99, 3, 3.01, 3.02, 3.03])


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        ("load_and_cv", {"Mean CV of positive gaps within clock hours"}),
        ("load_and_lag1", {"Mean CV of positive gaps within clock hours", "Lag-1 Spearman of positive gaps, across hours"}),
        ("cv_over_time", {"CV of all gaps within 5 min"}),
        ("survival", {"Share of positive gaps that are longer", "Gap between requests, across hours (s)"}),
    ],
)
def test_axes_name_the_protocol(result: Result, figure: str, expected: set[str]) -> None:
    axes = draw(figure, result).axes
    assert expected <= {label.replace("\n", " ") for one in axes for label in (one.get_xlabel(), one.get_ylabel())}


@pytest.mark.parametrize(
    ("figure", "table", "reason"),
    [
        ("dispersion", "dispersion", "two windows"),
        ("load_and_cv", "by_hour", "no model has more than 100 requests"),
        ("load_and_lag1", "by_hour", "no model has more than 100 requests"),
        ("cv_over_time", "cv_windows", "5 minutes"),
        ("survival", "survival", "positive gaps"),
    ],
)
def test_a_figure_without_data_says_why(result: Result, figure: str, table: str, reason: str) -> None:
    with pytest.raises(style.NoDataError, match=reason):
        FIGURES[figure](without(result, table))


def test_what_a_logarithmic_axis_cannot_show_is_left_out(result: Result) -> None:
    still = result.tables["by_hour"].with_columns(pl.lit(0.0).alias("cv_mean"))
    with pytest.raises(style.NoDataError):
        FIGURES["load_and_cv"](replace(result, tables={"by_hour": still}))
    unknown = result.tables["by_hour"].with_columns(pl.lit(None, pl.Float64).alias("lag1_spearman"))
    with pytest.raises(style.NoDataError, match="vary"):
        FIGURES["load_and_lag1"](replace(result, tables={"by_hour": unknown}))
