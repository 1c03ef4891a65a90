"""The documentation says what the program does: generated parts are fresh, and no command goes without help, page and example."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import llmtrace
from llmtrace.analyses.base import Analysis
from llmtrace.cli import COMMANDS, main
from llmtrace.report import figures
from llmtrace.result import Result
from llmtrace.schema import COLUMNS
from llmtrace.summaries.accumulator import Counter

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "docs" / "regenerate.py"
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
BY_NAME = {command.__name__.replace("_", "-"): command for commands in COMMANDS.values() for command in commands}
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_generated_parts_are_fresh(page: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check", page], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run make docs\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("name", BY_NAME)
def test_every_command_says_what_it_answers_and_shows_a_call(name: str) -> None:
    text = BY_NAME[name].__doc__ or ""
    assert text.partition("\n")[0].endswith((".", "?"))
    assert re.search(rf"^ +llmtrace {name} \S", text, re.MULTILINE), "an indented example call is missing from the docstring"


@pytest.mark.parametrize("name", BY_NAME)
def test_every_command_has_a_page_with_an_executed_example(name: str) -> None:
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert re.search(rf"^```console\n\$ llmtrace {name} ", page, re.MULTILINE)


@pytest.mark.parametrize("name", [command.__name__.replace("_", "-") for command in COMMANDS["Measure"]])
def test_a_measuring_command_explains_every_scalar_table_and_figure(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, str(ROOT / "sample_traces" / "year"), "--since", "360d", "--format", "json", "--quiet"]) == 0
    result = json.loads(capsys.readouterr().out)
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    named = [*result["scalars"], *result["tables"], *figures.names(name)]
    assert [one for one in named if f"`{one}`" not in page] == []


@pytest.mark.parametrize(
    "analysis",
    [
        llmtrace.Burstiness(),
        llmtrace.ReuseTime(),
        llmtrace.HitDist(per_user=True),
        llmtrace.Evolution(),
        llmtrace.Latency(),
        llmtrace.Popularity(),
    ],
)
def test_a_page_names_every_column_of_every_table(analysis: Analysis) -> None:
    [result] = llmtrace.run(llmtrace.open_trace(str(ROOT / "sample_traces" / "year")), [analysis])
    page = (ROOT / "docs" / f"{result.command}.md").read_text(encoding="utf-8")
    columns = {column for table in result.tables.values() for column in table.columns}
    assert {f"{name}.{column}" for name, table in result.tables.items() for column in table.columns} <= set(result.definitions)
    assert [column for column in columns if f"`{column}`" not in page] == []


@pytest.mark.parametrize("name", BY_NAME)
def test_readme_lists_every_command(name: str) -> None:
    assert f"[`{name}`](docs/{name}.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_lists_no_command_that_does_not_exist() -> None:
    listed = re.findall(r"\| \[`([\w-]+)`\]\(docs/", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert listed == list(BY_NAME)


def test_the_example_of_an_analysis_works() -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    [code] = [
        block for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "class Popularity" in block
    ]
    preface = "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom typing import ClassVar\n"
    names: dict[str, Any] = {"pl": pl, "Result": Result, "Counter": Counter, "Analysis": Analysis}
    exec(preface + code, names)  # noqa: S102
    trace = ROOT / "sample_traces" / "year"
    [result] = llmtrace.run(llmtrace.open_trace(str(trace)), [names["Popularity"]()])
    expected = pl.read_parquet(trace).group_by("model").len().sort("len", "model", descending=[True, False])
    assert result.tables["models"].rows() == expected.rows()


def test_the_library_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample_traces").symlink_to(ROOT / "sample_traces")
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(block, names)  # noqa: S102
    assert {path.stem for path in tmp_path.glob("*.pdf")} == {path.stem for path in tmp_path.glob("report/*.png")}
    assert "hit-dist needs the column 'cached_tokens'" in capsys.readouterr().out


def test_the_library_page_lists_every_analysis_with_its_parameters() -> None:
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| \[`[\w-]+`\]\([\w-]+\.md\) \| (.*) \|$", page, re.MULTILINE))
    public = [getattr(llmtrace, name) for name in llmtrace.__all__]
    analyses = {one.__name__: [own.name for own in fields(one)] for one in public if hasattr(one, "partial")}
    assert {name: re.findall(r"`(\w+)`", listed) for name, listed in rows.items()} == analyses


def test_the_schema_page_has_every_column_as_it_is() -> None:
    page = (ROOT / "docs" / "schema.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| .*? \| (.*) \|$", page, re.MULTILINE))
    assert rows == {
        name: f"{column.unit if column.unit != 'us' else ''} | {column.meaning}".strip() for name, column in COLUMNS.items()
    }


def test_a_stale_example_is_mended(tmp_path: Path) -> None:
    regenerate = runpy.run_path(str(SCRIPT))["regenerated"]
    page = tmp_path / "page.md"
    page.write_text("Before.\n\n```console\n$ echo one \\\n  two\nold\n$ true\nold\n```\n\n```sh\n$ echo not run\n```\n")
    mended = "Before.\n\n```console\n$ echo one \\\n  two\none two\n$ true\n```\n\n```sh\n$ echo not run\n```\n"
    assert regenerate(page) == mended


def test_an_example_that_fails_is_no_example(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ ls nothing-here\n```\n")
    with pytest.raises(RuntimeError, match="nothing-here"):
        runpy.run_path(str(SCRIPT))["regenerated"](page)
