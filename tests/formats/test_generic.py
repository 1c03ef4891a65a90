"""Generic tables, mapping and options, and what is refused."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from llmtrace.errors import InputError, MissingColumnError, UsageError
from llmtrace.formats import LAYOUTS, recognise
from llmtrace.formats.layout import Raw
from llmtrace.wording import worded

if TYPE_CHECKING:
    from collections.abc import Callable

    Write = Callable[..., Path]
    ReadTrace = Callable[..., Any]

EPOCH = datetime(1970, 1, 1)


def test_generic_names(write: Write, read: ReadTrace) -> None:
    content = (
        "id;created_at;Prompt Tokens;completionTokens;User ID;model-name;latency_ms;time_to_first_token;status_code;streamed\n"
        "r1;2025-04-11T12:00:00Z;1 234;5;u;m;1500;0,25;200;true\n"
        "r2;2025-04-11T12:00:01Z;7;0;;m;;;429;false\n"
    )
    trace = read(write(content))
    assert (trace.reading.layout, trace.reading.clock) == ("generic", "utc")
    assert trace.frame.row(0) == (datetime(2025, 4, 11, 12), 1234, 5, "r1", "u", "m", True, 0.25, 1.5, "ok")
    assert trace.frame.row(1) == (datetime(2025, 4, 11, 12, 0, 1), 7, 0, "r2", None, "m", False, None, None, "429")
    assert trace.reading.notes == ("'time_to_first_token' names no unit and is taken as seconds.",)


def test_generic_reckons_a_duration_from_an_end(write: Write, read: ReadTrace) -> None:
    ends = ["1700000001.5", "1699999999", ""]
    rows = "".join(f"1700000000,{end},1,1\n" for end in ends)
    trace = read(write("start_time,end_time,input_tokens,output_tokens\n" + rows))
    assert trace.column("duration_s") == [1.5, None, None]
    assert trace.bad == {"duration_s": 1}


def test_generic_heeds_a_unit_in_the_name(write: Write, read: ReadTrace) -> None:
    trace = read(write("arrival_time_ns,input_toks,output_toks\n1500,1,1\n"))
    assert (trace.reading.clock, trace.column("timestamp")) == ("relative", [EPOCH + timedelta(microseconds=1)])
    trace = read(write("timestamp_start_unix_ms\tinput_tokens\toutput_tokens\n1700000000123\t1\t1\n"))
    assert trace.column("timestamp") == [datetime(2023, 11, 14, 22, 13, 20, 123_000)]


def test_generic_does_not_guess_between_two_times(write: Write, read: ReadTrace) -> None:
    path = write("created_at,start_time,input_tokens,output_tokens,user_id,end_user\n2025-04-11,2025-04-12,1,1,a,b\n")
    with pytest.raises(MissingColumnError, match="'timestamp' could be 'created_at' or 'start_time'") as caught:
        read(path)
    assert "--map timestamp=COLUMN" in caught.value.hint
    trace = read(path, mapping={"timestamp": "start_time"})
    assert trace.column("timestamp") == [datetime(2025, 4, 12)]
    assert "user" not in trace.frame.columns
    assert "user is left out: it could be 'user_id' or 'end_user'" in trace.reading.notes[0]


def test_generic_prefers_the_canonical_name(write: Write, read: ReadTrace) -> None:
    trace = read(write("timestamp,created_at,prompt_tokens,output_tokens\n2025-04-11,2025-04-12,1,1\n"))
    assert trace.column("timestamp") == [datetime(2025, 4, 11)]


def test_generic_reads_nested_fields(write: Write, read: ReadTrace) -> None:
    row = {
        "created": 1_700_000_000,
        "model": "m",
        "usage": {"prompt_tokens": 20, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 16}},
        "meta": {"who.is": {"it": "u"}},
    }
    trace = read(write(json.dumps(row) + "\n", "t.jsonl"), mapping={"user": "meta.who.is.it"})
    assert trace.frame.row(0) == (datetime(2023, 11, 14, 22, 13, 20), 20, 3, "u", "m", 16)


def test_claude_logs_by_mapping(real_traces: Path, read: ReadTrace) -> None:
    path = real_traces / "coding_agents/fixtures_claude_projects_project-alpha_session-alpha_chat.jsonl"
    with pytest.raises(MissingColumnError, match="'input_tokens', 'output_tokens'") as caught:
        read(path)
    assert "message.usage.input_tokens" in caught.value.hint
    names = {"input_tokens": "input_tokens", "output_tokens": "output_tokens", "cached_tokens": "cache_read_input_tokens"}
    mapping = {name: f"message.usage.{column}" for name, column in names.items()}
    trace = read(path, mapping=mapping, cached_mode="exclusive")
    usages = [json.loads(line)["message"]["usage"] for line in path.read_text().splitlines()]
    assert trace.column("input_tokens") == [usage["input_tokens"] + usage["cache_read_input_tokens"] for usage in usages]


def test_mapping_beats_every_layout(write: Write, read: ReadTrace) -> None:
    content = "TIMESTAMP,ContextTokens,GeneratedTokens,billed,epoch\n2024-05-12 00:00:00,5,1,7,1700000000\n"
    trace = read(write(content), mapping={"input_tokens": "billed", "timestamp": "EPOCH"})
    assert trace.reading.layout == "azure"
    assert trace.frame.row(0) == (datetime(2023, 11, 14, 22, 13, 20), 7, 1)
    content = "chute_id,started_at,it,ot,user_id,rehash_round,account,function_name\nm,1970-01-01,5,1,7,3,me,chat_stream\n"
    trace = read(write(content), mapping={"user": "account", "stream": "it"})
    assert (trace.column("user"), trace.column("stream"), trace.bad) == (["me"], [None], {"stream": 1})


def test_a_mapped_time_does_not_inherit_the_layouts_unit(write: Write, read: ReadTrace) -> None:
    path = write('{"timestamp": 3, "at": 4, "input_length": 5, "output_length": 1, "hash_ids": [1]}\n', "t.jsonl")
    with pytest.raises(UsageError, match="do not tell their unit"):
        read(path, mapping={"timestamp": "at"})
    assert read(path, mapping={"timestamp": "at"}, time_unit="s").column("timestamp") == [EPOCH + timedelta(seconds=4)]


def test_mapping_to_what_is_not_there(write: Write, read: ReadTrace) -> None:
    path = write("timestamp,input_tokens,output_tokens\n2025-04-11,1,1\n")
    with pytest.raises(MissingColumnError, match=r"--map user=who: .*trace\.csv has no column 'who'") as caught:
        read(path, mapping={"user": "who"})
    assert caught.value.hint == "It has: timestamp, input_tokens, output_tokens."
    with pytest.raises(UsageError, match="there is no canonical column 'person'"):
        read(path, mapping={"person": "timestamp"})


def test_exclusive_mode(write: Write, read: ReadTrace) -> None:
    path = write("timestamp,input_tokens,output_tokens,cached_tokens\n2025-04-11,5,1,100\n2025-04-11,5,1,\n2025-04-11,,1,100\n")
    assert read(path).column("input_tokens") == [5, 5, None]
    trace = read(path, cached_mode="exclusive")
    assert trace.column("input_tokens") == [105, 5, None]
    assert "exclusive" in trace.reading.notes[0]
    with pytest.raises(MissingColumnError, match="--cached-mode exclusive needs the column 'cached_tokens'"):
        read(write("timestamp,input_tokens,output_tokens\n2025-04-11,5,1\n"), cached_mode="exclusive")


def test_tokens_that_are_usually_counted_apart_are_told(write: Write, read: ReadTrace) -> None:
    path = write("timestamp,input_tokens,output_tokens,cache_read_input_tokens\n2025-04-11,5,1,100\n")
    assert read(path).reading.layout == "generic", "canonical names alone would miss the cached tokens"
    assert read(path, "canonical").frame.columns == ["timestamp", "input_tokens", "output_tokens"]
    assert read(path).column("cached_tokens") == [100]
    assert "--cached-mode exclusive" in read(path).reading.notes[0]
    assert read(path, cached_mode="inclusive").reading.notes == ()


def test_zone_and_its_doubtful_hours_are_counted(write: Write, read: ReadTrace) -> None:
    content = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-11-03 01:30:00.0000000,5,1\n2024-07-01 00:00:00.0000000,5,1\n"
    trace = read(write(content), tz="America/New_York")
    assert trace.column("timestamp") == [datetime(2024, 11, 3, 5, 30), datetime(2024, 7, 1, 4)]
    assert list(trace.counted.values()) == [1]
    assert worded(next(iter(trace.counted)), 1).startswith("1 time lies in an hour that America/New_York has twice")


REFUSED = [
    ("gateways/openai_usage_completions.csv", InputError, "OpenAI usage export"),
    ("gateways/anthropic_console_usage.csv", InputError, "Anthropic usage export"),
    ("weka/trace_0187.json", InputError, "several requests, in 'requests'"),
    ("otel/simple_chain.json", InputError, "telemetry .*several requests, in 'spans'"),
    ("tracelab/tracelab_sanitized_19.jsonl", MissingColumnError, "no column is recognised as 'timestamp'"),
]


@pytest.mark.parametrize(("file", "error", "message"), REFUSED)
def test_published_files_that_are_no_requests(
    real_traces: Path, read: ReadTrace, file: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        read(real_traces / file)
    assert Path(file).name in str(caught.value)


AGGREGATES = [
    (
        "Date,Slug,Usage,BYOK Usage,Requests,Prompt Tokens,Completion Tokens\n2025-01-01,m,1,0,5,10,2\n",
        "OpenRouter activity export",
    ),
    ("timestamp,requests,input_tokens,output_tokens\n2025-01-01,5,10,2\n", "counts requests in 'requests'"),
    ("day,api_requests,prompt_tokens,completion_tokens\n2025-01-01,5,10,2\n", "counts requests in 'api_requests'"),
    ('{"object": "bucket", "start_time": 1, "end_time": 2, "results": [{"input_tokens": 5}]}\n', "OpenAI usage export"),
    ('{"data": [{"starting_at": "x", "ending_at": "y", "results": [{"output_tokens": 5}]}]}', "Anthropic usage report"),
    ('{"timestamp": 0, "requests": [{"Prompt Length": 5, "Output Length": 2}]}\n', "several requests"),
    ('{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "chat"}]}]}]}\n' * 2, "several requests, in 'resourceSpans'"),
    ('{"resourceSpans": [\n{"scopeSpans": []}\n]}\n', "several requests, in 'resourceSpans'"),
    ('{"data": [{"traceID": "a", "spans": [{"spanID": "b"}]}]}', "several requests, in 'spans'"),
]


@pytest.mark.parametrize(("content", "message"), AGGREGATES)
def test_aggregates_are_refused(write: Write, read: ReadTrace, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(write(content))
    assert caught.value.hint


def test_who_insists_may_read_an_aggregate(write: Write, read: ReadTrace) -> None:
    path = write("time,requests,prompt_tokens,completion_tokens\n2025-01-01,5,10,2\n")
    assert read(path, "generic").column("input_tokens") == [10]


def test_lengths_without_arrivals_are_refused(write: Write, read: ReadTrace) -> None:
    path = write("num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n5,2,7,2.5\n")
    with pytest.raises(MissingColumnError, match="token counts but no arrival times") as caught:
        read(path)
    assert "num_prefill_tokens, num_decode_tokens, num_total_tokens, pd_ratio" in caught.value.hint


def test_a_named_layout_says_what_it_misses(write: Write, read: ReadTrace) -> None:
    path = write("timestamp,input_tokens,output_tokens\n2025-04-11,1,1\n")
    with pytest.raises(MissingColumnError, match="as azure needs the columns 'ContextTokens', 'GeneratedTokens'") as caught:
        read(path, "azure")
    assert "timestamp, input_tokens, output_tokens" in caught.value.hint
    mapping = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}
    assert read(path, "azure", mapping=mapping).reading.layout == "azure"


def test_unknown_layout() -> None:
    raw = Raw("t.csv", "csv", {}, lambda _: pl.DataFrame())
    with pytest.raises(UsageError, match="--from csv: there is no such layout") as caught:
        recognise(raw, "csv")
    assert caught.value.hint == f"Choose one of: {', '.join(LAYOUTS)}."


def test_every_layout_can_be_named() -> None:
    assert list(LAYOUTS)[-1] == "generic"
    assert all(recognise(Raw("t.csv", "csv", {}, lambda _: pl.DataFrame()), name).name == name for name in LAYOUTS)
