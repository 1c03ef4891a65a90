"""The progress bar: seen by a person who waits, and by nobody else."""

from __future__ import annotations

import io
import sys

import pytest

from llmtrace.engine import progress
from llmtrace.engine.progress import progress_bar


class Terminal(io.StringIO):
    """Standard error that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch, patience_s: float) -> Terminal:
    """Put a terminal in the place of standard error (in the test itself: pytest changes the stream after fixtures)."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE_S", patience_s)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def test_long_work_shows_rows_done_and_in_total(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch, patience_s=0)
    with progress_bar() as show:
        assert show is not None
        show(2_000_000, 8_000_000)
    assert "2,000,000 of 8,000,000 rows" in stream.getvalue()
    assert "25%" in stream.getvalue()


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch, patience_s=3600)
    with progress_bar() as show:
        assert show is not None
        show(1, 2)
    assert stream.getvalue() == ""


def interrupted() -> None:
    with progress_bar() as show:
        assert show is not None
        show(1, 2)
        raise KeyboardInterrupt


def test_the_bar_is_wiped_when_the_work_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch, patience_s=0)
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    show_cursor = "\x1b[?25h"
    assert show_cursor in stream.getvalue()


def test_quiet_and_redirected_runs_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch, patience_s=0)
    with progress_bar(quiet=True) as show:
        assert show is None
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar() as show:
        assert show is None
    assert stream.getvalue() == ""
