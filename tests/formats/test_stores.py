"""Stores: one that does not answer is told at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, NoReturn

import polars as pl
import pytest

from llmtrace.errors import InputError
from llmtrace.formats import stores
from llmtrace.formats.source import find

if TYPE_CHECKING:
    from collections.abc import Callable

Asked = list[tuple[str, object]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], Asked]:
    """Have Polars find this when it asks a store, and pyarrow nothing; what was asked, of which."""

    def play(answer: Exception) -> Asked:
        calls: Asked = []

        def scan(address: str, *, storage_options: dict[str, object], **_: object) -> NoReturn:
            calls.append((address, storage_options["max_retries"]))
            raise answer

        def from_uri(address: str) -> NoReturn:
            calls.append((address, None))
            raise OSError(2, "nothing there")

        monkeypatch.setattr(pl, "scan_parquet", scan)
        monkeypatch.setattr(stores, "fs", SimpleNamespace(FileSystem=SimpleNamespace(from_uri=from_uri)))
        monkeypatch.setattr(stores, "_answered", set())
        return calls

    return play


@pytest.mark.parametrize(
    "address", ["gs://b/t.parquet", "gs://b/folder/", "gs://b/*.parquet", "abfss://c@a.dfs.core.windows.net/t.parquet"]
)
def test_a_store_without_credentials_is_told_before_pyarrow_waits_for_them(
    address: str, asked: Callable[[Exception], Asked]
) -> None:
    calls = asked(OSError("Generic GCS error: no token"))
    with pytest.raises(InputError, match="Generic GCS error: no token") as caught:
        find([address])
    assert address in caught.value.message
    assert "credentials" in caught.value.hint
    assert [retries for _, retries in calls] == [1]


def test_a_store_that_answers_is_asked_once_and_then_pyarrow(asked: Callable[[Exception], Asked]) -> None:
    calls = asked(FileNotFoundError(2, "no such object"))
    for name in ("one", "other"):
        with pytest.raises(InputError, match=f"{name}.parquet cannot be read: .*nothing there"):
            find([f"gs://bucket/{name}.parquet"])
    assert calls == [
        ("gs://bucket/one.parquet", 1),
        ("gs://bucket/one.parquet?retry_limit_seconds=10", None),
        ("gs://bucket/other.parquet?retry_limit_seconds=10", None),
    ]


def test_stores_that_fail_soon_by_themselves_are_not_asked(asked: Callable[[Exception], Asked]) -> None:
    calls = asked(AssertionError())
    with pytest.raises(InputError, match="nothing there"):
        find(["s3://bucket/t.parquet"])
    assert calls == [("s3://bucket/t.parquet", None)]
