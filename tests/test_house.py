"""The house numbers: functions of at most 60 body lines and three levels of nesting, modules of at most 500 lines."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
FILES = sorted([*ROOT.glob("llmtrace/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("docs/*.py")])
MAX_BODY_LINES, MAX_NESTING, MAX_MODULE_LINES = 60, 3, 500

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
NESTS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source: str) -> set[int]:
    """Numbers of the lines that hold code, a string's inner lines included."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {line for token in tokens if token.type not in SILENT for line in range(token.start[0], token.end[0] + 1)}


def body_lines(function: Function, code: set[int]) -> int:
    """Lines of code in a function's body, its docstring aside."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    last = function.end_lineno or function.lineno
    return len(code & set(range(body[0].lineno, last + 1))) if body else 0


def nesting(statements: list[ast.stmt], depth: int = 0) -> int:
    """Levels of blocks inside each other; an `elif` stands on the level of its `if`, an inner function starts anew."""
    return max((_depth(statement, depth) for statement in statements), default=depth)


def _depth(statement: ast.stmt, depth: int) -> int:
    if not isinstance(statement, NESTS):
        return depth
    other = getattr(statement, "orelse", [])
    is_elif = isinstance(statement, ast.If) and len(other) == 1 and isinstance(other[0], ast.If)
    return max(nesting(_inside(statement), depth + 1), nesting(other, depth if is_elif else depth + 1))


def _inside(statement: ast.stmt) -> list[ast.stmt]:
    branches = [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
    return [
        *getattr(statement, "body", []),
        *getattr(statement, "finalbody", []),
        *(one for branch in branches for one in branch.body),
    ]


def outgrown(source: str) -> Iterator[str]:
    """A sentence for everything in a module that is over a house number."""
    code = code_lines(source)
    if len(source.splitlines()) > MAX_MODULE_LINES:
        yield f"the module has {len(source.splitlines())} lines"
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if (lines := body_lines(function, code)) > MAX_BODY_LINES:
            yield f"{function.name} has {lines} body lines"
        if (levels := nesting(function.body)) > MAX_NESTING:
            yield f"{function.name} nests {levels} levels"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_nothing_has_outgrown_the_house(file: Path) -> None:
    assert list(outgrown(file.read_text(encoding="utf-8"))) == []


DEEP = """
def deep(x):
    for i in x:
        if i:
            pass
        elif x:
            with x:
                try:
                    pass
                finally:
                    pass
"""


def test_what_is_too_big_is_seen() -> None:
    assert list(outgrown("def long():\n" + "    a = 1\n" * 61)) == ["long has 61 body lines"]
    assert list(outgrown(DEEP)) == ["deep nests 4 levels"]
    assert list(outgrown("\n" * 501)) == ["the module has 501 lines"]
