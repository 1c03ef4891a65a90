"""The command `evolution`: its options and side tables, and a trace in the layout of Chutes on both of its clocks."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from llmtrace.cli import main
from llmtrace.report import figures

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
ZERO, EPOCH = datetime(1970, 1, 1), datetime(2025, 4, 11, 4)
"""Where the released clock begins, and where it really began."""
DAYS, USERS, STAY = 205, 60, 100
ROUNDS = (0, 90, 181)
"""Days on which user ids are made anew: borders of months on the released clock."""
Active = dict[int, list[int]]


def active() -> Active:
    """On which days each person sends requests: one more person every three days, for a hundred days."""
    return {user: [day for day in range(3 * user, 3 * user + STAY, 4) if day < DAYS] for user in range(USERS)}


def named(user: int, day: int) -> tuple[str, int]:
    """The id of a person on a day, another one in each round."""
    number = max(place for place, begin in enumerate(ROUNDS) if begin <= day)
    return f"{(user * 37 + number * 11) % 97:07}", number


@pytest.fixture(scope="module")
def chutes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the trace, and the side table of when people came first on the released clock."""
    rows: list[tuple[object, ...]] = []
    table: set[tuple[str, int, int]] = set()
    for user, days in active().items():
        month = (ZERO + timedelta(days=days[0])).month
        for day in days:
            name, number = named(user, day)
            start = ZERO + timedelta(days=day, minutes=10 * user if day else 0)
            model = f"org/M{user % 3}{'-TEE' if day % 8 else ''}"
            rows.append((len(rows), "chat_stream", model, name, number, "i1", start, start + timedelta(seconds=2), 100.0, 20.0))
            table.add((name, number, month))
    head = ["invocation_id", "function_name", "chute_id", "user_id", "rehash_round", "instance_id", "started_at", "completed_at"]
    folder = tmp_path_factory.mktemp("chutes")
    frame = pl.DataFrame(rows, [*head, "it", "ot"], orient="row").with_columns(ct=None, ttft=0.1).sort("started_at")
    frame.with_columns(pl.col("ct").cast(pl.Float32)).write_parquet(folder / "trace.parquet")
    pl.DataFrame(sorted(table), ["user_id", "rehash_round", "release_cohort"], orient="row").write_parquet(
        folder / "users.parquet"
    )
    return folder


