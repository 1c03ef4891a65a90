"""Files that appear all together or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from llmtrace.errors import OutputError
from llmtrace.wording import either

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

__all__ = ["check_folder", "check_free", "staged"]

_HINTS = {
    errno.ENOSPC: "The disk is full: free some space, or name a folder on another disk.",
    errno.EDQUOT: "Your quota is used up: free some space, or name a folder on another disk.",
    errno.EFBIG: "The file is larger than the limit on the size of files.",
    errno.EROFS: "The disk is read-only: name a folder on another one.",
}
_HINT = "Name a folder in which you may write."


def check_folder(folder: Path, option: str) -> None:
    """Raise an error if files cannot be put into a folder, which need not exist.

    Raises:
        OutputError: if a file has its name, or the folder that it would be made in cannot be written to.
    """
    present = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not present.is_dir():
        raise OutputError(f"{option} {folder}: {present} is a file, not a folder", "Name another folder.")
    if not os.access(present, os.W_OK | os.X_OK):
        raise OutputError(f"{option} {folder}: no permission to write in {present}", _HINT)


def check_free(paths: Iterable[Path], *, force: bool) -> None:
    """Raise an error if a path is taken; with `force` only if by a folder, a device or a pipe.

    Raises:
        OutputError: naming the first path in the way, and how many there are.
    """
    taken = [path for path in paths if os.path.lexists(path) and (not force or (path.exists() and not path.is_file()))]
    if taken:
        others = f" (and {len(taken) - 1} more)" if len(taken) > 1 else ""
        hint = "Name another folder." if force else "Name another folder, or replace files with --force."
        raise OutputError(f"{taken[0]}{others} {either(len(taken), 'exists', 'exist')} already", hint)


@contextmanager
def staged() -> Iterator[Callable[[Path, bytes], None]]:
    """Yield a function that stages a file; they take their places when the block ends, and after any exception none is left.

    A file is written beside its place under a temporary name that no other run uses, then renamed. A killed run may leave
    such a temporary file, which is in nobody's way. Missing folders are made.

    Raises:
        OutputError: if a file cannot be written, naming it.
    """
    with ExitStack() as undo:
        stage = _Stage(undo)
        yield stage.add
        stage.place()
        undo.pop_all()


class _Stage:
    """Temporary files by the paths they are for; whatever is made is undone by `undo`."""

    def __init__(self, undo: ExitStack) -> None:
        self.undo = undo
        self.temporaries: dict[Path, Path] = {}

    def add(self, path: Path, content: bytes) -> None:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        with _named(path):
            _make_folder(path.parent, self.undo)
            self.undo.callback(_remove, temporary)
            temporary.write_bytes(content)
        self.temporaries[path] = temporary

    def place(self) -> None:
        for path, temporary in self.temporaries.items():
            if not os.path.lexists(path):
                self.undo.callback(_remove, path)
            with _named(path):
                temporary.replace(path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, _HINT)
        raise OutputError(f"{path} cannot be written: {error.strerror or error}", hint) from error


def _make_folder(folder: Path, undo: ExitStack) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        undo.callback(_remove_folder, path)
        path.mkdir(exist_ok=True)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _remove_folder(path: Path) -> None:
    # Not empty means that somebody else uses it now.
    with suppress(OSError):
        path.rmdir()
