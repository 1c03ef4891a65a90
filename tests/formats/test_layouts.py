"""Layouts: each on its published files and on small ones with its traps, against values worked out without this package."""

from __future__ import annotations

import csv
import gzip
import json
import pickle
from datetime import datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from llmtrace.errors import InputError, UsageError
from llmtrace.formats import recognise
from llmtrace.formats.layout import ReadOptions
from llmtrace.formats.source import find
from llmtrace.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from llmtrace.formats.layout import Reading

    Write = Callable[..., Path]
    ReadTrace = Callable[..., Any]

EPOCH = datetime(1970, 1, 1)

PUBLISHED = [
    ("azure_2023/AzureLLMInferenceTrace_code.csv", "azure", "utc", 8819),
    ("azure_2023/azure2023_conv_1200.csv", "azure", "utc", None),
    ("azure_2023/inference_perf_20rows.csv", "azure", "utc", None),
    ("azure_2024/azure2024_code_head.csv", "azure", "utc", 5),
    ("azure_2024/azure2024_conv_head.csv", "azure", "utc", 5),
    ("burstgpt/burstgpt_v1_head.csv", "burstgpt", "relative", 7),
    ("burstgpt/burstgpt_v3_head.csv", "burstgpt", "relative", 4),
    ("mooncake/conversation_trace.jsonl", "mooncake", "relative", 12_031),
    ("mooncake/mooncake_synthetic_200.jsonl", "mooncake", "relative", 200),
    ("mooncake/mooncake_arxiv_window.jsonl", "mooncake", "relative", None),
    ("chutes/chutes_excerpt_36rows.csv", "chutes", "relative", 36),
    ("bailian/qwen_bailian_head.jsonl", "bailian", "relative", 1),
    ("ragpulse/ragpulse_400.jsonl", "ragpulse", "relative", 400),
    ("vllm_measured/RTX4090_Llama-3.1-8B_vllm_requests.jsonl", "generic", "utc", 300),
    ("gateways/litellm_spendlogs_issue1806.csv", "generic", "utc", 1),
]
"""File, layout, clock and rows as ATTRIBUTION states them; None where it counts otherwise (lines)."""


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of CSV or JSON lines by the standard library."""
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


@pytest.mark.parametrize(("file", "layout", "clock", "rows"), PUBLISHED)
def test_published_files_are_recognised_and_read_whole(
    real_traces: Path, read: ReadTrace, file: str, layout: str, clock: str, rows: int | None
) -> None:
    trace = read(real_traces / file)
    assert (trace.reading.layout, trace.reading.clock) == (layout, clock)
    assert len(trace.frame) == len(rows_of(real_traces / file))
    assert rows is None or len(trace.frame) == rows
    assert trace.bad == trace.counted == {}
    required = trace.frame.select("timestamp", "input_tokens", "output_tokens")
    assert required.null_count().row(0) == (0, 0, 0)


@pytest.mark.parametrize(("file", "layout", "clock", "rows"), PUBLISHED)
def test_every_cell_is_canonical_pickles_and_does_not_look_around(
    real_traces: Path, file: str, layout: str, clock: str, rows: int | None
) -> None:
    (source,) = pickle.loads(pickle.dumps(find([str(real_traces / file)])))  # noqa: S301 - our own bytes
    raw = source.raw()
    reading: Reading = pickle.loads(pickle.dumps(recognise(raw).read(raw, ReadOptions())))  # noqa: S301 - our own bytes
    assert (reading.layout, reading.clock) == (layout, clock)
    head = source.scan().head(min(rows or 20, 20)).collect()
    values = [cell.value.alias(name) for name, cell in reading.cells.items()]
    flags = [cell.bad.alias(name) for name, cell in reading.cells.items() if cell.bad is not None]
    whole = head.select(values)
    for name, dtype in whole.schema.items():
        assert dtype in COLUMNS[name].dtypes
        assert set(reading.cells[name].value.meta.root_names()) <= set(reading.cells[name].sources)
    assert whole.equals(pl.concat([head[row : row + 1].select(values) for row in range(len(head))]))
    assert head.select(flags).null_count().sum_horizontal().sum() == 0
    assert list(reading.cells) == [name for name in COLUMNS if name in reading.cells]


def test_azure_code_2023(real_traces: Path, read: ReadTrace) -> None:
    trace = read(real_traces / "azure_2023/AzureLLMInferenceTrace_code.csv")
    assert trace.column("timestamp")[0] == datetime(2023, 11, 16, 18, 17, 3, 979_960)
    assert trace.column("timestamp")[-1] == datetime(2023, 11, 16, 19, 14, 19, 928_016)
    assert (trace.frame["input_tokens"].sum(), trace.frame["output_tokens"].sum()) == (18_059_974, 245_896)
    assert (trace.frame["input_tokens"].median(), trace.frame["output_tokens"].median()) == (1469, 13)


@pytest.mark.parametrize(
    "file", ["azure_2023/azure2023_conv_1200.csv", "azure_2023/inference_perf_20rows.csv", "azure_2024/azure2024_conv_head.csv"]
)
def test_azure_equals_a_plain_reading(real_traces: Path, read: ReadTrace, file: str) -> None:
    rows = rows_of(real_traces / file)
    trace = read(real_traces / file)
    # The standard library takes six digits and an offset, so ticks beyond microseconds are cut off here.
    stamps = [row["TIMESTAMP"] for row in rows]
    plain = [stamp[:26] if "+" not in stamp else stamp for stamp in stamps]
    assert trace.column("timestamp") == [datetime.fromisoformat(stamp).replace(tzinfo=None) for stamp in plain]
    assert trace.column("input_tokens") == [int(row["ContextTokens"]) for row in rows]
    assert trace.column("output_tokens") == [int(row["GeneratedTokens"]) for row in rows]


def test_azure_2024_mixes_times_with_and_without_a_fraction(write: Write, read: ReadTrace) -> None:
    stamps = ["2024-05-10 00:00:09.999999+00:00", "2024-05-10 00:00:10+00:00", "2024-05-10 00:00:10.5+00:00"]
    trace = read(write("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(f"{stamp},5,1\n" for stamp in stamps)))
    assert trace.column("timestamp") == [datetime.fromisoformat(stamp).replace(tzinfo=None) for stamp in stamps]


def test_azure_lmm_says_that_images_are_not_read(write: Write, read: ReadTrace) -> None:
    content = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\r\n2024-10-15 00:00:00.5,2,1000,7\r\n"
    trace = read(write(gzip.compress(content.encode()), "lmm.csv.gz"))
    assert trace.frame.rows() == [(datetime(2024, 10, 15, 0, 0, 0, 500_000), 1000, 7)]
    assert "NumImages" in trace.reading.notes[0]


@pytest.mark.parametrize("file", ["burstgpt_v1_head.csv", "burstgpt_v3_head.csv"])
def test_burstgpt_in_both_headers(real_traces: Path, read: ReadTrace, file: str) -> None:
    rows = rows_of(real_traces / "burstgpt" / file)
    trace = read(real_traces / "burstgpt" / file)
    assert trace.column("timestamp") == [EPOCH + timedelta(seconds=float(row["Timestamp"])) for row in rows]
    assert trace.column("input_tokens") == [int(row["Request tokens"]) for row in rows]
    assert trace.column("output_tokens") == [int(row["Response tokens"]) for row in rows]
    assert trace.column("model") == [row["Model"] for row in rows]
    kinds = {"Conversation log": "chat", "API log": "api"}
    assert trace.column("endpoint") == [kinds[row["Log Type"]] for row in rows]
    assert set(trace.column("status")) == {"ok"}
    if "Session ID" in rows[0]:
        assert trace.column("session") == [row["Session ID"] for row in rows]
        assert trace.column("duration_s") == [float(row["Elapsed time"]) for row in rows]


def test_burstgpt_failures_spellings_and_order(write: Write, read: ReadTrace) -> None:
    content = (
        "log_type,TIMESTAMP,response tokens,Model,request_tokens,Session ID\nAPI log,5.0,0,GPT-4,10,\nbatch,6.0,,GPT-4,20,s1\n"
    )
    trace = read(write(content))
    assert trace.reading.layout == "burstgpt"
    assert trace.column("status") == ["failed", None]
    assert trace.column("output_tokens") == [0, None]
    assert trace.column("session") == [None, "s1"]
    assert trace.column("endpoint") == ["api", "batch"]


def test_mooncake_conversation(real_traces: Path, read: ReadTrace) -> None:
    rows = rows_of(real_traces / "mooncake/conversation_trace.jsonl")
    trace = read(real_traces / "mooncake/conversation_trace.jsonl")
    assert trace.frame["input_tokens"].sum() == 144_793_823
    assert trace.column("timestamp")[-1] == EPOCH + timedelta(milliseconds=3_536_999)
    assert trace.column("block_hashes") == [row["hash_ids"] for row in rows]
    assert trace.column("output_tokens") == [row["output_length"] for row in rows]
    assert trace.reading.block_size == 512


def test_mooncake_in_the_spelling_of_its_kin(write: Write, read: ReadTrace) -> None:
    rows = [
        {
            "request_id": "r0",
            "session_id": "s",
            "created_time": 0.5,
            "input_tokens": 7,
            "output_tokens": 2,
            "hash_ids": [2**64 - 1],
        },
        {"request_id": "r1", "session_id": "s", "delay": 10, "input_tokens": 9, "output_tokens": 1, "hash_ids": ["a", "b"]},
        {"request_id": "r2", "created_time": 2.0, "model": "m", "input_tokens": 4, "output_tokens": 1, "block_size": 64},
    ]
    trace = read(write("".join(json.dumps(row) + "\n" for row in rows), "t.jsonl"))
    assert (trace.reading.layout, trace.reading.clock, trace.reading.block_size) == ("mooncake", "relative", 64)
    assert trace.column("timestamp") == [EPOCH + timedelta(microseconds=500), None, EPOCH + timedelta(milliseconds=2)]
    assert trace.column("session") == ["s", "s", None]
    assert trace.column("model") == [None, None, "m"]
    hashes = trace.column("block_hashes")
    assert (hashes[0], len(set(hashes[1])), hashes[2]) == ([2**64 - 1], 2, None)
    assert "delay" in trace.reading.notes[0]
    assert trace.bad == {}


def test_mooncake_takes_another_unit_if_told(write: Write, read: ReadTrace) -> None:
    path = write('{"timestamp": 3, "input_length": 5, "output_length": 1, "hash_ids": [1]}\n', "t.jsonl")
    assert read(path).column("timestamp") == [EPOCH + timedelta(milliseconds=3)]
    assert read(path, time_unit="s").column("timestamp") == [EPOCH + timedelta(seconds=3)]


def test_mooncake_with_several_block_sizes_is_refused(write: Write, read: ReadTrace) -> None:
    rows = [{"timestamp": 1, "input_length": 5, "output_length": 1, "hash_ids": [1], "block_size": size} for size in (16, 64)]
    with pytest.raises(InputError, match="blocks of 16, 64 tokens"):
        read(write("".join(json.dumps(row) + "\n" for row in rows), "t.jsonl"))


def test_chutes_excerpt(real_traces: Path, read: ReadTrace) -> None:
    rows = rows_of(real_traces / "chutes/chutes_excerpt_36rows.csv")
    trace = read(real_traces / "chutes/chutes_excerpt_36rows.csv")
    assert trace.column("timestamp") == [datetime.fromisoformat(row["started_at"]) for row in rows]
    for name, column in {
        "request_id": "invocation_id",
        "user": "user_id",
        "model": "chute_id",
        "instance": "instance_id",
    }.items():
        assert trace.column(name) == [row[column] for row in rows]
    for name, column in {"input_tokens": "it", "output_tokens": "ot", "cached_tokens": "ct", "turn": "turn_id"}.items():
        assert trace.column(name) == [int(row[column]) if row[column] else None for row in rows]
    assert trace.column("session") == [row["session_id"] or None for row in rows]
    assert trace.column("stream") == [row["function_name"] == "chat_stream" for row in rows]
    assert "status" not in trace.frame.columns


def test_chutes_parquet(tmp_path: Path, read: ReadTrace) -> None:
    start = datetime(1970, 3, 1)
    frame = pl.DataFrame(
        {
            "invocation_id": [1, 2, 3, 4],
            "function_name": ["chat", "chat_stream", None, "get_models"],
            "chute_id": ["m", "m", None, "n"],
            "user_id": ["u5_0027020", "0027020", "u5_1", None],
            "rehash_round": pl.Series([5, 4, 1, 2], dtype=pl.Int32),
            "instance_id": ["i1", None, "i1", "i2"],
            "started_at": [start] * 4,
            "completed_at": [start + timedelta(seconds=1.5), None, start - timedelta(seconds=1), start],
            "it": pl.Series([15_400_001.0, None, 2.0, 0.0], dtype=pl.Float32),
            "ot": pl.Series([10.0, None, 1.0, 0.0], dtype=pl.Float32),
            "ct": pl.Series([None, None, 0.0, 16.0], dtype=pl.Float32),
            "ttft": pl.Series([0.5, None, None, -1.0], dtype=pl.Float32),
        }
    )
    path = tmp_path / "chutes_trace.parquet"
    frame.write_parquet(path)
    trace = read(path)
    assert (trace.reading.layout, trace.reading.clock) == ("chutes", "relative")
    assert trace.column("request_id") == [1, 2, 3, 4]
    assert trace.column("user") == ["u5_0027020", "u4_0027020", "u1_u5_1", None]
    assert trace.column("stream") == [False, True, None, False]
    assert trace.column("input_tokens") == [15_400_001, None, 2, 0]
    assert trace.column("cached_tokens") == [None, None, 0, 16]
    assert trace.column("duration_s") == [1.5, None, None, 0.0]
    assert trace.column("status") == ["ok", "incomplete", "ok", "ok"]
    assert trace.column("ttft_s") == [0.5, None, None, None]
    assert trace.bad == {"duration_s": 1, "ttft_s": 1}


def test_chutes_in_its_earlier_spelling(write: Write, read: ReadTrace) -> None:
    content = "chute_id,started_at,input_tokens,output_tokens,cached_tokens\nm,1970-01-01 00:00:00,5.0,6.0,\n"
    trace = read(write(content))
    assert trace.reading.layout == "chutes"
    assert trace.frame.drop("timestamp", "model").rows() == [(5, 6, None)]


def test_bailian_is_not_mooncake(write: Write, read: ReadTrace) -> None:
    rows = [
        {
            "chat_id": 7,
            "parent_chat_id": -1,
            "timestamp": 61.114,
            "input_length": 40,
            "output_length": 9,
            "type": "text",
            "turn": 1,
        },
        {
            "chat_id": 8,
            "parent_chat_id": 7,
            "timestamp": 62.0,
            "input_length": 48,
            "output_length": 9,
            "type": "search",
            "turn": 2,
        },
    ]
    ids = [[5, 6, 5], [6, 5, 5]]
    lines = [json.dumps({**row, "hash_ids": one}) + "\n" for row, one in zip(rows, ids, strict=True)]
    trace = read(write("".join(lines), "t.jsonl"))
    assert (trace.reading.layout, trace.reading.block_size) == ("bailian", 16)
    assert trace.column("timestamp") == [EPOCH + timedelta(seconds=61.114), EPOCH + timedelta(seconds=62)]
    assert trace.column("turn") == [0, 1]
    assert trace.column("endpoint") == ["text", "search"]
    assert trace.column("request_id") == ["7", "8"]
    keys = [key for row in trace.column("block_hashes") for key in row]
    assert len(set(keys)) == 6, "the same block behind another prefix is another key"


def test_bailian_without_blocks_is_not_mooncake_either(write: Write, read: ReadTrace) -> None:
    path = write('{"chat_id": 1, "timestamp": 2.0, "input_length": 3, "output_length": 4}\n', "t.jsonl")
    assert read(path).column("timestamp") == [EPOCH + timedelta(seconds=2)]


def test_ragpulse(real_traces: Path, read: ReadTrace) -> None:
    rows = rows_of(real_traces / "ragpulse/ragpulse_400.jsonl")
    trace = read(real_traces / "ragpulse/ragpulse_400.jsonl")
    assert trace.column("timestamp") == [EPOCH + timedelta(seconds=int(row["timestamp"])) for row in rows]
    assert trace.column("session") == [row["session_id"] for row in rows]
    assert "block_hashes" not in trace.frame.columns
    assert "hash_ids" in trace.reading.notes[0]


def test_vllm_measurements_take_the_epoch_clock(real_traces: Path, read: ReadTrace) -> None:
    path = real_traces / "vllm_measured/RTXPRO6000_Qwen3-32B_vllm_requests.jsonl"
    rows = rows_of(path)
    trace = read(path)
    expected = [round(row["arrival_time"] * 1e6) for row in rows]
    assert [round((time - EPOCH) / timedelta(microseconds=1)) for time in trace.column("timestamp")] == expected
    assert trace.frame["input_tokens"].median() == median(row["input_toks"] for row in rows)
    assert "duration_s" not in trace.frame.columns, "the other clock is not mixed in"


def test_litellm(real_traces: Path, read: ReadTrace) -> None:
    trace = read(real_traces / "gateways/litellm_spendlogs_issue1806.csv")
    assert trace.frame.row(0, named=True) == {
        "timestamp": datetime(2024, 2, 4, 0, 6, 52, 266_000),
        "input_tokens": 0,
        "output_tokens": 0,
        "request_id": "chatcmpl-93798e4c-4564-4bbb-b0b8-427f3deda423",
        "user": None,
        "model": None,
        "endpoint": "litellm.completion",
        "duration_s": 0.0,
    }


CANONICAL = pl.DataFrame(
    {
        "timestamp": [datetime(2025, 4, 11, 12, 0, 0, 1), datetime(2025, 4, 11, 12)],
        "input_tokens": [5, None],
        "output_tokens": [2**62, 0],
        "request_id": ["a", " -"],
        "user": ["u", None],
        "session": ["s", "NULL"],
        "turn": pl.Series([0, None], dtype=pl.Int32),
        "stream": [True, None],
        "cached_tokens": [None, 0],
        "ttft_s": [0.1, None],
        "status": ["ok", "timeout"],
        "block_hashes": pl.Series([[2**64 - 1, 0], None], dtype=pl.List(pl.UInt64)),
    }
)
OURS = {"llmtrace.schema": "1", "llmtrace.clock": "utc", "llmtrace.block_size": "64"}


def test_canonical_parquet_of_ours_is_taken_as_it_stands(tmp_path: Path, read: ReadTrace) -> None:
    path = tmp_path / "t.parquet"
    CANONICAL.write_parquet(path, metadata=OURS)
    trace = read(path)
    assert (trace.reading.layout, trace.reading.clock, trace.reading.block_size) == ("canonical", "utc", 64)
    assert trace.frame.equals(CANONICAL)
    assert all(cell.value.meta.eq(pl.col(name)) and cell.bad is None for name, cell in trace.reading.cells.items())
    assert read(path, tz="America/New_York", time_unit="ms").frame.equals(CANONICAL), "UTC by contract"


def test_canonical_parquet_of_ours_on_a_relative_clock(tmp_path: Path, read: ReadTrace) -> None:
    path = tmp_path / "t.parquet"
    CANONICAL.write_parquet(path, metadata={**OURS, "llmtrace.clock": "relative"})
    assert read(path).reading.clock == "relative"


@pytest.mark.parametrize("key", ["llmtrace.clock", "llmtrace.block_size"])
def test_canonical_parquet_with_nonsense_in_its_metadata(tmp_path: Path, read: ReadTrace, key: str) -> None:
    path = tmp_path / "t.parquet"
    CANONICAL.write_parquet(path, metadata={**OURS, key: "often"})
    with pytest.raises(InputError, match=f"{key} is 'often'"):
        read(path)


def test_canonical_parquet_that_is_not(tmp_path: Path, read: ReadTrace) -> None:
    path = tmp_path / "t.parquet"
    CANONICAL.with_columns(pl.col("turn").cast(pl.Int64)).write_parquet(path, metadata=OURS)
    with pytest.raises(InputError, match="'turn' is Int64, not Int32"):
        read(path)
    assert read(path, mapping={"turn": "turn"}).column("turn") == [0, None]


def test_canonical_parquet_of_others_is_read_with_tolerance(tmp_path: Path, read: ReadTrace) -> None:
    path = tmp_path / "t.parquet"
    frame = pl.DataFrame(
        {"timestamp": [EPOCH.replace(year=2025)] * 3, "input_tokens": [5, -1, -2], "output_tokens": [1.0, 2.5, None]}
    )
    frame.write_parquet(path)
    trace = read(path)
    assert trace.reading.layout == "canonical"
    assert trace.frame.drop("timestamp").rows() == [(5, 1), (None, None), (None, None)]
    assert trace.bad == {"input_tokens": 1, "output_tokens": 1}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_canonical_statuses_of_others_are_words_as_well_as_codes(tmp_path: Path, read: ReadTrace, kind: str) -> None:
    path = tmp_path / f"t.{kind}"
    rows = {"timestamp": ["2025-01-01T00:00:00Z"] * 6, "input_tokens": [1] * 6, "output_tokens": [1] * 6}
    statuses = ["200", "Success", "completed", "ok", "500", None]
    frame = pl.DataFrame({**rows, "status": statuses})
    getattr(frame, {"csv": "write_csv", "jsonl": "write_ndjson", "parquet": "write_parquet"}[kind])(path)
    trace = read(path)
    assert trace.reading.layout == "canonical"
    assert trace.column("status") == ["ok", "ok", "ok", "ok", "500", None]


def test_canonical_statuses_that_are_numbers(tmp_path: Path, read: ReadTrace) -> None:
    path = tmp_path / "t.parquet"
    CANONICAL.with_columns(status=pl.Series([200, 503])).write_parquet(path)
    assert read(path).column("status") == ["ok", "503"]


def test_canonical_statuses_of_ours_stay(tmp_path: Path, read: ReadTrace) -> None:
    path = tmp_path / "t.parquet"
    CANONICAL.with_columns(status=pl.Series(["200", "ok"])).write_parquet(path, metadata=OURS)
    assert read(path).column("status") == ["200", "ok"]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_canonical_text_equals_canonical_parquet(tmp_path: Path, read: ReadTrace, kind: str) -> None:
    expected = CANONICAL.with_columns(request_id=pl.Series(["a", None]), session=pl.Series(["s", None]))
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        lists = pl.col("block_hashes").list.eval(pl.element().cast(pl.String)).list.join(", ")
        CANONICAL.with_columns(pl.format("[{}]", lists).alias("block_hashes")).write_csv(path)
    else:
        CANONICAL.with_columns(pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")).write_ndjson(path)
    trace = read(path)
    assert (trace.reading.layout, trace.bad) == ("canonical", {})
    assert trace.frame.equals(expected)


def test_canonical_numbers_need_a_unit_unless_they_are_dates(write: Write, read: ReadTrace) -> None:
    path = write("timestamp,input_tokens,output_tokens\n0,5,1\n2.5,6,2\n")
    with pytest.raises(UsageError, match="do not tell their unit"):
        read(path)
    assert read(path, time_unit="s").column("timestamp") == [EPOCH, EPOCH + timedelta(seconds=2.5)]
    assert read(write("timestamp,input_tokens,output_tokens\n1700000000,5,1\n")).reading.clock == "utc"
