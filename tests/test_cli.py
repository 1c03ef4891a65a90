"""The command line through `main`: exit codes, and exactly two plain lines for whatever a user does wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from llmtrace import __version__, cli
from llmtrace.cli import main
from llmtrace.errors import InputError, LlmtraceError, MissingColumnError, OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

Capture = pytest.CaptureFixture[str]
XDG = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME")


def fails(arguments: list[str], capsys: Capture) -> tuple[int, str, str]:
    """Exit code, message and hint of a call that must say just these on standard error, and nothing on standard output."""
    code = main(arguments)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith("\n")
    message, hint = said.err.splitlines()
    assert message.startswith("llmtrace: error: ")
    assert hint.startswith("  ")
    return code, message.removeprefix("llmtrace: error: "), hint.strip()


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make every command raise this."""

    def install(error: BaseException) -> None:
        def raises(*_: object) -> None:
            raise error

        monkeypatch.setattr("llmtrace.options.Reading.open", raises)

    return install


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"llmtrace {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_lists_every_command(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 0
    out = capsys.readouterr().out
    for commands in cli.COMMANDS.values():
        assert all(command.__name__.replace("_", "-") in out for command in commands)


def test_help_of_a_command_groups_its_options(capsys: Capture) -> None:
    assert main(["stats", "-h"]) == 0
    out = capsys.readouterr().out
    assert all(f"─ {panel} ─" in out for panel in ("Options", "Reading", "Filters", "Output"))


@pytest.mark.parametrize("arguments", [["stats", "-h"], ["cache", "-h"], ["-h"]])
def test_flags_take_no_value(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "-h" in out
    assert "bool" not in out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("arguments", [["--help"], ["stats", "--help"], ["--version"]])
def test_help_that_cannot_be_written_says_where(arguments: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    program = [sys.executable, "-m", "llmtrace", *arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    message = "llmtrace: error: Standard output cannot be written: No space left on device"
    assert (done.returncode, done.stderr.splitlines()) == (5, [message, "  Send it to a place with room."])


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["stat"], "No such command 'stat'. Did you mean 'stats'?", "Run 'llmtrace --help' to see what there is."),
        (["--verbose"], "No such option: --verbose (Possible options: --version)", "Run 'llmtrace --help' to see what there is."),
        (["stats"], "Missing argument 'SOURCE'", "Run 'llmtrace stats --help' to see what there is."),
        (
            ["stats", "t.csv", "--formt", "csv"],
            "No such option: --formt (Possible options: --force, --format, --from)",
            "Run 'llmtrace stats --help' to see what there is.",
        ),
        (
            ["stats", "t.csv", "--format", "xml"],
            "Invalid value for '--format': 'xml' is not one of 'table', 'csv', 'json', 'markdown', 'parquet'",
            "Run 'llmtrace stats --help' to see what there is.",
        ),
        (
            ["stats", "t.csv", "--since"],
            "Option '--since' requires an argument",
            "Run 'llmtrace --help' to see what there is.",
        ),
        (
            ["stats", "t.csv", "--threads", "0"],
            "Invalid value for '--threads': Input should be greater than or equal to 1",
            "Run 'llmtrace stats --help' to see what there is.",
        ),
        (
            ["stats", "t.csv", "--map", "user"],
            "--map user: not of the form CANONICAL=COLUMN",
            "Write for example --map user=account_id.",
        ),
        (
            ["stats", "t.csv", "--map", "user=a", "--map", "user=b"],
            "--map user=b: 'user' is mapped twice",
            "Give each canonical column one source column.",
        ),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, hint: str, capsys: Capture) -> None:
    assert fails(arguments, capsys) == (2, message, hint)


def test_unknown_canonical_column_lists_those_there_are(capsys: Capture) -> None:
    code, message, hint = fails(["stats", "t.csv", "--map", "tokens=it"], capsys)
    assert (code, message) == (2, "--map tokens=it: there is no canonical column 'tokens'")
    assert "input_tokens, output_tokens" in hint


@pytest.mark.parametrize(
    ("error", "code"), [(LlmtraceError, 1), (UsageError, 2), (InputError, 3), (MissingColumnError, 4), (OutputError, 5)]
)
def test_our_errors_become_two_lines(
    error: type[LlmtraceError], code: int, failing: Callable[[BaseException], None], capsys: Capture
) -> None:
    failing(error("a.csv: line one\nline two \x1b[31m", "Do\nthis."))
    assert fails(["stats", "a.csv"], capsys) == (code, r"a.csv: line one line two \x1b[31m", "Do this.")


def test_a_long_error_keeps_its_beginning_and_end(failing: Callable[[BaseException], None], capsys: Capture) -> None:
    failing(InputError("begin " + "a" * 1_000_000 + " end", "Do this."))
    _, message, hint = fails(["stats", "a.csv"], capsys)
    assert len(message) < 2_100
    assert (message[:6], message[-4:], hint) == ("begin ", " end", "Do this.")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (OSError(28, "No space left on device", "out/rates.csv"), 5, "out/rates.csv: No space left on device"),
        (OSError(5, "Input/output error"), 1, "Input/output error"),
        (MemoryError(), 1, "out of memory"),
    ],
)
def test_trouble_of_the_machine(
    error: Exception, code: int, message: str, failing: Callable[[BaseException], None], capsys: Capture
) -> None:
    failing(error)
    assert fails(["stats", "a.csv"], capsys)[:2] == (code, message)


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (BrokenPipeError(32, "Broken pipe"), 141)])
def test_leaving_early_is_quiet(
    error: BaseException, code: int, failing: Callable[[BaseException], None], capsys: Capture
) -> None:
    failing(error)
    assert main(["stats", "a.csv"]) == code
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_in_a_kernel_is_an_interruption(failing: Callable[[BaseException], None], capsys: Capture) -> None:
    """A compiled function that returns while Python has an interruption to tell ends in an error of its own."""
    error = SystemError("returned a result with an exception set")
    error.__cause__ = KeyboardInterrupt()
    failing(error)
    assert main(["stats", "a.csv"]) == 130
    assert capsys.readouterr() == ("", "")
    failing(SystemError("something else"))
    with pytest.raises(SystemError):
        main(["stats", "a.csv"])


