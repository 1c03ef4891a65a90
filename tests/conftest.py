"""What every test may use."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[1]

settings.register_profile("few", max_examples=10, deadline=None, derandomize=True)
settings.register_profile("more", max_examples=60, deadline=None, derandomize=True)
settings.register_profile("many", max_examples=500, deadline=None)
settings.load_profile("few")


def pytest_collection_finish() -> None:
    """What stays until the end (tests, libraries) is not looked through again and again for what can go."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text is laid out for 80 columns without colour, whatever terminal the tests run in."""
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder that holds `llmtrace`, `docs` and `sample_traces`."""
    return ROOT


@pytest.fixture(scope="session")
def real_traces() -> Path:
    """The folder of published traces beside the repository; tests that need it are skipped where it is not."""
    folder = ROOT.parent / "shared" / "traces"
    if not folder.is_dir():
        pytest.skip("the published traces are not on this machine")
    return folder


@pytest.fixture(scope="session")
def lightgbm_library() -> ModuleType:
    """LightGBM, which the extra `lrb` brings, and which does not load where the system has no OpenMP; skipped without it."""
    try:
        import lightgbm
    except (ImportError, OSError) as reason:
        pytest.skip(f"the extra lrb cannot be used: {reason}")
    library: ModuleType = lightgbm
    return library
