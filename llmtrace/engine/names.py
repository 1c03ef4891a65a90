"""Names too long to be told in a result: each stands in many rows of it, and a few megabytes of one would become gigabytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["LONGEST_BYTES", "shortened"]

LONGEST_BYTES = 1_000
"""Names of up to so many bytes, which is more than any path to a model has, are told whole."""

_HEAD, _TAIL = 200, 50
_NAMED = ("user", "model", "instance", "endpoint", "session", "status")
_SEED = 20_260_813


def shortened(frame: pl.DataFrame, told: Collection[str] = _NAMED) -> tuple[pl.DataFrame, Mapping[str, int]]:
    """The requests of a part with names that are too long shortened, and how many rows have one, by the sentence that says so.

    What is left of a name are its first and last characters and a hash of it, so that two names stay two.

    Args:
        frame: the requests.
        told: columns whose values a result names. Others are left alone: to scan them costs time.

    >>> frame, counts = shortened(pl.DataFrame({"model": ["m", "a" * 3_000_000 + "b"]}))
    >>> frame["model"].str.len_chars().to_list(), list(counts.values())
    ([1, 271], [1])
    """
    # All-null columns are skipped: to read one is to have Polars make it.
    named = [name for name in _NAMED if name in told and name in frame.columns and frame[name].null_count() < frame.height]
    counts = frame.select_seq((pl.col(named).str.len_bytes() > LONGEST_BYTES).sum())
    found = {count.name: count.item() for count in counts.get_columns() if count.item()}
    sentences = {_sentence(name): count for name, count in found.items()}
    return (frame.with_columns(_short(name) for name in found) if found else frame), sentences


def _short(name: str) -> pl.Expr:
    whole = pl.col(name)
    short = pl.format("{}…{}#{}", whole.str.head(_HEAD), whole.str.tail(_TAIL), whole.hash(_SEED))
    return pl.when(whole.str.len_bytes() > LONGEST_BYTES).then(short).otherwise(whole).alias(name)


def _sentence(name: str) -> str:
    return f"{{count}} {{row has|rows have}} more than {LONGEST_BYTES:,} bytes in {name}; results show the ends of such names."
