"""The program: `llmtrace`, or `python -m llmtrace`."""

from __future__ import annotations

import signal

__all__ = ["program"]


def program() -> None:
    """Run the command line. Until it is loaded, Ctrl-C ends the program without a word, for there is nothing to clean up."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from llmtrace.cli import entry

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    entry()


if __name__ == "__main__":
    program()
