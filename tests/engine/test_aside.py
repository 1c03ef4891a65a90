"""Work on a thread of its own: what it gives and raises, and that it stops when nobody waits for it."""

from __future__ import annotations

from threading import Event, current_thread, main_thread

import pytest

from llmtrace.engine.aside import Aside


def test_work_is_on_another_thread() -> None:
    with Aside() as aside:
        assert aside.run(current_thread) is not main_thread()
        assert aside.run(pow, 2, exp=3) == 8


def test_what_it_raises_arrives() -> None:
    with Aside() as aside, pytest.raises(ZeroDivisionError):
        aside.run(divmod, 1, 0)


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    with Aside() as aside:
        aside.run(aside.watched(lambda done, total: told.append((done, total))), 1, 2)
        aside.run(aside.watched(None), 2, 2)
    assert told == [(1, 2)]


def test_work_stops_when_the_context_is_left() -> None:
    """As Ctrl-C does while the work goes on; leaving waits for it."""
    begun, is_left, ended = Event(), Event(), Event()
    aside = Aside()
    tell = aside.watched(None)

    def work() -> None:
        begun.set()
        is_left.wait()
        try:
            while True:
                tell(0, 1)
        finally:
            ended.set()

    with aside:
        aside.begin(work)
        begun.wait()
        is_left.set()
    assert ended.is_set()
