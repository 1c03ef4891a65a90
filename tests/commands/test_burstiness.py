"""The command `burstiness`: what gaps are taken by, jitter, and the warning about coarse clocks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from llmtrace.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., str]:
    """A CSV file of a Poisson stream, with models or without, whose clock ticks in steps of so many seconds."""

    def write(step_s: float = 0.001, *, models: bool = False) -> str:
        times = np.cumsum(np.random.default_rng(3).exponential(0.2, 3000)) // step_s * step_s
        lines = [f"{1_700_000_000 + time:.3f},10,20" + (f",m{row % 3}" if models else "") for row, time in enumerate(times)]
        path = tmp_path / "trace.csv"
        path.write_text("\n".join(["timestamp,input_tokens,output_tokens" + (",model" if models else ""), *lines]))
        return str(path)

    return write


def result_of(arguments: list[str], capsys: Capture) -> dict[str, Any]:
    assert main(["burstiness", *arguments, "--format", "json", "--quiet"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_gaps_are_taken_by_model_where_the_trace_has_one(trace: Callable[..., str], capsys: Capture) -> None:
    result = result_of([trace(models=True)], capsys)
    assert result["parameters"]["by"] == "model"
    assert {row["model"] for row in result["tables"]["by_key"]} == {"m0", "m1", "m2"}
    assert result_of([trace(models=True), "--by", "all"], capsys)["scalars"]["keys"] == 1


def test_all_requests_are_one_key_where_the_trace_has_no_model(trace: Callable[..., str], capsys: Capture) -> None:
    result = result_of([trace()], capsys)
    assert result["parameters"] == {"by": "all", "jitter": None, "spread_s": None}
    [row] = result["tables"]["by_key"]
    assert row["requests"] == result["scalars"]["requests"] == 3000
    assert row["cv"] == result["scalars"]["cv"]


def test_a_key_that_the_trace_lacks_is_an_error(trace: Callable[..., str], capsys: Capture) -> None:
    assert main(["burstiness", trace(), "--by", "user"]) == 4
    assert "burstiness --by user needs the column 'user'" in capsys.readouterr().err


def test_a_coarse_clock_is_warned_of_on_standard_error_and_in_the_notes(trace: Callable[..., str], capsys: Capture) -> None:
    assert main(["burstiness", trace(2.0)]) == 0
    said = capsys.readouterr()
    assert "warning" in said.err
    for place in (said.err, said.out.replace("\n  ", " ")):
        assert "CV, lag-1 correlations, fits and survival are artefacts of it" in place
        assert "--jitter SEED" in place
    assert main(["burstiness", trace(2.0), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["burstiness", trace(0.001)]) == 0
    assert "warning" not in capsys.readouterr().err


def test_jitter_spreads_over_the_clocks_step(trace: Callable[..., str], capsys: Capture) -> None:
    stamped = result_of([trace(2.0)], capsys)
    spread, again, other = (result_of([trace(2.0), "--jitter", seed], capsys) for seed in ("1", "1", "2"))
    assert stamped["scalars"]["cv"] > 2
    assert spread["scalars"]["cv"] == pytest.approx(1, abs=0.1)
    assert spread["scalars"]["quantum_s"] == stamped["scalars"]["quantum_s"] == 2.0
    assert spread["parameters"]["spread_s"] == pytest.approx(2.0, rel=1e-3)
    assert again["scalars"] == spread["scalars"] != other["scalars"]
    assert main(["burstiness", trace(2.0), "--jitter", "1"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_jitter_needs_gaps_to_spread_over(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("timestamp,input_tokens,output_tokens\n" + "2025-01-01T00:00:00Z,1,2\n" * 5)
    assert main(["burstiness", str(path), "--jitter", "1"]) == 2
    assert "no positive gap" in capsys.readouterr().err


def test_everything_is_written(trace: Callable[..., str], tmp_path: Path) -> None:
    assert main(["burstiness", trace(), "--output", str(tmp_path / "out"), "--quiet", "--format", "csv"]) == 0
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"result.json", "by_key.csv", "by_hour.csv", "dispersion.csv", "cv_windows.csv", "fits.csv", "survival.csv"} <= written
    assert {"dispersion.png", "cv_over_time.png", "survival.png"} <= written
