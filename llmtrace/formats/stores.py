"""Stores: the objects behind addresses such as `s3://bucket/trace.parquet`.

Polars reads the rows, pyarrow reads footers and lists folders. Where there are no credentials, pyarrow looks for Google's for a
quarter of an hour, and for Azure's until the program is ended from inside; Polars gives up in seconds, and so is asked first.
"""

from __future__ import annotations

from contextlib import suppress

import polars as pl
from pyarrow import fs

__all__ = ["HINT", "filesystem", "is_address"]

HINT = (
    "Check the address and the credentials (the store's usual environment variables or login); "
    "from a store, Parquet is read, other files must be fetched first."
)
"""What to do where a store does not answer."""

_GOOGLE = ("gs", "gcs")
_ASKED_FIRST = (*_GOOGLE, "abfs", "abfss", "adl", "az", "azure")
_QUICKLY = {"max_retries": 1, "connect_timeout": "5s"}
_RETRY_S = 10
"""How long pyarrow tries again with a store of Google's that did answer at first."""


def is_address(path: str) -> bool:
    """Whether a path is an address in a store, not one on a disk."""
    return "://" in path


def filesystem(address: str) -> tuple[fs.FileSystem, str]:
    """The store of an address, and the path in it.

    Raises:
        OSError: if the store does not answer or there are no credentials.
        ValueError: if it is no address of a store that is known.
    """
    scheme, _, rest = address.partition("://")
    if scheme in _ASKED_FIRST:
        _ask(f"{scheme}://{rest.partition('/')[0]}", address.rstrip("/"))
    more = f"?retry_limit_seconds={_RETRY_S}" if scheme in _GOOGLE and "?" not in rest else ""
    store, path = fs.FileSystem.from_uri(address + more)
    return store, path


_answered = set[str]()


def _ask(store: str, address: str) -> None:
    """Raise if a store does not answer; that it lacks the object, or that this is no Parquet, is an answer, and will be told."""
    if store in _answered:
        return
    with suppress(FileNotFoundError, pl.exceptions.PolarsError):
        pl.scan_parquet(address, glob=False, hive_partitioning=False, storage_options=_QUICKLY).collect_schema()
    _answered.add(store)
