"""The look of figures: nothing global changes, nothing is cut off, the same figure is the same file."""

from __future__ import annotations

import struct
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import num2date
from matplotlib.text import Text

from llmtrace.report import figures, style
from llmtrace.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

START = datetime(2025, 4, 11)


def drawn(result: Result) -> dict[str, Figure]:
    return dict(figures.figures(result, lambda _: None))


def a_figure(result: Result) -> Figure:
    with style.look():
        drawing, (axes,) = style.figure(result)
        lines = [
            style.line(axes, np.arange(3.0), pl.Series([1, None, 3]), look, marked=True) for look in (style.OVERALL, *style.LINES)
        ]
        style.legend(
            drawing, lines, style.names([f"organisation/an-endless-model-name-{one}-instruct" for one in range(len(lines))])
        )
        style.count_axis(axes, "Requests per day")
    return drawing


@pytest.mark.parametrize("file_format", ["png", "svg", "pdf"])
def test_the_same_figure_is_the_same_file(hour: Result, file_format: str) -> None:
    first, second = (style.save(a_figure(hour), file_format) for _ in range(2))
    assert first == second
    assert b"Software" not in first
    assert b"<dc:date>" not in first
    assert b"/CreationDate" not in first


def test_a_png_is_half_a_page_wide_in_print_quality(hour: Result) -> None:
    png = style.save(a_figure(hour), "png")
    assert struct.unpack(">I", png[16:20])[0] == 3.5 * 300


def test_settings_of_the_user_neither_matter_nor_change(hour: Result) -> None:
    plain = style.save(a_figure(hour), "png")
    with mpl.rc_context({"font.size": 30, "axes.grid": False, "lines.linewidth": 9, "text.usetex": False}):
        before = dict(mpl.rcParams)
        assert style.save(a_figure(hour), "png") == plain
        assert dict(mpl.rcParams) == before


def laid_out(drawing: Figure) -> Bbox:
    """Give every artist its place, and return the box (inches) around all that is shown."""
    canvas = FigureCanvasAgg(drawing)
    with style.look():
        canvas.draw()  # type: ignore[no-untyped-call]
        return drawing.get_tightbbox(canvas.get_renderer())  # type: ignore[no-untyped-call]


def test_every_text_is_legible_and_nothing_is_cut_off(year: Result, hour: Result) -> None:
    for name, drawing in [*drawn(year).items(), *drawn(hour).items()]:
        box, (width, height) = laid_out(drawing), drawing.get_size_inches()
        assert (box.x0 >= 0, box.y0 >= 0, box.x1 <= width, box.y1 <= height) == (True,) * 4, name
        texts = [artist for artist in drawing.findobj(Text) if artist.get_text()]
        assert min(float(text.get_fontsize()) for text in texts) >= 5.5


def test_long_names_leave_room_for_the_axes(hour: Result) -> None:
    drawing = a_figure(hour)
    assert laid_out(drawing).x1 <= 3.5
    assert drawing.axes[0].get_position().height > 0.35


def test_lines_differ_in_more_than_colour() -> None:
    looks = [style.OVERALL, *style.LINES]
    for part in range(3):
        assert len({str(look[part]) for look in looks}) == len(looks)


def test_a_long_caption_is_cut_visibly(hour: Result) -> None:
    long = Result("stats", {}, {}, {}, "", provenance={**hour.provenance, "filters": {"where": "input_tokens > 0 and " * 40}})
    with style.look():
        drawing, _ = style.figure(long)
    caption = drawing.get_supxlabel()
    assert caption.replace("\n", " ").startswith(
        "conversation_trace.jsonl · 58 min 57 s on a relative clock · where input_tokens > 0"
    )
    assert caption.endswith(" …")
    assert len(caption.splitlines()) == 3


