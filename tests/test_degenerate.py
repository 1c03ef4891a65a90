"""Traces in which nothing varies, or everything is extreme: every command that measures says its part, and warns of nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from llmtrace.cli import COMMANDS, main
from llmtrace.report import style

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

START = datetime(2025, 4, 11)
MINUTES = [START + timedelta(minutes=minute) for minute in range(300)]
MEASURING = [*(command.__name__.replace("_", "-") for command in COMMANDS["Measure"]), "sessions"]
LARGEST = 2**63 - 1


def rows(times: list[datetime], tokens: int = 10, **columns: object) -> pl.DataFrame:
    """Requests that are all alike but for their times."""
    same: Mapping[str, object] = {
        "input_tokens": tokens,
        "output_tokens": tokens,
        "cached_tokens": tokens,
        "user": "u",
        "model": "m",
        "instance": "i",
        "endpoint": "chat",
        "session": "s",
        "stream": True,
        "ttft_s": 1.0,
        "duration_s": 2.0,
        "status": "ok",
        **columns,
    }
    frame = pl.DataFrame({"timestamp": pl.Series(times, dtype=pl.Datetime("us"))})
    return frame.with_columns(pl.lit(value).alias(name) for name, value in same.items())


TRACES = {
    "regular": rows(MINUTES),
    "at one instant": rows([START] * 40),
    "one": rows([START]),
    "nothing but failures": rows(MINUTES, status="error"),
    "nothing but zeros": rows(MINUTES, 0, ttft_s=0.0, duration_s=0.0),
    "largest": rows(MINUTES, LARGEST, ttft_s=1e300, duration_s=1e308),
    "far apart": rows([datetime(1700, 1, 1), datetime(2200, 1, 1)]),
    "no names": rows(MINUTES, user=None, model=None, instance=None, endpoint=None, session=None),
}


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("command", MEASURING)
def test_it_is_measured_without_a_warning(command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What figures warn of is their layout, not how fine they are drawn.
    monkeypatch.setitem(style.LOOK, "savefig.dpi", 50)
    TRACES[name].write_parquet(tmp_path / "t.parquet")
    assert main([command, str(tmp_path / "t.parquet"), "--output", str(tmp_path / "out"), "--format", "markdown"]) == 0
    assert (tmp_path / "out" / "result.json").exists()
