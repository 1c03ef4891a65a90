"""Every error a user can meet, in one tree.

    LlmtraceError          exit code 1   anything of ours
    ├── UsageError         exit code 2   an option, a format name, an expression
    ├── InputError         exit code 3   a source that is missing, empty, damaged or unusable
    ├── MissingColumnError exit code 4   a column that the trace does not have
    └── OutputError        exit code 5   an output that is in the way or cannot be written

Each carries two sentences: what is wrong, naming the file or option, and what to do. They are caught in one place,
`llmtrace.cli.main`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["InputError", "LlmtraceError", "MissingColumnError", "OutputError", "UsageError"]


class LlmtraceError(Exception):
    """The root: a message that names the file or option, and a hint that says what to do."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str) -> None:
        """Keep both sentences; `str()` of the error is the message."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type[LlmtraceError], tuple[str, str]]:
        """Survive pickling, so that an error in a worker arrives whole."""
        return type(self), (self.message, self.hint)


class UsageError(LlmtraceError):
    """The command line (or the call) is wrong: an option, a format name, an expression."""

    exit_code = 2


class InputError(LlmtraceError):
    """A source is missing, empty, damaged, or not readable as a trace."""

    exit_code = 3


class MissingColumnError(LlmtraceError):
    """A column is asked for that the trace does not have."""

    exit_code = 4

    @classmethod
    def among(cls, missing: Iterable[str], present: Iterable[str], wanted_by: str) -> MissingColumnError:
        """Build the error for columns that `wanted_by` needs, listing those present.

        >>> MissingColumnError.among(["user"], ["timestamp", "model"], "reuse-time").message
        "reuse-time needs the column 'user', which the trace does not have"
        """
        names = ", ".join(f"'{name}'" for name in missing)
        noun = "columns" if "," in names else "column"
        return cls(
            f"{wanted_by} needs the {noun} {names}, which the trace does not have",
            f"The trace has: {', '.join(present)}. Name the source column with --map CANONICAL=COLUMN if it is called otherwise.",
        )

    @classmethod
    def neither(cls, one: str, other: str, present: Iterable[str], wanted_by: str) -> MissingColumnError:
        """Build the error for two columns of which `wanted_by` needs one, listing those present.

        >>> MissingColumnError.neither("user", "model", ["timestamp"], "popularity").message
        "popularity needs the column 'user' or 'model', and the trace has neither"
        """
        return cls(
            f"{wanted_by} needs the column '{one}' or '{other}', and the trace has neither",
            f"The trace has: {', '.join(present)}. Name the source column with --map {one}=COLUMN if it is called otherwise.",
        )


class OutputError(LlmtraceError):
    """An output is in the way or cannot be written."""

    exit_code = 5
