"""Sources: what the user names, as single readable files, each with its raw columns.

What a file is, its content tells: Parquet, delimited text or JSON, plain or compressed by gzip, zstd or zip. Polars reads
gzip and zstd as they stand; everything else that is not plain UTF-8 (zip, UTF-16, JSON documents, standard input, pipes) is
unpacked to a temporary file first.
"""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import polars as pl

from llmtrace.errors import InputError
from llmtrace.formats import content, footer
from llmtrace.formats.delimited import Delimited
from llmtrace.formats.delimited import sniff as sniff_delimited
from llmtrace.formats.documents import is_document, objects
from llmtrace.formats.footer import RowGroup
from llmtrace.formats.layout import Raw, nothing, unknown
from llmtrace.formats.lines import Lines
from llmtrace.formats.lines import sniff as sniff_lines
from llmtrace.formats.places import Place, expand
from llmtrace.formats.spool import CHUNK, spool
from llmtrace.formats.stores import HINT, is_address
from llmtrace.schema import METADATA_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["RowGroup", "Source", "find", "with_constants"]

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)

HEAD_ROWS = 100
STANDARD_INPUT = "standard input"


@dataclass(frozen=True)
class Source:
    """One readable file; a description that pickles, without open handles.

    Attributes:
        name: what messages call it.
        path: what is scanned: the file, or the temporary one that it was unpacked to.
        kind: how its bytes are laid out.
        text: separator, columns and such of text; None for Parquet.
        hive: the `key=value` folders of its path below the root that the user named.
        bytes_per_row: stored bytes per row in the first rows of text.
    """

    name: str
    path: str
    kind: Literal["parquet", "csv", "jsonl"]
    text: Delimited | Lines | None = None
    hive: Mapping[str, str] = field(default_factory=dict)
    bytes_per_row: float = 1.0

    def scan(self, first_row: int = 0, rows: int | None = None) -> pl.LazyFrame:
        """Its raw columns, rows in file order; of text, every column is a String.

        A hive key is a further String column, unless the file has that column itself.

        Args:
            first_row: where in a Parquet file to begin; text is always read whole.
            rows: how many rows of it to read; all that follow by default.
        """
        return with_constants(self.stored(first_row, rows), self.constants())

    def stored(self, first_row: int = 0, rows: int | None = None) -> pl.LazyFrame:
        """The same without hive keys."""
        return self._parquet(first_row, rows) if self.text is None else self.text.scan(self.path)

    def constants(self, columns: Collection[str] | None = None) -> dict[str, str]:
        """The hive keys among some raw columns, or all, and their values; without those that the file has itself."""
        wanted = self.hive if columns is None else {key: value for key, value in self.hive.items() if key in columns}
        own = self.columns if wanted else ()
        return {key: value for key, value in wanted.items() if key not in own}

    def _parquet(self, first_row: int, rows: int | None) -> pl.LazyFrame:
        # Two slices of one file would be taken for the same scan, and the file read whole for both, but for the end they name.
        end = None if rows is None else first_row + rows
        scan = pl.scan_parquet(self.path, n_rows=end, hive_partitioning=False, glob=False)
        return scan.slice(first_row, rows) if first_row else scan

    def raw(self) -> Raw:
        """What a layout sees: names, dtypes, metadata, and the first rows, which of Parquet are read only when it asks for them.

        Raises:
            InputError: if it cannot be read.
        """
        try:
            if self.text is not None:
                head = with_constants(self.text.head(self.path, HEAD_ROWS), self.constants())
                edges = unknown if head.height else nothing
                return Raw(self.name, self.kind, dict(head.schema), head.select, self._metadata(), edges, self.notes)
            own, metadata = footer.schema(self.path), self._metadata()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self.damaged(error) from None
        # Ours need no look at their rows: the metadata says it all.
        first_rows = partial(self._first_rows, 0 if METADATA_SCHEMA in metadata else HEAD_ROWS)
        return Raw(
            self.name,
            self.kind,
            {**own, **{key: pl.String() for key in self.hive if key not in own}},
            first_rows,
            metadata,
            self._edges,
            self.notes,
        )

    def _first_rows(self, rows: int, columns: Sequence[str]) -> pl.DataFrame:
        """Some columns of so many of the first rows of Parquet.

        Raises:
            InputError: if they cannot be read.
        """
        # Some column is read, for without any there are no rows.
        own = [column for column in columns if column in self.columns] or list(self.columns[:1])
        try:
            found = pl.read_parquet(self.path, columns=own, n_rows=rows, parallel="none", hive_partitioning=False, glob=False)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self.damaged(error) from None
        return with_constants(found, self.constants()).select(columns)

    def _edges(self, column: str) -> list[object] | None:
        groups = [group for group in self.row_groups(column) if group.nulls != group.rows]
        if any(group.minimum is None for group in groups):
            return None
        return [bound for group in groups for bound in (group.minimum, group.maximum)]

    def rows(self) -> int | None:
        """Its number of rows, from the footer of Parquet; None for text, which must be read to know."""
        return footer.metadata(self.path).num_rows if self.text is None else None

    def estimated_rows(self) -> int:
        """Its number of rows, for text as the size of the file and the length of its first rows suggest."""
        return self.rows() or 0 if self.text is None else round(Path(self.path).stat().st_size / self.bytes_per_row)

    def row_groups(self, column: str) -> list[RowGroup]:
        """The row groups of Parquet in file order, described for a raw column; of text there are none."""
        return footer.row_groups(self.path, column) if self.text is None else []

    def may_be_empty(self, column: str) -> bool:
        """Whether an empty text may be in a raw column of Parquet, as far as its footer tells."""
        return footer.may_be_empty(self.path, column)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its raw columns, hive keys left out."""
        if self.text is None:
            return tuple(footer.schema(self.path))
        return self.text.columns

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know about the file."""
        # The same words for every file, so that a year of them says it once.
        hidden = [
            f"'{key}' is taken from the files, not from their folders {key}=..." for key in self.hive if key in self.columns
        ]
        return (*hidden, *(self.text.notes if isinstance(self.text, Delimited) else ()))

    def damaged(self, error: Exception) -> InputError:
        """The error for the user when reading the file fails in the middle."""
        return content.damaged(self.name, error)

    def _metadata(self) -> dict[str, str]:
        if self.text is None:
            return footer.key_values(self.path)
        return {"separator": self.text.separator} if isinstance(self.text, Delimited) else {}


