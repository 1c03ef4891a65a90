"""The figures of `stats`, read back from their artists and compared with the tables they show."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.dates import date2num

from llmtrace.report import style
from llmtrace.report.figures.stats import FIGURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from numpy.typing import NDArray

    from llmtrace.result import Result


def draw(name: str, result: Result) -> Figure:
    with style.look():
        return FIGURES[name](result)


def dates(table: pl.DataFrame) -> NDArray[np.float64]:
    return np.asarray(date2num(table["time"].to_numpy()))  # type: ignore[no-untyped-call]


def x(line: Line2D) -> NDArray[np.float64]:
    return np.asarray(line.get_xdata(), dtype=float)


def y(line: Line2D) -> NDArray[np.float64]:
    return np.asarray(line.get_ydata(), dtype=float)


def column(table: pl.DataFrame, name: str) -> NDArray[np.float64]:
    return table[name].cast(pl.Float64).to_numpy()


def legend(drawing: Figure) -> list[str]:
    return [text.get_text() for legend in drawing.legends for text in legend.get_texts()]


def with_table(result: Result, name: str, table: pl.DataFrame) -> Result:
    return replace(result, tables={**result.tables, name: table})


def same(line: Line2D, table: pl.DataFrame, name: str) -> None:
    np.testing.assert_array_equal(y(line), column(table, name))


def test_requests(year: Result) -> None:
    rates = year.tables["rates"]
    drawing = draw("requests", year)
    (axes,) = drawing.axes
    every, failed = axes.lines
    same(every, rates, "requests")
    same(failed, rates, "failed_requests")
    np.testing.assert_array_equal(x(every), dates(rates))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Time (UTC)", "Requests per day")
    assert legend(drawing) == ["all", "failed"]
    assert axes.get_ylim()[0] == 0
    assert drawing.get_supxlabel().startswith("chutes_metadata.parquet · 2025-04-11 to 2026-04-11 UTC · since 2025-04-11,")


def test_requests_on_a_relative_clock(hour: Result) -> None:
    drawing = draw("requests", hour)
    (axes,) = drawing.axes
    (line,) = axes.lines
    same(line, hour.tables["rates"], "requests")
    np.testing.assert_array_equal(x(line), np.arange(59.0))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Time since first request (min)", "Requests per minute")
    assert legend(drawing) == []


def test_tokens(year: Result, hour: Result) -> None:
    rates = year.tables["rates"]
    drawing = draw("tokens", year)
    above, below = drawing.axes
    same(above.lines[0], rates, "input_tokens")
    same(above.lines[1], rates, "cached_tokens")
    same(below.lines[0], rates, "output_tokens")
    assert np.isnan(y(above.lines[1])[:305]).all()
    assert legend(drawing) == ["all input", "cached input"]
    assert [axes.get_ylabel() for axes in (above, below)] == ["Input tokens\nper day", "Output tokens\nper day"]
    assert len(draw("tokens", hour).axes[0].lines) == 1


def test_rates_are_relative_to_their_means(year: Result) -> None:
    rates = year.tables["rates"]
    drawing = draw("rates", year)
    above, below = drawing.axes
    requests, tokens = (line for line in above.lines if len(x(line)) == rates.height)
    both = column(rates, "input_tokens") + column(rates, "output_tokens")
    np.testing.assert_allclose(y(requests), column(rates, "requests") / column(rates, "requests").mean(), rtol=1e-12)
    np.testing.assert_allclose(y(tokens), both / both.mean(), rtol=1e-12)
    same(below.lines[0], rates, "tokens_per_request")
    assert legend(drawing) == ["requests", "input + output tokens"]


def test_active_models(year: Result) -> None:
    rates = year.tables["rates"]
    above, below = draw("active_models", year).axes
    same(above.lines[0], rates, "models")
    same(below.lines[0], rates, "users")
    (alone,) = draw("active_models", with_table(year, "rates", rates.with_columns(models=pl.lit(None, pl.Int64)))).axes
    same(alone.lines[0], rates, "users")
    assert alone.get_ylabel() == "Active users\nper day"


def test_endpoints(year: Result) -> None:
    table = year.tables["endpoints"]
    drawing = draw("endpoints", year)
    names = ["chat_stream", "chat", "completion_stream", "completion", "embed", "e2e_invoke"]
    assert legend(drawing) == names
    for line, name in zip(drawing.axes[0].lines, names, strict=True):
        same(line, table.filter(pl.col("endpoint") == name).sort("time"), "requests")


def test_many_endpoints_and_intervals_without_any(year: Result) -> None:
    rates = year.tables["rates"].head(3)
    time = rates["time"].to_list()
    rows = [(time[0], f"e{one}", 10 - one) for one in range(8)] + [(time[2], None, 100), (time[2], "e7", 1)]
    table = pl.DataFrame(rows, schema={"time": pl.Datetime("us"), "endpoint": pl.String, "requests": pl.Int64}, orient="row")
    drawing = draw("endpoints", with_table(with_table(year, "rates", rates), "endpoints", table))
    assert legend(drawing) == ["not named", "e0", "e1", "e2", "e3", "4 others"]
    assert [y(line).tolist() for line in drawing.axes[0].lines] == [
        [0, 0, 100],
        [10, 0, 0],
        [9, 0, 0],
        [8, 0, 0],
        [7, 0, 0],
        [6 + 5 + 4 + 3, 0, 1],
    ]


def mesh(axes: Axes) -> QuadMesh:
    (found,) = [one for one in axes.collections if isinstance(one, QuadMesh)]
    return found


def cells(axes: Axes) -> NDArray[np.float64]:
    array = mesh(axes).get_array()
    assert array is not None
    return np.asarray(np.ma.getdata(array), dtype=float)


def test_hour_of_week(year: Result) -> None:
    table = year.tables["hour_of_week"]
    axes = draw("hour_of_week", year).axes[0]
    grid = cells(axes)
    expected = {(day, hour): mean for day, hour, mean in table.select("weekday", "hour", "requests_per_day").rows()}
    assert grid.shape == (7, 24)
    assert all(grid[day - 1, hour] == mean for (day, hour), mean in expected.items())
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    top, bottom = axes.get_ylim()[::-1]
    assert top < bottom, "the first row, Monday, is at the top"
    assert axes.get_xlabel() == "Hour of day (UTC)"
    assert mesh(axes).get_clim() == (table["requests_per_day"].min(), table["requests_per_day"].max())


def test_hour_of_week_with_a_burst_and_a_missing_day(year: Result) -> None:
    table = year.tables["hour_of_week"].filter(pl.col("weekday") != 6)
    burst = (pl.col("weekday") == 3) & (pl.col("hour") == 4)
    table = table.with_columns(requests_per_day=pl.when(burst).then(1e9).otherwise("requests_per_day"))
    axes = draw("hour_of_week", with_table(year, "hour_of_week", table)).axes[0]
    grid = cells(axes)
    assert grid[2, 4] == 1e9
    assert np.isnan(grid[5]).all()
    assert mesh(axes).get_clim()[1] < 1.1e6


def test_a_relative_clock_has_no_days_of_the_week(year: Result) -> None:
    relative = replace(year, provenance={**year.provenance, "clock": "relative"})
    with pytest.raises(style.NoDataError, match="a relative clock has no days of the week"):
        draw("hour_of_week", relative)


@pytest.mark.parametrize(
    ("name", "key", "label"),
    [
        ("input_tokens_cdf", "input_tokens", "Input tokens per request"),
        ("output_tokens_cdf", "output_tokens", "Output tokens per request"),
        ("ratio_cdf", "output_to_input_ratio", "Output tokens / input tokens of a request"),
    ],
)
def test_cdfs(year: Result, hour: Result, name: str, key: str, label: str) -> None:
    drawing = draw(name, year)
    (axes,) = drawing.axes
    table = year.tables["length_cdf"].filter(pl.col("column") == key)
    assert legend(drawing) == ["all requests", "DeepSeek-V3-0324-TEE", "DeepSeek-R1-0528-TEE", "MiniMax-M2.5"]
    for line, model in zip(axes.lines, [None, *table["model"].drop_nulls().unique(maintain_order=True)], strict=True):
        curve = table.filter(pl.col("model").eq_missing(model))
        np.testing.assert_array_equal(x(line), column(curve, "value"))
        same(line, curve, "cumulative_ratio")
    assert (axes.get_xlabel(), axes.get_xscale(), axes.get_ylabel()) == (label, "log", "Share of requests")
    overall = axes.lines[0]
    assert overall.get_color() == style.OVERALL[0]
    assert overall.is_dashed()
    (alone,) = draw(name, hour).axes[0].lines
    assert alone.get_linestyle() == "-"


@pytest.mark.parametrize("count", [1, 2])
def test_a_cdf_of_few_models(year: Result, count: int) -> None:
    table = year.tables["length_cdf"]
    models = table["model"].drop_nulls().unique(maintain_order=True).head(count)
    few = table.filter(pl.col("model").is_null() | pl.col("model").is_in(models.implode()))
    assert len(draw("ratio_cdf", with_table(year, "length_cdf", few)).axes[0].lines) == 1 + count


def test_a_cdf_shows_three_models_at_most_and_zeros_as_a_step_at_the_left(year: Result) -> None:
    table = year.tables["length_cdf"]
    fourth = table.filter(pl.col("model") == table["model"].drop_nulls()[0]).with_columns(model=pl.lit("a fourth"))
    zeros = pl.concat([table, fourth]).with_columns(value=pl.when(pl.col("cumulative_ratio") < 0.2).then(0.0).otherwise("value"))
    drawing = draw("output_tokens_cdf", with_table(year, "length_cdf", zeros))
    assert len(drawing.axes[0].lines) == 4
    assert "a fourth" not in legend(drawing)
    assert drawing.axes[0].get_xlim()[0] > 0
    assert style.save(drawing, "png")


@pytest.mark.parametrize("relative", [False, True])
def test_a_gap_between_intervals_is_drawn_as_nothing(year: Result, relative: bool) -> None:  # noqa: FBT001
    days = [0, 1, 2, 10, 11, 20]
    rates = year.tables["rates"].head(6)
    times = [day * 86_400.0 for day in days] if relative else [datetime(2025, 4, 11) + timedelta(days=day) for day in days]
    result = with_table(year, "rates", rates.with_columns(time=pl.Series(times)))
    (axes,) = draw("requests", result).axes
    line = axes.lines[0]
    start = 0 if relative else dates(rates)[0]
    assert (x(line) - start).tolist() == [0, 1, 2, 3, 9, 10, 11, 12, 19, 20]
    first, second, third, fourth, fifth, sixth = rates["requests"].to_list()
    assert y(line).tolist() == [first, second, third, 0, 0, fourth, fifth, 0, 0, sixth]


def test_a_gap_of_one_interval_is_one_zero(year: Result) -> None:
    rates = year.tables["rates"].head(3).with_columns(time=pl.Series([0.0, 86_400.0, 3 * 86_400.0]))
    (axes,) = draw("requests", with_table(year, "rates", rates)).axes
    assert x(axes.lines[0]).tolist() == [0, 1, 2, 3]
    assert y(axes.lines[0])[2] == 0


def test_without_a_known_interval_none_is_named(year: Result) -> None:
    (axes,) = draw("requests", replace(year, scalars={})).axes
    assert axes.get_ylabel() == "Requests per interval"


@pytest.mark.parametrize(
    ("name", "table", "columns", "reason"),
    [
        ("tokens", "rates", ["input_tokens", "output_tokens"], "no request has token counts"),
        ("rates", "rates", ["input_tokens"], "no request has token counts"),
        ("active_models", "rates", ["users", "models"], "neither models nor users"),
        ("endpoints", "endpoints", ["endpoint"], "names no endpoints"),
        ("ratio_cdf", "length_cdf", ["value"], "no request has a known output_to_input_ratio"),
    ],
)
def test_what_is_not_known_is_not_drawn(year: Result, name: str, table: str, columns: list[str], reason: str) -> None:
    unknown = year.tables[table].with_columns(pl.lit(None, year.tables[table].schema[one]).alias(one) for one in columns)
    with pytest.raises(style.NoDataError, match=reason):
        draw(name, with_table(year, table, unknown))


def test_less_than_a_day_has_no_hours_of_the_week(year: Result) -> None:
    with pytest.raises(style.NoDataError, match="less than a day"):
        draw("hour_of_week", replace(year, scalars={**year.scalars, "span_s": 3_600.0}))
