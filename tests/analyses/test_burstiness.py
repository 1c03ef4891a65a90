"""`burstiness` against loops, NumPy and SciPy on lists of gaps, written from the definitions and from nothing else."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, SupportsFloat

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy import stats

from llmtrace.analyses.burstiness import Burstiness, ClockGrain
from llmtrace.engine.local import run
from llmtrace.errors import UsageError
from llmtrace.summaries.clock import BITS
from llmtrace.summaries.histogram import relative_error
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from llmtrace.result import Result

    Measured = Callable[..., Result]
    Floats = npt.NDArray[np.float64]

START = datetime(2025, 4, 10, 22, 30)
SECOND_US, HOUR_US = 1_000_000, 3_600_000_000
ROWS = st.lists(
    st.tuples(
        st.integers(0, 3 * HOUR_US) | st.integers(0, 40).map(lambda step: HOUR_US // 2 + step * SECOND_US),
        st.sampled_from(["a", "b", None]),
    ),
    max_size=60,
)


def frame_of(times_us: Sequence[int] | npt.NDArray[np.int64], models: Sequence[str | None] | None = None) -> pl.DataFrame:
    """Requests at so many microseconds from the start, in order."""
    times = [START + timedelta(microseconds=int(us)) for us in times_us]
    frame = pl.DataFrame(
        {"timestamp": times, "model": models or ["a"] * len(times)}, {"timestamp": pl.Datetime("us"), "model": pl.String}
    )
    return frame.sort("timestamp", maintain_order=True)


def at_gaps(gaps_s: Floats) -> pl.DataFrame:
    """Requests with these gaps in seconds between them."""
    return frame_of(np.concatenate([[0], np.cumsum(np.round(gaps_s * 1e6).astype(np.int64))]))


def gaps_s(frame: pl.DataFrame) -> Floats:
    return np.diff(frame["timestamp"].to_physical().to_numpy()) / 1e6


def near(value: SupportsFloat | None, rel: float = 1e-9, abs: float = 1e-12) -> object:  # noqa: A002
    """What a number must be: null where there is none."""
    return None if value is None or np.isnan(float(value)) else pytest.approx(float(value), rel=rel, abs=abs)


def naive(gaps: Floats) -> dict[str, float | None]:
    """Mean, deviation and dependence of gaps, as NumPy and SciPy have them."""
    mean = float(np.mean(gaps)) if gaps.size else None
    std = float(np.std(gaps, ddof=1)) if gaps.size > 1 else None
    varies = gaps.size > 3 and len(set(gaps[:-1])) > 1 and len(set(gaps[1:])) > 1
    positive = np.log(gaps[gaps > 0])
    logs_vary = positive.size > 3 and len(set(positive[:-1])) > 1 and len(set(positive[1:])) > 1
    return {
        "mean_gap_s": mean,
        "std_gap_s": std,
        "cv": std / mean if mean and std is not None else None,
        "burstiness": (std - mean) / (std + mean) if mean and std is not None else None,
        "lag1_pearson": float(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) if varies else None,
        "lag1_log_pearson": float(np.corrcoef(positive[:-1], positive[1:])[0, 1]) if logs_vary else None,
        "lag1_spearman": float(stats.spearmanr(gaps[:-1], gaps[1:]).statistic) if varies else None,
    }


def agrees(found: dict[str, Any], gaps: Floats) -> None:
    """All numbers of a row, or of the scalars, are those of these gaps."""
    expected = naive(gaps)
    exact = expected.pop("lag1_spearman")
    for name, value in expected.items():
        assert found[name] == near(value, abs=1e-6, rel=1e-9), name
    if exact is not None and found["lag1_spearman"] is not None:  # buckets may hide that gaps vary
        assert abs(found["lag1_spearman"] - exact) <= found["lag1_spearman_bound"] + 1e-12
    if exact is None:
        assert found["lag1_spearman"] is None


@given(ROWS, st.lists(st.integers(0, 60), max_size=3))
def test_scalars_and_keys_are_those_of_their_gaps(
    measured: Measured, rows: list[tuple[int, str | None]], cuts: list[int]
) -> None:
    frame = frame_of([time for time, _ in rows], [model for _, model in rows])
    result = measured(Burstiness(), frame, [cut for cut in cuts if cut <= frame.height])
    gaps = gaps_s(frame)
    agrees(dict(result.scalars), gaps)
    assert (result.scalars["requests"], result.scalars["gaps"]) == (frame.height, gaps.size)
    assert result.scalars["tie_share"] == near(tie_share(gaps))
    counts = Counter(frame["model"].drop_nulls())
    table = result.tables["by_key"]
    assert table["model"].to_list() == sorted(counts, key=lambda model: (-counts[model], model))
    assert result.scalars["keys"] == len(counts)
    for row in table.iter_rows(named=True):
        own = gaps_s(frame.filter(pl.col("model") == row["model"]))
        agrees(row, own)
        assert (row["requests"], row["gaps"], row["tie_share"]) == (own.size + 1, own.size, near(tie_share(own)))
    frequent = table.filter(pl.col("gaps") >= 10)
    for name, column, limit in (("cv_above_1", "cv", 1), ("lag1_positive", "lag1_spearman", 0)):
        above = [value > limit for value in frequent[column] if value is not None]
        assert result.scalars[f"share_keys_{name}"] == near(sum(above) / len(above) if above else None)


@pytest.mark.parametrize("by", ["all", "model"])
def test_a_key_with_all_requests_has_the_coefficient_of_all_requests(measured: Measured, by: str) -> None:
    frame = at_gaps(np.random.default_rng(12).lognormal(-2, 1, 3000))
    result = measured(Burstiness(by), frame, [700])
    exact = stats.spearmanr(gaps_s(frame)[:-1], gaps_s(frame)[1:]).statistic
    assert abs(result.scalars["lag1_spearman"] - exact) <= result.scalars["lag1_spearman_bound"] < 0.05  # type: ignore[operator]
    [row] = result.tables["by_key"].iter_rows(named=True)
    for name, value in row.items():
        assert name == by or value == result.scalars[name], name


def test_a_clock_of_long_steps_makes_the_coefficients_of_ranks_exact(measured: Measured) -> None:
    times = np.cumsum(np.random.default_rng(13).integers(0, 5, 2000)) * SECOND_US
    frame = frame_of(times, ["a", "b", None, "b"] * 500)
    result = measured(Burstiness(), frame, [999])
    agrees(dict(result.scalars), gaps_s(frame))
    assert result.scalars["lag1_spearman_bound"] == 0
    assert any("whole trace is exact, by_key off by at most" in note for note in result.notes)
    for row in result.tables["by_key"].iter_rows(named=True):
        agrees(row, gaps_s(frame.filter(pl.col("model") == row["model"])))


def tie_share(gaps: Floats) -> float | None:
    return float((gaps == 0).mean()) if gaps.size else None


def hourly(frame: pl.DataFrame) -> dict[str, list[tuple[int, float | None]]]:
    """Requests, and the coefficient of variation if valid, of each busy hour of each model."""
    arrivals = defaultdict(list)
    for time, model in frame.iter_rows():
        arrivals[model, time.replace(minute=0, second=0, microsecond=0)].append(time)
    found = defaultdict(list)
    for (model, _), times in arrivals.items():
        gaps = [(after - before).total_seconds() for before, after in pairwise(times) if after > before]
        if len(times) >= 10:
            found[model].append((len(times), float(np.std(gaps, ddof=1) / np.mean(gaps)) if len(gaps) >= 5 else None))
    return found


def test_hours_are_those_of_the_papers_protocol(measured: Measured) -> None:
    generator = np.random.default_rng(1)
    requests = {"steady": 400, "bursty": 700, "rare": 120, "short": 90}
    shapes = {"steady": 3.0, "bursty": 0.2, "rare": 3.0, "short": 3.0}
    gaps = {
        model: generator.gamma(shapes[model], 9 * HOUR_US / shapes[model] / count, count) for model, count in requests.items()
    }
    times = np.concatenate([np.cumsum(np.round(gaps[model])) for model in requests])
    frame = frame_of(times, [model for model, count in requests.items() for _ in range(count)])
    result = measured(Burstiness(), frame, [200, 777])
    expected = hourly(frame)
    table = result.tables["by_hour"]
    shown = [model for model in requests if requests[model] > 100 and sum(cv is not None for _, cv in expected[model]) >= 5]
    assert table["model"].to_list() == sorted(shown, key=lambda model: -requests[model])
    assert 2 <= len(shown) < len(requests)
    for row in table.iter_rows(named=True):
        loads = [load for load, _ in expected[row["model"]]]
        valid = [(load, cv) for load, cv in expected[row["model"]] if cv is not None]
        cvs = np.array([cv for _, cv in valid])
        assert (row["requests"], row["busy_hours"], row["valid_hours"]) == (requests[row["model"]], len(loads), len(valid))
        assert row["mean_requests_per_hour"] == near(np.mean([load for load, _ in valid]))
        assert row["cv_mean"] == near(cvs.mean(), abs=1e-9)
        for name, at in (("cv_median", 0.5), ("cv_p75", 0.75), ("cv_p90", 0.9)):
            assert row[name] == near(np.quantile(cvs, at), rel=2**-8)
        assert row["burstiness_median"] == near((row["cv_median"] - 1) / (row["cv_median"] + 1))
        assert row["share_hours_cv_above_1"] == near((cvs > 1).mean())
        assert row["share_hours_cv_above_2"] == near((cvs > 2).mean())
        assert row["load_cv"] == near(np.std(loads, ddof=1) / np.mean(loads))
        assert row["load_peak_to_median"] == near(max(loads) / np.median(loads), rel=2**-8)
        own = gaps_s(frame.filter(pl.col("model") == row["model"]))
        both = (own[:-1] > 0) & (own[1:] > 0)
        assert row["lag1_spearman"] == near(stats.spearmanr(own[:-1][both], own[1:][both]).statistic, abs=0.03)


def test_a_regular_stream_does_not_vary(measured: Measured) -> None:
    result = measured(Burstiness("all"), at_gaps(np.full(5000, 0.25)), [100, 2000])
    assert (result.scalars["cv"], result.scalars["burstiness"], result.scalars["quantum_s"]) == (0.0, -1.0, 0.25)
    assert result.scalars["lag1_pearson"] is None
    assert set(result.tables["dispersion"]["index_of_dispersion"]) == {0.0}
    assert result.tables["fits"]["distribution"].to_list() == ["exponential"]


def test_a_poisson_stream_has_cv_and_dispersion_one(measured: Measured) -> None:
    result = measured(Burstiness("all"), at_gaps(np.random.default_rng(5).exponential(0.4, 60_000)))
    assert result.scalars["cv"] == pytest.approx(1, abs=0.02)
    assert result.scalars["burstiness"] == pytest.approx(0, abs=0.01)
    assert result.scalars["lag1_spearman"] == pytest.approx(0, abs=0.02)
    dispersion = result.tables["dispersion"].filter(pl.col("windows") >= 200)
    assert dispersion.height > 5
    assert dispersion["index_of_dispersion"].to_list() == pytest.approx([1] * dispersion.height, abs=0.2)
    shapes = dict(result.tables["fits"].select("distribution", "shape").iter_rows())
    assert shapes["gamma"] == pytest.approx(1, abs=0.02)
    assert shapes["weibull"] == pytest.approx(1, abs=0.02)


def test_an_on_off_stream_is_bursty_and_dependent(measured: Measured) -> None:
    generator = np.random.default_rng(6)
    gaps = np.concatenate([generator.exponential(0.01 if phase % 2 else 2.0, 200) for phase in range(40)])
    scalars = measured(Burstiness("all"), at_gaps(gaps)).scalars
    assert scalars["cv"] > 1.3  # type: ignore[operator]
    for name in ("lag1_pearson", "lag1_log_pearson", "lag1_spearman"):
        assert scalars[name] > 0.2, name  # type: ignore[operator]


def test_windows_of_five_minutes_are_those_of_a_loop(measured: Measured) -> None:
    frame = at_gaps(np.random.default_rng(8).lognormal(1.5, 1.2, 800))
    arrivals = defaultdict(list)
    for time in frame["timestamp"]:
        arrivals[time.replace(minute=time.minute // 5 * 5, second=0, microsecond=0)].append(time)
    table = measured(Burstiness("all"), frame, [333]).tables["cv_windows"]
    assert table["time"].to_list() == sorted(arrivals)
    for row in table.iter_rows(named=True):
        gaps = np.array([(after - before).total_seconds() for before, after in pairwise(arrivals[row["time"]])])
        expected = naive(gaps)
        assert (row["requests"], row["gaps"], row["requests_per_s"]) == (gaps.size + 1, gaps.size, near((gaps.size + 1) / 300))
        assert row["mean_gap_s"] == near(expected["mean_gap_s"])
        assert row["cv"] == near(expected["cv"])


SCIPY = {"exponential": stats.expon, "gamma": stats.gamma, "weibull": stats.weibull_min, "lognormal": stats.lognorm}


def distribution(row: dict[str, Any]) -> Any:  # noqa: ANN401
    """SciPy's distribution with the parameters of a fit."""
    shape = [] if row["shape"] is None else [row["shape"]]
    return SCIPY[row["distribution"]](*shape, scale=row["scale_s"])


