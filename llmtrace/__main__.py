"""The program: `llmtrace`, or `python -m llmtrace`."""

from __future__ import annotations

import atexit
import os
import signal
from typing import NoReturn

__all__ = ["program"]


def program() -> NoReturn:
    """Run the command line, and leave. Until that is loaded, Ctrl-C ends the program without a word: nothing is to be mended."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from llmtrace.cli import entry

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = entry()
    # All that is left to Python is to take apart, object by object, what the system takes back at once.
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no other way to have them run
    os._exit(code)


if __name__ == "__main__":
    program()
