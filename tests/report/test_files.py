"""All files or none: whatever goes wrong, nothing half-made stays, and what was there stays as it was."""

from __future__ import annotations

import errno
import os
import resource
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from llmtrace.errors import OutputError
from llmtrace.report import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def everything(folder: Path) -> dict[str, bytes | None]:
    """Every path below a folder, with a file's content."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def failing_after(count: int, error: BaseException, function: Callable[..., object]) -> Callable[..., object]:
    """The function, which raises when called for the `count`-th time and after."""
    calls = 0

    def wrapper(*arguments: object, **named: object) -> object:
        nonlocal calls
        calls += 1
        if calls >= count:
            raise error
        return function(*arguments, **named)

    return wrapper


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """Writing a file beyond this many bytes fails, as on a full disk, even for the superuser."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def stage_two(folder: Path) -> None:
    with files.staged() as add:
        add(folder / "new" / "deep" / "a.csv", b"a")
        add(folder / "new" / "b.csv", b"b")


def test_files_appear_when_the_block_ends(tmp_path: Path) -> None:
    with files.staged() as add:
        add(tmp_path / "new" / "a.csv", b"a")
        add(tmp_path / "b.csv", b"b")
        assert not (tmp_path / "new" / "a.csv").exists()
        assert not (tmp_path / "b.csv").exists()
    assert everything(tmp_path) == {"new": None, "new/a.csv": b"a", "b.csv": b"b"}


def test_files_are_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with files.staged() as add:
        add(tmp_path / "a.csv", b"a")
    assert stat.S_IMODE((tmp_path / "a.csv").stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("wrong"), OSError(errno.EIO, "input/output error")])
def test_an_exception_in_the_block_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def interrupted() -> None:
        with files.staged() as add:
            add(tmp_path / "new" / "deep" / "a.csv", b"a")
            raise error

    with pytest.raises(type(error)):
        interrupted()
    assert everything(tmp_path) == {}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("method", ["write_bytes", "replace", "mkdir"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_a_failure_at_any_step_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, count: int, error: BaseException
) -> None:
    monkeypatch.setattr(Path, method, failing_after(count, error, getattr(Path, method)))
    with pytest.raises((KeyboardInterrupt, OutputError)) as caught:
        stage_two(tmp_path)
    monkeypatch.undo()
    assert everything(tmp_path) == {}
    if isinstance(caught.value, OutputError):
        assert caught.value.message.endswith("cannot be written: No space left on device")
        assert "free some space" in caught.value.hint


def test_a_failure_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "b.csv").write_bytes(b"old")
    (tmp_path / "new" / "other").write_bytes(b"other")
    before = everything(tmp_path)
    monkeypatch.setattr(Path, "replace", failing_after(2, OSError(errno.EACCES, "Permission denied"), Path.replace))
    with pytest.raises(OutputError, match=r"b\.csv cannot be written: Permission denied"):
        stage_two(tmp_path)
    monkeypatch.undo()
    assert everything(tmp_path) == before


def test_a_file_that_outgrows_the_disk_leaves_nothing(tmp_path: Path) -> None:
    def large() -> None:
        with files_limited_to(1_000), files.staged() as add:
            add(tmp_path / "small.csv", b"x" * 900)
            add(tmp_path / "large.csv", b"x" * 2_000)

    with pytest.raises(OutputError, match=r"large\.csv cannot be written: File too large"):
        large()
    assert everything(tmp_path) == {}


def test_temporary_files_of_a_killed_run_are_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "replace", failing_after(1, KeyboardInterrupt(), Path.replace))
    monkeypatch.setattr(files, "_remove", lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        stage_two(tmp_path)
    monkeypatch.undo()
    stale = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(stale) == 2
    files.check_folder(tmp_path, "--output")
    stage_two(tmp_path)
    assert (tmp_path / "new" / "b.csv").read_bytes() == b"b"


def test_a_folder_may_exist_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, tmp_path / "a" / "b", Path("c"), Path()):
        files.check_folder(folder, "--output")
    assert everything(tmp_path) == {}


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for folder in (tmp_path / "file", tmp_path / "file" / "sub", tmp_path / "dangling"):
        with pytest.raises(OutputError, match="is a file, not a folder"):
            files.check_folder(folder, "--output")


def test_a_folder_without_permission_is_told_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def refused(path: Path, mode: int) -> bool:
        asked.append(path)
        return mode & os.W_OK == 0

    monkeypatch.setattr(os, "access", refused)
    with pytest.raises(OutputError, match="no permission to write in"):
        files.check_folder(tmp_path / "new" / "deep", "--figures")
    assert asked == [tmp_path]


def test_taken_paths(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    files.check_free([tmp_path / "c"], force=False)
    files.check_free([tmp_path / "a", tmp_path / "link"], force=True)
    with pytest.raises(OutputError, match=r"a \(and 1 more\) exist already") as caught:
        files.check_free([tmp_path / "c", tmp_path / "a", tmp_path / "b"], force=False)
    assert "--force" in caught.value.hint
    with pytest.raises(OutputError, match="link exists already"):
        files.check_free([tmp_path / "link"], force=False)
    with pytest.raises(OutputError, match="folder exists already") as caught:
        files.check_free([tmp_path / "folder"], force=True)
    assert "--force" not in caught.value.hint
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="pipe exists already"):
        files.check_free([tmp_path / "pipe"], force=True)
