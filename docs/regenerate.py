"""Bring generated documentation up to date: the list of all options, and the output below every example command.

    python docs/regenerate.py                   rewrites what is stale
    python docs/regenerate.py --check [PAGE...] changes nothing, shows what is stale and exits 1 if anything is

An example is a `console` block: every line that begins with `$ ` is run in a scratch folder where `sample_traces` is at hand, and
what it prints is what stands below it.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPTIONS_PAGE = ROOT / "docs" / "cli.md"
BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)
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
    program = [sys.executable, "-m", "typer", "llmtrace.cli", "utils", "docs", "--name", "llmtrace", "--title", "All options"]
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
    if done.returncode and "llmtrace: error: " not in done.stdout:
        raise RuntimeError(f"{' '.join(program)} failed with exit code {done.returncode}:\n{done.stdout}")
    return done.stdout


def stale(page: Path) -> list[str]:
    """The difference between a page and what it should hold."""
    current = page.read_text(encoding="utf-8") if page.exists() else ""
    name = str(page.relative_to(ROOT))
    return list(
        difflib.unified_diff(current.splitlines(), regenerated(page).splitlines(), name, f"{name} (regenerated)", lineterm="")
    )


def main() -> int:
    """Check or rewrite pages; the number of stale ones decides the exit code of a check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("page", nargs="*", type=lambda name: Path(name).resolve(), help="pages; all without")
    options = parser.parse_args()
    differences = {page: stale(page) for page in options.page or [OPTIONS_PAGE, *pages()]}
    for page, difference in differences.items():
        if difference and not options.check:
            page.write_text(regenerated(page), encoding="utf-8")
        sys.stdout.writelines(f"{line}\n" for line in difference)
    return 1 if options.check and any(differences.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
