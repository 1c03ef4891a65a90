"""Side tables, read from files of every form."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from llmtrace.engine.side_tables import read
from llmtrace.errors import InputError
from llmtrace.trace.side_tables import of_cohorts, of_names

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_cohorts_of_csv_stay_the_text_that_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, "users.csv", "user,cohort,else\n007,2025-04,x\nann,3,y\n,2025-05,z\n")
    assert read(of_cohorts(path)).rows() == [("007", "2025-04"), ("ann", "3"), (None, "2025-05")]


def test_users_of_a_round_are_named_as_a_chutes_trace_names_them(tmp_path: Path) -> None:
    path = tmp_path / "user_cohorts.parquet"
    table = {"user_id": ["u5_0027020", "0000001", "u2_9"], "rehash_round": [5, 1, None], "release_cohort": [2, 13, 1]}
    pl.DataFrame(table, {"user_id": pl.String, "rehash_round": pl.Int8, "release_cohort": pl.Int32}).write_parquet(path)
    assert read(of_cohorts(str(path))).rows() == [("u5_0027020", "2"), ("u1_0000001", "13"), ("u2_9", "1")]


def test_dates_of_parquet_are_written_out(tmp_path: Path) -> None:
    path = tmp_path / "users.parquet"
    pl.DataFrame({"user": [7, 8], "first_seen": [datetime(2025, 4, 11, 5, 6, 7, 89), None]}).write_parquet(path)
    assert read(of_cohorts(str(path))).rows() == [("7", "2025-04-11T05:06:07.000089"), ("8", None)]
    pl.DataFrame({"user": ["a"], "first_month": [date(2025, 4, 1)]}).write_parquet(path)
    assert read(of_cohorts(str(path))).rows() == [("a", "2025-04-01T00:00:00")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.csv", "chute_id,name\nid-7,org/R1\nid-8,\n"),
        ("names.csv", "before;after\nid-7;org/R1\nid-8;\n"),
        ("names.csv", "name,size,model\norg/R1,1,id-7\n,2,id-8\n"),
        ("names.jsonl", '{"model": "id-7", "name": "org/R1"}\n{"model": "id-8", "name": null}\n'),
    ],
)
def test_names_are_read_by_their_columns_or_of_two_by_their_order(tmp_path: Path, name: str, text: str) -> None:
    assert read(of_names(written(tmp_path, name, text))).rows() == [("id-7", "org/R1"), ("id-8", None)]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("user,when\na,2025-04\n", "no column of cohorts: it has user, when"),
        ("person,cohort\na,2025-04\n", "no column of users: it has person, cohort"),
    ],
)
def test_a_table_without_a_column_is_refused(tmp_path: Path, text: str, wrong: str) -> None:
    with pytest.raises(InputError, match=wrong) as refused:
        of_cohorts(written(tmp_path, "users.csv", text))
    assert "cohort" in refused.value.hint or "user_id" in refused.value.hint


def test_names_without_a_column_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column of names"):
        of_names(written(tmp_path, "names.csv", "model,size,maker\na,1,b\n"))


def test_a_folder_of_several_files_is_no_table(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        written(tmp_path, name, "user,cohort\na,1\n")
    with pytest.raises(InputError, match="holds 2 files, not one table"):
        of_cohorts(str(tmp_path))


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "users.parquet"
    pl.DataFrame({"user": ["a" * 100] * 5000, "cohort": [1] * 5000}).write_parquet(path)
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"users\.parquet"):
        read(of_cohorts(str(path)))
