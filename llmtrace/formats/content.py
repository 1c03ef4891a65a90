"""Content: what the bytes of a file are, whatever it is called."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, BinaryIO, Literal, TypeAlias

import pyarrow as pa

from llmtrace.errors import InputError
from llmtrace.formats.spool import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "PARQUET",
    "Head",
    "Wrap",
    "damaged",
    "is_junk",
    "look",
    "members",
    "opened",
    "reason",
    "text_encoding",
    "unwrapped",
    "wrap_of",
]

Wrap: TypeAlias = Literal["gzip", "zstd", "zip"]
Stream: TypeAlias = "IO[bytes] | gzip.GzipFile"
PARQUET = b"PAR1"
MAGIC: tuple[tuple[bytes, Wrap], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
)
BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
HEAD_BYTES = 1 << 20
_TAR = slice(257, 262)
"""Where a tar archive says what it is."""
_BROKEN_ZIP = (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError)
_OFFICE = {"[Content_Types].xml", "mimetype"}
"""What the archives that spreadsheets are stored as hold, of one maker or another."""
_ADVICE = "You might want to try"
_STAND_INS: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (
        re.compile(rb"version https://git-lfs\.github\.com/"),
        "a Git LFS pointer, not the file that it stands for",
        "Fetch the file itself, with git lfs pull or from the web.",
    ),
    (
        re.compile(rb"\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE),
        "a web page (HTML), not a trace",
        "Download the file itself: what was saved is an error page, a login or a preview of it.",
    ),
    (re.compile(rb"\s*<\?xml\b"), "XML, not a trace", "Export it as CSV, JSON lines or Parquet."),
)
"""What is often saved in the place of a trace, whatever it is called: how it begins, what it is, and what to do."""
LONGEST_LINE = 1 << 26
"""Where the search for the end of a first line is given up: there is one line, or none."""


@dataclass(frozen=True)
class Head:
    """The beginning of a file, unpacked.

    Attributes:
        wrap: how the file is compressed; None if it is not.
        data: its first plain bytes, at least a whole line where there is one.
        stored: the bytes of the file that they take, about.
        whole: whether they are all there is.
    """

    wrap: Wrap | None
    data: bytes
    stored: int
    whole: bool


def look(path: str, name: str) -> Head:
    """The beginning of a file.

    Raises:
        InputError: if it cannot be opened, is empty, or its compression is damaged.
    """
    try:
        with Path(path).open("rb") as file:
            wrap = wrap_of(file.read(4))
            if wrap == "zip":
                return Head(wrap, b"", 0, whole=False)
            file.seek(0)
            with _decompressed(file, wrap) as plain:
                data = _whole_line(plain)
                whole = not plain.read(1)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(name, error) from None
    if not data.removeprefix(codecs.BOM_UTF8).strip():
        raise InputError(f"{name} is empty", "Give a file with requests in it, or leave this one out.")
    return Head(wrap, data, Path(path).stat().st_size if whole else _stored(data, wrap), whole)


def wrap_of(start: bytes) -> Wrap | None:
    """How a file is compressed that starts with these bytes."""
    return next((wrap for magic, wrap in MAGIC if start.startswith(magic)), None)


def text_encoding(data: bytes, name: str) -> str:
    """The encoding of text that starts with these bytes.

    Raises:
        InputError: if it is no text, or a text that is known to be no trace.
    """
    if data[_TAR].startswith(b"ustar"):
        raise InputError(f"{name} is a tar archive", "Unpack it first, with tar xf, and give the files in it.")
    for beginning, what, hint in _STAND_INS:
        if beginning.match(data.removeprefix(codecs.BOM_UTF8)):
            raise InputError(f"{name} is {what}", hint)
    marked = next((encoding for bom, encoding in BOMS if data.startswith(bom)), None)
    if marked is None and b"\0" in data and _is_binary(data):
        raise _neither(name)
    return marked or "utf-8"


def _is_binary(data: bytes) -> bool:
    """Whether more than a tenth of it is no text, a run of zeros counted once: a log that a crash cut off has such runs in it."""
    text = re.sub(rb"\0+", b"\0", data).decode(errors="replace")
    return (text.count("\0") + text.count("\ufffd")) * 10 > len(text)


def _neither(name: str) -> InputError:
    return InputError(
        f"{name} is neither Parquet nor text",
        "Give Parquet, CSV, TSV or JSON lines, plain or in gzip, zstd or zip; a spreadsheet must be saved as CSV first.",
    )


@contextmanager
def opened(path: str, wrap: Wrap | None, name: str) -> Iterator[Stream]:
    """The plain bytes of a file as a stream.

    Raises:
        InputError: if its compression is damaged, also where that shows while the stream is read.
    """
    try:
        with Path(path).open("rb") as file, _decompressed(file, wrap) as plain:
            yield plain
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(name, error) from None


def unwrapped(path: str, wrap: Wrap | None, name: str, encoding: str = "utf-8") -> Iterator[bytes]:
    """The plain bytes of a file, chunk by chunk, those of text in UTF-8.

    Raises:
        InputError: if its compression is damaged.
    """
    with opened(path, wrap, name) as plain:
        if encoding == "utf-8":
            yield from iter(lambda: plain.read(CHUNK), b"")
        else:
            text = io.TextIOWrapper(plain, encoding, errors="replace", newline="")
            yield from (chunk.encode() for chunk in iter(lambda: text.read(CHUNK), ""))


def members(path: str, name: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Name and content of the files in a zip archive.

    Raises:
        InputError: if the archive is damaged, has no files, or is an office document.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if _OFFICE & set(archive.namelist()):
                raise _neither(name)
            inside = [entry for entry in archive.infolist() if not entry.is_dir() and not is_junk(PurePosixPath(entry.filename))]
            yield from ((entry.filename, _chunks(archive, entry, name)) for entry in inside)
    except _BROKEN_ZIP as error:
        raise damaged(name, error) from None
    if not inside:
        raise InputError(f"{name} is an archive without files", "Give an archive that holds a trace.")


def is_junk(path: PurePosixPath) -> bool:
    """Whether a file is there for the file system, a job or a person, not for its content.

    >>> is_junk(PurePosixPath("a/._part.csv")), is_junk(PurePosixPath("_SUCCESS")), is_junk(PurePosixPath("part.csv"))
    (True, True, False)
    """
    name = path.name.lower()
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    return hidden or name.endswith((".tmp", ".part", ".crdownload", "~")) or name.startswith(("readme", "license"))


def damaged(name: str, error: Exception) -> InputError:
    """The error for a source whose content cannot be read to its end."""
    return InputError(
        f"{name} is damaged: {reason(error)}",
        "Copy or download the file again; if it is text, look for a quote that is not closed.",
    )


def _unreadable(name: str, error: Exception) -> InputError:
    """The error for a file that the system does not let us read, or whose content is damaged."""
    if not isinstance(error, OSError) or error.errno is None:
        return damaged(name, error)
    permitted = not isinstance(error, (IsADirectoryError, PermissionError))
    hint = "Check that it is there and can be read to its end." if permitted else "Check the file's permissions."
    return InputError(f"{name} cannot be read: {error.strerror}", hint)


def reason(error: Exception) -> str:
    """What a library says went wrong, in a line, without its advice to programmers."""
    said = " ".join(str(error).split()).partition(_ADVICE)[0]
    return said[:200].rstrip(". ") or type(error).__name__


def _chunks(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> Iterator[bytes]:
    try:
        with archive.open(entry) as member:
            yield from iter(lambda: member.read(CHUNK), b"")
    except _BROKEN_ZIP as error:
        raise damaged(f"{name}/{entry.filename}", error) from None


@contextmanager
def _decompressed(file: BinaryIO, wrap: Wrap | None) -> Iterator[Stream]:
    if wrap == "gzip":
        with gzip.open(file) as plain:
            yield plain
    elif wrap == "zstd":
        with pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as plain:
            yield plain
    else:
        yield file


def _stored(data: bytes, wrap: Wrap | None) -> int:
    """The size of data when compressed again, for how far the stream has been read ahead cannot be told."""
    if wrap == "gzip":
        return len(zlib.compress(data))
    return len(pa.compress(data, codec="zstd", asbytes=True)) if wrap == "zstd" else len(data)


def _whole_line(plain: Stream) -> bytes:
    data = plain.read(HEAD_BYTES)
    while b"\n" not in data and len(data) < LONGEST_LINE and (more := plain.read(len(data))):
        data += more
    return data
