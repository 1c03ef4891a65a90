"""Sources: which files stand behind what the user names, in which order, with which hive keys; standard input; clear refusals."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from llmtrace.errors import InputError
from llmtrace.formats.source import RowGroup, find
from llmtrace.formats.spool import spool

if TYPE_CHECKING:
    from collections.abc import Callable

    Write = Callable[..., Path]

CSV = "timestamp,input_tokens,output_tokens\n2025-04-11,5,1\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder of traces with the junk that folders of traces have."""
    for name in (
        "b.csv",
        "a/2.jsonl",
        "a/10.csv.gz",
        "date=2025-04-12/model=x%2Fy/part-0.parquet",
        "date=2025-04-11/part-1.parquet",
        "date=2025-04-11/part-0.parquet",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("parquet"):
            pl.DataFrame({"t": [name]}).write_parquet(path)
        else:
            path.write_bytes(gzip.compress(CSV.encode(), mtime=0) if name.endswith("gz") else CSV.encode())
    (tmp_path / "a/2.jsonl").write_text('{"t": 1}\n')
    for junk in (
        "._b.csv",
        ".hidden/c.csv",
        "_SUCCESS",
        "_delta_log/0.json",
        "a/x.csv.tmp",
        "notes.md",
        "README.txt",
        "LICENSE.txt",
        "c.csv~",
    ):
        path = tmp_path / junk
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("no trace")
    return tmp_path


def names(sources: list[str], root: Path) -> list[str]:
    return [os.path.relpath(source.name, root) for source in find(sources)]


INSIDE = [
    "a/10.csv.gz",
    "a/2.jsonl",
    "b.csv",
    "date=2025-04-11/part-0.parquet",
    "date=2025-04-11/part-1.parquet",
    "date=2025-04-12/model=x%2Fy/part-0.parquet",
]


def test_a_folder_gives_its_traces_by_path(tree: Path) -> None:
    assert names([str(tree)], tree) == INSIDE
    assert [source.kind for source in find([str(tree)])] == ["csv", "jsonl", "csv", "parquet", "parquet", "parquet"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.csv", ["b.csv"]),
        ("**/*.parquet", INSIDE[3:]),
        ("date=2025-04-1[12]", INSIDE[3:]),
        ("date=*/part-?.parquet", INSIDE[3:5]),
        ("a/*", INSIDE[:2]),
    ],
)
def test_a_glob_gives_its_matches_by_path(tree: Path, pattern: str, expected: list[str]) -> None:
    assert names([str(tree / pattern)], tree) == expected


def test_order_is_as_given_and_each_file_counts_once(tree: Path) -> None:
    assert names([str(tree / "b.csv"), str(tree / "a"), str(tree / "*.csv"), str(tree / "a/../b.csv")], tree) == [
        "b.csv",
        "a/10.csv.gz",
        "a/2.jsonl",
    ]


def test_a_literal_name_wins_over_a_glob(tmp_path: Path) -> None:
    for name in ("x[1].csv", "x1.csv"):
        (tmp_path / name).write_text(CSV.replace("5", str(len(name))))
    assert names([str(tmp_path / "x[1].csv")], tmp_path) == ["x[1].csv"]
    (source,) = find([str(tmp_path / "x[1].csv")])
    assert source.scan().collect()["input_tokens"].to_list() == ["8"]
    assert names([str(tmp_path / "x[12].csv")], tmp_path) == ["x1.csv"]


def test_links_are_followed_but_not_in_circles(tree: Path) -> None:
    (tree / "a/again").symlink_to(tree / "a")
    (tree / "a/up").symlink_to(tree.parent)
    (tree / "a/other").symlink_to(tree / "date=2025-04-11")
    assert names([str(tree)], tree) == INSIDE, "what leads back into the folder is walked once"
    assert names([str(tree / "a")], tree) == [*INSIDE[:2], "a/other/part-0.parquet", "a/other/part-1.parquet"]


