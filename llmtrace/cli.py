"""The command line: the list of commands, and the one place where errors become two lines and an exit code."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, TextIO

import typer
import typer.core

from llmtrace import __version__
from llmtrace.commands.balance import balance
from llmtrace.commands.burstiness import burstiness
from llmtrace.commands.cache import cache
from llmtrace.commands.check import check
from llmtrace.commands.convert import convert
from llmtrace.commands.evolution import evolution
from llmtrace.commands.generate import generate
from llmtrace.commands.hit_dist import hit_dist
from llmtrace.commands.latency import latency
from llmtrace.commands.popularity import popularity
from llmtrace.commands.reuse_time import reuse_time
from llmtrace.commands.route import route
from llmtrace.commands.sessions import sessions
from llmtrace.commands.stats import stats
from llmtrace.engine.memory import share_heap
from llmtrace.errors import LlmtraceError, OutputError, UsageError
from llmtrace.options import spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from typer._click.core import Context, Parameter

    from llmtrace.options import Command

__all__ = ["COMMANDS", "Ending", "entry", "main", "set_up_libraries"]

COMMANDS: Mapping[str, Sequence[Command]] = {
    "Measure": (stats, burstiness, reuse_time, hit_dist, evolution, latency, popularity, balance),
    "Replay": (sessions, cache, route),
    "Handle traces": (check, convert, generate),
}
"""Every command, in the order of the help, under the heading it stands there; the function's name is the command's."""

INTERRUPTED = 130
SIGNALLED = 128
"""With the number of a signal added, what a shell reports for a program that the signal ended."""
CLOSED_PIPE = 141
"""What a shell reports for a program that ended because its reader did: 128 and the number of SIGPIPE."""
_ECHO_S = 1.0
"""Seconds within which a signal is the same one again: `timeout`, and a terminal with its shell, send theirs twice."""
_LONGEST_LINE = 2_000
"""Characters of an error that are shown: a predicate, or the names of columns, may be a megabyte."""
_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EBADF}


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"llmtrace {__version__}")
        raise typer.Exit


def _llmtrace(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Characterize an LLM-serving workload from its request trace.

    Tables are as wide as the terminal; 100 columns where there is none, or as many as COLUMNS says. `-h` is short for `--help`.
    """


class _Command(typer.core.TyperCommand):
    """A command whose help shows no value for flags, which take none."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Its parameters, as Typer has them."""
        return _bare(super().get_params(ctx))


class _Group(typer.core.TyperGroup):
    """The same for the program itself."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Its parameters, as Typer has them."""
        return _bare(super().get_params(ctx))


def _bare(parameters: list[Parameter]) -> list[Parameter]:
    for one in parameters:
        if isinstance(one, typer.core.TyperOption) and one.is_flag:
            one.metavar = ""
    return parameters