def with_constants(frame: Frame, constants: Mapping[str, str]) -> Frame:
    """Raw columns with further ones, each of one value."""
    return frame.with_columns(pl.lit(value).alias(key) for key, value in constants.items()) if constants else frame


def find(sources: Sequence[str]) -> list[Source]:
    """The readable files behind what the user names, in that order; in a folder by path, and each file once.

    Args:
        sources: files, folders (with hive partitions), globs, addresses such as `s3://...`, and `-` for standard input.

    Raises:
        InputError: if a source is missing, empty, damaged, not permitted, or holds no trace.
    """
    found: dict[str, list[Source]] = {}
    for source in dict.fromkeys(sources):
        for place in [_standard_input()] if source == "-" else expand(source):
            key = place.path if is_address(place.path) else os.path.realpath(place.path)
            if key not in found:
                found[key] = _at(place if is_address(place.path) else _openable(place))
    return [source for group in found.values() for source in group]


def _standard_input() -> Place:
    stream = sys.stdin.buffer
    if sys.stdin.isatty():
        raise InputError("- reads standard input, which is a terminal", "Pipe a trace into it: llmtrace ... - < trace.csv")
    # As it comes, where that is possible: an interruption is then noticed between two pieces.
    read = getattr(stream, "read1", stream.read)
    path = spool(iter(lambda: read(CHUNK), b""), STANDARD_INPUT)
    with Path(path).open("rb") as file:
        if file.read(len(content.PARQUET)) == content.PARQUET:
            raise InputError(
                "Standard input is Parquet, which cannot be read as a stream", "Give the path of the file instead of -."
            )
    return Place(path, STANDARD_INPUT)