def test_text_is_text_whatever_it_holds(hour: Result) -> None:
    odd = ["_hidden", "$x$", "a\\frac{b", "中文", "a\nb", "caf\udce9"]
    result = Result("stats", {}, {}, {}, "", provenance={**hour.provenance, "sources": [f"{name}.csv" for name in odd]})
    with style.look():
        drawing, (axes,) = style.figure(result)
        lines = [style.line(axes, np.arange(2.0), pl.Series([1, 2]), look) for look in style.LINES]
        style.legend(drawing, lines, style.names(odd))
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == [
        " _hidden",
        "$x$",
        "a\\frac{b",
        "中文",
        "a\\nb",
        "caf\\udce9",
    ]
    for file_format in ("png", "svg", "pdf"):
        assert style.save(drawing, file_format)


def test_names_with_stacked_marks_leave_room_for_the_axes(hour: Result) -> None:
    # Those that the font does not have are boxes, one above the other.
    called = [letter + "\u036b" * 17 for letter in "ZXY"]
    with style.look():
        drawing, (axes,) = style.figure(hour)
        lines = [style.line(axes, np.arange(2.0), pl.Series([1, 2]), look) for look in style.LINES[:3]]
        style.legend(drawing, lines, style.names(called))
        drawing.draw_without_rendering()
    lowest = min(text.get_window_extent().y0 for text in drawing.legends[0].get_texts())
    assert lowest >= axes.get_window_extent().y1
    assert axes.get_position().height > 0.35


def test_what_the_font_does_not_have_can_be_measured(hour: Result) -> None:
    with style.look():
        drawing, (axes,) = style.figure(hour)
        lines = [style.line(axes, np.arange(2.0), pl.Series([1, 2]), look) for look in style.LINES[:2]]
        style.legend(drawing, lines, ["通义千问", "名前モデル"])
        assert drawing.legends[0].get_window_extent().height > 0


def test_a_line_alone_needs_no_legend(hour: Result) -> None:
    with style.look():
        drawing, (axes,) = style.figure(hour)
        style.legend(drawing, [style.line(axes, np.arange(2.0), pl.Series([1, 2]), style.LINES[0])], ["all"])
    assert not drawing.legends


@given(st.lists(st.text(min_size=1), max_size=6, unique=True))
def test_short_names_differ_and_fit(wanted: list[str]) -> None:
    short = style.names(wanted)
    assert len(set(short)) == len(wanted)
    assert all(len(name) <= style.NAME_LENGTH + 4 for name in short)


def test_a_line_breaks_where_nothing_is_known(hour: Result) -> None:
    with style.look():
        _, (axes,) = style.figure(hour)
        line = style.line(axes, np.arange(3.0), pl.Series([1, None, 3], dtype=pl.Int64), style.LINES[0])
    np.testing.assert_array_equal(line.get_ydata(), [1.0, np.nan, 3.0])


@pytest.mark.parametrize("marker", ["o", ""])
def test_a_point_between_two_gaps_is_a_dot(hour: Result, marker: str) -> None:
    values = [5, None, 1, 2, None, 7, None, *[3] * 100, None, 4]
    with style.look():
        _, (axes,) = style.figure(hour)
        line = style.line(axes, np.arange(float(len(values))), pl.Series(values), ("#000000", "-", marker))
    assert line.get_marker() == "o"
    assert line.get_markevery() == [0, 5, len(values) - 1]


def test_a_long_line_without_gaps_has_no_dots(hour: Result) -> None:
    with style.look():
        _, (axes,) = style.figure(hour)
        line = style.line(axes, np.arange(100.0), pl.Series(range(100)), style.LINES[0])
    assert not line.get_marker()


def test_a_marked_line_shows_some_points_and_those_between_gaps(hour: Result) -> None:
    values = [1, None, *range(2, 158), None, 9]
    with style.look():
        _, (axes,) = style.figure(hour)
        line = style.line(axes, np.arange(160.0), pl.Series(values), style.LINES[0], marked=True)
    assert line.get_markevery() == [0, *range(10, 160, 20), 159]


