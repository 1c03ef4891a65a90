"""What is told beside the result, and that nothing else tells it."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from llmtrace.commands import telling

if TYPE_CHECKING:
    import pytest


class Full(io.StringIO):
    """A stream that takes nothing."""

    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


def test_it_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    telling.say("note: all is well.")
    assert capsys.readouterr() == ("", "llmtrace: note: all is well.\n")


def test_a_full_standard_error_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Full())
    telling.say("note: all is well.")


def test_commands_write_to_standard_error_nowhere_else() -> None:
    modules = Path(str(telling.__file__)).parent.glob("*.py")
    assert [module.name for module in modules if "stderr" in module.read_text(encoding="utf-8")] == ["telling.py"]
