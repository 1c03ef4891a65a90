"""An installation and a home that nobody may write to, as in a container: commands run, and leave nothing there."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import llmtrace

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
HOMES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "NUMBA_CACHE_DIR", "MPLCONFIGDIR")


def heed_permissions() -> None:
    """Take from the program that is about to start what lets root write anywhere; nobody else has it."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the package without anything compiled, and a home, both read-only."""
    shutil.copytree(
        Path(str(llmtrace.__file__)).parent, tmp_path / "site" / "llmtrace", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("home", "temporary", "work"):
        (tmp_path / name).mkdir()
    for folder in (tmp_path / "home", *(path for path in files(tmp_path / "site") if path.is_dir())):
        folder.chmod(0o555)
    write = f"open({str(tmp_path / 'home' / 'probe')!r}, 'w')"
    tried = subprocess.run([sys.executable, "-c", write], capture_output=True, check=False, preexec_fn=heed_permissions)
    if tried.returncode == 0:
        pytest.skip("this user may write anywhere")
    return tmp_path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="permissions of root are taken in another way here")
def test_a_command_runs_where_nothing_can_be_kept(installed: Path) -> None:
    rows = [f"2025-01-01T00:{row // 60:02}:{row % 60:02},{row},{row % 7},m{row % 2}\n" for row in range(600)]
    (installed / "work" / "trace.csv").write_text("".join(["timestamp,input_tokens,output_tokens,model\n", *rows]))
    before = files(installed / "site") | files(installed / "home")
    environment = {name: value for name, value in os.environ.items() if name not in HOMES}
    environment |= {
        "PYTHONPATH": str(installed / "site"),
        "HOME": str(installed / "home"),
        "TMPDIR": str(installed / "temporary"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "llmtrace", "stats", "trace.csv", "--quiet", "--output", "report", "--format", "csv"],
        cwd=installed / "work",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=heed_permissions,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    assert (installed / "work" / "report" / "result.json").exists()
    assert files(installed / "site") | files(installed / "home") == before
    assert files(installed / "temporary") == set()
