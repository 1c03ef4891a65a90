"""Canonical: the names of `llmtrace.schema`, in Parquet, CSV or JSON lines.

Parquet that llmtrace wrote says in its metadata which schema it follows, on which clock it is and how many tokens a prefix
block has; its columns are taken as they stand. What others wrote under these names is read with the same tolerance as any
foreign file, and its statuses with the same vocabulary as those of `generic`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from llmtrace.errors import InputError
from llmtrace.formats.columns import Draft, Scheme
from llmtrace.formats.generic import candidates, complete_status
from llmtrace.formats.layout import Cell
from llmtrace.schema import COLUMNS, METADATA_BLOCK_SIZE, METADATA_CLOCK, METADATA_SCHEMA, METADATA_SYNTHETIC, REQUIRED, check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.formats.layout import Clock, Raw, Reading, ReadOptions

__all__ = ["Canonical"]

_SCHEME = Scheme("canonical", {name: (name,) for name in COLUMNS})


class Canonical:
    """`timestamp, input_tokens, output_tokens` and any other canonical column."""

    name: ClassVar[str] = "canonical"
    names: ClassVar[Mapping[str, tuple[str, ...]]] = _SCHEME.names

    def matches(self, raw: Raw) -> bool:
        """Whether the metadata says so, or the three required names are there and no others that mean a canonical column."""
        if METADATA_SCHEMA in raw.metadata:
            return True
        named = [name for name in COLUMNS if name in raw.schema]
        return set(REQUIRED) <= set(named) and not any(candidates(raw, name) for name in COLUMNS if name not in named)

    def read(self, raw: Raw, options: ReadOptions) -> Reading:
        """The reading, on the clock that the metadata names.

        Raises:
            InputError: if the file says that it is llmtrace's and is not.
            MissingColumnError: if a required column is not there.
            UsageError: if the times cannot be understood.
        """
        if METADATA_SCHEMA not in raw.metadata:
            foreign = Draft(raw, options, _SCHEME)
            complete_status(foreign)
            return foreign.reading()
        check({name: dtype for name, dtype in raw.schema.items() if name not in options.mapping}, raw.name)
        own = "timestamp" not in options.mapping
        draft = Draft(raw, replace(options, tz=None) if own else options, _SCHEME, _clock(raw) if own else None)
        for name in draft.columns:
            if name != "timestamp" or options.epoch is None:
                draft.put(name, Cell(pl.col(name), None, (name,)))
        return replace(draft.reading(_block_size(raw)), synthetic=raw.metadata.get(METADATA_SYNTHETIC) == "true")


def _clock(raw: Raw) -> Clock:
    clocks: tuple[Clock, ...] = ("utc", "relative")
    for clock in clocks:
        if raw.metadata.get(METADATA_CLOCK) == clock:
            return clock
    raise _contradicts(raw, METADATA_CLOCK)


def _block_size(raw: Raw) -> int | None:
    said = raw.metadata.get(METADATA_BLOCK_SIZE)
    if said is None or said.isdecimal():
        return None if said is None else int(said)
    raise _contradicts(raw, METADATA_BLOCK_SIZE)


def _contradicts(raw: Raw, key: str) -> InputError:
    return InputError(
        f"{raw.name}: the metadata key {key} is {raw.metadata.get(key)!r}",
        "Write the file again, with llmtrace convert from its source.",
    )
