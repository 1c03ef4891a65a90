"""Bring generated documentation up to date: the list of all options, the output below every example command, the figures.

    python docs/regenerate.py                   rewrites what is stale
    python docs/regenerate.py --check [PAGE...] changes nothing, shows what is stale and exits 1 if anything is

An example is a `console` block: every line that begins with `$ ` is run in a scratch folder where `sample_traces` is at hand, and
what it prints is what stands below it. A link to `figures/COMMAND/NAME.png` is the figure NAME of that command, drawn from the
year in `sample_traces`; figures are drawn anew but not compared, since every matplotlib draws a little differently.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPTIONS_PAGE = ROOT / "docs" / "cli.md"
FIGURES = ROOT / "docs" / "figures"
CLOSED_PIPE = 141
BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"\]\((?:docs/)?figures/([a-z-]+)/(\w+\.png)\)")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)


def pages() -> list[Path]:
    """Every page with text of its own."""
    return [ROOT / "README.md", *sorted(page for page in ROOT.glob("docs/*.md") if page != OPTIONS_PAGE)]


def regenerated(page: Path) -> str:
    """What a page should hold."""
    if page == OPTIONS_PAGE:
        return options_page()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sample_traces").symlink_to(ROOT / "sample_traces")
        return BLOCK.sub(lambda block: session(block[0], folder), page.read_text(encoding="utf-8"))


def options_page() -> str:
    """Every command with all its options, from the command line itself."""
    whole = [sys.executable, "-m", "typer", "--app", "app", "llmtrace.cli"]
    program = [*whole, "utils", "docs", "--name", "llmtrace", "--title", "All options"]
    return run(program, ROOT).rstrip("\n") + "\n"


def session(block: str, folder: Path) -> str:
    """The example commands of a block, each with what it prints."""
    return "".join(f"$ {command}\n{shown(command, folder)}" for command in COMMAND.findall(block))


def shown(command: str, folder: Path) -> str:
    """What a command prints on a terminal of 100 columns."""
    printed = run(["bash", "-o", "pipefail", "-c", command], folder)
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def run(program: list[str], folder: Path) -> str:
    """Standard output and error of a program, as they come.

    Raises:
        RuntimeError: if it fails otherwise than with an error that is told to the user.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    plain = {"PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    kept = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"}}
    done = subprocess.run(
        program, cwd=folder, env={**kept, **plain}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode not in {0, CLOSED_PIPE} and "llmtrace: error: " not in done.stdout:
        raise RuntimeError(f"{' '.join(program)} failed with exit code {done.returncode}:\n{done.stdout}")
    return done.stdout


def draw_figures() -> None:
    """Draw the figures that the pages show."""
    shown = {figure for page in pages() for figure in FIGURE.findall(page.read_text(encoding="utf-8"))}
    for command in sorted({command for command, _ in shown}):
        with tempfile.TemporaryDirectory() as folder:
            run(["llmtrace", command, "sample_traces/year", "--figures", folder, "--quiet"], ROOT)
            (FIGURES / command).mkdir(parents=True, exist_ok=True)
            for name in sorted(name for of, name in shown if of == command):
                shutil.copy(Path(folder, name), FIGURES / command / name)


def difference(page: Path, current: str, wanted: str) -> list[str]:
    """How a page differs from what it should hold, line by line; nothing where it is fresh."""
    name = os.path.relpath(page, ROOT)
    return list(difflib.unified_diff(current.splitlines(), wanted.splitlines(), name, f"{name} (regenerated)", lineterm=""))


def main() -> int:
    """Check or rewrite pages; a check fails if one is stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("page", nargs="*", type=lambda name: Path(name).resolve(), help="pages; all, and the figures, without")
    options = parser.parse_args()
    if not options.check and not options.page:
        draw_figures()
    any_stale = False
    for page in options.page or [OPTIONS_PAGE, *pages()]:
        current, wanted = page.read_text(encoding="utf-8") if page.exists() else "", regenerated(page)
        lines = difference(page, current, wanted)
        any_stale |= bool(lines)
        if lines and not options.check:
            page.write_text(wanted, encoding="utf-8")
        sys.stdout.writelines(f"{line}\n" for line in lines)
    return 1 if options.check and any_stale else 0


if __name__ == "__main__":
    sys.exit(main())
