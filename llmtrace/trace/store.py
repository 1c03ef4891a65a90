"""Store: canonical frames in order of time, written as hive-partitioned Parquet; all of it or nothing.

Everything is written into a hidden folder beside the destination, which takes its place when the last frame is in. A run that is
interrupted removes it; one that is killed leaves it, and it is in nobody's way.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from llmtrace.errors import OutputError, UsageError
from llmtrace.schema import METADATA_BLOCK_SIZE, METADATA_CLOCK, METADATA_SCHEMA, METADATA_SYNTHETIC, SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    import polars as pl
    from numpy.typing import NDArray

    from llmtrace.formats.layout import Clock

__all__ = ["PARTITIONS", "Footer", "Partition", "Store", "hidden_folder", "kind_of", "refuse_existing"]

Partition: TypeAlias = Literal["day", "month", "none"]
PARTITIONS: tuple[Partition, ...] = ("day", "month", "none")
ROW_GROUP_ROWS = 500_000
_KINDS = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".json": "jsonl", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_BATCH_ROWS = 16_384
"""Values written at once: the words of a dictionary are looked through for the least and the greatest each time."""
_RISING = ("timestamp", "input_tokens", "request_id")
"""Columns of which the differences between neighbours take less room, and less time, than a dictionary."""
_HASHES, _HASH = "block_hashes", "block_hashes.list.element"
_ONCE = ("session", _HASHES)
"""Columns with so many values that a dictionary of them is given up, half way through and with the time lost."""
_HIVE_FOLDER = re.compile(r"(date|month|day)=[^/]+")


@dataclass(frozen=True)
class Footer:
    """What the files of a trace say of themselves.

    Attributes:
        clock: whether times are UTC or elapsed.
        block_size: tokens per prefix block, where there are block hashes.
        synthetic: whether the trace was generated.
    """

    clock: Clock
    block_size: int | None = None
    synthetic: bool = False

    def metadata(self) -> dict[str, str]:
        """The key-value metadata of each file."""
        keys = {METADATA_SCHEMA: SCHEMA_VERSION, METADATA_CLOCK: self.clock}
        keys |= {} if self.block_size is None else {METADATA_BLOCK_SIZE: str(self.block_size)}
        return keys | ({METADATA_SYNTHETIC: "true"} if self.synthetic else {})


class Store:
    """A context manager that takes frames sorted by time and leaves a folder of Parquet files behind.

    Each file is sorted by timestamp, says so in its footer, and carries the metadata keys of the canonical schema. Partitions are
    `date=YYYY-MM-DD` or `month=YYYY-MM`; on a relative clock, which has no dates, `day=NNNNN` counts days from its origin,
    whichever of the two is asked for. A destination whose name ends in `.parquet` becomes one file.
    """

    def __init__(self, destination: Path, partition: Partition, footer: Footer, *, force: bool = False) -> None:
        """Refuse a destination that is in the way, before anything is written.

        Raises:
            UsageError: if the destination has the name of a file of text.
            OutputError: if the destination exists and may not be replaced, or its folder cannot be written to.
        """
        if kind_of(destination) not in {None, "parquet"}:
            raise UsageError(
                f"{destination}: traces are stored as Parquet", "Choose a name for a folder, or one that ends in .parquet."
            )
        refuse_existing(destination, force=force)
        if destination.suffix != ".parquet" and destination.is_file():
            raise OutputError(
                f"{destination} is a file, not a folder", "Choose a name for a folder, or one that ends in .parquet."
            )
        self._destination, self._force = _without_detours(destination), force
        self._single = destination.suffix == ".parquet"
        self._partition: Partition = "none" if self._single else partition
        self._footer = footer
        self._folder, self._undo = Path(), ExitStack()
        self._open: tuple[str, pq.ParquetWriter] | None = None
        self.rows = 0

    def __enter__(self) -> Self:
        """Make the hidden folder.

        Raises:
            OutputError: if that is not possible.
        """
        try:
            self._destination.parent.mkdir(parents=True, exist_ok=True)
            self._folder = self._undo.enter_context(hidden_folder(self._destination, "tmp"))
            self._folder.chmod(0o755)
        except OSError as error:
            raise _unwritable(self._destination, error) from None
        return self

    def append(self, frame: pl.DataFrame | pa.Table) -> None:
        """Write a frame in canonical columns, sorted by time, not earlier than the last one.

        A table may have words as dictionaries; they are written as the words that they stand for.

        Raises:
            OutputError: if the disk is full or refuses.
        """
        table = frame if isinstance(frame, pa.Table) else frame.to_arrow()
        try:
            for name, piece in self._by_partition(table):
                self._write(name, piece)
        except OSError as error:
            raise _unwritable(self._destination, error) from None
        self.rows += table.num_rows

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Put the folder in its place, or remove it if something went wrong."""
        try:
            self._close()
            if kind is None:
                self._settle()
        except OSError as problem:
            if kind is None:
                raise _unwritable(self._destination, problem) from None
        finally:
            self._undo.close()

    def _by_partition(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """The table cut where the partition changes, without a copy."""
        if self._partition == "none" or not table.num_rows:
            yield "", table
            return
        units = self._units(table["timestamp"].cast(pa.int64()).to_numpy())
        begins = np.flatnonzero(units[1:] != units[:-1]) + 1
        for begin, end in pairwise([0, *begins.tolist(), len(units)]):
            yield self._name(units[begin]), table.slice(begin, end - begin)

    def _units(self, times_us: NDArray[np.int64]) -> NDArray[np.datetime64]:
        """The day or the month of each time."""
        by_month = self._partition == "month" and self._footer.clock != "relative"
        return times_us.view("datetime64[us]").astype("datetime64[M]" if by_month else "datetime64[D]")

    def _name(self, unit: np.datetime64) -> str:
        if self._footer.clock == "relative":
            return f"day={unit.astype(int):05}"
        return f"{'month' if self._partition == 'month' else 'date'}={unit}"

    def _write(self, name: str, table: pa.Table) -> None:
        if self._open is None or self._open[0] != name:
            self._close()
            self._open = (name, self._writer(name, table.schema))
        if table.schema != self._open[1].schema:
            table = table.cast(self._open[1].schema)
        self._open[1].write_table(_lean(table), row_group_size=ROW_GROUP_ROWS)

    def _writer(self, name: str, schema: pa.Schema) -> pq.ParquetWriter:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        order = [pq.SortingColumn(schema.get_field_index("timestamp"))]
        # Without Arrow's own schema, to which words that were a dictionary here would be one for every reader.
        writer = pq.ParquetWriter(
            folder / "part-0.parquet",
            schema,
            compression="zstd",
            sorting_columns=order,
            store_schema=False,
            write_batch_size=_BATCH_ROWS,
            **self._encodings(schema),
        )
        writer.add_key_value_metadata(self._footer.metadata())
        return writer

    def _encodings(self, schema: pa.Schema) -> dict[str, Any]:
        """How each column is encoded: by its differences, as it is, or by a dictionary."""
        by_difference = [name for name in _RISING if name in schema.names and not _is_text(schema.field(name).type)]
        if _HASHES in schema.names and self._footer.synthetic:
            # Where we made the ids, those of a request count upwards; hashes do not.
            by_difference.append(_HASH)
        repeated = [name for name in schema.names if name not in {*by_difference, *_ONCE}]
        return {"use_dictionary": repeated, "column_encoding": dict.fromkeys(by_difference, "DELTA_BINARY_PACKED")}

    def _close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _settle(self) -> None:
        made = self._folder / "part-0.parquet" if self._single else self._folder
        # Another run may have put something there in the meantime.
        refuse_existing(self._destination, force=self._force)
        if self._destination.is_dir():
            self._exchange(made)
        else:
            made.replace(self._destination)

    def _exchange(self, made: Path) -> None:
        """Put what was made in the place of a folder, which comes back if that fails."""
        aside = _hidden(self._destination, "old")
        old = aside / "replaced"
        try:
            aside.mkdir()
            self._destination.rename(old)
            made.rename(self._destination)
        except BaseException:
            if old.exists():
                old.rename(self._destination)
            with suppress(OSError):
                aside.rmdir()
            raise
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def hidden_folder(path: Path, ending: str) -> Iterator[Path]:
    """A folder beside a path for nobody else, which goes with all in it at the end; whenever it is interrupted, none is left.

    What the standard library has for it leaves a folder where Ctrl-C comes when it has made one and not yet said so.

    Raises:
        OSError: if it cannot be made.
    """
    folder = _hidden(path, ending)
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _hidden(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{ending}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind))