def test_our_bugs_show_themselves(failing: Callable[[BaseException], None]) -> None:
    failing(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["stats", "a.csv"])


def test_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "llmtrace", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"llmtrace {__version__}\n"


@pytest.mark.skipif(os.name != "posix", reason="signals are of another kind here")
def test_ctrl_c_while_the_program_loads_is_quiet() -> None:
    program = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(name, path, target=None):\n"
        "        if name == 'llmtrace.commands.stats':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting)\n"
        "from llmtrace.__main__ import program\n"
        "program()\n"
    )
    done = subprocess.run([sys.executable, "-c", program, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


GENERATING = [sys.executable, "-m", "llmtrace", "generate", "trace", "--requests", "3000000"]


def ended(arguments: list[str], folder: Path, numbers: list[int]) -> tuple[int, bytes]:
    """Exit code and standard error of a program to which signals were sent once it had begun to write into a folder."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(arguments, cwd=folder, stdin=pipe, stdout=nothing, stderr=pipe, env=environment) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        until = time.monotonic() + 30
        while not list(folder.iterdir()) and time.monotonic() < until:
            time.sleep(0.05)
        for number in numbers:
            running.send_signal(number)
        # A signal between two reads is noticed only when the next one ends.
        running.stdin.close()
        return running.wait(60), running.stderr.read()


@pytest.mark.skipif(os.name != "posix", reason="signals are of another kind here")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("arguments", [GENERATING, [sys.executable, "-m", "llmtrace", "stats", "-"]], ids=["writing", "reading"])
def test_what_ends_a_program_leaves_nothing_behind(name: str, arguments: list[str], tmp_path: Path) -> None:
    number = getattr(signal, name)
    # `timeout`, and a terminal that is closed, send it twice.
    assert ended(arguments, tmp_path, [number, number]) == (128 + number, b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="signals are of another kind here")
def test_a_signal_that_is_ignored_ends_nothing(tmp_path: Path) -> None:
    few = [*GENERATING[:-1], "3000"]
    code, said = ended(["nohup", *few], tmp_path, [signal.SIGHUP])
    assert (code, said.splitlines()[-1]) == (0, b"llmtrace: wrote trace: 3,000 synthetic requests")


@pytest.mark.skipif(os.name != "posix", reason="signals are of another kind here")
def test_a_second_signal_ends_the_program_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, restored, now = list[int](), list[int](), iter((0.0, 0.5, 1.5))
    monkeypatch.setattr(signal, "raise_signal", sent.append)
    monkeypatch.setattr(signal, "signal", lambda number, _: restored.append(number))
    monkeypatch.setattr(cli, "monotonic", lambda: next(now))
    ending = cli.Ending()
    with pytest.raises(KeyboardInterrupt):
        ending(signal.SIGTERM, None)
    ending(signal.SIGTERM, None)
    assert sent == []
    ending(signal.SIGTERM, None)
    assert (ending.signal, sent, restored) == (signal.SIGTERM, [signal.SIGTERM], [signal.SIGTERM])


def test_a_signal_at_the_end_breaks_nothing_off() -> None:
    ending = cli.Ending()
    ending.is_near = True
    ending(signal.SIGTERM, None)
    assert ending.signal == signal.SIGTERM


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str) -> None:
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    program = [sys.executable, "-m", "llmtrace", "--show-completion", shell]
    done = subprocess.run(program, capture_output=True, text=True, check=True, env=environment)
    assert "_LLMTRACE_COMPLETE" in done.stdout


def test_completion_of_a_command() -> None:
    environment = {**os.environ, "_LLMTRACE_COMPLETE": "complete_bash", "COMP_WORDS": "llmtrace sta", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-m", "llmtrace"], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["stats"]


def test_kernels_find_room_where_neither_package_nor_home_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    program = (
        "import os\n"
        "may = os.access\n"
        "os.access = lambda path, mode: 'llmtrace-' in str(path) and may(path, mode)\n"
        "import atexit\n"
        "from llmtrace.__main__ import program\n"
        "told = lambda: print(os.path.isdir(os.environ['NUMBA_CACHE_DIR']), os.environ['NUMBA_CACHE_DIR'], flush=True)\n"
        "run = atexit._run_exitfuncs\n"
        "atexit._run_exitfuncs = lambda: (told(), run())\n"
        "program()\n"
    )
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    environment = {name: value for name, value in environment.items() if name not in {*XDG, "NUMBA_CACHE_DIR"}}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].startswith(f"True {tmp_path / 'llmtrace-'}")
    assert list(tmp_path.glob("llmtrace-*")) == [], "it is removed at the end"


def test_figures_are_drawn_in_silence_where_home_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    (tmp_path / "trace.csv").write_text("timestamp,input_tokens,output_tokens\n2025-01-01,100,10\n2025-01-02,50,5\n")
    arguments = ["stats", "trace.csv", "--quiet", "--figures", "figures"]
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    environment = {name: value for name, value in environment.items() if name not in {*XDG, "MPLCONFIGDIR"}}
    program = [sys.executable, "-m", "llmtrace", *arguments]
    done = subprocess.run(program, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert (tmp_path / "figures" / "requests.png").exists()
    assert [path.name for path in tmp_path.glob("*-*")] == [], "temporary folders are removed at the end"


def test_what_was_printed_before_an_error_is_written() -> None:
    program = (
        "import llmtrace.cli\n"
        "from llmtrace.errors import UsageError\n"
        "def fail():\n    print('printed')\n    raise UsageError('what', 'how')\n"
        "llmtrace.cli._check_working_folder = fail\n"
        "from llmtrace.__main__ import program\n"
        "program()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "printed\n", "llmtrace: error: what\n  how\n")


def test_no_place_for_temporary_files_is_two_lines(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    program = (
        "import tempfile\n"
        "def mkdtemp(**_):\n    raise FileNotFoundError(2, 'No usable temporary directory')\n"
        "tempfile.mkdtemp = mkdtemp\n"
        "from llmtrace.__main__ import program\n"
        "program()\n"
    )
    environment = {**os.environ, "HOME": str(tmp_path / "home")}
    environment = {name: value for name, value in environment.items() if name not in {*XDG, "MPLCONFIGDIR"}}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    message, _ = done.stderr.splitlines()
    assert (done.returncode, message) == (1, "llmtrace: error: No usable temporary directory")