@pytest.mark.parametrize("dtype", [pl.Datetime("us"), pl.Datetime("ms"), pl.Date])
def test_dates_stay_dates(hour: Result, dtype: pl.DataType) -> None:
    times = [START + timedelta(days=one) for one in range(5)]
    with style.look():
        _, (axes,) = style.figure(hour)
        positions = style.time_axis(axes, pl.Series(times).cast(dtype))
    assert [one.replace(tzinfo=None) for one in num2date(positions)] == times  # type: ignore[no-untyped-call]
    assert axes.get_xlabel() == "Time (UTC)"


@pytest.mark.parametrize(
    ("span_s", "unit", "size"), [(100, "s", 1), (120, "min", 60), (7_200, "h", 3_600), (200_000, "days", 86_400)]
)
def test_relative_time_has_a_fitting_unit(hour: Result, span_s: float, unit: str, size: float) -> None:
    with style.look():
        _, (axes,) = style.figure(hour)
        positions = style.time_axis(axes, pl.Series([-10.0, span_s - 10]))
    assert axes.get_xlabel() == f"Time since first request ({unit})"
    assert positions.tolist() == [-10 / size, (span_s - 10) / size]


def test_one_relative_time_has_the_unit_of_its_distance(hour: Result) -> None:
    with style.look():
        _, (axes,) = style.figure(hour)
        positions = style.time_axis(axes, pl.Series([3_211_200.0]))
    assert axes.get_xlabel() == "Time since first request (days)"
    assert positions.tolist() == [3_211_200 / 86_400]


def test_a_single_moment_has_an_axis_around_it(hour: Result) -> None:
    with style.look():
        _, (axes,) = style.figure(hour)
        style.time_axis(axes, pl.Series([0.0]))
    assert axes.get_xlim() == (-0.5, 0.5)


@pytest.mark.parametrize(
    ("time", "expected"),
    [(START, "2025-04-11"), (datetime(2023, 11, 16, 18, 15), "2023-11-16 18:15:00"), (0.0, "0"), (5_400.0, "90")],
)
def test_a_single_moment_is_all_that_its_axis_names(hour: Result, time: object, expected: str) -> None:
    with style.look():
        drawing, (axes,) = style.figure(hour)
        axes.plot(style.time_axis(axes, pl.Series([time])), [1], "o")
    laid_out(drawing)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [expected]
    assert not axes.xaxis.get_offset_text().get_text()


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [((6, 1_430), "2025-Apr-11"), ((0, 90), "2025-Apr-11"), ((0, 4_000), "2025-Apr"), ((1_438, 1_439), "2025-Apr-11 23:59")],
)
def test_the_corner_names_a_time_of_the_data(hour: Result, minutes: tuple[int, int], expected: str) -> None:
    times = [START + timedelta(minutes=minute) for minute in minutes]
    with style.look():
        drawing, (axes,) = style.figure(hour)
        axes.plot(style.time_axis(axes, pl.Series(times)), [1, 2])
    laid_out(drawing)
    assert axes.xaxis.get_offset_text().get_text() == expected


def test_ticks_have_prefixes_and_counts_no_fractions(hour: Result) -> None:
    with style.look():
        drawing, (above, below) = style.figure(hour, panels=2)
        above.plot([0, 1], [0, 17_000_000])
        style.count_axis(above, "Requests")
        below.plot([0, 1], [0, 0])
        style.count_axis(below, "Requests")
    laid_out(drawing)
    assert [tick.get_text() for tick in above.get_yticklabels()][:2] == ["0", "5 M"]
    assert below.get_ylim() == (0, 1)
    assert {"0", "1"} <= {tick.get_text() for tick in below.get_yticklabels()}


@pytest.mark.parametrize("ends", [(270, 1_400), (520, 780), (14, 180), (2_200, 19_000)])
def test_a_logarithmic_axis_has_two_numbers_wherever_it_ends(hour: Result, ends: tuple[float, float]) -> None:
    with style.look():
        drawing, (axes,) = style.figure(hour)
        style.log_axis(axes, "Tokens", prefixes=True, vertical=True)
        axes.plot([0, 1], ends)
    laid_out(drawing)
    low, high = axes.get_ylim()
    shown = [tick for tick, text in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True) if text.get_text()]
    assert len([tick for tick in shown if low <= tick <= high]) >= 2
