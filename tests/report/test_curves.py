from __future__ import annotations

from datetime import datetime

import numpy as np
import polars as pl
from matplotlib.collections import LineCollection, PolyCollection

from llmtrace.report import style
from llmtrace.report.curves import band, distributions, with_breaks
from llmtrace.result import Result

CURVES = pl.DataFrame(
    {
        "name": [None, None, "b", "b", "a", "a"],
        "value": [0.0, 4.0, 1.0, 2.0, 3.0, 5.0],
        "cumulative_ratio": [0.5, 1.0, 0.25, 1.0, 0.75, 1.0],
    }
)


def drawn(curves: pl.DataFrame, *, from_zero: bool = False) -> tuple[list[list[tuple[float, float]]], list[str]]:
    """The points of each line, and the legend."""
    drawing, (axes,) = style.figure(Result("stats", {}, {}, {}, ""))
    distributions(drawing, axes, curves, by="name", value="value", from_zero=from_zero)
    names = [text.get_text() for legend in drawing.legends for text in legend.get_texts()]
    return [list(map(tuple, line.get_xydata())) for line in axes.lines], names  # type: ignore[arg-type]


def test_all_requests_come_first_and_groups_in_their_order() -> None:
    lines, names = drawn(CURVES)
    assert lines == [[(0, 0.5), (4, 1)], [(1, 0.25), (2, 1)], [(3, 0.75), (5, 1)]]
    assert names == ["all requests", "b", "a"]


def test_a_curve_from_zero_shows_those_who_have_nothing_as_a_step() -> None:
    lines, _ = drawn(CURVES, from_zero=True)
    assert [line[0] for line in lines] == [(0, 0)] * 3
    assert lines[0][1] == (0, 0.5)


def test_without_groups_there_is_one_line_and_no_legend() -> None:
    lines, names = drawn(CURVES.filter(pl.col("name").is_null()))
    assert (len(lines), names) == (1, [])


def test_more_groups_than_looks_begin_again() -> None:
    many = pl.concat([CURVES.filter(pl.col("name") == "a").with_columns(pl.lit(f"m{one}").alias("name")) for one in range(9)])
    assert len(drawn(many)[0]) == 10


def test_a_line_breaks_where_a_step_is_missing() -> None:
    times = [datetime(2025, 4, 11, hour) for hour in (0, 1, 4, 5)]
    found = with_breaks(pl.DataFrame({"time": times, "rate": [1, 2, 3, 4]}), 3_600)
    assert found.rows() == [
        (times[0], 1),
        (times[1], 2),
        (datetime(2025, 4, 11, 2), None),
        (times[2], 3),
        (times[3], 4),
    ]


def test_a_band_between_two_gaps_is_a_bar() -> None:
    _, (axes,) = style.figure(Result("stats", {}, {}, {}, ""))
    low, high = pl.Series([1, 2, None, 3, None, 4, 5]), pl.Series([2, 4, None, 9, None, 6, 7])
    band(axes, np.arange(7.0), low, high, "#8FBEDD")
    filled, alone = axes.collections
    assert isinstance(filled, PolyCollection)
    assert [np.asarray(path.vertices)[:, 0].max() for path in filled.get_paths()] == [1, 3, 6]
    assert isinstance(alone, LineCollection)
    assert [np.asarray(bar).tolist() for bar in alone.get_segments()] == [[[3, 3], [3, 9]]]


def test_a_band_without_gaps_is_filled_alone() -> None:
    _, (axes,) = style.figure(Result("stats", {}, {}, {}, ""))
    band(axes, np.arange(2.0), pl.Series([1, 2]), pl.Series([2, 4]), "#8FBEDD")
    assert len(axes.collections) == 1
