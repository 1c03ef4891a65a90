"""What a layout is: it recognises a foreign file and says how each canonical cell is read from it.

A layout never reads data. It looks at a `Raw` (column names, dtypes, the first rows) and returns a `Reading`: one `Cell` per
canonical column, each a Polars expression over the raw columns, so that projection and predicates reach the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    import polars as pl

__all__ = ["CachedMode", "Cell", "Clock", "Layout", "Raw", "ReadOptions", "Reading", "TimeUnit", "nothing", "unknown"]

Clock: TypeAlias = Literal["utc", "relative"]
TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]
CachedMode: TypeAlias = Literal["inclusive", "exclusive"]


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about a source beyond its content.

    Attributes:
        mapping: canonical column to source column (`--map`), overriding the layout's own.
        time_unit: unit of bare numbers in the time column (`--time-unit`), overriding the layout's own.
        tz: IANA zone of wall-clock times that carry none (`--tz`); UTC without it.
        cached_mode: whether the source's input tokens include the cached ones; the layout decides without it.
        epoch: the moment in UTC at which a relative clock stands at zero (`--epoch`), which makes its times dates.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    time_unit: TimeUnit | None = None
    tz: str | None = None
    cached_mode: CachedMode | None = None
    epoch: datetime | None = None


def unknown(_: str) -> None:
    """Nothing tells the smallest and largest values of a column."""


def nothing(_: str) -> tuple[()]:
    """There are no values of a column."""
    return ()


@dataclass(frozen=True)
class Raw:
    """What a layout sees of a source before anything is read in earnest.

    Attributes:
        name: the file's name as the user gave it, for messages and for layouts that hide a fact in it.
        kind: how the bytes are laid out; in `csv` and `jsonl` every raw column is a String (nested JSON as its text).
        schema: raw column name to dtype, hive keys included.
        first_rows: reads some columns of the first rows, at most 100, in raw form; none of Parquet that says itself what
            it is. Mostly, names and dtypes say enough.
        metadata: the key-value metadata of a Parquet file; of delimited text its `separator`.
        edges: smallest and largest values of a column of Parquet, as its footer has them (see `footer.RowGroup`): none of a
            column without values, as text without rows has; None where it does not tell for all rows.
        notes: what the source itself has to say, to be passed on in the reading.
    """

    name: str
    kind: Literal["parquet", "csv", "jsonl"]
    schema: Mapping[str, pl.DataType]
    first_rows: Callable[[Sequence[str]], pl.DataFrame]
    metadata: Mapping[str, str] = field(default_factory=dict)
    edges: Callable[[str], Sequence[object] | None] = unknown
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """How one canonical column is read.

    Attributes:
        value: the canonical value; null where missing or unreadable.
        bad: true where the source holds something that could not be read; None where that cannot happen.
        sources: the raw columns it reads.
    """

    value: pl.Expr
    bad: pl.Expr | None
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """A layout applied to one source.

    Attributes:
        layout: the layout's name.
        clock: whether times are UTC or elapsed.
        cells: canonical column to its cell; canonical columns that the source lacks are absent.
        block_size: tokens per prefix block where `block_hashes` is present.
        notes: what a reader of the numbers must know about this reading.
        counted: a sentence with `{count}` in it (see `wording.worded`), to an expression over the raw columns, true for the rows
            that it counts; said only where there are any.
    """

    layout: str
    clock: Clock
    cells: Mapping[str, Cell]
    block_size: int | None = None
    notes: tuple[str, ...] = ()
    counted: Mapping[str, pl.Expr] = field(default_factory=dict)
    synthetic: bool = False


class Layout(Protocol):
    """One foreign layout: a module of this package each."""

    name: ClassVar[str]
    """The word of `--from`."""
    names: ClassVar[Mapping[str, tuple[str, ...]]]
    """Canonical column to the names that it may have in such a file."""

    def matches(self, raw: Raw) -> bool:
        """Whether the content looks like this layout; the file's name decides nothing."""

    def read(self, raw: Raw, options: ReadOptions) -> Reading:
        """The reading of such a source.

        Raises:
            MissingColumnError: if a column that the layout or `options.mapping` needs is not there.
            UsageError: if the time column cannot be understood without `--time-unit`.
        """
