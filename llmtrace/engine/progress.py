"""Progress on standard error, for a person who waits."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["progress_bar"]

PATIENCE_S = 1.0
"""Work shorter than this is over before a bar can be read."""


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A callback for rows done and rows in total that draws a bar; None where nobody would see it.

    The bar goes to standard error if that is a terminal, once the work has lasted a second, and is wiped at the end.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=0)
    patient_until = monotonic() + PATIENCE_S

    def show(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if monotonic() >= patient_until:
            bar.start()

    try:
        yield show
    finally:
        bar.stop()