@pytest.mark.parametrize("draw", ["exponential", "gamma", "weibull", "lognormal"])
def test_fits_to_the_histogram_are_fits_to_the_gaps(measured: Measured, draw: str) -> None:
    generator = np.random.default_rng(9)
    gaps = {
        "exponential": generator.exponential(0.3, 4000),
        "gamma": generator.gamma(0.4, 2.0, 4000),
        "weibull": generator.weibull(0.6, 4000) * 0.05,
        "lognormal": generator.lognormal(-2, 1.7, 4000),
    }[draw]
    frame = at_gaps(gaps)
    raw = gaps_s(frame)[gaps_s(frame) > 0]
    table = measured(Burstiness("all"), frame, [1234]).tables["fits"]
    assert table["distribution"].to_list() == ["exponential", "gamma", "weibull", "lognormal"]
    for row in table.iter_rows(named=True):
        ours, theirs = distribution(row), SCIPY[row["distribution"]].fit(raw, floc=0)
        *shape, _, scale = theirs
        assert row["shape"] == (near(shape[0], rel=1e-3) if shape else None)
        assert row["scale_s"] == near(scale, rel=1e-3)
        assert json.loads(row["parameters"]) == {**({"shape": row["shape"]} if shape else {}), "scale_s": row["scale_s"]}
        assert row["gaps"] == raw.size
        assert row["log_likelihood"] == near(ours.logpdf(raw).sum(), rel=1e-6)
        assert row["log_likelihood"] > SCIPY[row["distribution"]](*theirs).logpdf(raw).sum() - 1e-3
        assert row["aic"] == near(2 * (len(shape) + 1) - 2 * row["log_likelihood"])
        assert row["ks"] == near(stats.kstest(raw, ours.cdf).statistic, abs=2 / raw.size + relative_error(BITS))
    best = table.sort("aic")["distribution"][0]
    assert draw in {best, "exponential"}


