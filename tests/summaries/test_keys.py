from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.summaries.keys import UNKNOWN, combine_names, key, names, of

if TYPE_CHECKING:
    import pytest

USERS = ["ann", None, "bob", "ann", ""]


def test_equal_names_have_equal_keys_and_no_name_is_unknown() -> None:
    ann, nobody, bob, again, empty = pl.DataFrame({"user": USERS}).select(key("user")).to_series().to_list()
    assert ann == again
    assert len({ann, bob, empty, UNKNOWN}) == 4
    assert nobody == UNKNOWN


def test_a_key_does_not_depend_on_the_rows_around_it() -> None:
    frame = pl.DataFrame({"user": USERS})
    whole = frame.select(key("user")).to_series()
    chunks = pl.concat([frame[:2], frame[2:]], rechunk=False).lazy().select(key("user")).collect().to_series()
    assert chunks.to_list() == whole.to_list() == [frame[row : row + 1].select(key("user")).item() for row in range(5)]


def test_a_key_of_several_columns_is_unknown_where_any_is() -> None:
    frame = pl.DataFrame({"user": ["a", "a", None, "a"], "model": ["m", "n", "m", None]})
    one, other, *unknown = frame.select(key("user", "model")).to_series().to_list()
    assert one != other
    assert unknown == [UNKNOWN, UNKNOWN]


def test_a_key_of_two_columns_tells_which_is_which() -> None:
    one, other = pl.DataFrame({"user": ["a", "b"], "model": ["b", "a"]}).select(key("user", "model")).to_series()
    assert one != other


def test_a_column_of_nulls_is_all_unknown() -> None:
    frame = pl.DataFrame({"user": [None, None]}, {"user": pl.String})
    assert frame.select(key("user")).to_series().to_list() == [UNKNOWN] * frame.height


def test_no_key_is_unknown_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pl.Expr, "hash", lambda *_: pl.lit(0, pl.UInt64))
    assert pl.DataFrame({"user": USERS}).select(key("user")).to_series().to_list() == [1, UNKNOWN, 1, 1, 1]


def test_keys_of_a_column_are_those_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pl.DataFrame({"user": USERS})
    chunked = pl.concat([whole[:1], whole[1:3], whole[3:]], rechunk=False)
    assert of(chunked["user"]).tolist() == whole.select(key("user")).to_series().to_list()
    monkeypatch.setattr(pl.Expr, "hash", lambda column, _: column.is_null().cast(pl.UInt64) * 0)
    assert of(whole["user"]).tolist() == [1, UNKNOWN, 1, 1, 1]


def test_names_stand_behind_their_keys_once() -> None:
    frame = pl.DataFrame({"user": USERS * 3}).with_columns(key("user").alias("by"))
    found = names(frame.lazy(), "by", "user").collect()
    assert sorted(found["name"]) == ["", "ann", "bob"]
    assert found["key"].is_sorted()
    assert dict(frame.drop_nulls().select("by", "user").iter_rows()) == dict(found.iter_rows())


def test_names_of_parts_are_united() -> None:
    frame = pl.DataFrame({"user": USERS}).with_columns(key("user").alias("by"))
    parts = [names(part.lazy(), "by", "user").collect() for part in (frame[:2], frame[:0], frame[2:])]
    assert combine_names(parts).equals(names(frame.lazy(), "by", "user").collect())
