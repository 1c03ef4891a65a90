"""The options of commands that need sessions: taken from the trace, or reconstructed, and how."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from llmtrace.replay.sessions import Reconstruction

__all__ = ["Reconstructing"]

_PANEL = "Sessions"


@dataclass(frozen=True)
class Reconstructing:
    """How sessions are reconstructed."""

    k: Annotated[
        int,
        typer.Option("--k", metavar="N", help="How many of the last requests of a key can be continued.", rich_help_panel=_PANEL),
    ] = 10
    max_gap: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The longest time between a request and the one it continues, as 15m or 2h.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="The key: what requests of a session have in common, joined by commas. User and model without it.",
            rich_help_panel=_PANEL,
        ),
    ] = None

    def rule(self) -> "Reconstruction":
        """The rule that these options describe.

        Raises:
            UsageError: if they make no sense.
        """
        from llmtrace.replay.sessions import Reconstruction
        from llmtrace.summaries.intervals import Interval

        gap_s = None if self.max_gap is None else Interval.parse(self.max_gap, "--max-gap").seconds
        by = None if self.by is None else tuple(column.strip() for column in self.by.split(","))
        return Reconstruction(self.k, gap_s, by)
