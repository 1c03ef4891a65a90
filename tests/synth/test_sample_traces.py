"""The committed samples are what the commands in their README make."""

from __future__ import annotations

import gzip
import re
import shlex
from pathlib import Path

import polars as pl
import pytest
import typer

from llmtrace.commands.generate import generate
from llmtrace.options import spread

SAMPLES = Path(__file__).parents[2] / "sample_traces"
README = (SAMPLES / "README.md").read_text(encoding="utf-8")
COMMANDS = {
    Path(words[2]).name: words[2:] for words in map(shlex.split, re.findall(r"^llmtrace generate .*$", README, re.MULTILINE))
}


def content(path: Path) -> bytes | pl.DataFrame:
    """Bytes of text; values of Parquet, whose bytes are the writer's affair."""
    if path.is_dir() or path.suffix == ".parquet":
        return pl.concat([pl.read_parquet(file) for file in sorted(path.rglob("*.parquet")) or [path]])
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def layout(path: Path) -> list[Path]:
    return sorted(file.relative_to(path) for file in path.rglob("*"))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_makes_the_sample(tmp_path: Path, name: str) -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(spread(generate))
    app([str(tmp_path / name), *COMMANDS[name][1:], "--quiet"], standalone_mode=False)
    made, committed = content(tmp_path / name), content(SAMPLES / name)
    assert type(made) is type(committed)
    assert made.equals(committed) if isinstance(made, pl.DataFrame) and isinstance(committed, pl.DataFrame) else made == committed
    assert layout(tmp_path / name) == layout(SAMPLES / name)


def test_every_sample_has_a_command_and_a_description() -> None:
    there = {path.name for path in SAMPLES.iterdir()} - {"README.md", ".gitattributes"}
    assert there == set(COMMANDS)
    assert {name.rstrip("/") for name in re.findall(r"^\| `([^`]+)`", README, re.MULTILINE)} == there


def test_the_described_numbers_of_requests_are_right() -> None:
    for name, number in re.findall(r"^\| `([^`]+)` \|[^|]*\| ([\d,]+) \|", README, re.MULTILINE):
        found = content(SAMPLES / name)
        header = Path(name).suffix == ".csv"
        rows = found.height if isinstance(found, pl.DataFrame) else len(found.splitlines()) - header
        assert rows == int(number.replace(",", "")), name


def test_samples_stay_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLES.rglob("*") if path.is_file()) < 8_000_000


def test_samples_say_that_they_are_synthetic() -> None:
    assert "Every file here is synthetic" in README