def _at(place: Place) -> list[Source]:
    """The sources in a file: one, or several in a zip archive."""
    if is_address(place.path):
        return [_parquet(place)]
    head = content.look(place.path, place.name)
    if head.wrap == "zip":
        return _unzipped(place)
    if head.data.startswith(content.PARQUET) and head.wrap is None:
        return [_parquet(place)]
    if head.data.startswith(content.PARQUET) or content.wrap_of(head.data) is not None:
        return _at(Place(spool(content.unwrapped(place.path, head.wrap, place.name), place.name), place.name, place.hive))
    encoding = content.text_encoding(head.data, place.name)
    if encoding not in {"utf-8", "utf-8-sig"}:
        plain = content.unwrapped(place.path, head.wrap, place.name, encoding)
        return _at(Place(spool(plain, place.name), place.name, place.hive))
    return [_text(place, head, head.data.decode(encoding, errors="replace"))]


def _openable(place: Place) -> Place:
    """The place itself, or the copy of a pipe, which can be read only once.

    Raises:
        InputError: if its name is in no encoding that Polars knows.
    """
    if Path(place.path).is_fifo():
        return replace(place, path=spool(content.unwrapped(place.path, None, place.name), place.name))
    try:
        place.path.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{place.name} cannot be read: its name is not UTF-8", "Rename it, or pipe it into llmtrace with - for a name."
        ) from None
    return place


def _parquet(place: Place) -> Source:
    try:
        footer.metadata(place.path)
    except NotImplementedError as error:
        hint = "Write it again with types that every reader of Parquet knows, such as integers of 64 bits."
        raise InputError(f"{place.name} cannot be read: {content.reason(error)}", hint) from None
    except (OSError, ValueError) as error:
        if not is_address(place.path):
            raise content.damaged(place.name, error) from None
        raise InputError(f"{place.name} cannot be read: {content.reason(error)}", HINT) from None
    return Source(place.name, place.path, "parquet", hive=place.hive)


def _unzipped(place: Place) -> list[Source]:
    return [
        source
        for name, chunks in content.members(place.path, place.name)
        for source in _at(Place(spool(chunks, place.name), f"{place.name}/{name}", place.hive))
    ]


def _text(place: Place, head: content.Head, text: str) -> Source:
    """The source of plain UTF-8 text; its last line counts only if it is whole."""
    lines = text.split("\n") if head.whole else text.split("\n")[:-1] or [text]
    if _is_json(lines):
        if is_document(lines, whole=head.whole):
            return _unpacked(place, head)
        fields = sniff_lines(lines, place.name)
        filled = sum(1 for line in lines if line.strip())
        return Source(place.name, place.path, "jsonl", fields, place.hive, head.stored / filled)
    layout = sniff_delimited(text, place.name)
    rows = max(len(lines) - layout.skip_lines, 1)
    return Source(place.name, place.path, "csv", layout, place.hive, head.stored / rows)


def _is_json(lines: Sequence[str]) -> bool:
    """Whether text is JSON: it begins like it, or most of its lines do."""
    filled = [line.lstrip("\ufeff \t") for line in lines if line.strip()]
    return filled[0].startswith(("{", "[")) or sum(line.startswith("{") for line in filled) * 2 > len(filled)


def _unpacked(place: Place, head: content.Head) -> Source:
    """The source of a JSON document, its objects written out line by line."""
    with content.opened(place.path, head.wrap, place.name) as plain:
        text = io.TextIOWrapper(plain, "utf-8-sig", errors="replace")
        path = spool((f"{line}\n".encode() for line in objects(text, place.name)), place.name)
    (source,) = _at(Place(path, place.name, place.hive))
    return source
