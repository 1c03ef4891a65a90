"""`hit-dist` against loops over rows and SciPy, written from the definitions and from nothing else."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy.stats import kurtosis, skew

from llmtrace.analyses.hit_dist import HitDist, latency, lengths, part, users
from llmtrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llmtrace.result import Result

    Measured = Callable[..., Result]
    Row = dict[str, Any]

START = datetime(2025, 4, 11)
BANDS = [0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 1 << 63]
COLUMNS = [*range(0, 32_001, 2_000), 64_000, 128_000, 1 << 63]
HALF_CELL, HALF_CELL_BY_MODEL = 0.0005 + 1e-12, 0.005 + 1e-12
TTFT_WITHIN = 2.0**-8
FEW = 3
"""What takes the place of the least numbers of requests, so that small traces have what large ones have."""


def some_requests(seed: int, rows: int) -> pl.DataFrame:
    """Ratios on and beside steps and thresholds, lengths on and beside edges, all that has no ratio, absurd tokens."""
    rng = np.random.default_rng(seed)
    edges = np.array([*BANDS[:-1], *COLUMNS[:-1]])
    inputs = np.maximum(rng.choice(edges, rows) + rng.integers(-1, 2, rows), 0)
    inputs = np.where(rng.random(rows) < 0.5, rng.choice([0, 1, 7, 20, 50, 100, 1_000, 3_000], rows), inputs)
    inputs = np.where(rng.random(rows) < 0.05, (10 ** rng.uniform(12, 18.9, rows)).astype(np.int64), inputs)
    shares = rng.choice([0, 0, 0.019, 0.02, 0.1, 0.25, 0.5, 0.9, 0.95, 0.951, 0.999, 1], rows)
    cached = np.clip((inputs * shares).astype(np.int64) + rng.choice([-1, 0, 0, 0, 1], rows), 0, inputs)
    values: dict[str, Any] = {
        "timestamp": np.datetime64(START, "us") + np.sort(rng.integers(0, 10**10, rows)).astype("timedelta64[us]"),
        "input_tokens": inputs,
        "cached_tokens": cached,
        "user": rng.choice(["u1", "u2", "u3", "u4"], rows, p=[0.6, 0.3, 0.05, 0.05]),
        "model": rng.choice(["m1", "m2", "m3", "m4"], rows, p=[0.5, 0.3, 0.1, 0.1]),
        "ttft_s": np.where(rng.random(rows) < 0.9, 10 ** rng.uniform(-6.5, 2.4, rows), rng.choice([0, 299.9999, 300, 301], rows)),
        "status": rng.choice(["ok", "timeout"], rows, p=[0.8, 0.2]),
        "stream": rng.random(rows) < rng.choice([0.7, 1]),
    }
    unknown = {name: rng.random(rows) < rng.choice([0, 0.1, 1], p=[0.5, 0.45, 0.05]) for name in values if name != "timestamp"}
    return pl.DataFrame(values).with_columns(pl.when(~pl.Series(nulls)).then(name).alias(name) for name, nulls in unknown.items())


REQUESTS = st.builds(some_requests, st.integers(0, 10**6), st.integers(0, 150))
CUTS = st.lists(st.integers(0, 150), max_size=3)


def ratio_of(row: Row) -> Fraction | None:
    """clip(ct/it, 0, 1) where ct is not null and it > 0, of requests that did not fail."""
    if row["status"] not in ("ok", None) or row["cached_tokens"] is None or not row["input_tokens"]:
        return None
    return min(Fraction(row["cached_tokens"], row["input_tokens"]), Fraction(1))


class Naive:
    """Every definition once more, by loops over rows and exact fractions."""

    def __init__(self, frame: pl.DataFrame, zero_at: str = "0", full_at: str = "0.95") -> None:
        self.all = [{**row, "ratio": ratio_of(row)} for row in frame.rows(named=True)]
        self.rows = [row for row in self.all if row["ratio"] is not None]
        self.zero_at, self.full_at = Fraction(zero_at), Fraction(full_at)

    def numbers(self, rows: Sequence[Row]) -> dict[str, Any]:
        """What is told of every group of requests with a ratio."""
        inputs, cached = (sum(row[name] for row in rows) for name in ("input_tokens", "cached_tokens"))
        return {
            "input_tokens": inputs,
            "cached_tokens": cached,
            "mean_request_hit_ratio": near(share(sum(row["ratio"] for row in rows), len(rows)), abs_=1e-9),
            "token_hit_ratio": near(share(cached, inputs)),
            "share_zero": near(share(sum(row["ratio"] <= self.zero_at for row in rows), len(rows))),
            "share_full": near(share(sum(row["ratio"] >= self.full_at for row in rows), len(rows))),
        }

    def by(self, column: str) -> dict[str | None, list[Row]]:
        groups = defaultdict(list)
        for row in self.all:
            groups[row[column]].append(row)
        return groups

    def scalars(self) -> dict[str, Any]:
        known = [row for row in self.all if row["status"] is not None]
        failed = [row for row in known if row["status"] != "ok"]
        succeeded = [row for row in self.all if row["status"] in ("ok", None)]
        times = [row["timestamp"] for row in self.rows]
        count, total = len(self.rows), len(self.all)
        numbers = self.numbers(self.rows)
        return {
            "requests": total,
            "measured_requests": count,
            "measured_ratio": near(share(count, total)),
            "unlogged_requests": sum(row["cached_tokens"] is None for row in succeeded),
            "failed_requests": len(failed) if known else None,
            "no_input_requests": sum(row["cached_tokens"] is not None and not row["input_tokens"] for row in succeeded),
            "first_logged_timestamp": min(times, default=None),
            "last_logged_timestamp": max(times, default=None),
            "models": len({row["model"] for row in self.rows} - {None}) or None,
            "users": len({row["user"] for row in self.rows} - {None}) or None,
            **{name: number if count else None for name, number in numbers.items()},
            "median_hit_ratio": near(quantile(self.rows, 0.5), abs_=HALF_CELL),
        }

    def ttft(self) -> dict[tuple[int, int], list[float]]:
        """TTFT in 0 < ttft < 300, but for requests that do not stream, by column of input length and tenth of the ratio."""
        cells = defaultdict(list)
        for row in self.rows:
            if row["ttft_s"] is not None and 0 < row["ttft_s"] < 300 and row.get("stream") is not False:
                cells[place(COLUMNS, row["input_tokens"]), row["ratio"] * 10 // 1].append(row["ttft_s"])
        return cells


def place(edges: Sequence[int], value: int) -> int:
    return next(place for place in range(len(edges) - 1) if edges[place] <= value < edges[place + 1])


def share(part: Fraction | float, whole: float) -> Fraction | float | None:
    return part / whole if whole else None


def near(value: Fraction | float | None, abs_: float = 1e-12, rel: float = 1e-12) -> object:
    return None if value is None else pytest.approx(float(value), abs=abs_, rel=rel)


def quantile(rows: Sequence[Row], at: float) -> float | None:
    return float(np.quantile([float(row["ratio"]) for row in rows], at)) if rows else None


def sarle(values: Sequence[float]) -> float | None:
    """The coefficient with SciPy's bias-corrected moments; None for fewer than 4 values or where all are alike."""
    size = len(values)
    if size < 4 or len(set(values)) == 1:
        return None
    spread = kurtosis(values, bias=False) + 3 * (size - 1) ** 2 / ((size - 2) * (size - 3))
    return float((skew(values, bias=False) ** 2 + 1) / spread)


