"""`popularity` against loops over rows, NumPy and DuckDB, written from the definitions and from nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.analyses.popularity import Access, Popularity, chosen, with_rasters, zipf
from llmtrace.analyses.popularity.concentration import gini
from llmtrace.engine.local import run
from llmtrace.errors import UsageError
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llmtrace.result import Result

    Measured = Callable[..., Result]
    Row = dict[str, Any]

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "year"
TRACE = f"read_parquet('{SAMPLE}/**/*.parquet')"
START = datetime(2025, 4, 11)
OF_MODELS, OF_USERS = 2**-9, 2**-7
"""Within what the medians of models and users are, relative to the true ones."""
LOOSE = 1e-9


def some_requests(seed: int, rows: int) -> pl.DataFrame:
    """Few users and models, busy ones and rare ones, ties, unknown cells, failures, zero and absurd tokens."""
    rng = np.random.default_rng(seed)
    tokens = (10 ** rng.uniform(0, rng.choice([3, 5, 18.9], p=[0.6, 0.3, 0.1]), (2, rows))).astype(np.int64)
    tokens[rng.random((2, rows)) < 0.1] = 0
    weights = 1 / np.arange(1, 16)
    names = [f"{number:02}" for number in rng.permutation(15)]
    values: dict[str, Any] = {
        "timestamp": np.datetime64(START, "us") + np.sort(rng.integers(0, 4 * rows + 1, rows)).astype("timedelta64[h]"),
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "user": [f"u{name}" for name in rng.choice(names, rows, p=weights / weights.sum())],
        "model": rng.choice(["m1", "m2", "m3", "m4"], rows, p=[0.6, 0.2, 0.1, 0.1]),
        "status": rng.choice(["ok", "ok", "timeout"], rows),
    }
    texts = dict.fromkeys(("user", "model", "status"), pl.String())
    frame = pl.DataFrame(values, schema_overrides={"timestamp": pl.Datetime("us"), **texts})
    unknown = {name: pl.Series(rng.random(rows) < rng.choice([0, 0.2])) for name in values if name != "timestamp"}
    return frame.with_columns(pl.when(~nulls).then(name).alias(name) for name, nulls in unknown.items())


REQUESTS = st.builds(some_requests, st.integers(0, 10**6), st.integers(0, 300))


def grouped(rows: Sequence[Row], column: str) -> dict[str, list[Row]]:
    """The rows of each known name, those with most rows first, ties by name."""
    found = defaultdict(list)
    for row in rows:
        if row[column] is not None:
            found[row[column]].append(row)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def known(rows: Sequence[Row], column: str) -> list[int]:
    return [row[column] for row in rows if row["status"] in ("ok", None) and row[column] is not None]


def total(rows: Sequence[Row], column: str) -> int | None:
    return sum(known(rows, column)) if known(rows, column) else None


def tokens_of(rows: Sequence[Row]) -> int | None:
    sides = [one for column in ("input_tokens", "output_tokens") if (one := total(rows, column)) is not None]
    return sum(sides) if sides else None


def median(rows: Sequence[Row], column: str) -> float | None:
    whole = [
        row for row in rows if row["status"] in ("ok", None) and (row["input_tokens"] or 0) > 0 < (row["output_tokens"] or 0)
    ]
    return float(np.median([float(row[column]) for row in whole])) if whole else None


def fewest(counts: Sequence[int], percent: int) -> int:
    """How many of the largest make so many percent of all."""
    descending = sorted(counts, reverse=True)
    return next(number for number in range(1, len(counts) + 1) if 100 * sum(descending[:number]) >= percent * sum(counts))


def shared(row: Row, rank: int, own: Sequence[Row], named: int, everything: int, bound: float) -> None:
    """Check what the tables of models and users have in common."""
    assert (row["rank"], row["requests"]) == (rank, len(own))
    assert row["requests_ratio"] == pytest.approx(len(own) / named, rel=LOOSE)
    assert (row["input_tokens"], row["output_tokens"]) == (total(own, "input_tokens"), total(own, "output_tokens"))
    tokens = tokens_of(own)
    assert row["tokens_ratio"] == (None if tokens is None or not everything else pytest.approx(tokens / everything, rel=LOOSE))
    assert (row["first_timestamp"], row["last_timestamp"]) == (own[0]["timestamp"], own[-1]["timestamp"])
    for column in ("input_tokens", "output_tokens"):
        expected = median(own, column)
        assert row[f"median_{column}"] == (None if expected is None else pytest.approx(expected, rel=bound))


@given(frame=REQUESTS, cuts=st.lists(st.integers(0, 300), max_size=3))
def test_models_have_what_a_loop_over_their_requests_finds(measured: Measured, frame: pl.DataFrame, cuts: list[int]) -> None:
    table = measured(Popularity(), frame, [min(cut, frame.height) for cut in cuts]).tables["models"]
    models = grouped(frame.rows(named=True), "model")
    everything = sum(tokens_of(own) or 0 for own in models.values())
    assert table["model"].to_list() == list(models)
    for rank, (row, own) in enumerate(zip(table.rows(named=True), models.values(), strict=True), 1):
        shared(row, rank, own, sum(map(len, models.values())), everything, OF_MODELS)
        users = Counter(one["user"] for one in own if one["user"] is not None)
        assert row["users"] == (len(users) or None)
        assert row["users_for_90"] == (fewest(list(users.values()), 90) if users else None)
        assert row["top_user_ratio"] == (pytest.approx(max(users.values()) / users.total(), rel=LOOSE) if users else None)
        assert row["positive_gaps"] == len({one["timestamp"] for one in own}) - 1


@given(frame=REQUESTS, cuts=st.lists(st.integers(0, 300), max_size=3))
def test_users_have_what_a_loop_over_their_requests_finds(measured: Measured, frame: pl.DataFrame, cuts: list[int]) -> None:
    table = measured(Popularity(most_users=5), frame, [min(cut, frame.height) for cut in cuts]).tables["users"]
    users = grouped(frame.rows(named=True), "user")
    everything = sum(tokens_of(own) or 0 for own in users.values())
    assert table["user"].to_list() == list(users)[:5]
    for rank, (row, own) in enumerate(zip(table.rows(named=True), list(users.values())[:5], strict=True), 1):
        shared(row, rank, own, sum(map(len, users.values())), everything, OF_USERS)
        models = Counter(one["model"] for one in own if one["model"] is not None)
        assert row["models"] == (len(models) or None)
        assert row["top_model"] == (min(models, key=lambda name: (-models[name], name)) if models else None)
        assert row["top_model_ratio"] == (pytest.approx(max(models.values()) / models.total(), rel=LOOSE) if models else None)


@pytest.mark.parametrize("models", [["b", "a", "c", "a", "b"], ["c", "b", "a", "b", "a"]])
@pytest.mark.parametrize("cuts", [(), (1,), (2, 3)])
def test_of_models_with_as_many_requests_the_first_by_name_is_on_top(
    measured: Measured, models: list[str], cuts: tuple[int, ...]
) -> None:
    frame = pl.DataFrame({"timestamp": [START] * 5, "user": ["u"] * 5, "model": models, "input_tokens": 1, "output_tokens": 1})
    users = measured(Popularity(), frame.with_columns(status=pl.lit(None, pl.String)), cuts).tables["users"]
    assert users.select("top_model", "top_model_ratio").rows() == [("a", 0.4)]


def naive_gini(amounts: Sequence[float]) -> float:
    """By the definition: half the mean absolute difference of all pairs, over the mean."""
    values = np.array(amounts, float)
    return float(np.abs(values[:, None] - values).mean() / 2 / values.mean())


@given(frame=REQUESTS)
def test_concentration_is_that_of_sorted_amounts(measured: Measured, frame: pl.DataFrame) -> None:
    result = measured(Popularity(), frame)
    rows = frame.rows(named=True)
    for row in result.tables["concentration"].rows(named=True):
        groups = grouped(rows, row["of"]).values()
        found = [len(own) if row["by"] == "requests" else tokens_of(own) for own in groups]
        amounts = sorted((one for one in found if one is not None), reverse=True)
        assert row["entities"] == len(amounts)
        assert row["total"] == (sum(amounts) if amounts else None)
        if not sum(amounts):
            assert [row[name] for name in ("gini", "top1_ratio", "needed_for_90", "top_10_percent_ratio")] == [None] * 4
            continue
        assert row["gini"] == pytest.approx(naive_gini(amounts), abs=LOOSE)
        for name, count in (("top1", 1), ("top10", 10), ("top100", 100)):
            assert row[f"{name}_ratio"] == pytest.approx(sum(amounts[:count]) / sum(amounts))
        for percent in (1, 10):
            count = int(np.ceil(len(amounts) * percent / 100))
            assert row[f"top_{percent}_percent_ratio"] == pytest.approx(sum(amounts[:count]) / sum(amounts))
        if row["by"] == "requests":
            assert [row[f"needed_for_{percent}"] for percent in (50, 90, 99)] == [
                fewest(amounts, percent) for percent in (50, 90, 99)
            ]


@given(frame=REQUESTS)
def test_scalars_say_what_the_tables_do(measured: Measured, frame: pl.DataFrame) -> None:
    result = measured(Popularity(most_users=None), frame)
    rows, scalars = frame.rows(named=True), result.scalars
    users, models = grouped(rows, "user"), grouped(rows, "model")
    pairs = {(row["user"], row["model"]) for row in rows if row["user"] is not None and row["model"] is not None}
    assert scalars["requests"] == len(rows)
    expected = [len(some) or None for some in (users, models, pairs)]
    assert [scalars["users"], scalars["models"], scalars["pairs"]] == expected
    by_requests = {row["of"]: row for row in result.tables["concentration"].rows(named=True) if row["by"] == "requests"}
    for of in ("user", "model"):
        assert scalars[f"top1_{of}_share"] == by_requests[of]["top1_ratio"]
        assert scalars[f"top10_{of}_share"] == by_requests[of]["top10_ratio"]
        assert scalars[f"gini_{of}s"] == by_requests[of]["gini"]
        assert scalars[f"{of}s_for_90"] == by_requests[of]["needed_for_90"]
    breadth = Counter(user for user, _ in pairs)
    assert scalars["median_models_per_user"] == (float(np.median(list(breadth.values()))) if breadth else None)
    single = [count == 1 for count in breadth.values()]
    assert scalars["single_model_users_ratio"] == (pytest.approx(np.mean(single)) if single else None)
    visited = Counter(model for _, model in pairs)
    assert scalars["median_users_per_model"] == (float(np.median(list(visited.values()))) if visited else None)
    busy = [
        counts.most_common(1)[0][1] > counts.total() / 2
        for own in models.values()
        if len(own) >= 100 and (counts := Counter(row["user"] for row in own if row["user"] is not None))
    ]
    assert scalars["one_user_models_ratio"] == (pytest.approx(np.mean(busy)) if busy else None)


def test_a_model_with_two_equal_users_is_not_one_user_s(measured: Measured) -> None:
    frame = pl.DataFrame({"timestamp": [START] * 200, "user": ["a", "b"] * 100, "model": ["m"] * 200})
    assert measured(Popularity(), frame.head(100)).scalars["one_user_models_ratio"] == 0
    assert measured(Popularity(), pl.concat([frame, frame.head(1)])).scalars["one_user_models_ratio"] == 1
    assert measured(Popularity(), frame.head(99)).scalars["one_user_models_ratio"] is None


def weighted_line(amounts: Sequence[float]) -> np.ndarray[Any, Any]:
    """Slope and height of log amount over log rank by `np.polyfit`, whose weights are of residuals, not of their squares."""
    ranks = np.arange(1, len(amounts) + 1)
    return np.polyfit(np.log(ranks), np.log(amounts), 1, w=np.sqrt(1 / ranks))


@given(seed=st.integers(0, 1000), count=st.integers(10, 400), exponent=st.floats(0.3, 2))
def test_zipf_is_the_line_that_polyfit_finds(seed: int, count: int, exponent: float) -> None:
    rng = np.random.default_rng(seed)
    ranks = np.arange(1.0, count + 1)
    amounts = np.sort(1e6 * ranks**-exponent * rng.lognormal(0, 0.3, count))[::-1].astype(np.float64)
    least = amounts[max(count // 2, 9)]
    found = zipf.fit(amounts, least)
    fitted = amounts[amounts >= least]
    slope, height = weighted_line(fitted)
    assert found.last_rank == fitted.size
    assert found.exponent == pytest.approx(-slope)
    assert found.scale == pytest.approx(np.exp(height))
    ranks = np.arange(1, fitted.size + 1)
    weights, logs = 1 / ranks, np.log(fitted)
    unexplained = np.average((logs - slope * np.log(ranks) - height) ** 2, weights=weights)
    spread = np.average((logs - np.average(logs, weights=weights)) ** 2, weights=weights)
    assert found.r_squared == pytest.approx(1 - unexplained / spread)
    head = weighted_line(fitted[ranks <= np.sqrt(fitted.size) + 1e-9])
    assert found.head_exponent == pytest.approx(-head[0])
    inside, outside = found.values(np.array([fitted.size, fitted.size + 1]))
    assert inside == pytest.approx(np.exp(height) * fitted.size**slope)
    assert np.isnan(outside)


def test_zipf_finds_the_exponent_that_was_put_in() -> None:
    found = zipf.fit(5e5 / np.arange(1.0, 1001.0) ** 1.1, 10)
    assert found.exponent == pytest.approx(1.1)
    assert (found.head_exponent, found.tail_exponent, found.r_squared) == pytest.approx((1.1, 1.1, 1.0))


@pytest.mark.parametrize("amounts", [[], [50.0] * 9, [50.0] * 20, [50.0, *[5.0] * 20]])
def test_zipf_is_null_where_there_is_no_line(amounts: list[float]) -> None:
    assert zipf.fit(np.array(amounts), 10).described() == (None,) * 6


def test_zipf_is_fitted_to_ranks_with_ten_requests_or_their_tokens(measured: Measured) -> None:
    counts = [400, 300, 200, 150, 120, 100, 80, 60, 40, 20, 12, 9, 5]
    users = [f"u{number:02}" for number, count in enumerate(counts) for _ in range(count)]
    frame = pl.DataFrame(
        {
            "timestamp": [START + timedelta(seconds=second) for second in range(len(users))],
            "user": users,
            "input_tokens": [100 if user < "u11" else 200 for user in users],
            "output_tokens": [0] * len(users),
        }
    )
    table = measured(Popularity(), frame).tables["zipf"].filter(pl.col("of") == "user")
    mean_tokens = (100 * sum(counts[:11]) + 200 * sum(counts[11:])) / sum(counts)
    tokens = [100 * count for count in counts[:11]] + [200 * count for count in counts[11:]]
    assert table["last_rank"].to_list() == [11, sum(amount >= 10 * mean_tokens for amount in tokens)]
    assert table["exponent"][0] == pytest.approx(-weighted_line(counts[:11])[0])


def test_rank_and_frequency_are_those_of_sorted_counts(measured: Measured) -> None:
    frame = some_requests(11, 3000).with_columns(pl.Series("user", [f"{one % 37 * one % 1_000}" for one in range(3000)]))
    counts = np.array(sorted(Counter(frame["user"]).values(), reverse=True))
    curve = measured(Popularity(), frame).tables["rank_frequency"].filter(pl.col("of") == "user", pl.col("by") == "requests")
    ranks = curve["rank"].to_numpy()
    assert ranks[:100].tolist() == list(range(1, 101))
    assert ranks[-1] == counts.size
    assert 100 < ranks.size < counts.size
    np.testing.assert_allclose(curve["ratio"], counts[ranks - 1] / 3000)
    np.testing.assert_allclose(curve["cumulative_ratio"], np.cumsum(counts)[ranks - 1] / 3000)


def test_gini_of_equal_and_of_unequal_shares() -> None:
    assert gini(np.array([3.0, 3.0])) == 0
    assert gini(np.array([0.0, 10.0])) == 0.5
    assert gini(np.array([0.0, 0.0])) is None
    assert gini(np.array([])) is None


def naive_cell(value: float) -> float:
    """The middle of a cell: exact below 32, and above of sixteen to each power of two."""
    whole = round(value)
    width: int = 2 ** max(whole.bit_length() - 5, 0)
    return whole // width * width + (width - 1) / 2


@pytest.fixture(scope="module")
def sample() -> tuple[Result, pl.DataFrame]:
    """The result over the sample trace, and its rows."""
    [result] = run(open_trace(str(SAMPLE)), [Popularity(most_users=None)])
    return result, pl.read_parquet(SAMPLE / "**" / "*.parquet")


@pytest.mark.oracle
def test_the_sample_is_what_duckdb_says(sample: tuple[Result, pl.DataFrame]) -> None:
    duckdb = pytest.importorskip("duckdb")
    result, _ = sample
    query = """
        WITH requests AS (SELECT *, status = 'ok' AND input_tokens > 0 AND output_tokens > 0 AS whole FROM {trace}),
        one AS (
            SELECT "{of}" AS name, count(*) AS requests, sum(input_tokens) FILTER (status = 'ok') AS input,
                   sum(output_tokens) FILTER (status = 'ok') AS output, count(DISTINCT "{other}") AS others,
                   count(DISTINCT timestamp) - 1 AS gaps, min(timestamp) AS first, max(timestamp) AS last,
                   quantile_cont(input_tokens, 0.5) FILTER (whole) AS median_input,
                   quantile_cont(output_tokens, 0.5) FILTER (whole) AS median_output
            FROM requests GROUP BY "{of}")
        SELECT * FROM one ORDER BY requests DESC, name"""
    for of, other, bound in (("model", "user", OF_MODELS), ("user", "model", OF_USERS)):
        table = result.tables[f"{of}s"]
        exact = (of, "requests", "input_tokens", "output_tokens", f"{other}s", "first_timestamp", "last_timestamp")
        expected = duckdb.sql(query.format(trace=TRACE, of=of, other=other)).fetchall()
        assert table.select(exact).rows() == [(*row[:5], *row[6:8]) for row in expected]
        if of == "model":
            assert table["positive_gaps"].to_list() == [row[5] for row in expected]
        for place, name in ((8, "median_input_tokens"), (9, "median_output_tokens")):
            for found, row in zip(table[name].to_list(), expected, strict=True):
                assert found == (None if row[place] is None else pytest.approx(row[place], rel=bound))


@pytest.mark.oracle
def test_shares_of_the_sample_are_what_duckdb_says(sample: tuple[Result, pl.DataFrame]) -> None:
    duckdb = pytest.importorskip("duckdb")
    result, _ = sample
    query = """
        WITH pairs AS (SELECT model, "user", count(*) AS n FROM {trace} GROUP BY ALL),
        reached AS (
            SELECT model, n, sum(n) OVER (PARTITION BY model) AS total,
                   sum(n) OVER (PARTITION BY model ORDER BY n DESC, "user" ROWS UNBOUNDED PRECEDING) AS so_far
            FROM pairs)
        SELECT model, count(*) FILTER (100 * (so_far - n) < 90 * total) AS needed, max(n) / any_value(total) AS top
        FROM reached GROUP BY model"""
    expected = {model: (needed, top) for model, needed, top in duckdb.sql(query.format(trace=TRACE)).fetchall()}
    models = result.tables["models"]
    for model, needed, top in models.select("model", "users_for_90", "top_user_ratio").rows():
        assert (needed, pytest.approx(top)) == expected[model]


def test_the_sample_is_counted_in_cells(sample: tuple[Result, pl.DataFrame]) -> None:
    """Figures 5b and 6: users with more than 10 requests, and more than one model or a median."""
    result, rows = sample
    users = rows.group_by("user").agg(pl.len().alias("requests"), pl.col("model").n_unique().alias("models"))
    shown = users.filter(pl.col("requests") > 10, pl.col("models") > 1)
    expected = Counter(
        (naive_cell(requests), naive_cell(models)) for requests, models in shown.select("requests", "models").rows()
    )
    assert {(x, y): count for x, y, count in result.tables["user_breadth"].rows()} == expected
    medians = result.tables["users"].filter(pl.col("requests") > 10).select("median_input_tokens", "median_output_tokens")
    cells = Counter((naive_cell(x), naive_cell(y)) for x, y in medians.drop_nulls().rows())
    assert {(x, y): count for x, y, count in result.tables["user_lengths"].rows()} == cells


def test_a_trace_without_users_or_models_is_told(measured: Measured) -> None:
    frame = some_requests(5, 50)
    for missing, present in (("user", "model"), ("model", "user")):
        result = measured(Popularity(), frame.drop(missing))
        assert any(f"names no {missing}" in note for note in result.notes)
        assert result.scalars[f"{missing}s"] is None
        assert result.scalars[f"gini_{missing}s"] is None
        assert result.tables[f"{missing}s"].is_empty()
        assert result.tables[f"{present}s"]["requests"].sum() == frame[present].drop_nulls().len()
    assert measured(Popularity(), frame.drop("user")).tables["models"]["users"].null_count() == 4


def test_a_shortened_table_and_unnamed_requests_are_told(measured: Measured) -> None:
    frame = some_requests(8, 300).with_columns(pl.when(pl.int_range(300) < 30).then(None).otherwise("user").alias("user"))
    result = measured(Popularity(most_users=3), frame)
    assert any(note.startswith("The table users lists the 3 of ") for note in result.notes)
    unnamed = frame["user"].null_count()
    assert any(note.startswith(f"{unnamed} of 300 requests name no user") for note in result.notes)
    assert not any("lists the" in note for note in measured(Popularity(None), frame).notes)


def test_a_table_of_no_users_is_refused() -> None:
    with pytest.raises(UsageError, match="0 users"):
        Popularity(0)


def naive_raster(rows: Sequence[Row], raster: Access) -> list[tuple[int, str, datetime, int]]:
    """Row, name, time and requests of each dot, by a loop over requests."""
    step = timedelta(microseconds=raster.step_us)
    inside = [
        row
        for row in rows
        if row[raster.of] == raster.entity and row[raster.other] is not None and raster.start <= row["timestamp"] < raster.end
    ]
    firsts: dict[str, datetime] = {}
    dots: dict[tuple[str, int], list[datetime]] = defaultdict(list)
    for row in inside:
        firsts.setdefault(row[raster.other], row["timestamp"])
        dots[row[raster.other], (row["timestamp"] - raster.start) // step].append(row["timestamp"])
    order = [name for name, _ in sorted(firsts.items(), key=lambda item: (item[1], item[0]))]
    found = [(order.index(name) + 1, name, times[0], len(times)) for (name, _), times in dots.items()]
    return sorted(found, key=lambda dot: (dot[0], dot[2]))


@given(frame=REQUESTS, cuts=st.lists(st.integers(0, 300), max_size=3), of=st.sampled_from(["user", "model"]))
def test_a_raster_has_a_dot_for_each_request(measured: Measured, frame: pl.DataFrame, cuts: list[int], of: str) -> None:
    rows = [row for row in frame.rows(named=True) if row[of] is not None]
    entity, start = (rows[0][of], rows[0]["timestamp"]) if rows else ("nobody", START)
    analysis = Access(of, entity, 1, start, start + timedelta(days=20))
    result = measured(analysis, frame, [min(cut, frame.height) for cut in cuts])
    last = frame["timestamp"].max() if frame.height else START
    fixed = analysis.for_span(START, last)  # type: ignore[arg-type]
    table = result.tables[f"{of}_access"]
    assert table.select("row", fixed.other, "time", "requests").rows() == naive_raster(frame.rows(named=True), fixed)
    assert table["elapsed_s"].to_list() == [(time - start).total_seconds() for time in table["time"]]
    inside = [row for row in rows if row[of] == entity and row["timestamp"] < fixed.end]
    named = {row[fixed.other] for row in inside} - {None}
    [raster] = result.tables["rasters"].rows(named=True)
    assert (raster["requests"], raster["entities"], raster["rows"]) == (len(inside), len(named), len(named))
    assert raster["step_s"] == pytest.approx(raster["span_s"] / 2_976, rel=1e-3, abs=1e-6)


def test_steps_of_a_month_are_a_quarter_of_an_hour() -> None:
    assert Access("user", "u", 1, START, START + timedelta(days=31)).step_us == 900_000_000


def test_a_raster_of_many_rows_is_a_sample_that_no_cut_changes(measured: Measured) -> None:
    users = np.random.default_rng(3).integers(0, 2_000, 6_000)
    frame = pl.DataFrame(
        {
            "timestamp": [START + timedelta(seconds=second) for second in range(users.size)],
            "user": [f"u{one}" for one in users],
            "model": ["m"] * users.size,
        }
    )
    analysis = Access("model", "m", 1, START, START + timedelta(days=31))
    results = [measured(analysis, frame, cuts) for cuts in ([], [1_000], [10, 3_000, 5_990])]
    for other in results[1:]:
        assert_frame_equal(other.tables["model_access"], results[0].tables["model_access"])
    shown = results[0].tables["model_access"]
    assert shown["user"].n_unique() == 800
    counts = Counter(frame["user"])
    assert dict(shown.group_by("user").agg(pl.col("requests").sum()).rows()) == {name: counts[name] for name in shown["user"]}
    [raster] = results[0].tables["rasters"].rows(named=True)
    assert (raster["entities"], raster["rows"], raster["requests"]) == (len(counts), 800, users.size)
    told = with_rasters(measured(Popularity(), frame), [results[0]])
    assert told.notes[-1] == f"The raster of model m shows a sample of 800 of its {len(counts):,} users."
    assert {"rasters", "model_access", "models"} <= told.tables.keys()
    assert {"rasters.rows", "model_access.user"} <= told.definitions.keys()


def test_rasters_are_chosen_by_rank(measured: Measured) -> None:
    frame = some_requests(21, 300)
    result = measured(Popularity(), frame)
    users = grouped(frame.rows(named=True), "user")
    found = chosen(result, "user", [1, 3], 31, START)
    names = list(users)
    assert [(one.entity, one.rank, one.start) for one in found] == [
        (names[rank - 1], rank, users[names[rank - 1]][0]["timestamp"]) for rank in (1, 3)
    ]
    assert all(one.end - one.start == timedelta(days=31) for one in found)
    elapsed = chosen(result.on_relative_clock(START), "user", [1, 3], 31, START)
    assert elapsed == found
    with pytest.raises(UsageError, match="--model-rank 99: there is no model of that rank"):
        chosen(result, "model", [99], 31, START)