def test_survival_is_the_share_of_longer_gaps(measured: Measured) -> None:
    frame = at_gaps(np.random.default_rng(10).lognormal(-3, 2, 3000))
    raw = gaps_s(frame)[gaps_s(frame) > 0]
    result = measured(Burstiness("all"), frame)
    table = result.tables["survival"]
    assert table["gap_s"].is_sorted()
    assert table["empirical"].to_list() == pytest.approx([(raw > gap + 1e-9).mean() for gap in table["gap_s"]])
    assert table["empirical"][-1] == 0
    for row in result.tables["fits"].iter_rows(named=True):
        expected = distribution(row).sf(table["gap_s"].to_numpy())
        np.testing.assert_allclose(table[row["distribution"]].to_numpy(), expected, rtol=1e-9, atol=1e-12)


def test_a_note_names_the_protocol_of_every_table(measured: Measured) -> None:
    result = measured(Burstiness("all"), at_gaps(np.random.default_rng(11).exponential(1, 50)))
    [note] = [note for note in result.notes if note.startswith("Protocols:")]
    assert [table for table in result.tables if table not in note] == []
    for table in ("fits.distribution", "survival.empirical"):
        assert "ties left out" in result.definitions[table]


def coarse(seed: int = 2) -> pl.DataFrame:
    """A Poisson stream whose clock ticks every two seconds."""
    times = np.cumsum(np.random.default_rng(seed).exponential(0.2, 20_000))
    return frame_of((times // 2 * 2 * SECOND_US).astype(np.int64))


def test_a_coarse_clock_is_told_and_its_dispersion_begins_above_its_step(measured: Measured) -> None:
    result = measured(Burstiness("all"), coarse())
    assert result.scalars["quantum_s"] == 2.0
    assert result.scalars["tie_share"] == pytest.approx(0.9, abs=0.01)
    assert result.scalars["cv"] == pytest.approx(3, abs=0.1)
    assert "artefacts" in result.notes[0]
    assert "--jitter" in result.notes[0]
    assert result.tables["dispersion"]["window_s"][0] == 2.0


def test_jitter_gives_a_coarse_poisson_stream_its_numbers_back(measured: Measured) -> None:
    grain = measured(ClockGrain(), coarse(), [50]).scalars
    spread_us = grain["spread_us"]
    assert isinstance(spread_us, int)
    assert grain["quantum_s"] == 2.0
    assert 2_000_000 * (1 - 2 * relative_error(BITS)) <= spread_us <= 2_000_000
    result = measured(Burstiness("all", 1, spread_us), coarse())
    assert result.scalars["cv"] == pytest.approx(1, abs=0.03)
    assert result.scalars["lag1_spearman"] == pytest.approx(0, abs=0.03)
    assert result.scalars["tie_share"] == pytest.approx(0.9, abs=0.01)
    assert not any("artefacts" in note for note in result.notes)
    assert any("seed 1" in note for note in result.notes)
    assert result.parameters["jitter"] == 1


def test_jitter_does_not_depend_on_how_a_trace_is_cut_between_stamps(measured: Measured) -> None:
    frame = coarse()
    first_of_stamp = frame.with_row_index().filter(pl.col("timestamp") != pl.col("timestamp").shift())["index"]
    borders = first_of_stamp.gather([7, 400, 401]).to_list()
    whole, cut = (measured(Burstiness("model", 3, 1_999_000), frame, cuts) for cuts in ([], borders))
    assert dict(cut.scalars) == dict(whole.scalars)
    for name, table in whole.tables.items():
        assert_frame_equal(cut.tables[name], table, check_exact=True)
    other = measured(Burstiness("model", 4, 1_999_000), frame)
    assert other.scalars["cv"] != whole.scalars["cv"]


def test_keys_with_ten_gaps_count_in_the_shares(measured: Measured) -> None:
    bursty, regular = [0] * 10 + [1], list(range(10))
    frame = frame_of([*bursty, *regular], ["bursty"] * 11 + ["regular"] * 10)
    assert measured(Burstiness(), frame, []).scalars["share_keys_cv_above_1"] == 1


def test_a_key_is_shown_by_hour_from_101_requests_and_5_valid_hours_on(measured: Measured) -> None:
    requests = {"enough": [21, 20, 20, 20, 20], "a hundred": [20] * 5, "four hours": [40] * 4}
    rows = [
        (HOUR_US // 2 + hour * HOUR_US + place * 60 * SECOND_US, model)
        for model, loads in requests.items()
        for hour, load in enumerate(loads)
        for place in range(load)
    ]
    frame = frame_of([time for time, _ in rows], [model for _, model in rows])
    assert measured(Burstiness(), frame, []).tables["by_hour"].select("model", "valid_hours").rows() == [("enough", 5)]


def test_dispersion_needs_two_windows_and_a_cv_a_microsecond(measured: Measured) -> None:
    result = measured(Burstiness(), frame_of([0, 0, 1, *range(SECOND_US, 120 * SECOND_US, SECOND_US)]), [])
    assert result.tables["dispersion"]["windows"].min() == 2
    [cv] = measured(Burstiness(), frame_of([0, 0, 1]), []).tables["cv_windows"]["cv"]
    assert cv == near(2**0.5)


def test_requests_without_a_key_count_in_the_scalars_only(measured: Measured) -> None:
    frame = frame_of([0, 1, 2, 3, 4, 5], ["a", None, "a", None, None, "a"])
    result = measured(Burstiness(), frame)
    assert (result.scalars["requests"], result.scalars["keys"], result.scalars["gaps"]) == (6, 1, 5)
    assert result.tables["by_key"].row(0)[:3] == ("a", 3, 2)
    assert any("3 of 6 requests name no model" in note for note in result.notes)
    nameless = measured(Burstiness(), frame.with_columns(pl.lit(None, pl.String).alias("model")))
    assert nameless.tables["by_key"].is_empty()
    assert any("names no model" in note for note in nameless.notes)


def test_requests_that_share_one_stamp_have_no_gaps_to_measure(measured: Measured) -> None:
    result = measured(Burstiness("all"), frame_of([5] * 30), [10])
    assert (result.scalars["tie_share"], result.scalars["mean_gap_s"], result.scalars["std_gap_s"]) == (1.0, 0.0, 0.0)
    assert (result.scalars["cv"], result.scalars["burstiness"], result.scalars["quantum_s"]) == (None, None, None)
    assert "same time" in result.notes[0]


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_what_so_few_requests_do_not_tell_is_null(measured: Measured, rows: int) -> None:
    result = measured(Burstiness("all"), frame_of([7 * row for row in range(rows)]))
    assert (result.scalars["requests"], result.scalars["gaps"]) == (rows, max(rows - 1, 0))
    for name in ("cv", "lag1_pearson", "lag1_log_pearson", "lag1_spearman", "share_keys_cv_above_1"):
        assert result.scalars[name] is None
    assert result.tables["dispersion"].is_empty()
    assert result.tables["fits"].is_empty()
    assert result.tables["cv_windows"].height == min(rows, 1)
    assert bool(result.notes) == bool(rows)


def test_every_number_is_defined(measured: Measured) -> None:
    result = measured(Burstiness("user"), frame_of([0, 1, 2]).with_columns(user=pl.lit("u")))
    columns = {f"{name}.{column}" for name, table in result.tables.items() for column in table.columns}
    assert set(result.definitions) == set(result.scalars) | columns


def test_parameters_are_checked() -> None:
    with pytest.raises(UsageError, match="--by token"):
        Burstiness("token")
    with pytest.raises(UsageError, match="no positive gap"):
        Burstiness(jitter=1)


def test_uses_only_the_column_of_the_key() -> None:
    assert Burstiness().uses == {"timestamp", "model"}
    assert Burstiness("all").uses == {"timestamp"}


def test_azure_2023_code(real_traces: Path) -> None:
    [result] = run(open_trace([str(real_traces / "azure_2023" / "AzureLLMInferenceTrace_code.csv")]), [Burstiness("all")])
    assert result.scalars["cv"] == pytest.approx(13.152, abs=5e-4)
    assert (result.scalars["quantum_s"], result.scalars["tie_share"]) == (1e-6, 0)


def test_mooncake_conversation(real_traces: Path) -> None:
    trace = open_trace([str(real_traces / "mooncake" / "conversation_trace.jsonl")])
    [result] = run(trace, [Burstiness("all")])
    assert result.scalars["cv"] == pytest.approx(3.0339, abs=5e-5)
    assert result.scalars["tie_share"] == pytest.approx(0.902, abs=5e-4)
    assert result.scalars["quantum_s"] == pytest.approx(3, rel=1e-3)
    assert result.scalars["lag1_spearman"] == pytest.approx(-0.10835, abs=0.0004)
    assert result.scalars["lag1_spearman_bound"] == pytest.approx(0, abs=0.001)
    assert any("90.2% of the gaps are zero" in note for note in result.notes)
    [grain] = run(trace, [ClockGrain()])
    [spread] = run(trace, [Burstiness("all", 1, int(grain.scalars["spread_us"]))])  # type: ignore[arg-type]
    assert spread.scalars["cv"] == pytest.approx(1, abs=0.1)