def test_relative_names_stay_as_given(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert [source.name for source in find(["b.csv", "a", "*.csv"])] == ["b.csv", "a/10.csv.gz", "a/2.jsonl"]


def test_hive_keys_below_the_root(tree: Path) -> None:
    hive = {os.path.relpath(source.name, tree): dict(source.hive) for source in find([str(tree)])}
    assert hive["date=2025-04-12/model=x%2Fy/part-0.parquet"] == {"date": "2025-04-12", "model": "x/y"}
    assert hive["b.csv"] == {}
    last = find([str(tree)])[-1]
    assert last.scan().collect().rows() == [("date=2025-04-12/model=x%2Fy/part-0.parquet", "2025-04-12", "x/y")]
    assert last.raw().schema == {"t": pl.String(), "date": pl.String(), "model": pl.String()}
    assert last.scan().select("model").collect().to_series().to_list() == ["x/y"]
    (inner,) = find([str(tree / "date=2025-04-12")])
    assert inner.hive == {"model": "x/y"}
    (itself,) = find([str(tree / "date=2025-04-11/part-0.parquet")])
    assert itself.hive == {}
    by_glob = find([str(tree / "date=*/*.parquet")])
    assert [source.hive for source in by_glob] == [{"date": "2025-04-11"}] * 2


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_a_column_of_the_file_wins_over_the_folder(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "model=m" / "user=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir(parents=True)
    path = folder / f"t.{kind}"
    frame = pl.DataFrame({"model": ["n"], "x": ["1"]})
    if kind == "parquet":
        frame.write_parquet(path)
    else:
        path.write_text("model,x\nn,1\n" if kind == "csv" else '{"model": "n", "x": 1}\n')
    (source,) = find([str(tmp_path)])
    assert source.scan().select("model", "x").collect().rows() == [("n", "1")]
    assert "user" not in source.raw().schema
    assert source.raw().notes == ("'model' is taken from the files, not from their folders model=...",)


def test_every_source_pickles(tree: Path) -> None:
    for source in find([str(tree)]):
        again = pickle.loads(pickle.dumps(source))  # noqa: S301 - our own bytes
        assert again == source
        assert again.scan().collect().equals(source.scan().collect())


def test_a_zip_of_several_files(tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one.csv", CSV)
        archive.writestr("two.jsonl", '{"t": 1}\n')
    assert [(source.name, source.kind) for source in find([str(path)])] == [
        (f"{path}/one.csv", "csv"),
        (f"{path}/two.jsonl", "jsonl"),
    ]


class _Stdin:
    def __init__(self, data: bytes, *, terminal: bool = False) -> None:
        self.buffer = io.BytesIO(data)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    "data", [CSV.encode(), gzip.compress(CSV.encode(), mtime=0), CSV.encode("utf-16"), CSV.replace(",", "\t").encode()]
)
def test_standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", _Stdin(data))
    (source,) = find(["-", "-"])
    assert (source.name, source.kind) == ("standard input", "csv")
    assert source.scan().collect()["input_tokens"].to_list() == ["5"]
    assert source.scan().collect()["input_tokens"].to_list() == ["5"], "and once more"


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        (_Stdin(b""), "standard input is empty"),
        (_Stdin(b"PAR1...PAR1"), "Standard input is Parquet"),
        (_Stdin(b"", terminal=True), "which is a terminal"),
    ],
)
def test_standard_input_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, stdin: _Stdin, message: str) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(InputError, match=message) as caught:
        find(["-"])
    assert caught.value.hint


def test_what_is_not_there(tree: Path) -> None:
    with pytest.raises(InputError, match=r"b\.cvs does not exist") as caught:
        find([str(tree / "b.cvs")])
    assert caught.value.hint == f"Did you mean {tree / 'b.csv'}?"
    with pytest.raises(InputError, match="does not exist") as caught:
        find([str(tree / "no/such/folder.csv")])
    assert caught.value.hint == "Check the path."
    with pytest.raises(InputError, match="matches no file"):
        find([str(tree / "*.tsv")])
    with pytest.raises(InputError, match="matches no file"):
        find([str(tree / "_SUCC*")])
    (tree / "void").mkdir()
    with pytest.raises(InputError, match="void holds no trace files"):
        find([str(tree / "void")])


def test_names_that_lead_nowhere() -> None:
    with pytest.raises(InputError, match="empty name"):
        find([""])
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        find(["a" * 5_000])
    for address in ("file:///no/such/file.parquet", "nowhere://a/b.parquet", "s3:///b.parquet"):
        with pytest.raises(InputError, match=f"{address} cannot be read: ") as caught:
            find([address])
        assert caught.value.hint.startswith("Check the address")


