"""Imports go one way through the house, and data is materialised only where it is meant to be."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[1] / "llmtrace"
MODULES = sorted(PACKAGE.rglob("*.py"))

ROOMS = {
    "errors": set(),
    "wording": set(),
    "schema": {"errors"},
    "result": {"errors"},
    "summaries": {"errors"},
    "formats": {"schema", "errors"},
    "trace": {"formats", "schema", "errors"},
    "analyses": {"summaries", "schema", "result", "errors"},
    "engine": {"analyses.base", "summaries.accumulator", "summaries.kernels", "trace", "result", "schema", "errors"},
    "replay": {"summaries", "schema", "trace", "result", "errors"},
    "synth": {"schema", "trace", "replay", "errors"},
    "report": {"result", "errors"},
}
"""What each room may import of ours beside `wording`; `analyses.base` is the protocol alone."""

TOP = {"__init__", "__main__", "cli", "commands", "options"}
"""These may import everything; nobody but they imports them."""

MATERIALISING = {"collect", "collect_all", "collect_async", "collect_batches", "fetch", "profile"}
MAY_COLLECT = {
    "engine": "runs the plans",
    "report": "writes what was found",
}
"""Rooms, and single modules as exceptions, that may collect a lazy frame or sink it, each with its reason."""


def place(module: Path) -> tuple[str, ...]:
    """A module's dotted place below `llmtrace`."""
    return tuple(part for part in module.relative_to(PACKAGE).with_suffix("").parts if part != "__init__") or ("__init__",)


def imports(module: Path) -> Iterator[str]:
    """Every module of ours, or name in one, that a module imports anywhere in it, dotted and without `llmtrace.`."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "llmtrace":
            yield from (f"{node.module}.{alias.name}".partition(".")[2] for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[2] for alias in node.names if alias.name.startswith("llmtrace."))


def forbidden(module: Path) -> list[str]:
    """The imports of a module that its room does not allow."""
    room = place(module)[0]
    if room in TOP:
        return []
    allowed = {room, "__version__", "wording", *ROOMS[room]}
    return [name for name in imports(module) if not any(f"{name}.".startswith(f"{one}.") for one in allowed)]


def materialising(module: Path) -> list[str]:
    """Calls in a module that read data for good."""
    calls = [node for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    names = [(call.func.attr, call.lineno) for call in calls if isinstance(call.func, ast.Attribute)]
    return [f"line {line}: {name}" for name, line in names if name in MATERIALISING or name.startswith("sink_")]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: ".".join(place(module)))
def test_imports_go_one_way(module: Path) -> None:
    assert place(module)[0] in TOP | set(ROOMS), "a new room: say in ROOMS what it may import"
    assert forbidden(module) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: ".".join(place(module)))
def test_data_is_materialised_only_where_meant(module: Path) -> None:
    dotted = ".".join(place(module))
    if not any(f"{dotted}.".startswith(f"{one}.") for one in MAY_COLLECT):
        assert materialising(module) == []


def test_every_exception_to_collecting_is_needed() -> None:
    exceptions = {one for one in MAY_COLLECT if "." in one}
    assert exceptions == {name for module in MODULES if (name := ".".join(place(module))) in exceptions and materialising(module)}


def test_what_is_wrong_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    wrong = tmp_path / "summaries" / "gaps.py"
    wrong.parent.mkdir()
    wrong.write_text(
        "import llmtrace.trace.parts\ndef f(frame):\n    from llmtrace.errors import InputError\n    frame.sink_csv('x')\n"
    )
    assert forbidden(wrong) == ["trace.parts"]
    assert materialising(wrong) == ["line 4: sink_csv"]
