"""The figures of `cache`, read back from their artists and compared with the tables they show."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from matplotlib.patches import StepPatch

from llmtrace.report import style
from llmtrace.report.figures.cache import FIGURES
from llmtrace.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POLICIES = ("fifo", "sieve", "lru", "oracle")
CAPACITIES = (1_000, 10_000, 100_000)


def keys() -> list[tuple[str, int | None]]:
    return [(policy, size) for policy in POLICIES for size in CAPACITIES] + [("ideal", None)]


def bins(policy: str, size: int | None, least: float) -> pl.DataFrame:
    shares = np.array([0.5, *np.full(48, least), 0.3, 0.2])
    labels = [pl.lit(policy).alias("policy"), pl.lit(size, pl.Int64).alias("capacity_tokens")]
    return pl.DataFrame({"hit_ratio_from": np.arange(51) / 50, "requests_ratio": shares}).select(*labels, pl.all())


@pytest.fixture
def result() -> Result:
    rows = [(*key, place / 32, place / 64) for place, key in enumerate(keys())]
    gaps = [
        (*key, gap, reusable, None if not reusable else 0.5 / (1 + place))
        for place, key in enumerate(keys())
        for gap, reusable in ((0.0, 10), (1.0, 0), (10.0, 30), (60.0, 5), (600.0, 5), (3_600.0, 5), (86_400.0, 5))
    ]
    tables = {
        "curve": pl.DataFrame(
            rows, ["policy", "capacity_tokens", "token_hit_ratio_full", "token_hit_ratio_prefix"], orient="row"
        ),
        "lru_curve": pl.DataFrame(
            {
                "capacity_tokens": [1_000, 2_000, 4_000],
                "request_hit_ratio": [0.3, 0.4, 0.5],
                "token_hit_ratio_full": [0.4, 0.5, 0.6],
                "token_hit_ratio_prefix": [0.2, 0.3, 0.31],
            }
        ),
        "histogram": pl.concat(bins(*key, 1e-4 * (1 + place)) for place, key in enumerate(keys())),
        "by_gap": pl.DataFrame(
            gaps, ["policy", "capacity_tokens", "gap_from_s", "reusable_tokens", "token_hit_ratio"], orient="row"
        ),
        "reuse_skew": pl.DataFrame({"objects_ratio": [0.01, 0.1, 1.0], "reuses_ratio": [0.4, 0.8, 1.0]}),
    }
    scalars = {"replayed_requests": 7, "lru_90_capacity_tokens": 2_000}
    return Result("cache", {"object": "block", "warmup": 0.5}, scalars, tables, "curve")


def drawn(name: str, result: Result) -> tuple[Figure, list[Axes]]:
    with style.look():
        figure = FIGURES[name](result)
    return figure, figure.axes


def names(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def caption(figure: Figure) -> str:
    assert figure._supxlabel is not None  # type: ignore[attr-defined]  # noqa: SLF001
    return str(figure._supxlabel.get_text()).replace("\n", " ")  # type: ignore[attr-defined]  # noqa: SLF001


def test_curve_has_a_line_per_policy_in_both_accountings(result: Result) -> None:
    figure, panels = drawn("curve", result)
    assert names(figure) == [*POLICIES, "ideal"]
    assert [axes.get_ylabel() for axes in panels] == ["Token hit ratio\nin full", "Token hit ratio\nby prefix"]
    for axes, column in zip(panels, ("token_hit_ratio_full", "token_hit_ratio_prefix"), strict=True):
        *lines, bound = axes.get_lines()
        for line, policy in zip(lines, POLICIES, strict=True):
            rows = result.tables["curve"].filter(pl.col("policy") == policy)
            assert np.array_equal(line.get_xdata(), rows["capacity_tokens"])
            assert np.array_equal(line.get_ydata(), rows[column])
        assert bound.get_ydata()[0] == result.tables["curve"][column][-1]  # type: ignore[index]
    assert panels[-1].get_xscale() == "log"
    assert "after a warm-up of 50 % of the requests" in caption(figure)


def test_policies_look_different_and_what_knows_is_dashed(result: Result) -> None:
    _, panels = drawn("curve", result)
    looks = {(line.get_color(), line.get_marker()) for line in panels[0].get_lines()}
    assert len(looks) == 5
    assert panels[0].get_lines()[3].get_linestyle() == "--"


def test_lru_curve(result: Result) -> None:
    figure, (axes,) = drawn("lru_curve", result)
    assert names(figure) == ["requests", "tokens in full", "tokens by prefix"]
    *lines, mark = axes.get_lines()
    for line, column in zip(lines, result.tables["lru_curve"].columns[1:], strict=True):
        assert np.array_equal(line.get_ydata(), result.tables["lru_curve"][column])
    assert mark.get_xdata()[0] == 2_000  # type: ignore[index]
    assert "90 % of ideal by prefix at 2,000 tokens" in caption(figure)
    figure, (axes,) = drawn("lru_curve", replace(result, scalars={**result.scalars, "lru_90_capacity_tokens": None}))
    assert len(axes.get_lines()) == 3


def test_histogram_shows_few_policies_at_the_capacity_where_they_differ_most(result: Result) -> None:
    # All spread alike: 9 steps between the first and the last. So the least capacity is taken, 1,000.
    figure, (axes,) = drawn("histogram", result)
    assert names(figure) == ["fifo", "lru", "oracle", "ideal"]
    assert "capacity 1,000 tokens" in caption(figure)
    steps = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
    for patch, policy in zip(steps, names(figure), strict=True):
        size = None if policy == "ideal" else 1_000
        place = keys().index((policy, size))
        values = patch.get_data()[0]
        assert (values.size, values[0], values[-1]) == (50, 0.5, 0.5)
        assert values[1] == pytest.approx(1e-4 * (1 + place))


def test_by_gap(result: Result) -> None:
    figure, (axes,) = drawn("by_gap", result)
    assert names(figure) == ["fifo", "lru", "oracle"]
    for line, policy in zip(axes.get_lines(), names(figure), strict=True):
        place = keys().index((policy, 1_000))
        assert np.array_equal(np.isnan(line.get_ydata()), [False, True, *[False] * 5])
        assert line.get_ydata()[0] == 0.5 / (1 + place)  # type: ignore[index]
    assert [tick.get_text() for tick in axes.get_xticklabels()][:2] == ["< 1 s", "1 s"]


def test_reuse_skew(result: Result) -> None:
    _, (axes,) = drawn("reuse_skew", result)
    assert np.allclose(axes.get_lines()[0].get_xdata(), [1, 10, 100])
    assert axes.get_xlabel() == "Most reused blocks (% of all)"


@pytest.mark.parametrize("name", FIGURES)
def test_what_was_not_replayed_is_not_drawn(name: str, result: Result) -> None:
    for nothing in (
        replace(result, tables={}),
        replace(result, tables={one: table.clear() for one, table in result.tables.items()}),
        replace(result, scalars={}),
    ):
        with pytest.raises(style.NoDataError, match="no request could be replayed"):
            drawn(name, nothing)


def test_without_reuse_figures_say_so(result: Result) -> None:
    tables = {
        **result.tables,
        "by_gap": result.tables["by_gap"].with_columns(pl.lit(0).alias("reusable_tokens")),
        "reuse_skew": result.tables["reuse_skew"].with_columns(pl.lit(None, pl.Float64).alias("reuses_ratio")),
    }
    for name in ("by_gap", "reuse_skew"):
        with pytest.raises(style.NoDataError, match="nothing is reused"):
            drawn(name, replace(result, tables=tables))


def test_without_capacities_figures_say_so(result: Result) -> None:
    tables = {
        name: table.filter(pl.col("policy") == "ideal") for name, table in result.tables.items() if "policy" in table.columns
    }
    for name in ("curve", "by_gap"):
        with pytest.raises(style.NoDataError, match="no capacity was replayed"):
            drawn(name, replace(result, tables=tables))
