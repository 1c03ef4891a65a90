"""Places: the files behind what the user names, be it a file, a folder, a glob or an address in a store."""

from __future__ import annotations

import difflib
import fnmatch
import glob
import os
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyarrow import fs

from llmtrace.errors import InputError
from llmtrace.formats.content import is_junk, reason
from llmtrace.formats.stores import HINT, filesystem, is_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Place", "expand"]

SUFFIXES = (".parquet", ".pq", ".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".txt")
"""What a trace file in a folder is called, before a compression suffix."""
COMPRESSED = (".gz", ".zst", ".zip")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Place:
    """A file, what to call it in messages, and the `key=value` folders between the root that the user named and it."""

    path: str
    name: str
    hive: Mapping[str, str] = field(default_factory=dict)


def expand(source: str) -> list[Place]:
    """The files behind one source: a file itself, the trace files of a folder by path, the matches of a glob by path.

    Raises:
        InputError: if there are none, or the way to them is barred.
    """
    if not source:
        raise InputError("A source has an empty name", "Give a file, a folder, a glob or an address; . is the current folder.")
    if is_address(source):
        return _stored(source)
    try:
        return _local(source)
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror}", "Check the path and its permissions.") from None


def _local(source: str) -> list[Place]:
    if Path(source).exists():
        return _below(source) if Path(source).is_dir() else [Place(source, source)]
    if glob.has_magic(source):
        return _matching(source)
    raise _missing(source)


def _below(folder: str, root: str | None = None) -> list[Place]:
    base = Path(root or folder)
    try:
        inside = [
            path for path in _walk(Path(folder)) if _is_trace(path) and not is_junk(PurePosixPath(path.relative_to(folder)))
        ]
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}", "Check the folder's permissions.") from None
    if not inside:
        raise InputError(
            f"{folder} holds no trace files",
            f"Give a folder with files that end in {', '.join(SUFFIXES)}, or name the file itself.",
        )
    return [Place(str(path), str(path), _hive(path.relative_to(base).parts[:-1])) for path in sorted(inside)]


def _walk(folder: Path) -> Iterator[Path]:
    """Every file below a folder. Links to other folders are followed, those that lead back into it are not."""
    inside = {os.path.realpath(folder)}
    for here, folders, files in os.walk(folder, followlinks=True, onerror=_raise):
        links = {name: os.path.realpath(Path(here, name)) for name in folders if Path(here, name).is_symlink()}
        back = {name for name, real in links.items() if any(_within(real, known) or _within(known, real) for known in inside)}
        folders[:] = [name for name in folders if name not in back]
        inside |= {real for name, real in links.items() if name not in back}
        yield from (Path(here, name) for name in files)


def _within(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def _raise(error: OSError) -> None:
    raise error


def _is_trace(path: Path | PurePosixPath) -> bool:
    name = path.name.lower()
    bare = next((name.removesuffix(suffix) for suffix in COMPRESSED if name.endswith(suffix)), name)
    return bare.endswith(SUFFIXES)


def _matching(pattern: str) -> list[Place]:
    root = _fixed_part(pattern)
    places: list[Place] = []
    for match in sorted(glob.glob(pattern, recursive=True)):  # noqa: PTH207 - the pattern may be absolute
        path = Path(match)
        if is_junk(PurePosixPath(path.relative_to(root))):
            continue
        places += _below(match, root) if path.is_dir() else [Place(match, match, _hive(path.relative_to(root).parts[:-1]))]
    if not places:
        raise InputError(f"{pattern} matches no file", "Check the pattern; quote it so that the shell leaves it alone.")
    return places


def _fixed_part(pattern: str) -> str:
    """The folder before the first part with a wildcard."""
    parts = Path(pattern).parts
    fixed = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    return str(Path(*parts[:fixed]))


def _hive(folders: Iterable[str]) -> dict[str, str]:
    pairs = (folder.partition("=") for folder in folders if "=" in folder)
    return {unquote(key): unquote(value) for key, _, value in pairs if key and value != _NO_VALUE}


def _missing(source: str) -> InputError:
    path = Path(source)
    siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() and os.access(path.parent, os.R_OK) else []
    if path.name in siblings:
        return InputError(f"{source} is a link that leads nowhere", "Give the file that it should lead to.")
    close = difflib.get_close_matches(path.name, siblings, n=1)
    hint = f"Did you mean {path.parent / close[0]}?" if close else "Check the path."
    return InputError(f"{source} does not exist", hint)


def _stored(address: str) -> list[Place]:
    """An object in a store, or the Parquet files below an address that ends in a slash or has a wildcard."""
    if not (address.endswith("/") or glob.has_magic(address)):
        return [Place(address, address)]
    root = address if address.endswith("/") else address[: min(address.index(sign) for sign in "*?[" if sign in address)]
    root = root[: root.rindex("/") + 1]
    try:
        store, base = filesystem(root)
        found = store.get_file_info(fs.FileSelector(base, recursive=True))
    except (OSError, ValueError) as error:
        raise InputError(f"{address} cannot be listed: {reason(error)}", HINT) from None
    inside = [info.path[len(base) :].lstrip("/") for info in found if info.is_file]
    pattern = "*" if address.endswith("/") else address[len(root) :]
    wanted = [path for path in sorted(inside) if fnmatch.fnmatchcase(path, pattern) and path.endswith(".parquet")]
    places = [
        Place(root + path, root + path, _hive(PurePosixPath(path).parts[:-1]))
        for path in wanted
        if not is_junk(PurePosixPath(path))
    ]
    if not places:
        raise InputError(f"{address} holds no Parquet files", "From a store, Parquet is read; fetch other files first.")
    return places
