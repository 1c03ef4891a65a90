"""Filters: windows on both clocks, names, SQL predicates; what makes no sense is refused in two sentences."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from llmtrace.errors import MissingColumnError, UsageError
from llmtrace.trace.filters import Filters

if TYPE_CHECKING:
    from pathlib import Path

FIRST = datetime(2025, 4, 11, 4)
COLUMNS = ("timestamp", "input_tokens", "output_tokens", "user", "model")
FRAME = pl.DataFrame(
    {
        "user": ["ann", "bob", "ann", None],
        "model": ["a", "b", "b", "a"],
        "input_tokens": [10, 2000, 30, None],
    }
)


def kept(filters: Filters) -> list[int]:
    predicate = filters.predicate()
    assert predicate is not None
    return FRAME.with_row_index().filter(predicate)["index"].to_list()


def test_no_filter_lets_everything_through() -> None:
    assert Filters().predicate() is None
    assert Filters().columns() == frozenset()
    assert Filters().described() == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2025-04-12", datetime(2025, 4, 12)),
        ("2025-04-11T08:30", datetime(2025, 4, 11, 8, 30)),
        ("2025-04-11T08:30:00Z", datetime(2025, 4, 11, 8, 30)),
        ("2025-04-11T08:30+02:00", datetime(2025, 4, 11, 6, 30)),
        ("36h", datetime(2025, 4, 12, 16)),
        ("2d", datetime(2025, 4, 13, 4)),
        ("1h 30m", datetime(2025, 4, 11, 5, 30)),
        ("0.5s", datetime(2025, 4, 11, 4, 0, 0, 500_000)),
    ],
)
def test_moments(text: str, expected: datetime) -> None:
    assert Filters(since=text).window(FIRST, "utc") == (expected, None)
    assert Filters(until=text).window(FIRST, "utc") == (None, expected)


def test_a_date_on_a_relative_clock_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--since 2025-04-12: this trace is on a relative clock") as caught:
        Filters(since="2025-04-12").window(FIRST, "relative")
    assert "--since 36h" in caught.value.hint


@pytest.mark.parametrize("text", ["yesterday", "3x", "2025-13-01", "36h ago", "", "0001-01-01T00:00+09:00"])
def test_unreadable_moments_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a time"):
        Filters(until=text).window(FIRST, "utc")


@pytest.mark.parametrize("until", ["1d", "2d"])
def test_an_empty_window_is_refused(until: str) -> None:
    with pytest.raises(UsageError, match="is not before"):
        Filters(since="2d", until=until).window(FIRST, "relative")


def test_names_and_predicate_hold_together() -> None:
    assert kept(Filters(users=("ann",))) == [0, 2]
    assert kept(Filters(users=("ann",), models=("b", "c"))) == [2]
    assert kept(Filters(where="input_tokens > 20")) == [1, 2]
    assert kept(Filters(models=("b",), where="input_tokens > 100")) == [1]


@pytest.mark.parametrize("where", ["user = 'ann'", "USER = 'ann'", "\"user\" = 'ann'", "user IN ('ann', 'user')"])
def test_user_means_the_column_although_sql_reserves_the_word(where: str) -> None:
    assert kept(Filters(where=where)) == [0, 2]
    assert Filters(where=where).columns() == {"user"}


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("input_tokens >", "unable to parse"),
        ("sum(input_tokens) > 3", "aggregate"),
        ("avg(input_tokens) OVER (PARTITION BY model) > 3", "aggregate"),
        ("input_tokens > avg(input_tokens)", "aggregate"),
        ("input_tokens > CASE WHEN model = 'a' THEN max(input_tokens) ELSE 1 END", "aggregate"),
        ("row_number() OVER () > 1", "aggregate"),
        ("rank() OVER (ORDER BY input_tokens) > 1", "aggregate"),
        ("lag(input_tokens) OVER (ORDER BY timestamp) > 1", "aggregate"),
        ("input_tokens > count(*)", "aggregate"),
        ("unnest(input_tokens) > 1", "aggregate"),
        ("1 = 1", "says the same of every request"),
        ("NULL", "says the same of every request"),
        ("", "unable to parse"),
        ("input_tokens + 1", "gives Int64, not true or false"),
        ("timestamp > '2025-01-01'", "--where timestamp > '2025-01-01': compares a time with text"),
        ("timestamp BETWEEN '2025-01-01' AND '2025-01-02'", "compares a time with text"),
        ("input_tokens IN (SELECT 1)", "a query within it"),
        ("input_tokens NOT IN (select 1 from read_parquet('x'))", "a query within it"),
        ("input_tokens IN (FROM read_csv('x'))", "a query within it"),
        ("input_tokens IN (FROM \"read_csv\"('x'))", "a query within it"),
        ("input_tokens IN (/*'*/ SELECT 1 FROM read_json('x') /*'*/)", "a query within it"),
        ("model ~ '('", "regex"),
        (" AND ".join(["input_tokens > 0"] * 1000) + " AND sum(input_tokens) > 1", "too long to be looked through"),
    ],
)
def test_what_is_no_predicate_is_refused(where: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        Filters(where=where).check(COLUMNS)
    assert problem in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "where",
    [
        "input_tokens > 2 * 1000 AND model IN ('a', 'b')",
        "model LIKE 'len().over(%'",
        "model = 'select 1' OR model = 'read_csv'",
        "timestamp > timestamp '2025-04-11 12:00:00'",
        "model ~ '^a' OR input_tokens BETWEEN 1 AND 2",
        "CASE WHEN input_tokens > 1 THEN true ELSE model IS NULL END",
        "greatest(input_tokens, output_tokens, 5) > 2",
        "length(model) > 1 AND coalesce(input_tokens, 0) = 0",
        "timestamp >= DATE '2025-04-11' AND extract(hour FROM timestamp) = 3",
        # Of the square of their number these take a second, of its cube an hour.
        " OR ".join(["model LIKE 'a%' AND input_tokens > 5"] * 500),
    ],
)
def test_what_looks_at_one_row_is_a_predicate(where: str) -> None:
    Filters(where=where).check(COLUMNS)


def test_a_predicate_opens_no_file(tmp_path: Path) -> None:
    pl.DataFrame({"input_tokens": [1]}).write_parquet(tmp_path / "x")
    where = "input_tokens NOT IN (SELECT input_tokens FROM read_parquet('PATH'))".replace("PATH", str(tmp_path / "x"))
    for ask in (Filters(where=where).columns, Filters(where=where).predicate):
        with pytest.raises(UsageError, match="a query within it"):
            ask()


def test_a_time_compared_with_text_is_told_how_a_time_is_written() -> None:
    with pytest.raises(UsageError) as caught:
        Filters(where="timestamp > '2025-04-11 12:00:00'").check(COLUMNS)
    Filters(where=caught.value.hint.partition('"')[2].rpartition('"')[0]).check(COLUMNS)


def test_durations_without_end_reach_the_end_of_time() -> None:
    assert Filters(until="99999999999999d").window(FIRST, "utc") == (None, datetime.max)
    assert Filters(since="9999999d").window(FIRST, "relative") == (datetime.max, None)


def test_absent_columns_are_named_with_those_present() -> None:
    with pytest.raises(MissingColumnError, match="--endpoint needs the column 'endpoint'") as caught:
        Filters(endpoints=("chat",)).check(COLUMNS)
    assert "timestamp, input_tokens, output_tokens, user, model" in caught.value.hint
    with pytest.raises(MissingColumnError, match="instance"):
        Filters(where="instance = 'i1'").check(COLUMNS)
