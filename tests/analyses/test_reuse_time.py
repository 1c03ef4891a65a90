"""`reuse-time` against loops over rows, written from the definitions and from nothing else."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.analyses.reuse_time import ReuseTime
from llmtrace.engine.local import run
from llmtrace.summaries import following
from llmtrace.summaries.ttl import TTLS_US
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llmtrace.result import Result

    Measured = Callable[..., Result]
    Row = dict[str, Any]

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "year"
START = datetime(2025, 4, 30, 23, 59, 59)
SECOND_US, MONTH_US = 1_000_000, 30 * 86_400_000_000
ANCHORS_US = {
    "100ms": 100_000,
    "1s": SECOND_US,
    "10s": 10 * SECOND_US,
    "1min": 60 * SECOND_US,
    "5min": 300 * SECOND_US,
    "15min": 900 * SECOND_US,
    "1h": 3_600 * SECOND_US,
    "12h": 43_200 * SECOND_US,
}
KEYS = (("user", "model"), ("user",), ("session",), ("model", "user", "session"), ("model", "endpoint"))


def some_requests(seed: int, rows: int) -> pl.DataFrame:
    """Few users and models, ties, gaps beside every anchor, months apart, unknown cells, failures, and absurd tokens."""
    rng = np.random.default_rng(seed)
    anchors = np.array(list(ANCHORS_US.values()))
    steps = rng.choice([0, 0, 1, 999, 1_000, 1_001, *(anchors - 1), *anchors, *(anchors + 1), MONTH_US // 3], rows)
    times = np.cumsum(np.where(rng.random(rows) < 0.7, rng.choice([0, 1, 50_000, 3 * SECOND_US], rows), steps))
    tokens = (10 ** rng.uniform(0, rng.choice([3, 18.9], p=[0.9, 0.1]), (2, rows))).astype(np.int64)
    values: dict[str, Any] = {
        "timestamp": np.datetime64(START, "us") + times.astype("timedelta64[us]"),
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "user": rng.choice(["u1", "u2", "u3"], rows, p=[0.6, 0.3, 0.1]),
        "model": rng.choice(["m1", "m2", "m3", "m4"], rows, p=[0.6, 0.2, 0.1, 0.1]),
        "session": rng.choice(["s1", "s2"], rows),
        "endpoint": rng.choice(["chat", "completion"], rows),
        "status": rng.choice(["ok", "timeout"], rows, p=[0.8, 0.2]),
    }
    unknown = {name: rng.random(rows) < rng.choice([0, 0.1, 1], p=[0.5, 0.45, 0.05]) for name in values if name != "timestamp"}
    return pl.DataFrame(values).with_columns(pl.when(~pl.Series(nulls)).then(name).alias(name) for name, nulls in unknown.items())


REQUESTS = st.builds(some_requests, st.integers(0, 10**6), st.integers(0, 120))
CUTS = st.lists(st.integers(0, 120), max_size=3)
WAITING = st.sampled_from([0, 10, 1 << 20])
"""Requests of a state that has them as they came, at most."""


class Naive:
    """Every definition once more, by loops over rows."""

    def __init__(self, frame: pl.DataFrame, by: Sequence[str], min_gaps: int) -> None:
        self.rows = frame.with_columns(us=pl.col("timestamp").to_physical()).rows(named=True)
        self.by, self.min_gaps = by, min_gaps
        self.end_us = self.rows[-1]["us"] if self.rows else 0
        self.visits = self.grouped(by)
        self.users = self.grouped(["user"])
        self.all = [(key, *pair) for key, rows in self.visits.items() for pair in pairwise(rows)]

    def grouped(self, by: Sequence[str]) -> dict[tuple[str, ...], list[Row]]:
        groups = defaultdict(list)
        for row in self.rows:
            key = tuple(row[column] for column in by)
            if None not in key:
                groups[key].append(row)
        return groups

    def is_busy(self, user: str) -> bool:
        return len(self.users[user,]) > 10

    def eligible(self) -> set[tuple[str, ...]]:
        found = set()
        for key, rows in self.visits.items():
            positive = [gap for gap in gaps_of(rows) if gap > 0]
            user = dict(zip(self.by, key, strict=True)).get("user")
            if len(positive) >= self.min_gaps and (user is None or self.is_busy(user)):
                found.add(key)
        return found

    def gaps(self) -> list[int]:
        """The gaps of Figure 15."""
        eligible = self.eligible()
        return [gap for key in eligible for gap in gaps_of(self.visits[key]) if gap > 0]

    def all_gaps(self) -> list[int]:
        return [gap for rows in self.visits.values() for gap in gaps_of(rows)]

    def kept(self, ttl_us: int) -> tuple[int, int]:
        """Token-microseconds that are reused, and that are not."""
        reused = wasted = 0
        for _, before, after in self.all:
            gap = after["us"] - before["us"]
            reused += both(before) * gap if gap <= ttl_us else 0
            wasted += both(before) * ttl_us if gap > ttl_us else 0
        for rows in self.visits.values():
            wasted += both(rows[-1]) * min(ttl_us, self.end_us - rows[-1]["us"])
        return reused, wasted


def gaps_of(rows: Sequence[Row]) -> list[int]:
    return [after["us"] - before["us"] for before, after in pairwise(rows)]


def known(row: Row, column: str) -> int | None:
    return None if row["status"] not in ("ok", None) else row[column]


def both(row: Row) -> int:
    return min((known(row, "input_tokens") or 0) + (known(row, "output_tokens") or 0), 2**63 - 1)


def share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def near(value: float | None, rel: float = 1e-12) -> object:
    return None if value is None else pytest.approx(value, rel=rel)


@given(frame=REQUESTS, cuts=CUTS, most=WAITING, by=st.sampled_from(KEYS), min_gaps=st.sampled_from([1, 3, 10, 12]))
def test_scalars(measured: Measured, frame: pl.DataFrame, cuts: list[int], most: int, by: tuple[str, ...], min_gaps: int) -> None:
    naive = Naive(frame, by, min_gaps)
    with patch.object(following, "MOST_WAITING", most):
        scalars = measured(ReuseTime(by, min_gaps), frame, [min(cut, frame.height) for cut in cuts]).scalars
    assert scalars["requests"] == frame.height
    assert scalars["keyed_requests"] == sum(map(len, naive.visits.values()))
    assert scalars["keys"] == len(naive.visits)
    assert scalars["eligible_keys"] == len(naive.eligible())
    assert scalars["zero_gaps"] == naive.all_gaps().count(0)
    for suffix, gaps in (("", naive.gaps()), ("_all", naive.all_gaps())):
        assert scalars[f"gaps{suffix}"] == len(gaps)
        for name, anchor in ANCHORS_US.items():
            assert scalars[f"within_{name}{suffix}"] == share(sum(gap <= anchor for gap in gaps), len(gaps))
        for name, q in (("p50_s", 0.5), ("p90_s", 0.9), ("p99_s", 0.99)):
            expected = float(np.quantile(np.array(gaps), q)) / SECOND_US if gaps else None
            assert scalars[f"{name}{suffix}"] == near(expected, rel=2**-12)


@given(frame=REQUESTS, cuts=CUTS, most=WAITING, by=st.sampled_from(KEYS))
def test_coverage(measured: Measured, frame: pl.DataFrame, cuts: list[int], most: int, by: tuple[str, ...]) -> None:
    naive = Naive(frame, by, 10)
    with patch.object(following, "MOST_WAITING", most):
        table = measured(ReuseTime(by), frame, [min(cut, frame.height) for cut in cuts]).tables["coverage"]
    has_input = any(known(row, "input_tokens") is not None for row in naive.rows)
    has_tokens = has_input or any(known(row, "output_tokens") is not None for row in naive.rows)
    input_tokens = sum(known(row, "input_tokens") or 0 for row in naive.rows)
    span_us = naive.end_us - naive.rows[0]["us"] if naive.rows else 0
    assert (
        table["ttl_s"].to_list()
        == [us / SECOND_US for us in TTLS_US if us < span_us] + [us / SECOND_US for us in TTLS_US if us >= span_us][:1]
    )
    for row in table.iter_rows(named=True):
        ttl_us = round(row["ttl_s"] * SECOND_US)
        covered = [after for _, before, after in naive.all if after["us"] - before["us"] <= ttl_us]
        covered_tokens = sum(known(after, "input_tokens") or 0 for after in covered)
        reused, wasted = naive.kept(ttl_us)
        gaps, all_gaps = naive.gaps(), naive.all_gaps()
        assert row == {
            "ttl_s": row["ttl_s"],
            "covered_ratio": share(sum(gap <= ttl_us for gap in gaps), len(gaps)),
            "covered_ratio_all": share(sum(gap <= ttl_us for gap in all_gaps), len(all_gaps)),
            "covered_requests": len(covered),
            "covered_requests_ratio": share(len(covered), frame.height),
            "covered_input_tokens_ratio": share(covered_tokens, input_tokens) if has_input else None,
            "retained_token_seconds": (reused + wasted) / SECOND_US if has_tokens else None,
            "wasted_token_seconds": wasted / SECOND_US if has_tokens else None,
            "wasted_ratio": share(wasted, reused + wasted) if has_tokens else None,
            "mean_retained_tokens": share(reused + wasted, span_us) if has_tokens else None,
        }


@given(frame=REQUESTS, cuts=CUTS, most=WAITING, by=st.sampled_from(KEYS), min_gaps=st.sampled_from([1, 3, 10]))
def test_by_month(
    measured: Measured, frame: pl.DataFrame, cuts: list[int], most: int, by: tuple[str, ...], min_gaps: int
) -> None:
    naive = Naive(frame, by, min_gaps)
    with patch.object(following, "MOST_WAITING", most):
        table = measured(ReuseTime(by, min_gaps), frame, [min(cut, frame.height) for cut in cuts]).tables["by_month"]
    months = defaultdict(list)
    for (user,), rows in naive.users.items():
        for month in sorted({row["timestamp"].replace(day=1, hour=0, minute=0, second=0, microsecond=0) for row in rows}):
            inside = [row for row in rows if (row["timestamp"].year, row["timestamp"].month) == (month.year, month.month)]
            gaps = [gap for gap in gaps_of(inside) if gap > 0]
            if len(gaps) >= min_gaps and naive.is_busy(user):
                months[month].append(np.percentile(gaps, [10, 25, 50, 75, 90]) / SECOND_US)
    assert table["month"].to_list() == sorted(months)
    for row in table.iter_rows(named=True):
        assert row["users"] == len(months[row["month"]])
        medians = np.median(months[row["month"]], axis=0)
        assert [row[f"p{percent}_s"] for percent in (10, 25, 50, 75, 90)] == pytest.approx(medians.tolist(), rel=2**-7)
        end = (row["month"] + timedelta(days=32)).replace(day=1)
        inside_s = (min(naive.rows[-1]["timestamp"], end) - max(naive.rows[0]["timestamp"], row["month"])).total_seconds()
        assert row["span_ratio"] == pytest.approx(inside_s / (end - row["month"]).total_seconds())
        assert row["partial"] == (row["span_ratio"] < 0.95)


@given(
    frame=REQUESTS,
    cuts=CUTS,
    most=WAITING,
    min_gaps=st.sampled_from([1, 3, 10]),
    highlight=st.sampled_from([(), ("m2", "none", "m2", "m1")]),
)
def test_by_model(
    measured: Measured, frame: pl.DataFrame, cuts: list[int], most: int, min_gaps: int, highlight: tuple[str, ...]
) -> None:
    naive = Naive(frame, ("user", "model"), min_gaps)
    analysis = ReuseTime(("model", "user"), min_gaps, highlight)
    with patch.object(following, "MOST_WAITING", most):
        table = measured(analysis, frame, [min(cut, frame.height) for cut in cuts]).tables["by_model"]
    requests = {model: len(rows) for (model,), rows in naive.grouped(["model"]).items()}
    top = sorted(requests, key=lambda model: (-requests[model], model))[:3]
    chosen = list(dict.fromkeys(highlight)) if highlight else top
    assert table["model"].to_list() == (chosen if requests else [])
    for row in table.iter_rows(named=True):
        keys = [key for key in naive.eligible() if key[1] == row["model"]]
        medians = [np.median([gap for gap in gaps_of(naive.visits[key]) if gap > 0]) / SECOND_US for key in keys]
        assert (row["requests"], row["users"]) == (requests.get(row["model"], 0), len(keys))
        box = np.quantile(medians, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]).tolist() if medians else [None] * 7
        assert [row[name] for name in ("min_s", "p5_s", "p25_s", "p50_s", "p75_s", "p95_s", "max_s")] == [
            near(value, rel=2**-7) for value in box
        ]


@pytest.mark.parametrize("by", [*KEYS, ("user", "stream"), ("turn", "status")])
def test_the_sample_trace_has_numpys_numbers(by: tuple[str, ...]) -> None:
    [result] = run(open_trace(str(SAMPLE)), [ReuseTime(by)])
    frame = pl.read_parquet(SAMPLE / "**/*.parquet", hive_partitioning=False).sort("timestamp", "request_id")
    key, us = pl.struct(by).rank("dense").cast(pl.Int64), pl.col("timestamp").to_physical()
    keyed = frame.filter(pl.all_horizontal(pl.col(column).is_not_null() for column in by)).with_columns(key=key, us=us)
    order = np.lexsort((keyed["us"].to_numpy(), keyed["key"].to_numpy()))
    keys, times = keyed["key"].to_numpy()[order], keyed["us"].to_numpy()[order]
    same = keys[1:] == keys[:-1]
    gaps, owners = np.diff(times)[same], keys[1:][same]
    counts = np.bincount(owners[gaps > 0], minlength=keys.max() + 1)
    eligible = gaps[(counts[owners] >= 10) & (gaps > 0)]
    assert (result.scalars["gaps"], result.scalars["gaps_all"]) == (eligible.size, gaps.size)
    assert (result.scalars["keys"], result.scalars["eligible_keys"]) == (np.unique(keys).size, (counts >= 10).sum())
    for name, anchor in ANCHORS_US.items():
        assert result.scalars[f"within_{name}"] == (eligible <= anchor).mean()
        assert result.scalars[f"within_{name}_all"] == (gaps <= anchor).mean()
    for name, q in (("p50_s", 0.5), ("p90_s", 0.9), ("p99_s", 0.99)):
        assert result.scalars[name] == pytest.approx(np.quantile(eligible, q) / SECOND_US, rel=2**-12)
    tokens = frame.filter(pl.col("status").is_null() | (pl.col("status") == "ok"))["input_tokens"].sum()
    ok = (keyed["status"].is_null() | (keyed["status"] == "ok")).to_numpy()
    ended = np.where(ok, keyed["input_tokens"].fill_null(0).to_numpy(), 0)[order][1:][same]
    for ttl_s, share in result.tables["coverage"].select("ttl_s", "covered_input_tokens_ratio").iter_rows():
        assert share == ended[gaps <= round(ttl_s * SECOND_US)].sum() / tokens


def steady(users: int, requests: int, columns: Mapping[str, object] | None = None) -> pl.DataFrame:
    """So many users, each with so many requests, one every second, all users at once."""
    times = [START + timedelta(seconds=step) for step in range(requests) for _ in range(users)]
    frame = pl.DataFrame({"timestamp": times, "user": [f"u{user}" for _ in range(requests) for user in range(users)]})
    usual = {"input_tokens": 3, "output_tokens": 4, "model": "m", "session": None, "endpoint": None, "status": "ok"}
    return frame.with_columns(pl.lit(value).alias(name) for name, value in {**usual, **(columns or {})}.items())


def test_a_steady_stream_is_covered_from_its_step_on(measured: Measured) -> None:
    result = measured(ReuseTime(), steady(2, 20), [7, 8])
    coverage = result.tables["coverage"]
    assert set(coverage.filter(pl.col("ttl_s") < 1)["covered_ratio"]) == {0.0}
    assert set(coverage.filter(pl.col("ttl_s") >= 1)["covered_ratio"]) == {1.0}
    # Each user retains 7 tokens for 19 s; with a TTL of half a second half of that, and all of it in vain.
    at = {row["ttl_s"]: (row["retained_token_seconds"], row["wasted_token_seconds"]) for row in coverage.iter_rows(named=True)}
    assert at[1.0] == (2 * 7 * 19, 0)
    assert at[0.5] == (2 * 7 * 19 / 2, 2 * 7 * 19 / 2)


def test_ten_positive_gaps_make_a_key_eligible_and_nine_do_not(measured: Measured) -> None:
    assert measured(ReuseTime(), steady(1, 11)).scalars["eligible_keys"] == 1
    assert measured(ReuseTime(), steady(1, 10)).scalars["eligible_keys"] == 0


def test_a_key_of_few_gaps_needs_a_user_with_more_than_ten_requests_of_any_kind(measured: Measured) -> None:
    few = steady(1, 5)
    others = steady(1, 6, {"model": None, "status": "timeout", "input_tokens": None})
    for extra, eligible in ((0, 0), (5, 0), (6, 1)):
        frame = pl.concat([few, others.head(extra)], how="vertical_relaxed").sort("timestamp")
        result = measured(ReuseTime(min_gaps=3), frame, [3])
        assert (result.scalars["eligible_keys"], result.scalars["gaps"]) == (eligible, 4 * eligible)
        assert measured(ReuseTime(("model",), min_gaps=3), frame).scalars["eligible_keys"] == 1


ZERO = "gaps are zero, requests of one key at one instant"


def test_the_notes_say_what_one_must_know(measured: Measured) -> None:
    several = pl.concat([steady(3, 12), steady(1, 12), steady(2, 3, {"model": None})], how="vertical_relaxed").sort("timestamp")
    notes = measured(ReuseTime(highlight=("m", "n")), several).notes
    assert any("are over the positive gaps of 3 of 3 keys (user and model)" in note for note in notes)
    assert f"12 of 45 {ZERO}: 100.0% of all gaps lie within a second, 100.0% of those above zero." in notes
    assert "6 of 54 requests have no known user and model: no TTL covers them, and they retain nothing." in notes
    assert "No request goes to 'n'." in notes
    assert "The trace covers 1 of 1 month in by_month only in part: long gaps do not fit into it." in notes
    bare = measured(ReuseTime(("session",)), steady(1, 5, {"session": "s", "user": None})).notes
    assert "No session with at least 10 positive gaps is in the trace: numbers without the suffix _all are null." in bare
    assert "The trace names no users: by_month is empty." in bare
    assert any(note.startswith("by_model is about users and models") for note in bare)


def test_zero_gaps_are_weighed_among_all_gaps(measured: Measured) -> None:
    """Ten gaps of a second and one of zero of a key that is eligible; two of an hour and two of zero of one that is not."""
    busy, rare = [0, 0, *range(1, 11)], [0, 0, 0, 3_600, 7_200]
    rows = sorted((second, user) for user, seconds in (("u1", busy), ("u2", rare)) for second in seconds)
    times = [START + timedelta(seconds=second) for second, _ in rows]
    frame = steady(1, len(rows)).with_columns(timestamp=pl.Series(times), user=pl.Series([user for _, user in rows]))
    result = measured(ReuseTime(), frame, [5])
    assert (result.scalars["eligible_keys"], result.scalars["gaps_all"], result.scalars["zero_gaps"]) == (1, 15, 3)
    assert f"3 of 15 {ZERO}: 86.7% of all gaps lie within a second, 83.3% of those above zero." in result.notes


def test_where_all_gaps_are_zero_there_are_no_others(measured: Measured) -> None:
    frame = steady(1, 5).with_columns(timestamp=pl.lit(START))
    assert f"4 of 4 {ZERO}: 100.0% of all gaps lie within a second." in measured(ReuseTime(), frame).notes


def test_users_are_many_where_keys_are_few(measured: Measured) -> None:
    """The users of all requests are followed at once, while the few requests with a session still wait."""
    frame = steady(5, 60).with_columns(session=pl.when(pl.int_range(300) % 5 == 0).then(pl.lit("s")))
    with patch.object(following, "MOST_WAITING", 100):
        result = measured(ReuseTime(("session",)), frame, [100, 200])
    assert [result.scalars[name] for name in ("keyed_requests", "keys", "gaps", "within_1s")] == [60, 1, 59, 1.0]
    assert result.tables["by_month"]["users"].to_list() == [5]


@pytest.mark.parametrize("few", [2, 3])
def test_a_part_with_few_keyed_requests_is_followed(tmp_path: Path, few: int) -> None:
    """Polars hands on the columns of so few alike rows in different chunks."""
    users = pl.when((pl.int_range(300) < 200) | pl.int_range(300).is_between(250, 249 + few)).then(pl.lit("u"))
    steady(1, 300).with_columns(user=users).write_parquet(tmp_path / "t.parquet", row_group_size=50)
    trace = open_trace(str(tmp_path / "t.parquet"))
    with patch.object(following, "MOST_WAITING", 150), patch("llmtrace.engine.local.part_rows", lambda _: 100):
        [result] = run(trace, [ReuseTime()], threads=2)
    assert [result.scalars[name] for name in ("keyed_requests", "keys", "gaps")] == [200 + few, 1, 199 + few]


@pytest.mark.parametrize("column", ["input_tokens", "output_tokens"])
def test_without_tokens_there_is_null_and_not_zero(measured: Measured, column: str) -> None:
    one = measured(ReuseTime(), steady(1, 12, {column: None})).tables["coverage"]
    assert one["covered_input_tokens_ratio"].null_count() == (one.height if column == "input_tokens" else 0)
    assert one["retained_token_seconds"].null_count() == 0
    none = measured(ReuseTime(), steady(1, 12, {"input_tokens": None, "output_tokens": None})).tables["coverage"]
    tokens = [name for name in none.columns if "token" in name or name == "wasted_ratio"]
    assert all(none[name].null_count() == none.height for name in tokens)
    assert none["covered_ratio"].null_count() == 0
