"""The figures of `reuse-time`, read back from their artists and compared with the tables they show."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.patches import PathPatch

from llmtrace.report import style
from llmtrace.report.figures.reuse_time import BANDS, FIGURES
from llmtrace.result import Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TTLS_S = [0.001, 0.1, 1.0, 60.0, 3_600.0, 43_200.0, 604_800.0]


@pytest.fixture
def result() -> Result:
    shares = np.linspace(0.1, 1, len(TTLS_S))
    months = [datetime(2025, month, 1) for month in range(4, 9)]
    percentiles = {f"p{percent}_s": percent * np.arange(1.0, 6.0) for percent in (10, 25, 50, 75, 90)}
    box = {"min_s": 0.5, "p5_s": 10.0, "p25_s": 100.0, "p50_s": 200.0, "p75_s": 1_000.0, "p95_s": 9_000.0, "max_s": 9e5}
    tables = {
        "coverage": pl.DataFrame(
            {
                "ttl_s": TTLS_S,
                "covered_ratio": shares,
                "covered_ratio_all": shares * 0.9,
                "covered_requests_ratio": shares * 0.8,
                "covered_input_tokens_ratio": shares * 0.7,
                "retained_token_seconds": np.geomspace(1e6, 1e15, len(TTLS_S)),
                "wasted_token_seconds": np.geomspace(1e5, 1e14, len(TTLS_S)),
            }
        ),
        "by_month": pl.DataFrame({"month": months, **percentiles, "partial": [True, False, False, False, True]}),
        "by_model": pl.DataFrame(
            {
                "model": ["org/one", "two", "three"],
                "users": [7, 5, 0],
                **{name: [at, 2 * at, None] for name, at in box.items()},
            }
        ),
    }
    return Result("reuse-time", {"min_gaps": 10}, {"zero_gap_ratio": 0.125}, tables, "anchors")


def draw(result: Result, name: str) -> Figure:
    with style.look():
        drawing = FIGURES[name](result)
        style.save(drawing, "png")
    return drawing


def lines(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """The data of lines with more than two points, by colour."""
    found = [line for line in axes.get_lines() if len(line.get_xdata()) > 2]  # type: ignore[arg-type]
    return {str(line.get_color()): (list(line.get_xdata()), list(line.get_ydata())) for line in found}  # type: ignore[arg-type]


def words(drawing: Figure) -> str:
    texts = [*drawing.texts, *(text for legend in drawing.legends for text in legend.get_texts())]
    return " ".join(text.get_text() for text in texts).replace("\n", " ")


def changed(result: Result, name: str, table: pl.DataFrame) -> Result:
    tables: Mapping[str, pl.DataFrame] = {**result.tables, name: table}
    return replace(result, tables=tables)


def test_coverage_draws_both_shares_and_says_which_is_which(result: Result) -> None:
    drawing = draw(result, "coverage")
    [axes] = drawing.axes
    table = result.tables["coverage"]
    drawn = lines(axes)
    assert drawn[style.LINES[0][0]] == (TTLS_S, table["covered_ratio"].to_list())
    assert drawn[style.OVERALL[0]] == (TTLS_S, table["covered_ratio_all"].to_list())
    assert "positive gaps of eligible keys all gaps of all keys" in words(drawing)
    assert "positive gaps of keys that have at least 10; zero gaps (12.50% of all)" in words(drawing)
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.texts] == ["1 min\n55%", "1 h\n70%", "12 h\n85%"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1 ms", "0.1 s", "1 s", "1 min", "1 h", "1 d"]


def test_coverage_without_eligible_keys_draws_all_gaps_alone(result: Result) -> None:
    table = result.tables["coverage"].with_columns(covered_ratio=pl.lit(None, pl.Float64))
    [axes] = draw(changed(result, "coverage", table), "coverage").axes
    assert list(lines(axes)) == [style.OVERALL[0]]


def test_tokens_draws_what_is_covered_and_what_that_takes(result: Result) -> None:
    drawing = draw(result, "tokens")
    above, below = drawing.axes
    table = result.tables["coverage"]
    assert [y for _, y in lines(above).values()] == [
        table[name].to_list() for name in ("covered_requests_ratio", "covered_input_tokens_ratio")
    ]
    reused = (table["retained_token_seconds"] - table["wasted_token_seconds"]).to_list()
    assert [y for _, y in lines(below).values()] == [reused, table["wasted_token_seconds"].to_list()]
    assert below.get_yscale() == "log"


def test_tokens_without_tokens_draws_requests_alone(result: Result) -> None:
    names = ("covered_input_tokens_ratio", "retained_token_seconds", "wasted_token_seconds")
    table = result.tables["coverage"].with_columns(pl.lit(None, pl.Float64).alias(name) for name in names)
    [axes] = draw(changed(result, "coverage", table), "tokens").axes
    assert len(lines(axes)) == 1


def test_by_month_draws_bands_and_hollow_partial_months(result: Result) -> None:
    drawing = draw(result, "by_month")
    [axes] = drawing.axes
    table = result.tables["by_month"]
    line = axes.get_lines()[0]
    assert list(line.get_ydata()) == table["p50_s"].to_list()  # type: ignore[arg-type]
    bands = [one for one in axes.collections if isinstance(one, PolyCollection)]
    for (low, high, _), band in zip(BANDS, bands, strict=True):
        ys = np.asarray(band.get_paths()[0].vertices)[:, 1]
        assert set(table[low]) | set(table[high]) == set(ys)
    filled, hollow = axes.get_lines()[1:]
    assert [np.size(points.get_xdata()) for points in (filled, hollow)] == [3, 2]
    assert hollow.get_markerfacecolor() == "white"
    assert "hollow: 2 partial months" in words(drawing)
    assert axes.get_ylim() == pytest.approx((10 / 10**0.3, 450 * 10**0.3))


def test_a_single_month_has_a_band_too(result: Result) -> None:
    [axes] = draw(changed(result, "by_month", result.tables["by_month"].head(1)), "by_month").axes
    widths = [np.ptp(np.asarray(one.get_paths()[0].vertices)[:, 0]) for one in axes.collections[:2]]
    assert widths == pytest.approx([0.2, 0.2])
    assert np.ptp(axes.get_xlim()) == pytest.approx(1)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["2025-04"]


def test_by_model_draws_a_box_for_each_model_with_users(result: Result) -> None:
    [axes] = draw(result, "by_model").axes
    boxes = [np.asarray(patch.get_path().vertices)[:, 0] for patch in axes.patches if isinstance(patch, PathPatch)]
    assert [3_600 * edge for xs in boxes for edge in (xs.min(), xs.max())] == pytest.approx([100, 1_000, 200, 2_000])
    assert axes.get_xlabel() == "Median gap of a user (h)"
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["one\n7 users", "two\n5 users"]
    assert axes.yaxis_inverted()


def test_long_names_of_models_lie_apart_and_differ(result: Result) -> None:
    names = [f"3a8909db-18{number}4-5d0b-88f5-bd8f380d36{number}1" for number in range(5)]
    row = result.tables["by_model"].head(1).drop("model")
    drawing = draw(changed(result, "by_model", pl.concat([row] * 5).insert_column(0, pl.Series("model", names))), "by_model")
    FigureCanvasAgg(drawing).draw()  # type: ignore[no-untyped-call]
    labels = drawing.axes[0].get_yticklabels()
    assert len({label.get_text() for label in labels}) == 5
    spans = sorted((box.y0, box.y1) for box in (label.get_window_extent() for label in labels))
    assert all(lower[1] < upper[0] for lower, upper in pairwise(spans))


@pytest.mark.parametrize(
    ("name", "table", "reason"),
    [
        ("coverage", "coverage", "no key comes back"),
        ("tokens", "coverage", "no key comes back"),
        ("by_month", "by_month", "no user has enough gaps in a month"),
        ("by_model", "by_model", "no highlighted model has users"),
    ],
)
def test_what_is_not_there_is_not_drawn(result: Result, name: str, table: str, reason: str) -> None:
    with pytest.raises(style.NoDataError, match=reason):
        FIGURES[name](changed(result, table, result.tables[table].clear()))


@pytest.mark.parametrize("name", ["coverage", "tokens"])
def test_a_single_ttl_is_no_curve(result: Result, name: str) -> None:
    with pytest.raises(style.NoDataError, match="no key comes back later than the shortest TTL"):
        FIGURES[name](changed(result, "coverage", result.tables["coverage"].head(1)))
