"""The whole path: the same requests in any form give the same JSON, and published traces their known numbers."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from llmtrace.cli import main

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Mapping[str, Any]:
    code = main(["stats", *arguments, "--format", "json", "--quiet"])
    written = capsys.readouterr()
    assert code == 0, written.err
    found: Mapping[str, Any] = json.loads(written.out)
    return found


def test_the_same_requests_in_any_form_give_the_same_json(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pl.read_parquet(repository / "sample_traces" / "year" / "month=2026-0[1-3]" / "*.parquet", hive_partitioning=False)
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
    folder = tmp_path / "overlapping"
    folder.mkdir()
    shuffled.head(20_000).write_parquet(folder / "b.parquet", row_group_size=3_000)
    shuffled.tail(frame.height - 20_000).write_parquet(folder / "a.parquet", row_group_size=5_000)
    frame.sort("timestamp").write_parquet(tmp_path / "sorted.parquet")
    frame.write_csv(tmp_path / "trace.csv")
    (tmp_path / "trace.csv.gz").write_bytes(gzip.compress((tmp_path / "trace.csv").read_bytes(), compresslevel=1))
    frame.write_ndjson(tmp_path / "trace.jsonl")
    expected = dict(answer(capsys, str(tmp_path / "sorted.parquet")))
    assert expected["scalars"]["requests"] == frame.height
    del expected["provenance"]
    for name in ("overlapping", "trace.csv", "trace.csv.gz", "trace.jsonl"):
        found = dict(answer(capsys, str(tmp_path / name)))
        del found["provenance"]
        assert found == expected, name


def test_azure_2023(real_traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, str(real_traces / "azure_2023" / "AzureLLMInferenceTrace_code.csv"))
    scalars = found["scalars"]
    assert (scalars["requests"], scalars["input_tokens"], scalars["output_tokens"]) == (8819, 18_059_974, 245_896)
    assert (scalars["median_input_tokens"], scalars["median_output_tokens"]) == (1469, 13)
    assert scalars["first_timestamp"] == "2023-11-16T18:17:03.979960Z"
    assert scalars["users"] is None


def test_mooncake_conversation(real_traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, str(real_traces / "mooncake" / "conversation_trace.jsonl"))
    scalars = found["scalars"]
    assert (scalars["requests"], scalars["input_tokens"]) == (12_031, 144_793_823)
    assert scalars["span_s"] == pytest.approx(3536.999)
    assert scalars["first_timestamp"] == 0.0
    assert found["provenance"]["clock"] == "relative"


def test_chutes_excerpt(real_traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, str(real_traces / "chutes" / "chutes_excerpt_36rows.csv"))
    assert (found["scalars"]["requests"], found["provenance"]["layout"]) == (36, "chutes")
    assert found["scalars"]["cached_tokens"] is not None


@pytest.mark.parametrize(
    ("name", "layout", "rows"),
    [
        ("azure_2023.csv", "azure", 983),
        ("azure_2024.csv", "azure", 1473),
        ("azure_lmm.csv", "azure", 990),
        ("burstgpt_v1.csv", "burstgpt", 1500),
        ("burstgpt_v2.csv", "burstgpt", 1500),
        ("mooncake.jsonl", "mooncake", 497),
        ("chutes.parquet", "chutes", 2000),
        ("gateway.jsonl.gz", "generic", 1000),
    ],
)
def test_sample_in_each_layout(repository: Path, capsys: pytest.CaptureFixture[str], name: str, layout: str, rows: int) -> None:
    found = answer(capsys, str(repository / "sample_traces" / name))
    assert (found["provenance"]["layout"], found["scalars"]["requests"]) == (layout, rows)
    assert found["scalars"]["input_tokens"] > 0
