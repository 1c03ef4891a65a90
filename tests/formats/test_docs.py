"""The page on formats says what the code does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from llmtrace.formats import LAYOUTS, generic, places

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "formats.md").read_text(encoding="utf-8")


def section(page: str, layout: str) -> str:
    return page.partition(f"\n### `{layout}`\n")[2].partition("\n## ")[0].partition("\n### ")[0]


def test_every_layout_has_a_section_in_the_order_of_recognition(page: str) -> None:
    assert re.findall(r"^### `(\w+)`$", page, re.MULTILINE) == list(LAYOUTS)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_section_shows_a_command(page: str, name: str) -> None:
    assert re.search(r"^```(?:console\n\$ |sh\n)llmtrace ", section(page, name), re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "canonical"])
def test_every_section_maps_the_columns_as_the_layout_does(page: str, name: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section(page, name), re.MULTILINE)
    assert {column: tuple(re.findall(r"`([^`]+)`", names)) for column, names in rows} == LAYOUTS[name].names


def test_lists_are_complete(page: str) -> None:
    prose = section(page, "generic")
    assert [name for name in (*generic.ENDS, *generic.OK) if f"`{name}`" not in prose] == []
    assert [suffix for suffix in (*places.SUFFIXES, *places.COMPRESSED) if f"`{suffix}`" not in page] == []