def result_of(arguments: list[str], capsys: Capture) -> dict[str, Any]:
    assert main(["evolution", *arguments, "--format", "json", "--quiet"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def month_of(day: int, zero: datetime) -> datetime:
    return (zero + timedelta(days=day)).replace(day=1, hour=0)


def truth(zero: datetime) -> tuple[list[datetime], Counter[datetime], Counter[tuple[datetime, datetime]]]:
    """The months, how many people come in each, and how many of those are active in which later one."""
    people = active()
    months = sorted({month_of(day, zero) for days in people.values() for day in days})
    came = Counter(month_of(days[0], zero) for days in people.values())
    stayed = Counter(
        (month_of(days[0], zero), month) for days in people.values() for month in {month_of(day, zero) for day in days}
    )
    return months, came, stayed


def shown(time: datetime, zero: datetime) -> object:
    """A time as a result has it: in seconds on a relative clock."""
    return (time - ZERO).total_seconds() if zero == ZERO else time.isoformat() + "Z"


@pytest.mark.parametrize("zero", [ZERO, EPOCH])
def test_months_are_those_of_either_clock(chutes: Path, capsys: Capture, zero: datetime) -> None:
    dated = [] if zero == ZERO else ["--epoch", "2025-04-11T04:00:00Z"]
    table = result_of([str(chutes / "trace.parquet"), *dated], capsys)["tables"]["active"]
    counts = Counter(month_of(day, zero) for days in active().values() for day in days)
    if zero == EPOCH:
        # Minutes after midnight count from four in the morning: nobody crosses the end of a month.
        assert [row["time"][:7] for row in table] == [f"2025-{month:02}" for month in range(4, 12)]
    assert [(row["time"], row["requests"]) for row in table] == [(shown(month, zero), n) for month, n in sorted(counts.items())]
    partial = [row["partial"] for row in table]
    assert partial == ([False] * 6 + [True] if zero == ZERO else [True, *[False] * 6, True])


@pytest.mark.parametrize("zero", [ZERO, EPOCH])
def test_a_user_whose_id_changes_is_not_new_with_the_side_table(chutes: Path, capsys: Capture, zero: datetime) -> None:
    dated = [] if zero == ZERO else ["--epoch", "2025-04-11T04:00:00Z"]
    result = result_of([str(chutes / "trace.parquet"), *dated, "--cohorts", str(chutes / "users.parquet")], capsys)
    months, came, stayed = truth(zero)
    assert [row["new_users"] for row in result["tables"]["active"]] == [came[month] for month in months]
    if zero == ZERO:
        # Ids change at the ends of months: nobody counts twice in one.
        found = {(row["cohort_time"], row["time"]): row["users"] for row in result["tables"]["retention"] if row["users"]}
        assert found == {(shown(cohort, zero), shown(month, zero)): n for (cohort, month), n in stayed.items()}
    ids = len({named(user, day) for user, days in active().items() for day in days})
    assert any(f"says of {ids} of {ids} users when they came first" in note for note in result["notes"])
    [note] = [note for note in result["notes"] if "made anew" in note]
    assert "counts twice" in note
    assert "--cohorts FILE" not in note


def test_without_the_side_table_a_note_says_what_is_wrong_with_the_cohorts(chutes: Path, capsys: Capture) -> None:
    result = result_of([str(chutes / "trace.parquet")], capsys)
    months, came, _ = truth(ZERO)
    wrong = {month: row["new_users"] for month, row in zip(months, result["tables"]["active"], strict=True)}
    assert wrong[datetime(1970, 4, 1)] > 2 * came[datetime(1970, 4, 1)]
    note = result["notes"][0]
    assert note.startswith("Hardly any user id is seen both before and after 90.0, 181.2 days from the first request")
    assert "new_users and cohorts are too large" in note
    assert "--cohorts FILE" in note


def test_numbered_cohorts_of_a_trace_with_dates_are_refused(tmp_path: Path, capsys: Capture) -> None:
    trace, side = tmp_path / "trace.csv", tmp_path / "users.csv"
    trace.write_text("timestamp,input_tokens,output_tokens,user\n2025-04-11T00:00:00Z,1,2,a\n2025-06-11T00:00:00Z,1,2,a\n")
    side.write_text("user,cohort\na,3\n")
    assert main(["evolution", str(trace), "--cohorts", str(side), "--quiet"]) == 3
    assert "cohorts as numbers of months, but this trace has dates" in capsys.readouterr().err


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Ninety days, a request each, alternating between two users and between variants of two models."""
    head, start = "timestamp,input_tokens,output_tokens,user,model", datetime(2025, 4, 1, 12)
    lines = [
        f"{(start + timedelta(days=day)).isoformat()}Z,{100 + day},20,u{day % 2},{('a', 'a-TEE', 'id-7', 'b')[day % 4]}"
        for day in range(90)
    ]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([head, *lines]))
    return str(path)


def test_options_reach_the_analysis(trace: str, tmp_path: Path, capsys: Capture) -> None:
    names, side = tmp_path / "names.csv", tmp_path / "users.csv"
    names.write_text("chute,called\nid-7,B-tee\n")
    side.write_text("user,cohort\nu0,2025-02\n")
    options = ["--interval", "1w", "--top", "1", "--merge-suffix=-TEE", "--names", str(names), "--cohorts", str(side)]
    result = result_of([trace, *options], capsys)
    parameters = {
        "interval": "1w",
        "top": 1,
        "merge_suffix": ["-TEE"],
        "names": {"id-7": "B-tee"},
        "cohorts": str(side),
        "skip": [],
    }
    assert result["parameters"] == parameters
    # `a` with its variant, `B`, and `b`: names are told apart by case.
    assert result["scalars"]["models"] == 3
    assert {row["model"] for row in result["tables"]["model_share"]} == {"a", "Others"}
    assert result["tables"]["cohorts"][0]["time"].startswith("2025-01-27")
    assert result["scalars"]["periods"] == 13


def test_users_that_are_left_out_are_not_read(trace: str, capsys: Capture) -> None:
    result = result_of([trace, "--skip", "users"], capsys)
    assert result["scalars"]["users"] is None
    assert result["tables"]["retention"] == []
    assert result["scalars"]["interval"] == "month"


def test_figures_of_users_that_are_left_out_are_left_out_in_silence(trace: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["evolution", trace, "--skip", "users", "--figures", str(tmp_path / "figures")]) == 0
    assert "is not drawn" not in capsys.readouterr().err
    assert "cohorts.png" not in {path.name for path in (tmp_path / "figures").iterdir()}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--interval", "fortnight"], "--interval"),
        (["--top", "0"], "--top 0"),
        (["--merge-suffix", ""], "--merge-suffix"),
        (["--skip", "models"], "--skip models"),
        (["--names", "nowhere.csv"], "nowhere.csv"),
        (["--cohorts", "nowhere.csv"], "nowhere.csv"),
        (["--interval", "1m"], "1,000 at most"),
    ],
)
def test_wrong_options_are_told_in_two_lines(trace: str, options: list[str], words: str, capsys: Capture) -> None:
    assert main(["evolution", trace, *options, "--quiet"]) in {2, 3}
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 2
    assert error[0].startswith("llmtrace: error: ")
    assert words in error[0]


def test_every_figure_and_table_is_written(chutes: Path, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    assert main(["evolution", str(chutes / "trace.parquet"), "--output", str(folder), "--quiet"]) == 0
    written = {path.name for path in folder.iterdir()}
    assert {f"{name}.png" for name in figures.names("evolution")} <= written
    tables = ("active", "model_share", "tokens_by_month", "cohorts", "retention", "switching", "transitions", "drift")
    assert {f"{name}.csv" for name in tables} <= written
