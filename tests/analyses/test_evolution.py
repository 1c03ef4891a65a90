"""`evolution` against loops over rows and NumPy, written from the definitions and from nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.analyses.evolution import Evolution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from llmtrace.result import Result

    Measured = Callable[..., Result]
    Row = dict[str, Any]
    Periods = dict[datetime, list[Row]]

START = datetime(2025, 4, 11)
SIDES = ("input_tokens", "output_tokens")
PERCENTS = (10, 25, 50, 75, 90)
OF_PERIODS, OF_USERS = 2**-12, 2**-7
"""Within what percentiles of periods and medians of users are, relative to the true ones."""
LOOSE = 1e-9


def some_requests(seed: int, rows: int) -> pl.DataFrame:
    """Few users and models, busy ones and rare ones, ties, idle periods, unknown cells, failures, zero and absurd tokens."""
    rng = np.random.default_rng(seed)
    tokens = (10 ** rng.uniform(0, rng.choice([3, 5, 18.9], p=[0.6, 0.3, 0.1]), (2, rows))).astype(np.int64)
    tokens[rng.random((2, rows)) < 0.1] = 0
    hours = rng.integers(0, 9 * rows + 1, rows) if rng.random() < 0.7 else rng.choice([0, 5000, 5001], rows)
    values: dict[str, Any] = {
        "timestamp": np.datetime64(START, "us") + np.sort(hours).astype("timedelta64[h]"),
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "user": rng.choice(["u1", "u2", "u3", "u4", "u5"], rows, p=[0.5, 0.2, 0.1, 0.1, 0.1]),
        "model": rng.choice(["m4", "m3", "m2", "m1"], rows, p=[0.5, 0.2, 0.2, 0.1]),
        "status": rng.choice(["ok", "ok", "timeout"], rows),
    }
    texts = dict.fromkeys(("user", "model", "status"), pl.String())
    frame = pl.DataFrame(values, schema_overrides={"timestamp": pl.Datetime("us"), **texts})
    unknown = {name: pl.Series(rng.random(rows) < rng.choice([0, 0.2, 1], p=[0.6, 0.3, 0.1])) for name in list(values)[1:]}
    return frame.with_columns(pl.when(~nulls).then(name).alias(name) for name, nulls in unknown.items())


REQUESTS = st.builds(some_requests, st.integers(0, 10**6), st.integers(1, 200))
CUTS = st.lists(st.integers(0, 200), max_size=2)


def start_of(time: datetime, interval: str) -> datetime:
    if interval == "1d":
        return datetime(time.year, time.month, time.day)
    return datetime(time.year, time.month if interval == "month" else 1, 1)


def next_start(start: datetime, interval: str) -> datetime:
    return start_of(start + timedelta(days={"1d": 1, "month": 31, "year": 366}[interval]), interval)


def cut(frame: pl.DataFrame, interval: str = "month") -> Periods:
    """The rows of every period from the first request to the last, idle ones included."""
    rows = frame.rows(named=True)
    start, periods = start_of(rows[0]["timestamp"], interval), {}
    while start <= rows[-1]["timestamp"]:
        end = next_start(start, interval)
        periods[start] = [row for row in rows if start <= row["timestamp"] < end]
        start = end
    return periods


def known(rows: Iterable[Row], column: str) -> list[int]:
    return [row[column] for row in rows if row["status"] in ("ok", None) and row[column] is not None]


def lengths(rows: Iterable[Row], column: str) -> list[float]:
    """Of requests that did not fail and have positive input and output tokens."""
    whole = [row for row in rows if row["status"] in ("ok", None) and all((row[side] or 0) > 0 for side in SIDES)]
    return [float(row[column]) for row in whole]


def total(rows: Sequence[Row], columns: Sequence[str], frame: pl.DataFrame) -> int | None:
    """The sum of what is known; without requests nothing is used, if anything is ever known."""
    values = [one for column in columns for one in known(rows, column)]
    ever = any(known(frame.rows(named=True), column) for column in columns)
    return sum(values) if values or (ever and not rows) else None


def partial_of(frame: pl.DataFrame, periods: Iterable[datetime], interval: str = "month") -> dict[datetime, bool]:
    """Which periods lie for less than 95 % between the first and the last request."""
    first, last = frame["timestamp"].min(), frame["timestamp"].max()
    shares = {}
    for start in periods:
        end = next_start(start, interval)
        shares[start] = (min(end, last) - max(start, first)) / (end - start)  # type: ignore[type-var, operator]
    return {start: share < 0.95 for start, share in shares.items()}


def about(value: float | None, rel: float = LOOSE) -> object:
    return None if value is None else pytest.approx(value, rel=rel, abs=LOOSE)


def main_model(rows: Iterable[Row]) -> str | None:
    """The model with most requests; of those with as many, the one whose name comes first."""
    counts = Counter(row["model"] for row in rows if row["model"] is not None)
    return min(counts, key=lambda model: (-counts[model], model)) if counts else None


def first_in(periods: Periods, column: str) -> dict[str, datetime]:
    """In which period each name comes first."""
    found: dict[str, datetime] = {}
    for start, own in periods.items():
        for row in own:
            if row[column] is not None:
                found.setdefault(row[column], start)
    return found


def measure(measured: Measured, frame: pl.DataFrame, cuts: Sequence[int] = (), analysis: Evolution | None = None) -> Result:
    return measured(analysis or Evolution("month"), frame, [min(cut, frame.height) for cut in cuts])


@given(frame=REQUESTS, cuts=CUTS, interval=st.sampled_from(["month", "1d", "year"]))
def test_active_models_and_users_are_those_of_a_loop(
    measured: Measured, frame: pl.DataFrame, cuts: list[int], interval: str
) -> None:
    first = frame["timestamp"][0]
    frame = frame.filter(pl.col("timestamp") < first + timedelta(days=30 if interval == "1d" else 900))
    periods = cut(frame, interval)
    table = measure(measured, frame, cuts, Evolution(interval)).tables["active"]
    assert table["time"].to_list() == list(periods)
    came = {column: first_in(periods, column) for column in ("model", "user")}
    last = frame["timestamp"][-1]
    for row, (start, own) in zip(table.rows(named=True), periods.items(), strict=True):
        assert row["requests"] == len(own)
        for column in SIDES:
            assert row[column] == total(own, [column], frame)
        for column in ("model", "user"):
            names = {one[column] for one in own} - {None}
            fresh = sum(where == start for where in came[column].values())
            assert (row[f"{column}s"], row[f"new_{column}s"]) == ((len(names), fresh) if came[column] else (None, None))
        counts = Counter(one["model"] for one in own if one["model"] is not None)
        shares = [count / counts.total() for count in counts.values()]
        assert row["effective_models"] == about(1 / sum(share**2 for share in shares) if shares else None)
        end = next_start(start, interval)
        covered = (min(last, end) - max(first, start)) / (end - start)
        assert row["covered_ratio"] == about(covered)
        assert row["partial"] == (covered < 0.95)


@given(frame=REQUESTS, cuts=CUTS, top=st.integers(1, 4))
def test_shares_of_models_are_those_of_a_loop(measured: Measured, frame: pl.DataFrame, cuts: list[int], top: int) -> None:
    periods = cut(frame)
    table = measure(measured, frame, cuts, Evolution("month", top)).tables["model_share"]
    counts = Counter(model for model in frame["model"] if model is not None)
    busiest = sorted(counts, key=lambda model: (-counts[model], model))[:top]
    has_others = any(model not in busiest for model in frame["model"])
    called = [*busiest, *([None] if has_others else [])] if busiest else []
    rows = table.rows(named=True)
    assert len(rows) == len(called) * len(periods)
    for place, (start, own) in enumerate(periods.items()):
        all_tokens = sum(one for column in SIDES for one in known(own, column))
        for rank, model in enumerate(called, 1):
            row = rows[place * len(called) + rank - 1]
            mine = [one for one in own if (one["model"] == model if model else one["model"] not in busiest)]
            assert (row["time"], row["rank"], row["model"]) == (start, rank if model else None, model or "Others")
            assert row["requests"] == len(mine)
            assert row["models"] == len({one["model"] for one in mine} - {None})
            assert row["requests_ratio"] == about(len(mine) / len(own) if own else None)
            tokens = total(mine, SIDES, frame)
            assert row["tokens"] == tokens
            assert row["tokens_ratio"] == about((tokens or 0) / all_tokens if all_tokens else None)


@given(frame=REQUESTS, cuts=CUTS)
def test_percentiles_of_periods_are_within_their_bound(measured: Measured, frame: pl.DataFrame, cuts: list[int]) -> None:
    table = measure(measured, frame, cuts).tables["tokens_by_month"]
    for row, own in zip(table.rows(named=True), cut(frame).values(), strict=True):
        for column in SIDES:
            values = lengths(own, column)
            assert row["requests"] == len(values)
            for percent in PERCENTS:
                expected = float(np.percentile(values, percent)) if values else None
                assert row[f"p{percent}_{column}"] == about(expected, LOOSE if max(values, default=0) < 4096 else OF_PERIODS)


@given(frame=REQUESTS, cuts=CUTS)
def test_cohorts_are_those_of_a_loop_over_users(measured: Measured, frame: pl.DataFrame, cuts: list[int]) -> None:
    periods, rows = cut(frame), frame.rows(named=True)
    came = first_in(periods, "user")
    table = measure(measured, frame, cuts).tables["cohorts"]
    assert table["time"].to_list() == sorted(set(came.values()))
    for row in table.rows(named=True):
        medians = []
        for user in (user for user, start in came.items() if start == row["time"]):
            own = [one for one in rows if one["user"] == user]
            values = [lengths(own, column) for column in SIDES]
            if len(own) > 10 and values[0] and all(np.median(some) > 1 for some in values):
                medians.append([float(np.median(some)) for some in values])
        assert row["users"] == sum(start == row["time"] for start in came.values())
        assert row["eligible_users"] == len(medians)
        for column, own_medians in zip(SIDES, zip(*medians, strict=True) if medians else [[], []], strict=True):
            for percent in PERCENTS:
                expected = float(np.percentile(own_medians, percent)) if medians else None
                assert row[f"p{percent}_{column}"] == about(expected, OF_USERS)


@given(frame=REQUESTS, cuts=CUTS)
def test_retention_is_that_of_a_loop_over_cohorts(measured: Measured, frame: pl.DataFrame, cuts: list[int]) -> None:
    periods = cut(frame)
    came, partial, expected = first_in(periods, "user"), partial_of(frame, periods), []
    for cohort in sorted(set(came.values())):
        members = {user for user, start in came.items() if start == cohort}
        for age, start in enumerate(start for start in periods if start >= cohort):
            mine = [row for row in periods[start] if row["user"] in members]
            named = sum(row["user"] is not None for row in periods[start])
            users = len({row["user"] for row in mine})
            ratios = about(users / len(members)), about(len(mine) / named if named else None)
            expected.append((cohort, start, age, len(members), users, ratios[0], len(mine), ratios[1], partial[start]))
    assert measure(measured, frame, cuts).tables["retention"].rows() == expected


@given(frame=REQUESTS, cuts=CUTS, top=st.integers(1, 4))
def test_switching_and_transitions_are_those_of_a_loop(
    measured: Measured, frame: pl.DataFrame, cuts: list[int], top: int
) -> None:
    periods = cut(frame)
    mains = {
        start: {user: main_model(row for row in own if row["user"] == user) for user in {row["user"] for row in own} - {None}}
        for start, own in periods.items()
    }
    counts = Counter(model for model in frame["model"] if model is not None)
    busiest = [*sorted(counts, key=lambda model: (-counts[model], model))[:top], "Others"]
    turned: defaultdict[tuple[int, int], list[bool]] = defaultdict(list)
    expected, starts, partial = [], list(periods), partial_of(frame, periods)
    for before, after in pairwise(starts):
        both = [
            (mains[before][user], model) for user, model in mains[after].items() if model is not None and mains[before].get(user)
        ]
        for one, other in both:
            places = [busiest.index(str(model)) if model in busiest else len(busiest) - 1 for model in (one, other)]
            turned[places[0], places[1]].append(one != other)
        switched = sum(one != other for one, other in both)
        ratio = about(switched / len(both) if both else None)
        expected.append((after, len(both), switched, ratio, partial[before] or partial[after]))
    result = measure(measured, frame, cuts, Evolution("month", top))
    assert result.tables["switching"].rows() == expected
    leaving = Counter(one for (one, _), moves in turned.items() for _ in moves)
    assert result.tables["transitions"].rows() == [
        (busiest[one], busiest[other], len(moves), sum(moves), about(len(moves) / leaving[one]))
        for (one, other), moves in sorted(turned.items())
    ]


def naive_psi(values: Sequence[float], reference: Sequence[float]) -> float:
    """Over the ranges between deciles of the reference, and above them: half a request more in each, so that none is empty."""
    ordered = sorted(reference)
    deciles = sorted({ordered[-(-tenth * len(ordered) // 10) - 1] for tenth in range(1, 10)} - {max(*values, *reference)})
    counts = []
    for some in (values, reference):
        places = np.searchsorted(deciles, some)
        own = np.array([np.sum(places == place) + 0.5 for place in range(len(deciles) + 1)])
        counts.append(own / own.sum())
    return float(np.sum((counts[0] - counts[1]) * np.log(counts[0] / counts[1])))


def naive_wasserstein(values: Sequence[float], reference: Sequence[float]) -> float:
    """The mean distance of equal ranks, each value repeated until both have as many."""
    one, other = (np.sort(np.log10(some)) for some in (values, reference))
    return float(np.mean(np.abs(np.repeat(one, other.size) - np.repeat(other, one.size))))


def naive_ks(values: Sequence[float], reference: Sequence[float]) -> float:
    shares = [
        (sum(one <= border for one in values) / len(values), sum(one <= border for one in reference) / len(reference))
        for border in {*values, *reference}
    ]
    return max(abs(one - other) for one, other in shares)


@given(frame=REQUESTS, cuts=CUTS)
def test_drift_is_what_the_definitions_say(measured: Measured, frame: pl.DataFrame, cuts: list[int]) -> None:
    # Below 4096 tokens nothing is rounded.
    frame = frame.with_columns(pl.col(column).mod(4096) for column in SIDES)
    periods = cut(frame)
    result = measure(measured, frame, cuts)
    partial = dict(result.tables["active"].select("time", "partial").iter_rows())
    filled = [start for start, own in periods.items() if lengths(own, SIDES[0])]
    reference = next((start for start in filled if not partial[start]), filled[0] if filled else None)
    rows = result.tables["drift"].rows(named=True)
    assert [(row["time"], row["column"]) for row in rows] == [(start, column) for start in filled for column in SIDES]
    for row in rows:
        assert reference is not None
        ours, theirs = (lengths(periods[start], row["column"]) for start in (row["time"], reference))
        assert (row["requests"], row["is_reference"], row["partial"]) == (
            len(ours),
            row["time"] == reference,
            partial[row["time"]],
        )
        psi = naive_psi(ours, theirs)
        assert row["psi"] == about(psi)
        called = "stable" if row["psi"] < 0.1 else "moderate" if row["psi"] < 0.25 else "major"
        named = "noise" if row["ks"] <= row["ks_noise"] else called
        assert row["psi_level"] == (None if row["is_reference"] else named)
        assert row["wasserstein_log10"] == about(naive_wasserstein(ours, theirs))
        assert row["geometric_mean_ratio"] == about(float(np.exp(np.mean(np.log(ours)) - np.mean(np.log(theirs)))), 1e-6)
        assert row["ks"] == about(naive_ks(ours, theirs))
        assert row["ks_noise"] == about(1.358 * (1 / len(ours) + 1 / len(theirs)) ** 0.5)


def test_the_stability_of_two_periods_is_theirs_alone(measured: Measured) -> None:
    """April and May have one length; whether June has longer ones is nothing to them. June lies above every decile."""
    days = [
        (datetime(2025, month, day), 100 if month < 6 else 900)
        for month, last in ((4, 30), (5, 31), (6, 30))
        for day in range(1, last + 1)
    ]
    rows = [(time, tokens, 10) for time, tokens in days]
    frame = pl.DataFrame(
        rows, {"timestamp": pl.Datetime("us"), "input_tokens": pl.Int64, "output_tokens": pl.Int64}, orient="row"
    )
    for months in (2, 3):
        some = frame.filter(pl.col("timestamp").dt.month() < 4 + months)
        drift = measured(Evolution("month"), some).tables["drift"].filter(column="input_tokens")
        expected = [0.0, 0.0, naive_psi([900.0] * 30, [100.0] * 30)][:months]
        assert drift["psi"].to_list() == pytest.approx(expected)


@given(frame=REQUESTS, cuts=CUTS)
def test_scalars_say_what_the_tables_do(measured: Measured, frame: pl.DataFrame, cuts: list[int]) -> None:
    periods, rows = cut(frame), frame.rows(named=True)
    result = measure(measured, frame, cuts)
    scalars, tables = result.scalars, result.tables
    assert (scalars["requests"], scalars["periods"], scalars["months"]) == (len(rows), len(periods), len(periods))
    for column in ("model", "user"):
        assert scalars[f"{column}s"] == (frame[column].drop_nulls().n_unique() or None)
    partial = tables["active"]["partial"].to_list()
    whole = [start for start, is_partial in zip(periods, partial, strict=True) if not is_partial]
    filled = [start for start, own in periods.items() if lengths(own, SIDES[0])] or [
        start for start, own in periods.items() if own
    ]
    ends = [start for start in filled if start in whole] or filled
    assert scalars["partial_periods"] == sum(partial)
    for end, start in (("first", ends[0]), ("last", ends[-1])):
        assert scalars[f"{end}_time"] == start
        assert scalars[f"top_model_{end}"] == main_model(periods[start])
        for column in SIDES:
            values = lengths(periods[start], column)
            found = scalars[f"{column.removesuffix('_tokens')}_median_{end}"]
            assert found == about(float(np.median(values)) if values else None, OF_PERIODS)
    for column in SIDES:
        own = [
            row["psi"]
            for row in tables["drift"].rows(named=True)
            if (row["time"], row["column"]) == (ends[-1], column) and not row["is_reference"]
        ]
        assert scalars[f"{column.removesuffix('_tokens')}_psi_last"] == (own[0] if own else None)
    users, switched = (int(tables["switching"][name].sum()) for name in ("users", "switched_users"))
    assert scalars["switched_ratio"] == about(switched / users if users else None)
    came = first_in(periods, "user")
    stayed, size = 0, 0
    for before, after in pairwise(periods):
        if before in whole and after in whole:
            members = {user for user, start in came.items() if start == before}
            size += len(members)
            stayed += len(members & {row["user"] for row in periods[after]})
    assert scalars["retained_ratio_1"] == about(stayed / size if size else None)