def rows_of(table: pl.DataFrame, *columns: str) -> list[dict[str, Any]]:
    return table.select(columns).rows(named=True)


@given(frame=REQUESTS, cuts=CUTS)
def test_scalars_are_what_a_loop_counts(frame: pl.DataFrame, cuts: list[int], measured: Measured) -> None:
    naive = Naive(frame).scalars()
    found = measured(HitDist(), frame, [min(cut, frame.height) for cut in cuts]).scalars
    assert {name: found[name] for name in naive} == naive


@given(frame=REQUESTS)
def test_thresholds_count_what_is_on_them(frame: pl.DataFrame, measured: Measured) -> None:
    naive = Naive(frame, "0.25", "0.951")
    found = measured(HitDist(zero_at=0.25, full_at=0.951), frame)
    numbers = naive.numbers(naive.rows)
    for name in ("share_zero", "share_full"):
        assert found.scalars[name] == numbers[name]
        assert "0.25" in found.definitions[name] or "0.951" in found.definitions[name]
    for row in found.tables["by_model"].rows(named=True):
        rows = [one for one in naive.rows if one["model"] == row["model"]]
        assert {name: row[name] for name in ("share_zero", "share_full")} == {
            name: naive.numbers(rows)[name] for name in ("share_zero", "share_full")
        }


