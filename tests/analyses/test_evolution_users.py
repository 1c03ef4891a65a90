"""What `evolution` makes of side tables and changing ids, its parameters, and what it says besides numbers."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llmtrace.analyses.evolution import Cohorts, Evolution, pairs
from llmtrace.analyses.evolution.cohorts import first_seen
from llmtrace.analyses.evolution.naming import merged
from llmtrace.analyses.evolution.rotation import turnovers
from llmtrace.errors import InputError, UsageError
from llmtrace.summaries import keys
from llmtrace.summaries.periods import Periods

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llmtrace.result import Result

    Measured = Callable[..., Result]

MONTH = Periods.parse("month")
EPOCH = datetime(1970, 1, 1)
SOME_DAY = datetime(2025, 4, 11, 4)


def side_table(cohorts: Sequence[tuple[str | None, str | None]], zero: datetime | None = None) -> Cohorts:
    rows = pl.DataFrame(cohorts, {"user": pl.String, "cohort": pl.String}, orient="row")
    return Cohorts.of("users.csv", rows, zero)


def us(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def requests(rows: Sequence[tuple[datetime, str | None, str | None]], **more: int | None) -> pl.DataFrame:
    schema: Mapping[str, pl.DataType | type[pl.DataType]] = {
        "timestamp": pl.Datetime("us"),
        "user": pl.String,
        "model": pl.String,
    }
    lengths = {"input_tokens": 100, "output_tokens": 20, **more}
    return pl.DataFrame(rows, schema, orient="row").with_columns(pl.lit(value).alias(name) for name, value in lengths.items())


@pytest.mark.parametrize(
    ("cohort", "zero", "start", "end"),
    [
        ("1", EPOCH, EPOCH, datetime(1970, 2, 1)),
        ("13", EPOCH, datetime(1971, 1, 1), datetime(1971, 2, 1)),
        ("2", SOME_DAY, SOME_DAY + timedelta(days=31), SOME_DAY + timedelta(days=59)),
        ("2025-04", None, datetime(2025, 4, 1), datetime(2025, 5, 1)),
        (" 2025-12 ", None, datetime(2025, 12, 1), datetime(2026, 1, 1)),
        ("2025-04-01", None, datetime(2025, 4, 1), datetime(2025, 5, 1)),
        ("2025-04-11", None, datetime(2025, 4, 11), datetime(2025, 4, 12)),
        ("2025-04-11 04:05:06", None, datetime(2025, 4, 11, 4, 5, 6), datetime(2025, 4, 11, 4, 5, 6, 1)),
        ("2025-04-11T04:05:06.25Z", None, datetime(2025, 4, 11, 4, 5, 6, 250_000), datetime(2025, 4, 11, 4, 5, 6, 250_001)),
    ],
)
def test_cohorts_are_months_days_or_times(cohort: str, zero: datetime | None, start: datetime, end: datetime) -> None:
    assert side_table([("a", cohort)], zero).users.rows() == [("a", start, end)]


def test_first_days_of_months_are_days_where_another_day_stands_beside_them() -> None:
    found = side_table([("a", "2025-04-01"), ("b", "2025-04-11")]).users
    assert (found["end"] - found["start"]).to_list() == [timedelta(days=1)] * 2


def test_of_a_user_that_stands_there_twice_the_earliest_entry_counts() -> None:
    found = side_table([("a", "2025-06"), ("b", "2025-05"), ("a", "2025-04"), (None, "2025-03")])
    assert found.users["user"].to_list() == ["a", "b"]
    assert found.users["start"].to_list() == [datetime(2025, 4, 1), datetime(2025, 5, 1)]


def test_tables_are_equal_if_they_say_the_same() -> None:
    one, same, other = (side_table([("a", cohort)]) for cohort in ("2025-04", "2025-04-01", "2025-05"))
    assert one == same != other
    assert hash(one) == hash(same)


def test_a_cohort_that_is_no_time_is_refused() -> None:
    with pytest.raises(InputError, match=r"users\.csv: 'spring' is no cohort \(2 of 3 rows\)"):
        side_table([("a", "2025-04"), ("b", "spring"), ("c", None)])


def test_numbers_need_a_relative_clock() -> None:
    with pytest.raises(InputError, match="numbers of months, but this trace has dates") as refused:
        side_table([("a", "1")])
    assert "--epoch" in refused.value.hint


@given(
    st.lists(st.tuples(st.integers(0, 500), st.none() | st.integers(0, 500)), min_size=1, max_size=20),
    st.sampled_from(["month", "1w"]),
)
def test_users_came_when_the_table_says_unless_the_trace_knows_better(seen: list[tuple[int, int | None]], interval: str) -> None:
    """Per user the day of its own first request, and the day that the table gives."""
    users = pl.Series([f"u{number}" for number in range(len(seen))])
    hashed = keys.of(users)
    order, periods = np.argsort(hashed), Periods.parse(interval)
    own = [SOME_DAY + timedelta(days=day) for day, _ in seen]
    given_days = {
        user: (SOME_DAY + timedelta(days=day)).date() for user, (_, day) in zip(users, seen, strict=True) if day is not None
    }
    # A user that no request names is nobody's.
    side = side_table([*((user, str(day)) for user, day in given_days.items()), ("nobody", "2025-04-11")])
    found = first_seen(hashed[order], np.array([us(time) for time in own])[order], periods, side)
    expected = []
    for user, time in zip(users, own, strict=True):
        day = given_days.get(user)
        expected.append(us(datetime(day.year, day.month, day.day)) if day is not None and time.date() > day else us(time))
    is_month = bool(given_days) and all(day.day == 1 for day in given_days.values())
    assert is_month or found.times_us.tolist() == [expected[place] for place in order]
    assert found.known == len(given_days)
    assert is_month or found.late == sum(
        time.date() < given_days[user] for user, time in zip(users, own, strict=True) if user in given_days
    )


def test_a_time_that_reaches_over_a_border_begins_with_its_beginning() -> None:
    """The second month of a clock that begins on 11 April has parts of May and June; who is seen in it is known to the day."""
    zero = datetime(2025, 4, 11, 4)
    users = pl.Series(["seen later", "seen in it", "seen before"])
    hashed, own = keys.of(users), [datetime(2025, 8, 1), datetime(2025, 6, 3), datetime(2025, 4, 12)]
    order = np.argsort(hashed)
    side = side_table([(user, "2") for user in users], zero)
    found = first_seen(hashed[order], np.array([us(time) for time in own])[order], MONTH, side)
    expected = [datetime(2025, 5, 12, 4), own[1], own[2]]
    assert found.times_us.tolist() == [us(expected[place]) for place in order]
    assert (found.known, found.vague, found.late) == (3, 1, 1)


def lives(users: int, days: int, every: int | None) -> tuple[Any, Any]:
    """First and last days of ids of users that stay for 40 days; ids are made anew every so many days."""
    spans = []
    for user in range(users):
        first = user * days // users
        last = min(first + 40, days)
        borders = [first, *(range((first // every + 1) * every, last, every) if every else ()), last]
        spans += [(start, end - 0.5) for start, end in pairwise(borders)]
    firsts, lasts = np.array(spans, np.float64).T * 86_400_000_000
    return firsts.astype(np.int64), lasts.astype(np.int64)


@pytest.mark.parametrize("every", [60, 92, 120])
def test_ids_that_are_made_anew_are_noticed(every: int) -> None:
    found = turnovers(*lives(400, 365, every)) / 86_400_000_000
    assert found.tolist() == pytest.approx(list(range(every, 365, every)), abs=1)


def test_ids_that_stay_are_not() -> None:
    assert turnovers(*lives(400, 365, None)).size == 0
    rng = np.random.default_rng(1)
    first = np.sort(rng.integers(0, 10**9, 5000))
    assert turnovers(first, first + rng.integers(0, 10**7, 5000)).size == 0
    assert turnovers(first, first).size == turnovers(first[:0], first[:0]).size == 0


def test_a_gap_in_a_short_trace_of_short_visits_is_no_turnover() -> None:
    """Users who come for an hour leave no moment without a border; only ids that stay elsewhere tell."""
    day = 86_400_000_000
    first = np.arange(100) * day
    assert turnovers(first, first + day // 24).size == 0


NAMES = ["org/R1-TEE", "org/R1", "org/V3-tee", "id-7", "-TEE", "org/R1-TEE-TEE", "org/tee", "a\nb-TEE", None]


def test_endings_and_tables_of_names_bring_models_together() -> None:
    found = merged(pl.Series(NAMES, dtype=pl.String), [("id-7", "org/V3-TEE")], ["-TEE", "TEE"])
    assert found.to_list() == ["org/R1", "org/R1", "org/V3", "org/V3", "-", "org/R1-TEE", "org/", "a\nb", None]


def test_an_ending_is_no_pattern() -> None:
    assert merged(pl.Series(["a.b", "axb"]), [], [".b"]).to_list() == ["a", "axb"]
    assert merged(pl.Series(["a$1"]), [("a$1", "$0-x")], ["-x"]).to_list() == ["$0"]


def test_a_model_has_one_name() -> None:
    twice = pl.DataFrame({"model": ["a", "b", "a", "b"], "name": ["x", "y", "z", "y"]})
    with pytest.raises(InputError, match="'a' by several names"):
        pairs("names.csv", twice)
    assert pairs("names.csv", twice[1:]) == (("b", "y"), ("a", "z"))


@pytest.mark.parametrize(("tokens", "eligible"), [(1, 0), (2, 1)])
def test_cohorts_are_of_users_whose_medians_are_above_one(measured: Measured, tokens: int, eligible: int) -> None:
    hours = [datetime(2025, 4, 1, hour) for hour in range(11)]
    frame = requests([(hour, "u", "m") for hour in hours], input_tokens=tokens)
    assert measured(Evolution("month"), frame).tables["cohorts"].select("users", "eligible_users").rows() == [(1, eligible)]


def test_nobody_switches_from_a_model_that_is_not_known(measured: Measured) -> None:
    months = [datetime(2025, month, 1) for month in (4, 5, 6)]
    frame = requests([(month, "u", model) for month, model in zip(months, [None, "m", None], strict=True)])
    assert measured(Evolution("month"), frame).tables["switching"].select("users", "switched_users").rows() == [(0, 0)] * 2


def test_merged_names_are_one_model_in_every_table(measured: Measured) -> None:
    days = [datetime(2025, 4, 1) + timedelta(days=20 * step) for step in range(6)]
    frame = requests([(day, "u1", name) for day, name in zip(days, ["R1-TEE", "R1", "id-1", "r1", "V3", "R1-tee"], strict=True)])
    result = measured(Evolution("month", merge_suffix=("-TEE",), names=(("id-1", "R1-tee"),)), frame, [2, 4])
    renamed = frame.with_columns(pl.Series("model", ["R1", "R1", "R1", "r1", "V3", "R1"]))
    plain = measured(Evolution("month"), renamed)
    assert result.scalars == plain.scalars
    for name, table in plain.tables.items():
        assert_frame_equal(result.tables[name], table)


@pytest.mark.parametrize("cuts", [(), (1,), (0, 3, 3)])
def test_a_side_table_moves_users_to_their_cohorts(measured: Measured, cuts: tuple[int, ...]) -> None:
    """`old` came in March, before the trace; `back` in April, with another id; `new` is new."""
    frame = requests(
        [
            (datetime(2025, 4, 1), "first-id", "m"),
            (datetime(2025, 4, 2), "old", "m"),
            (datetime(2025, 5, 3), "back", "m"),
            (datetime(2025, 5, 4), "new", "m"),
            (datetime(2025, 6, 30), "new", "m"),
        ]
    )
    side = side_table([("first-id", "2025-04"), ("old", "2025-03"), ("back", "2025-04"), ("new", "2025-05"), ("gone", "2025-01")])
    result = measured(Evolution("month", cohorts=side), frame, cuts)
    assert result.tables["active"].select("users", "new_users").rows() == [(2, 1), (2, 1), (1, 0)]
    cohorts = result.tables["cohorts"].select("time", "users", "partial").rows()
    assert cohorts == [(datetime(2025, 3, 1), 1, False), (datetime(2025, 4, 1), 2, False), (datetime(2025, 5, 1), 1, False)]
    retention = result.tables["retention"].select("cohort_time", "age", "cohort_users", "users", "retained_ratio").rows()
    march = [(datetime(2025, 3, 1), None, None, users, None) for users in (1, 0, 0)]
    april = [(datetime(2025, 4, 1), age, 2, users, users / 2) for age, users in enumerate((1, 1, 0))]
    assert retention == [*march, *april, *((datetime(2025, 5, 1), age, 1, 1, 1.0) for age in (0, 1))]
    assert any("says of 4 of 4 users when they came first" in note for note in result.notes)


@pytest.mark.parametrize("cuts", [(), (1,), (0, 3, 3)])
def test_no_more_users_are_retained_than_a_cohort_has(measured: Measured, cuts: tuple[int, ...]) -> None:
    """All came in March, by the table, and one of them is seen then; the others in April for the first time."""
    april = [(datetime(2025, 4, 2), f"u{user}", "m") for user in range(5)]
    frame = requests([(datetime(2025, 3, 1), "u0", "m"), *april, (datetime(2025, 4, 30, 23, 59), "u0", "m")])
    side = side_table([(f"u{user}", "2025-03") for user in range(5)])
    result = measured(Evolution("month", cohorts=side), frame, cuts)
    retention = result.tables["retention"].select("age", "cohort_users", "users", "retained_ratio").rows()
    assert retention == [(0, 5, 1, 0.2), (1, 5, 5, 1.0)]
    assert result.scalars["retained_ratio_1"] == 1.0


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 8)), min_size=1, max_size=40),
    st.dictionaries(st.integers(0, 8), st.integers(0, 200)),
    st.sampled_from(["month", "1w"]),
)
def test_a_cohort_has_all_its_users(
    measured: Measured, visits: list[tuple[int, int]], came: dict[int, int], interval: str
) -> None:
    """Per request its day and its user; per user of the table its day."""
    frame = requests([(SOME_DAY + timedelta(days=day), f"u{user}", "m") for day, user in sorted(visits)])
    side = side_table([(f"u{user}", str((SOME_DAY + timedelta(days=day)).date())) for user, day in came.items()])
    result = measured(Evolution(interval, cohorts=side), frame)
    sizes = dict(result.tables["cohorts"].select("time", "users").iter_rows())
    retention = result.tables["retention"]
    for row in retention.drop_nulls("age").rows(named=True):
        assert row["cohort_users"] == sizes[row["cohort_time"]]
        assert row["retained_ratio"] == row["users"] / row["cohort_users"] <= 1
    assert retention.filter(pl.col("age").is_null())["cohort_users"].count() == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"interval": "monthly"}, "monthly"),
        ({"top": 0}, "--top 0: out of range"),
        ({"top": 51}, "--top 51: out of range"),
        ({"merge_suffix": ("",)}, "--merge-suffix: empty"),
        ({"skip": ("models",)}, "--skip models: there is no such part"),
        ({"skip": ("users",), "cohorts": Cohorts("x", pl.DataFrame(), "")}, "--cohorts together with --skip users"),
    ],
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Evolution(**wrong)


def test_a_trace_has_no_more_than_a_thousand_periods() -> None:
    start = datetime(2025, 1, 1)
    assert Evolution("1h").for_span(start, start + timedelta(hours=999)).interval == "1h"
    with pytest.raises(UsageError, match="the trace has 1,001 of them"):
        Evolution("1h").for_span(start, start + timedelta(hours=1000))


@pytest.mark.parametrize(
    ("days", "interval"),
    [
        (0, "1m"),
        (1, "1h"),
        (3, "1d"),
        (27, "1d"),
        (28, "1w"),
        (59, "1w"),
        (60, "month"),
        (80 * 365 - 1, "month"),
        (80 * 365, "year"),
    ],
)
def test_periods_fit_the_length_of_a_trace(days: int, interval: str) -> None:
    assert Evolution().for_span(SOME_DAY, SOME_DAY + timedelta(days=days)).interval == interval


def test_without_users_models_or_lengths_their_numbers_are_null(measured: Measured) -> None:
    frame = requests([(SOME_DAY + timedelta(days=day), None, None) for day in range(70)], input_tokens=None, output_tokens=None)
    result = measured(Evolution(), frame.cast({"input_tokens": pl.Int64, "output_tokens": pl.Int64}), [3])
    for name in (
        "models",
        "users",
        "top_model_first",
        "input_median_last",
        "output_psi_last",
        "retained_ratio_1",
        "switched_ratio",
    ):
        assert result.scalars[name] is None
    empty = {name for name, table in result.tables.items() if table.is_empty()}
    assert empty == {"model_share", "cohorts", "retention", "transitions", "drift"}
    unknown = ("input_tokens", "output_tokens", "models", "new_models", "effective_models", "users", "new_users")
    assert all(result.tables["active"][name].null_count() == 3 for name in unknown)
    assert result.tables["switching"].select("users", "switched_ratio").rows() == [(0, None)] * 2
    for words in ("names no models", "names no users", "70 of 70 requests failed or have no positive"):
        assert any(words in note for note in result.notes)


def test_failed_requests_count_as_requests_and_their_tokens_nowhere(measured: Measured) -> None:
    rows = [(SOME_DAY + timedelta(days=20 * day), "u", "m") for day in range(6)]
    frame = requests(rows).with_columns(status=pl.Series(["ok", "error", None, "ok", "timeout", "ok"]))
    result = measured(Evolution(), frame)
    assert result.tables["active"]["requests"].sum() == 6
    assert result.tables["active"]["input_tokens"].sum() == result.tables["model_share"]["tokens"].sum() * 100 / 120 == 400
    assert result.tables["tokens_by_month"]["requests"].sum() == 4
    assert any("2 of 6 requests failed or have no positive" in note for note in result.notes)


def test_one_period_has_nothing_to_compare(measured: Measured) -> None:
    result = measured(Evolution("year"), requests([(SOME_DAY, "u", "m")]))
    assert [note for note in result.notes if "nothing to compare" in note]
    assert result.tables["drift"].select("is_reference", "psi", "wasserstein_log10", "ks").rows() == [(True, 0.0, 0.0, 0.0)] * 2
    assert result.tables["switching"].is_empty()


def test_users_can_be_left_out(measured: Measured) -> None:
    rows = [(SOME_DAY + timedelta(days=20 * day), f"u{day % 3}", f"m{day % 2}") for day in range(9)]
    whole, without = (measured(Evolution("month", skip=skip), requests(rows), [4]) for skip in ((), ("users",)))
    assert "user" not in Evolution(skip=("users",)).uses
    for name in ("model_share", "tokens_by_month", "drift"):
        assert_frame_equal(without.tables[name], whole.tables[name])
    assert without.scalars["users"] is without.scalars["switched_ratio"] is None
    assert without.tables["cohorts"].is_empty()
    assert any("--skip users" in note for note in without.notes)


def test_changing_ids_are_told_with_days_and_what_to_do(measured: Measured) -> None:
    rows = [
        (SOME_DAY + timedelta(days=day, minutes=user), f"{user}-{day // 61}", "m")
        for day in range(0, 183, 5)
        for user in range(60)
        if user <= day < user + 150
    ]
    [note] = [note for note in measured(Evolution(), requests(rows)).notes if "made anew" in note]
    assert "before and after 65.0, 125.0 days from the first request" in note
    assert "--cohorts FILE" in note
    side = side_table([(f"{user}-{round_}", "2025-04") for user in range(60) for round_ in range(3)])
    [note] = [note for note in measured(Evolution(cohorts=side), requests(rows)).notes if "made anew" in note]
    assert "Cohorts are those of the side table" in note
    kept = [(time, user.split("-")[0], model) for time, user, model in rows]
    assert not [note for note in measured(Evolution(), requests(kept)).notes if "made anew" in note]


def test_columns_that_are_cut_differently_make_no_difference(measured: Measured) -> None:
    whole = requests([(SOME_DAY + timedelta(hours=hour), f"u{hour % 3}", f"m{hour % 5 % 2}") for hour in range(40)])
    cut = pl.concat([whole[:7], whole[7:19], whole[19:]], rechunk=False)
    mixed = cut.with_columns(
        whole["timestamp"], pl.concat([whole["output_tokens"][:30], whole["output_tokens"][30:]], rechunk=False)
    )
    assert [mixed[name].n_chunks() for name in ("user", "timestamp", "output_tokens")] == [3, 1, 2]
    for one, other in zip(
        measured(Evolution(), whole).tables.values(), measured(Evolution(), mixed).tables.values(), strict=True
    ):
        assert_frame_equal(one, other)