@pytest.mark.parametrize("content", [b"timestamp,input_tokens,output_tokens\n1,2,3\n", b"PAR1"], ids=["text", "Parquet"])
def test_a_pipe_is_read_once(tmp_path: Path, content: bytes) -> None:
    if content == b"PAR1":
        pl.DataFrame({"timestamp": ["1"], "input_tokens": ["2"], "output_tokens": ["3"]}).write_parquet(tmp_path / "t.parquet")
        content = (tmp_path / "t.parquet").read_bytes()
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        pool.submit((tmp_path / "pipe").write_bytes, content)
        (source,) = find([str(tmp_path / "pipe")])
    assert source.name == str(tmp_path / "pipe")
    assert source.scan().select("timestamp", "input_tokens", "output_tokens").collect().rows() == [("1", "2", "3")]


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "t.csv"
    link.symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match=r"t\.csv is a link that leads nowhere"):
        find([str(link)])
    with pytest.raises(InputError, match=r"t\.csv cannot be read: No such file or directory"):
        find([str(tmp_path / "folder")])


def test_a_name_that_is_no_utf8_is_told(tmp_path: Path) -> None:
    name = os.fsdecode(bytes(tmp_path) + b"/\xff.csv")
    Path(name).write_text("timestamp,input_tokens,output_tokens\n1,2,3\n")
    with pytest.raises(InputError, match="its name is not UTF-8"):
        find([name])


def test_one_empty_file_in_a_folder_is_named(tree: Path) -> None:
    (tree / "a/zero.csv").touch()
    with pytest.raises(InputError, match=r"a/zero\.csv is empty"):
        find([str(tree)])


@pytest.mark.parametrize("denied", ["b.csv", "a"])
def test_what_may_not_be_read(tree: Path, monkeypatch: pytest.MonkeyPatch, denied: str) -> None:
    """The permissions themselves do not stop every user, so the refusal is played."""
    open_path, walk = Path.open, os.walk

    def opened(path: Path, mode: str = "r") -> object:
        if path.name == denied:
            raise PermissionError(13, "Permission denied", str(path))
        return open_path(path, mode)

    def walked(folder: Path, *, onerror: Callable[[OSError], None], followlinks: bool) -> object:
        for here, folders, files in walk(folder, onerror=onerror, followlinks=followlinks):
            if Path(here).name == denied:
                onerror(PermissionError(13, "Permission denied", here))
            yield here, folders, files

    monkeypatch.setattr(Path, "open", opened)
    monkeypatch.setattr(os, "walk", walked)
    with pytest.raises(InputError, match=f"{denied} cannot be read: Permission denied"):
        find([str(tree)])


@pytest.mark.parametrize("fails", ["write", "flush"])
def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    class Full(io.BytesIO):
        pass

    setattr(Full, fails, full)
    monkeypatch.setattr(os, "fdopen", lambda *_: Full())
    with pytest.raises(InputError, match=r"x must be unpacked.*No space left on device") as caught:
        spool([b"data"], "x")
    assert "TMPDIR" in caught.value.hint


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([RowGroup(0, 2, 3, 5, 0), RowGroup(2, 2, 1, 2, 1)], [3, 5, 1, 2]),
        ([RowGroup(0, 2, 3, 5, 0), RowGroup(2, 2, None, None, 2)], [3, 5]),
        ([RowGroup(0, 2, None, None, 2)], []),
        ([RowGroup(0, 2, 3, 5, 0), RowGroup(2, 2, None, None, 1)], None),
        ([RowGroup(0, 2, None, None, None)], None),
        ([], []),
    ],
)
def test_edges_are_told_only_where_all_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: list[RowGroup], expected: list[int] | None
) -> None:
    pl.DataFrame({"t": [1]}).write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr("llmtrace.formats.footer.row_groups", lambda *_: groups)
    [source] = find([str(tmp_path / "t.parquet")])
    assert source.raw().edges("t") == expected


def test_temporary_files_go_when_the_program_ends(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from llmtrace.formats.spool import spool\n"
        "path = spool([b'abc', b'def'], 'x')\n"
        "assert open(path, 'rb').read() == b'abcdef'\n"
        "print(path)\n"
        "child = os.fork()\n"
        "sys.exit() if child == 0 else os.waitpid(child, 0)\n"
        "assert os.path.exists(path), 'a child must leave it alone'\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    path = Path(ended.stdout.split()[0])
    assert path.is_relative_to(tmp_path)
    assert not path.parent.exists()