@given(frame=REQUESTS, cuts=CUTS)
def test_the_histogram_weighs_requests_and_tokens(frame: pl.DataFrame, cuts: list[int], measured: Measured) -> None:
    naive = Naive(frame)
    table = measured(HitDist(), frame, [min(cut, frame.height) for cut in cuts]).tables["histogram"]
    assert table["hit_ratio_from"].to_list() == [step / 50 for step in range(51)]
    assert table["hit_ratio_to"].to_list() == [*(step / 50 for step in range(1, 51)), 1.0]
    bins: list[list[Row]] = [[row for row in naive.rows if row["ratio"] * 50 // 1 == step] for step in range(51)]
    assert table["requests"].to_list() == [len(rows) for rows in bins]
    assert table["requests_ratio"].to_list() == [near(share(len(rows), len(naive.rows))) for rows in bins]
    for name in ("input_tokens", "cached_tokens"):
        sums = [sum(row[name] for row in rows) for rows in bins]
        assert table[name].to_list() == sums
        assert table[f"{name}_ratio"].to_list() == [near(share(number, sum(sums))) for number in sums]


@given(frame=REQUESTS, cuts=CUTS)
def test_bands_of_input_length(frame: pl.DataFrame, cuts: list[int], measured: Measured) -> None:
    naive = Naive(frame)
    bands = defaultdict(list)
    for row in naive.rows:
        bands[place(BANDS, row["input_tokens"])].append(row)
    expected = [
        {
            "input_tokens_from": BANDS[band],
            "input_tokens_to": BANDS[band + 1] if band < 8 else None,
            "requests": len(rows),
            "requests_ratio": near(share(len(rows), len(naive.rows))),
            **naive.numbers(rows),
            **{f"hit_ratio_p{percent}": near(quantile(rows, percent / 100), abs_=HALF_CELL) for percent in (10, 50, 90)},
        }
        for band, rows in sorted(bands.items())
    ]
    table = measured(HitDist(), frame, [min(cut, frame.height) for cut in cuts]).tables["by_input_length"]
    assert rows_of(table, *(expected[0] if expected else [])) == expected
    assert table["bimodality"].null_count() == table.filter(table["requests"] <= 100).height


@given(frame=REQUESTS, cuts=CUTS)
def test_cumulative_shares(frame: pl.DataFrame, cuts: list[int], measured: Measured) -> None:
    naive = Naive(frame)
    models = sorted({row["model"] for row in naive.rows} - {None})
    models.sort(key=lambda name: (-len([row for row in naive.rows if row["model"] == name]), -len(naive.by("model")[name])))
    groups: dict[tuple[str, str | None], Callable[[Row], bool]] = {
        ("all", None): lambda _: True,
        ("input_length", "under 1,000"): lambda row: row["input_tokens"] < 1_000,
        ("input_length", "1,000 to 7,999"): lambda row: 1_000 <= row["input_tokens"] < 8_000,
        ("input_length", "8,000 and more"): lambda row: row["input_tokens"] >= 8_000,
        **{("model", name): lambda row, name=name: row["model"] == name for name in models[:3]},  # type: ignore[misc]
    }
    chosen = {key: [row for row in naive.rows if test(row)] for key, test in groups.items()}
    table = measured(HitDist(), frame, [min(cut, frame.height) for cut in cuts]).tables["cdf"]
    assert list(dict.fromkeys(table.select("scope", "name").rows())) == [key for key, rows in chosen.items() if rows]
    for (scope, name), rows in chosen.items():
        curve = table.filter(pl.col("scope") == scope, pl.col("name").eq_missing(pl.lit(name, pl.String)))
        steps = [Fraction(step, 100) for step in range(101)] if rows else []
        below = [[row for row in rows if row["ratio"] <= step] for step in steps]
        assert curve["hit_ratio"].to_list() == [float(step) for step in steps]
        assert curve["cumulative_ratio"].to_list() == [near(share(len(part), len(rows))) for part in below]
        total = sum(row["input_tokens"] for row in rows)
        tokens = [near(share(sum(row["input_tokens"] for row in part), total)) if scope != "model" else None for part in below]
        assert curve["cumulative_tokens_ratio"].to_list() == tokens


@given(frame=REQUESTS, cuts=CUTS)
def test_models(frame: pl.DataFrame, cuts: list[int], measured: Measured) -> None:
    naive = Naive(frame)
    expected: list[Row] = []
    for model, rows in naive.by("model").items():
        with_ratio = [row for row in rows if row["ratio"] is not None]
        values = [float(row["ratio"]) for row in with_ratio]
        expected.append(
            {
                "model": model,
                "requests": len(rows),
                "measured_requests": len(with_ratio),
                **naive.numbers(with_ratio),
                **{
                    f"hit_ratio_p{percent}": near(quantile(with_ratio, percent / 100), abs_=HALF_CELL_BY_MODEL)
                    for percent in (10, 50, 90)
                },
                "bimodality": near(sarle(values), abs_=0.02) if len(values) > FEW else None,
            }
        )
    expected.sort(key=lambda row: (-row["measured_requests"], -row["requests"], row["model"] is None, row["model"] or ""))
    with patch.object(lengths, "FEWEST", FEW):
        table = measured(HitDist(), frame, [min(cut, frame.height) for cut in cuts]).tables["by_model"]
    if all(row["model"] is None for row in expected):
        assert table.is_empty()
    else:
        assert rows_of(table, *expected[0]) == expected


@given(frame=REQUESTS, cuts=CUTS)
def test_users_one_by_one_and_in_classes(frame: pl.DataFrame, cuts: list[int], measured: Measured) -> None:
    naive = Naive(frame)
    expected: list[Row] = []
    own: list[list[Row]] = []
    for user, rows in naive.by("user").items():
        with_ratio = [row for row in rows if row["ratio"] is not None]
        if user is not None:
            numbers = naive.numbers(with_ratio)
            expected.append({"user": user, "requests": len(rows), "measured_requests": len(with_ratio), **numbers})
            own += [with_ratio] if with_ratio else []
    expected.sort(key=lambda row: (-row["measured_requests"], -row["requests"], row["user"]))
    result = measured(HitDist(per_user=True), frame, [min(cut, frame.height) for cut in cuts])
    assert rows_of(result.tables["users"], *(expected[0] if expected else [])) == expected
    classes = []
    for low, high in ((1, 10), (11, 100), (101, 1_000)):
        members = [rows for rows in own if low <= len(rows) <= high]
        together = [row for rows in members for row in rows]
        numbers = naive.numbers(together)
        means = [float(sum(row["ratio"] for row in rows) / len(rows)) for rows in members]
        tokens = [sum(row["cached_tokens"] for row in rows) / sum(row["input_tokens"] for row in rows) for rows in members]
        if members:
            classes.append(
                {
                    "requests_from": low,
                    "requests_to": high,
                    "users": len(members),
                    "measured_requests": len(together),
                    **{name: numbers[name] for name in ("input_tokens", "cached_tokens")},
                    **{name: numbers[name] for name in ("mean_request_hit_ratio", "token_hit_ratio")},
                    **{f"mean_request_hit_ratio_p{p}": near(np.percentile(means, p), 1e-9) for p in (10, 25, 50, 75, 90)},
                    **{f"token_hit_ratio_p{p}": near(np.percentile(tokens, p), 1e-9) for p in (10, 25, 50, 75, 90)},
                }
            )
    assert result.tables["by_user"].rows(named=True) == classes


@given(frame=REQUESTS)
def test_the_grid_has_every_busy_user_once(frame: pl.DataFrame, measured: Measured) -> None:
    result = measured(HitDist(per_user=True), frame)
    busy = result.tables["users"].filter(pl.col("measured_requests") > 10)
    grid = result.tables["user_grid"]
    assert grid["users"].sum() == busy.height
    for cell in grid.rows(named=True):
        upper = cell["hit_ratio_to"] if cell["hit_ratio_to"] < 1 else 1.1
        inside = busy.filter(
            pl.col("measured_requests").is_between(cell["requests_from"], cell["requests_to"]),
            pl.col("mean_request_hit_ratio") >= cell["hit_ratio_from"] - 1e-9,
            pl.col("mean_request_hit_ratio") < upper + 1e-9,
        )
        assert inside.height >= cell["users"] >= 1


@given(frame=REQUESTS, cuts=CUTS)
def test_ttft_by_length_and_ratio_and_what_hits_save(frame: pl.DataFrame, cuts: list[int], measured: Measured) -> None:
    cells = Naive(frame).ttft()
    with patch.object(latency, "FEWEST", FEW):
        result = measured(HitDist(), frame, [min(cut, frame.height) for cut in cuts])
    table = result.tables["ttft_by_hit"]
    corners = [
        (COLUMNS[column], COLUMNS[column + 1] if column < 18 else None, row / 10, min(row + 1, 10) / 10, len(cells[column, row]))
        for column, row in sorted(cells)
    ]
    assert table.select("input_tokens_from", "input_tokens_to", "hit_ratio_from", "hit_ratio_to", "requests").rows() == corners
    for (_, values), found in zip(sorted(cells.items()), table.rows(named=True), strict=True):
        enough = len(values) >= FEW
        for name, value in (("mean", np.mean(values)), ("p50", np.median(values)), ("p95", np.percentile(values, 95))):
            assert found[f"ttft_{name}_s"] == (near(float(value), 1e-6, TTFT_WITHIN) if enough else None)
    check_saved(table, result, cells)


def check_saved(table: pl.DataFrame, result: Result, cells: dict[tuple[int, int], list[float]]) -> None:
    """Savings are differences of medians in the table; rows 9 and 10 together are nine tenths and more."""
    medians = dict(zip(sorted(cells), table["ttft_p50_s"], strict=True))
    weights: list[int] = []
    gains: list[float] = []
    bases: list[float] = []
    for (column, row), saved_s, saved_ratio in zip(sorted(cells), table["saved_s"], table["saved_ratio"], strict=True):
        before, after = medians.get((column, 0)), medians[column, row]
        known = before is not None and after is not None
        assert saved_s == (near(before - after) if known else None)
        assert saved_ratio == (near((before - after) / before) if known else None)
        if known and row > 0:
            weights.append(len(cells[column, row]))
            gains.append(saved_s or 0.0)
            bases.append(before or 0.0)
    scalars = result.scalars
    assert scalars["ttft_requests"] == sum(map(len, cells.values()))
    assert scalars["compared_requests"] == sum(weights)
    assert scalars["ttft_saved_s"] == near(float(np.average(gains, weights=weights)) if weights else None)
    assert scalars["ttft_saved_ratio"] == near(np.dot(weights, gains) / np.dot(weights, bases) if weights else None)
    for found in result.tables["ttft_saved"].rows(named=True):
        column = COLUMNS.index(found["input_tokens_from"])
        low, high = cells.get((column, 0), []), cells.get((column, 9), []) + cells.get((column, 10), [])
        assert (found["requests_without_hit"], found["requests_with_hit"]) == (len(low), len(high))
        assert found["requests"] == sum(len(values) for (one, _), values in cells.items() if one == column)
        for name, values in (("without", low), ("with", high)):
            median = near(float(np.median(values)), 1e-6, TTFT_WITHIN) if len(values) >= FEW else None
            assert found[f"ttft_{name}_hit_p50_s"] == median
        if min(len(low), len(high)) >= FEW:
            assert found["saved_s"] == near(found["ttft_without_hit_p50_s"] - found["ttft_with_hit_p50_s"])
            assert found["saved_ratio"] == near(found["saved_s"] / found["ttft_without_hit_p50_s"])


@given(REQUESTS, st.lists(st.integers(1, 150), min_size=1, max_size=3))
def test_however_columns_are_cut_into_chunks(frame: pl.DataFrame, chunks: list[int]) -> None:
    columns = [
        pl.concat([column[row : row + length] for row in range(0, max(frame.height, 1), length)], rechunk=False)
        for column, length in zip(frame.get_columns(), chunks * len(frame.columns), strict=False)
    ]
    whole, cut = (part.summarise(one, 0.0, 0.95, per_user=True) for one in (frame, pl.DataFrame(columns)))
    with patch.object(part, "_PIECE_ROWS", 8):
        pieces = part.summarise(frame, 0.0, 0.95, per_user=True)
    for name, table in whole.items():
        assert_frame_equal(cut[name], table)
        assert_frame_equal(pieces[name], table)


def test_nothing_logged_is_no_zero(measured: Measured) -> None:
    frame = pl.DataFrame(
        {"timestamp": [START] * 3, "input_tokens": [10, 20, 30], "cached_tokens": pl.Series([None] * 3, dtype=pl.Int64)}
    )
    result = measured(HitDist(), frame)
    assert (result.scalars["requests"], result.scalars["unlogged_requests"], result.scalars["measured_requests"]) == (3, 3, 0)
    unknown = ("token_hit_ratio", "mean_request_hit_ratio", "share_zero", "share_full", "bimodality", "cached_tokens")
    assert [result.scalars[name] for name in unknown] == [None] * len(unknown)
    assert "llmtrace sessions and llmtrace cache estimate reuse" in result.notes[0]


def test_a_highlighted_model_has_a_curve_and_one_that_is_not_there_has_none(measured: Measured) -> None:
    frame = pl.DataFrame(
        {
            "timestamp": [START] * 6,
            "input_tokens": [10] * 6,
            "cached_tokens": [0, 5, 10, 0, 0, 0],
            "model": ["a", "a", "a", "b", "c", "d"],
        }
    )
    table = measured(HitDist(highlight=("d", "x", "a", "d")), frame).tables["cdf"]
    assert table.filter(pl.col("scope") == "model")["name"].unique(maintain_order=True).to_list() == ["d", "a"]


def test_what_is_left_out_is_not_read_and_is_empty(measured: Measured) -> None:
    frame = some_requests(3, 100)
    everything, less = measured(HitDist(), frame), measured(HitDist(skip=("models", "users", "ttft")), frame)
    assert HitDist(skip=("models", "users", "ttft")).uses == {"timestamp", "input_tokens", "cached_tokens", "status"}
    empty = ("by_model", "by_user", "user_grid", "ttft_by_hit", "ttft_saved")
    assert [less.tables[name].height for name in empty] == [0] * len(empty)
    for name in ("histogram", "by_input_length"):
        assert less.tables[name].equals(everything.tables[name])
    assert "Left out with --skip: models, users, ttft" in " ".join(less.notes)
    assert {name: table.schema for name, table in less.tables.items()} == {
        name: table.schema for name, table in everything.tables.items()
    }


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"zero_at": -0.1}, "--zero-at -0.1: not a hit ratio in thousandths"),
        ({"full_at": 0.9505}, "--full-at 0.9505: not a hit ratio in thousandths"),
        ({"full_at": 1.5}, "--full-at 1.5: not a hit ratio in thousandths"),
        ({"full_at": float("nan")}, "--full-at nan: not a hit ratio in thousandths"),
        ({"zero_at": 0.95}, "--zero-at 0.95: not below --full-at 0.95"),
        ({"skip": ("user",)}, "--skip user: there is no such part"),
        ({"skip": ("users",), "per_user": True}, "--per-user together with --skip users"),
    ],
)
def test_what_makes_no_sense_is_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        HitDist(**parameters)
    assert refused.value.message.startswith(message)


def test_least_numbers_are_the_papers() -> None:
    assert (latency.FEWEST, lengths.FEWEST, users.FEWEST) == (200, 100, 10)
