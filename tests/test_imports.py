"""Heavy libraries are imported by the work that needs them, and by nothing before it."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

import llmtrace
from llmtrace.analyses.registry import ANALYSES
from llmtrace.cli import COMMANDS

HEAVY = {"dask", "distributed", "matplotlib", "numba", "numpy", "polars", "pyarrow", "scipy"}
NAMES = [command.__name__.replace("_", "-") for commands in COMMANDS.values() for command in commands]


def imported_by(code: str) -> set[str]:
    """Heavy libraries that a fresh interpreter has imported after running `code`."""
    program = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()} & HEAVY


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["nonsense"], *([name, "--help"] for name in NAMES)])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert imported_by(f"from llmtrace.cli import main; main({arguments})") == set()


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert imported_by("import llmtrace; llmtrace.__version__; llmtrace.LlmtraceError") == set()


def test_reading_imports_no_drawing() -> None:
    assert imported_by("from llmtrace import Result, open_trace, run").isdisjoint({"dask", "distributed", "matplotlib"})


@pytest.mark.parametrize("name", llmtrace.__all__)
def test_public_names_are_there_and_documented(name: str) -> None:
    assert getattr(llmtrace, name).__doc__
    assert name in dir(llmtrace)


def test_public_names_have_one_home_each() -> None:
    homes = [name for names in llmtrace._HOMES.values() for name in names]  # noqa: SLF001
    assert sorted(homes) == sorted(llmtrace.__all__)


def test_every_analysis_of_a_command_is_public() -> None:
    """But `check`, whose verdict needs what only reading knows, and what `popularity` and `balance` read once more."""
    classes = {type(analysis).__name__ for analyses in ANALYSES.values() for analysis in analyses}
    assert classes - set(llmtrace.__all__) == {"Access", "BusyDay", "Check"}


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        llmtrace.nonsense  # noqa: B018


def test_an_analysis_imports_only_its_own() -> None:
    program = "import sys, llmtrace.analyses.stats; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "llmtrace.analyses.stats.rates" in modules
    assert not [name for name in modules if name.startswith(("scipy.stats", "llmtrace.analyses.burstiness"))]


def test_importing_compiles_no_kernel() -> None:
    """That would cost every command seconds, again and again where there is no place to keep what was compiled."""
    program = """
        import pkgutil, sys
        from importlib import import_module
        from numba.core.registry import CPUDispatcher
        from llmtrace import summaries, synth
        for package in (summaries, synth):
            for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                import_module(module.name)
        modules = [module for name, module in sys.modules.items() if name.startswith("llmtrace")]
        members = {id(one): one for module in modules for one in vars(module).values()}
        kernels = [one for one in members.values() if isinstance(one, CPUDispatcher)]
        print(len(kernels), *(f"{one.__module__}.{one.__name__}" for one in kernels if one.signatures))
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True)
    number, *compiled = done.stdout.split()
    assert int(number) > 20
    assert compiled == []