def _app(word: str) -> typer.Typer:
    """The command that the first word calls, for to look into the options of all takes a while; all if it calls none."""
    app = typer.Typer(
        name="llmtrace",
        cls=_Group,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    app.callback()(_llmtrace)
    named = [(panel, command.__name__.replace("_", "-"), command) for panel, some in COMMANDS.items() for command in some]
    for panel, name, command in [one for one in named if one[1] == word] or named:
        app.command(name, cls=_Command, rich_help_panel=panel)(spread(command))
    return app


def __getattr__(name: str) -> typer.Typer:
    """All commands as `app`, where tools that write documentation or completions look for it."""
    if name == "app":
        return _app("")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code; an error is two lines on standard error.

    The codes: 0 done, 1 internal error, 2 usage, 3 input data, 4 missing column, 5 output, 130 interrupted, 141 nobody reads our
    output any more.
    """
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    try:
        _check_working_folder()
        code = typer.main.get_command(_app(arguments[0])).main(arguments, prog_name="llmtrace", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as leaving:  # how Typer ends when our output is not read, and after completing a word for the shell
        code = CLOSED_PIPE if isinstance(leaving.__context__, BrokenPipeError) else leaving.code
    except BrokenPipeError:
        code = CLOSED_PIPE
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemError as error:  # what Ctrl-C becomes while a kernel runs in this thread
        if not isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise
        code = INTERRUPTED
    except LlmtraceError as error:
        code = _report(error.message, error.hint, error.exit_code)
    except typer.TyperException as error:
        code = _report(*_usage(error), error.exit_code)
    except OSError as error:
        code = _report(*_trouble(error))
    except MemoryError:
        code = _report("out of memory", "Take fewer --threads, or a shorter window with --since and --until.", 1)
    return code or 0


def entry() -> int:
    """Run the command line as a program, and give its exit code; all that it printed has been written then.

    SIGTERM and SIGHUP end it as Ctrl-C does, with 143 and 129, which is 128 and their number.
    """
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    set_up_libraries()
    ending = Ending()
    try:
        ending.listen()
        _make_room_for_caches()
        code = main()
    except OSError as error:
        code = _report(*_trouble(error))
    except KeyboardInterrupt:
        code = INTERRUPTED
    ending.is_near = True
    # A second Ctrl-C ends the program at once, not with a traceback from its cleaning up.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    return SIGNALLED + ending.signal if code and ending.signal else code


class Ending:
    """What SIGTERM and SIGHUP do: the first interrupts the main thread as Ctrl-C does, another one ends the program at once.

    Attributes:
        signal: the number of the first; 0 before.
        is_near: whether the work is done, so that there is nothing left to interrupt.
        since_s: when the first came, on a clock of its own.
    """

    def __init__(self) -> None:
        """Begin before any signal."""
        self.signal = 0
        self.is_near = False
        self.since_s = 0.0

    def listen(self) -> None:
        """Take the signals from now on, but for those that are ignored, as SIGHUP is under nohup."""
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self)

    def __call__(self, number: int, _: FrameType | None) -> None:
        """Handle a signal."""
        if not self.signal:
            self.signal, self.since_s = number, monotonic()
            if not self.is_near:
                raise KeyboardInterrupt
        elif monotonic() - self.since_s > _ECHO_S:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


def _replace_closed_streams() -> None:
    """Python has None for a standard stream that the caller closed: reading it gives nothing, writing a result there fails."""
    for name, mode, access in (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            # The lowest free descriptor is the closed one, which no file of ours may take: prints would go into it.
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode))


def set_up_libraries() -> None:
    """Let allocators keep what parts of the trace gave back for the next ones, and take pages as small as they are needed.

    Two processors share a heap, so that what one gave back serves the other and less lies idle. No threads wait for linear
    algebra, of which there is none, nor does Numba load SciPy's, which takes a tenth of a second. Cycles are sought seldom:
    imports make objects that stay. All of that is for a process that does nothing else, and before Polars and NumPy are imported.
    """
    heaps = ((os.cpu_count() or 1) + 1) // 2
    os.environ.setdefault("_RJEM_MALLOC_CONF", f"dirty_decay_ms:1500,muzzy_decay_ms:1500,narenas:{heaps}")
    share_heap()
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.modules.setdefault("scipy.linalg.cython_blas", None)  # type: ignore[arg-type]
    gc.set_threshold(10_000, 50)


def _make_room_for_caches() -> None:
    """Find places for what is kept between runs, where the user's home has none: compiled kernels, and matplotlib's fonts.

    Numba loads no kernel that it has nowhere to keep, beside the package or in the user's cache. Matplotlib would say on standard
    error that it had to look for a place.

    Raises:
        OSError: if there is no place for temporary files either.
    """
    cache, config = _user_folder("XDG_CACHE_HOME", "~/.cache"), _user_folder("XDG_CONFIG_HOME", "~/.config")
    if not _can_be_written(Path(__file__).parent) and not _can_be_written(cache / "numba"):
        _make_room("NUMBA_CACHE_DIR")
    if not _can_be_written(cache / "matplotlib") or not _can_be_written(config / "matplotlib"):
        _make_room("MPLCONFIGDIR")


def _make_room(variable: str) -> None:
    if variable not in os.environ:
        # A folder of a known name would let others plant code there; a new one costs compiling in every run.
        os.environ[variable] = tempfile.mkdtemp(prefix="llmtrace-")
        atexit.register(shutil.rmtree, os.environ[variable], ignore_errors=True)


def _user_folder(variable: str, default: str) -> Path:
    """The user's folder of that kind; without a home, one that nobody can write to."""
    with suppress(RuntimeError):
        return Path(os.environ.get(variable) or default).expanduser()
    return Path(os.devnull)


def _can_be_written(folder: Path) -> bool:
    """Whether files can be made in a folder, which need not exist."""
    with suppress(OSError):
        present = next(path for path in (folder, *folder.parents) if path.exists())
        return present.is_dir() and os.access(present, os.W_OK | os.X_OK)
    return False


def _check_working_folder() -> None:
    """Raise where the working folder was removed: paths lead nowhere there, and libraries that ask for it fail one by one."""
    try:
        Path.cwd()
    except OSError as error:
        raise UsageError(f"The working folder cannot be used: {error.strerror}", "Change to another one with cd.") from None


def _report(message: str, hint: str, code: int) -> int:
    with suppress(OSError):
        sys.stderr.write(f"llmtrace: error: {_in_a_line(message)}\n  {_in_a_line(hint)}\n")
    return code


def _usage(error: typer.TyperException) -> tuple[str, str]:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "llmtrace"
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    return message, f"Run '{command} --help' to see what there is."


def _trouble(error: OSError) -> tuple[str, str, int]:
    if error.errno in _CANNOT_WRITE and not error.filename and not _takes_the_rest(sys.stdout):
        message = f"Standard output cannot be written: {error.strerror}"
        return message, "Send it to a place with room.", OutputError.exit_code
    where = f"{error.filename}: " if error.filename else ""
    message = f"{where}{error.strerror or error}"
    if error.errno in _CANNOT_WRITE:
        return message, "Make room there, or write elsewhere.", OutputError.exit_code
    return message, "Look at the file or device that is named, or at the one the command was reading or writing.", 1


def _takes_the_rest(stream: TextIO) -> bool:
    """Whether what a stream still holds can be written: what failed once is kept, and fails again."""
    try:
        stream.flush()
    except OSError:
        return False
    return True


def _in_a_line(text: str) -> str:
    """Line breaks as spaces, other control characters spelled out (a file name cannot draw on the terminal), and not too long."""
    line = re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda match: repr(match[0])[1:-1], " ".join(text.splitlines()))
    half = _LONGEST_LINE // 2
    return line if len(line) <= _LONGEST_LINE else f"{line[:half]} … {line[-half:]}"
