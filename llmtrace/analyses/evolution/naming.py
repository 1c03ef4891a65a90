"""Names that mean the same model, brought together: by a table of names, and by endings that make no difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from llmtrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["merged", "pairs"]


def pairs(source: str, rows: pl.DataFrame) -> tuple[tuple[str, str], ...]:
    """The names of a side table, each model once; rows without a name say nothing.

    Args:
        source: the table's name.
        rows: `model` and `name`, text.

    Raises:
        InputError: if a model has several names.

    >>> pairs("names.csv", pl.DataFrame({"model": ["id-7", "id-8"], "name": ["org/R1", None]}))
    (('id-7', 'org/R1'),)
    """
    named = rows.drop_nulls().unique(maintain_order=True)
    twice = named.filter(pl.col("model").is_duplicated())["model"]
    if twice.len():
        raise InputError(
            f"{source} knows {twice[0]!r} by several names ({twice.n_unique():,} models in all)", "Give each model one name."
        )
    return tuple(named.select("model", "name").iter_rows())


def merged(names: pl.Series, renamed: Sequence[tuple[str, str]], suffixes: Sequence[str]) -> pl.Series:
    """The name that each model is known by.

    Args:
        names: of models as the trace has them; null where not known.
        renamed: pairs of such a name, or identifier, and the name that stands for it.
        suffixes: endings that are left out, once and whatever their case, the longest first; a name that is nothing else stays.

    >>> merged(pl.Series(["id-7", "org/R1-tee", "-TEE", None]), [("id-7", "org/R1")], ["-TEE"]).to_list()
    ['org/R1', 'org/R1', '-TEE', None]
    """
    called = names.replace(dict(renamed)) if renamed else names
    if not suffixes:
        return called
    endings = "|".join(pl.escape_regex(suffix) for suffix in suffixes)
    return called.str.replace(f"(?is)^(.+?)(?:{endings})$", "${1}")
