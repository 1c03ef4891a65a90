"""Spool: temporary files for bytes that Polars cannot read where they are, removed when the program ends."""

from __future__ import annotations

import atexit
import functools
import os
import secrets
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from llmtrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["CHUNK", "spool"]

CHUNK = 1 << 20
"""Bytes that are copied at once."""


def spool(chunks: Iterable[bytes], name: str) -> str:
    """The path of a new temporary file that holds these bytes.

    Args:
        chunks: the content.
        name: what it comes from, for messages.

    Raises:
        InputError: if the disk does not take it.
    """
    handle, path = tempfile.mkstemp(dir=_folder())
    with os.fdopen(handle, "wb") as file:
        for chunk in chunks:
            with _room_for(name):
                file.write(chunk)
        # What closing the file would write might fail too, where nobody knows any more for what.
        with _room_for(name):
            file.flush()
    return path


@contextmanager
def _room_for(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{name} must be unpacked, and there is no room for it in {tempfile.gettempdir()}: {error.strerror}",
            "Free some space there, or name another folder in the environment variable TMPDIR.",
        ) from None


@functools.cache
def _folder() -> Path:
    """The folder of this process, and of no other: a child that inherits it must not remove it."""
    folder, owner = Path(tempfile.gettempdir()) / f"llmtrace-{secrets.token_hex(8)}", os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    # Before it is there: an interruption in between leaves none.
    atexit.register(remove)
    folder.mkdir(mode=0o700)
    return folder