def _lean(table: pa.Table) -> pa.Table:
    """The table with dictionaries of only what its rows use: a row group is given the whole of one."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field, _used(table.column(place).combine_chunks()))
    return table


def _used(column: pa.DictionaryArray) -> pa.DictionaryArray:
    known = column.is_valid().to_numpy(zero_copy_only=False)
    indices = column.indices.fill_null(0).to_numpy()
    used = np.zeros(len(column.dictionary), np.bool_)
    used[indices[known]] = True
    lean = (np.cumsum(used, dtype=indices.dtype) - 1)[indices]
    return pa.DictionaryArray.from_arrays(pa.array(lean, mask=~known), column.dictionary.filter(pa.array(used)))


def _without_detours(destination: Path) -> Path:
    """The same place by a way that still leads there while what stands there is moved aside; a link stays one."""
    if destination.name in {"", ".."}:
        return Path(os.path.realpath(destination))
    return Path(os.path.realpath(destination.parent), destination.name)


def kind_of(destination: Path) -> str | None:
    """How the rows of a file are laid out as bytes that has such a name; None if the name does not tell.

    >>> [kind_of(Path(name)) for name in ("trace.csv.gz", "trace.parquet", "trace")]
    ['csv', 'parquet', None]
    """
    whole = destination.with_suffix("") if destination.suffix in {".gz", ".zst"} else destination
    return _KINDS.get(whole.suffix)


def refuse_existing(destination: Path, *, force: bool) -> None:
    """Raise if the destination is in the way.

    With `force` a file, or a folder that holds nothing but a trace, may be replaced; other files and devices are never touched.

    Raises:
        OutputError: naming the destination, also if it cannot be looked at.
    """
    try:
        if destination.exists():
            _refuse(destination, force=force)
    except OSError as error:
        raise _unwritable(destination, error) from None


def _refuse(destination: Path, *, force: bool) -> None:
    if not (destination.is_dir() or destination.is_file()):
        raise OutputError(f"{destination} is a device or a pipe", "Choose another name.")
    if destination.is_dir() and not any(destination.iterdir()):
        return
    if not force:
        raise OutputError(f"{destination} exists already", "Choose another name, or replace it with --force.")
    strangers = [path for path in _files(destination) if not _ours(path.relative_to(destination))]
    if destination.is_dir() and strangers:
        raise OutputError(
            f"{destination} holds files that are not of a trace ({strangers[0].name}), so --force does not replace it",
            "Choose another folder, or remove it yourself.",
        )


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def _ours(path: Path) -> bool:
    return path.suffix == ".parquet" and all(_HIVE_FOLDER.fullmatch(part) for part in path.parts[:-1])


def _unwritable(destination: Path, error: OSError) -> OutputError:
    return OutputError(
        f"{destination} cannot be written: {error.strerror or error}",
        "Check the folder's permissions and the space left on its disk.",
    )
