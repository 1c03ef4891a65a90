"""What the tests of formats share: write a file, read it as a trace would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from llmtrace.formats import recognise
from llmtrace.formats.layout import ReadOptions
from llmtrace.formats.source import find

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from llmtrace.formats.layout import CachedMode, Reading, TimeUnit


@dataclass(frozen=True)
class Read:
    """One source, read whole."""

    reading: Reading
    frame: pl.DataFrame
    bad: dict[str, int]
    counted: dict[str, int]

    def column(self, name: str) -> list[Any]:
        return self.frame[name].to_list()


def read(
    path: Path | str,
    layout: str | None = None,
    *,
    mapping: Mapping[str, str] | None = None,
    time_unit: TimeUnit | None = None,
    tz: str | None = None,
    cached_mode: CachedMode | None = None,
) -> Read:
    """Everything that one source holds, canonical column by canonical column."""
    (source,) = find([str(path)])
    raw = source.raw()
    reading = recognise(raw, layout).read(raw, ReadOptions(mapping or {}, time_unit, tz, cached_mode))
    values = [cell.value.alias(name) for name, cell in reading.cells.items()]
    bad = [cell.bad.sum().alias(name) for name, cell in reading.cells.items() if cell.bad is not None]
    counted = [flag.sum().alias(sentence) for sentence, flag in reading.counted.items()]
    counts, sentences = source.scan().select(pl.lit(0), *bad).collect(), source.scan().select(pl.lit(0), *counted).collect()
    return Read(
        reading,
        source.scan().select(values).collect(),
        {name: count for name, count in counts.row(0, named=True).items() if count},
        {sentence: count for sentence, count in sentences.row(0, named=True).items() if count},
    )


@pytest.fixture(name="read")
def _read() -> Callable[..., Read]:
    return read


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write bytes or text to a new file of that name and give its path."""

    def writer(content: bytes | str, name: str = "trace.csv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return writer
