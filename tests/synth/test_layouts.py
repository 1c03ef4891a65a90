"""Each foreign layout: its bytes by a plain reading, and its meaning through the reader of such files."""

from __future__ import annotations

import csv
import gzip
import json
import re
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from llmtrace.commands.generate import generate
from llmtrace.engine.survey import survey
from llmtrace.errors import UsageError
from llmtrace.formats.layout import ReadOptions
from llmtrace.synth.frames import frames
from llmtrace.synth.layouts import LAYOUTS
from llmtrace.synth.workload import Workload
from llmtrace.synth.writing import CANONICAL, write
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WORKLOAD = Workload(requests=1500, days=120, seed=5, cached_from=0.5)
GATEWAY = {
    "timestamp": "Received (UTC)",
    "user": "API Key",
    "model": "Deployment",
    "instance": "Pod",
    "endpoint": "Route",
    "session": "Thread",
    "stream": "Streaming?",
    "input_tokens": "Tokens In",
    "cached_tokens": "Tokens In (cached)",
    "output_tokens": "Tokens Out",
    "ttft_s": "First Token (s)",
    "duration_s": "Total (s)",
    "status": "Outcome",
}


@pytest.fixture(scope="module")
def trace() -> pl.DataFrame:
    return pl.concat(frames(WORKLOAD))


@pytest.fixture(scope="module")
def served(trace: pl.DataFrame) -> list[dict[str, Any]]:
    return trace.filter(pl.col("status") == "ok").to_dicts()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("layouts")

    def file(name: str) -> Path:
        path = folder / f"{name}.{LAYOUTS[name].kind}"
        if not path.exists():
            write(WORKLOAD, path, layout=name)
        return path

    return file


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_azure_2023_has_windows_line_ends_but_the_last_and_seven_digits(
    written: Callable[[str], Path], served: list[dict[str, Any]]
) -> None:
    raw = written("azure-2023").read_bytes()
    assert raw.startswith(b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n")
    assert not raw.endswith(b"\n")
    assert raw.count(b"\n") == raw.count(b"\r\n") == len(served)
    for row, request in zip(rows(written("azure-2023")), served, strict=True):
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{7}", row["TIMESTAMP"])
        assert datetime.fromisoformat(row["TIMESTAMP"][:-1]) == request["timestamp"]
        assert (int(row["ContextTokens"]), int(row["GeneratedTokens"])) == (request["input_tokens"], request["output_tokens"])


@pytest.mark.parametrize("name", ["azure-2024", "azure-lmm"])
def test_azure_2024_has_offsets_and_fractions_where_there_are_any(
    written: Callable[[str], Path], served: list[dict[str, Any]], name: str
) -> None:
    whole = 0
    for row, request in zip(rows(written(name)), served, strict=True):
        assert datetime.fromisoformat(row["TIMESTAMP"]).replace(tzinfo=None) == request["timestamp"]
        assert row["TIMESTAMP"].endswith("+00:00")
        assert ("." in row["TIMESTAMP"]) == (request["timestamp"].microsecond > 0)
        whole += request["timestamp"].microsecond == 0
    assert 0 < whole < len(served) / 2
    assert written(name).read_bytes().endswith(b"\n")


def test_azure_lmm_counts_images_per_session(written: Callable[[str], Path], served: list[dict[str, Any]]) -> None:
    images = [int(row["NumImages"]) for row in rows(written("azure-lmm"))]
    assert set(images) == {0, 1, 2, 3}
    assert len({(request["session"], count) for request, count in zip(served, images, strict=True)}) == len(
        {request["session"] for request in served}
    )


@pytest.mark.parametrize(("name", "begins_s"), [("burstgpt-v1", 0), ("burstgpt-v2", 225 * 86_400)])
def test_burstgpt_counts_seconds_and_keeps_failures_without_tokens(
    written: Callable[[str], Path], trace: pl.DataFrame, name: str, begins_s: int
) -> None:
    midnight = datetime(2025, 4, 11)
    for row, request in zip(rows(written(name)), trace.to_dicts(), strict=True):
        assert float(row["Timestamp"]) == begins_s + (request["timestamp"] - midnight).total_seconds() // 1
        tokens = [int(row[f"{kind} tokens"]) for kind in ("Request", "Response", "Total")]
        asked, answered = (request[column] or 0 for column in ("input_tokens", "output_tokens"))
        assert tokens == [asked, answered, asked + answered]
        assert row["Model"] == request["model"]
        assert row["Log Type"] == ("Conversation log" if request["endpoint"] == "chat" else "API log")


def test_burstgpt_v2_names_the_sessions_of_conversations(written: Callable[[str], Path], trace: pl.DataFrame) -> None:
    pairs = set()
    for row, request in zip(rows(written("burstgpt-v2")), trace.to_dicts(), strict=True):
        assert "." in row["Timestamp"]
        assert int(row["Elapsed time"]) == pytest.approx(request["duration_s"], abs=0.5)
        assert bool(row["Session ID"]) == (request["endpoint"] == "chat")
        if row["Session ID"]:
            assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", row["Session ID"])
            pairs.add((row["Session ID"], request["session"]))
    assert len(pairs) == len({name for name, _ in pairs}) == len({session for _, session in pairs}) > 100


def test_mooncake_hashes_every_block_the_last_one_too(written: Callable[[str], Path], served: list[dict[str, Any]]) -> None:
    seen: dict[int, tuple[int, int | None]] = {}
    lines = written("mooncake").read_text(encoding="utf-8").splitlines()
    for line, request in zip(lines, served, strict=True):
        row = json.loads(line)
        assert list(row) == ["timestamp", "input_length", "output_length", "hash_ids"]
        assert row["timestamp"] == (request["timestamp"] - datetime(2025, 4, 11)).total_seconds() * 1000 // 1
        assert (row["input_length"], row["output_length"]) == (request["input_tokens"], request["output_tokens"])
        ids = row["hash_ids"]
        assert len(ids) == -(-row["input_length"] // 512)
        assert [block // 2 for block in ids[: len(request["block_hashes"])]] == request["block_hashes"]
        for place, block in enumerate(ids):
            here = (place, ids[place - 1] if place else None)
            assert seen.setdefault(block, here) == here


def test_chutes_has_the_published_columns_and_types(written: Callable[[str], Path], trace: pl.DataFrame) -> None:
    stored = pl.read_parquet(written("chutes"))
    assert stored.schema == {
        "invocation_id": pl.Int64,
        "function_name": pl.String,
        "chute_id": pl.String,
        "user_id": pl.String,
        "rehash_round": pl.Int32,
        "instance_id": pl.String,
        "started_at": pl.Datetime("us"),
        "completed_at": pl.Datetime("us"),
        "it": pl.Float32,
        "ot": pl.Float32,
        "ct": pl.Float32,
        "ttft": pl.Float32,
    }
    for row, request in zip(stored.to_dicts(), trace.to_dicts(), strict=True):
        elapsed = request["timestamp"] - datetime(2025, 4, 11)
        assert row["started_at"] - datetime(1970, 1, 1) == elapsed
        assert row["rehash_round"] == elapsed.days // 92 + 1
        assert row["function_name"] == request["endpoint"] + ("_stream" if request["stream"] else "")
        assert (row["it"], row["ot"], row["ct"]) == (request["input_tokens"], request["output_tokens"], request["cached_tokens"])
        assert (row["instance_id"] is None) == (row["completed_at"] is None) == (request["status"] != "ok")
        assert re.fullmatch(rf"u{row['rehash_round']}_\d{{7}}", row["user_id"])
    assert stored["invocation_id"].is_sorted()
    assert stored["rehash_round"].n_unique() == 2


def test_chutes_renames_users_one_to_one_within_a_round(written: Callable[[str], Path], trace: pl.DataFrame) -> None:
    names = pl.concat([pl.read_parquet(written("chutes")), trace.select("user")], how="horizontal")
    pairs = names.select("user_id", "user").unique()
    assert pairs["user_id"].n_unique() == pairs.height
    assert pairs["user"].n_unique() < pairs.height


def test_jsonl_is_lines_of_flat_objects(written: Callable[[str], Path], trace: pl.DataFrame) -> None:
    lines = written("jsonl").read_text(encoding="utf-8").splitlines()
    for line, request in zip(lines, trace.to_dicts(), strict=True):
        row = json.loads(line)
        assert row["id"] == request["request_id"]
        assert row["created_at"] == (request["timestamp"] - datetime(1970, 1, 1)).total_seconds() * 1000 // 1
        assert (row["prompt_tokens"], row["completion_tokens"]) == (request["input_tokens"], request["output_tokens"])
        assert (row["cached_tokens"], row["status"]) == (request["cached_tokens"], request["status"])


MIDNIGHT = datetime(2025, 4, 11)
TOKENS = {name: pl.col(name) for name in ("input_tokens", "output_tokens")}
NAMED = {name: pl.col(name) for name in ("user", "model", "stream", "cached_tokens", "status")}
OK = pl.col("status") == "ok"
FAILED_OR_OK = pl.when(OK).then(pl.lit("ok")).otherwise(pl.lit("failed"))


def since_midnight(every: str = "1us", begins_s: int = 0) -> pl.Expr:
    """Times on a relative clock that starts at the midnight before the first request."""
    elapsed = (pl.col("timestamp").dt.truncate(every) - MIDNIGHT).dt.total_microseconds()
    return pl.from_epoch(elapsed + begins_s * 1_000_000, "us")


def rounded(name: str, unit_s: float) -> pl.Expr:
    return (pl.col(name) / unit_s).round() * unit_s


BURSTGPT = {
    **{name: tokens.fill_null(0) for name, tokens in TOKENS.items()},
    "model": pl.col("model"),
    "endpoint": pl.when(endpoint="chat").then(pl.lit("chat")).otherwise(pl.lit("api")),
    "status": FAILED_OR_OK,
}
READ: dict[str, dict[str, pl.Expr]] = {
    **{azure: {"timestamp": pl.col("timestamp"), **TOKENS} for azure in ("azure-2023", "azure-2024", "azure-lmm")},
    "burstgpt-v1": {"timestamp": since_midnight("1s"), **BURSTGPT},
    "burstgpt-v2": {
        "timestamp": since_midnight("1s", begins_s=225 * 86_400),
        **BURSTGPT,
        "session": pl.when(endpoint="chat").then("session"),
        "duration_s": rounded("duration_s", 1),
    },
    "mooncake": {
        "timestamp": since_midnight("1ms"),
        **TOKENS,
        "block_hashes": pl.concat_list(
            pl.col("block_hashes").list.eval(2 * pl.element()),
            pl.when(pl.col("input_tokens") % 512 > 0).then(2 * pl.col("request_id") + 1).cast(pl.UInt64),
        ).list.drop_nulls(),
    },
    "chutes": {
        "timestamp": since_midnight(),
        **TOKENS,
        **NAMED,
        "request_id": pl.col("request_id") * 7 + 100_000_000_000,
        "user": pl.concat_str("user", (pl.col("timestamp") - MIDNIGHT).dt.total_days() // 92),
        "instance": pl.format("i{}", pl.col("instance").str.slice(1).str.zfill(7)),
        "endpoint": pl.col("endpoint") + pl.when("stream").then(pl.lit("_stream")).otherwise(pl.lit("")),
        "ttft_s": pl.col("ttft_s").cast(pl.Float32).cast(pl.Float64),
        "duration_s": pl.when(OK).then("duration_s"),
        "status": pl.when(OK).then(pl.lit("ok")).otherwise(pl.lit("incomplete")),
    },
    "csv": {
        "timestamp": pl.col("timestamp").dt.truncate("1ms"),
        **TOKENS,
        **NAMED,
        **{name: pl.col(name) for name in ("instance", "endpoint", "session", "ttft_s", "duration_s")},
    },
    "jsonl": {
        "timestamp": pl.col("timestamp").dt.truncate("1ms"),
        **TOKENS,
        **NAMED,
        "request_id": pl.col("request_id").cast(pl.String),
        "ttft_s": rounded("ttft_s", 1e-3),
        "duration_s": rounded("duration_s", 1e-3),
    },
}
"""Of each layout every canonical column that it carries, and what is read of it."""
RENAMED = {"burstgpt-v2": ("session",), "chutes": ("user", "model")}
"""Columns of ids that a layout gives other names, one to one."""


def by_appearance(ids: pl.Series) -> pl.Series:
    """Ids as numbers in order of appearance."""
    numbers: dict[str, int] = {}
    return pl.Series(ids.name, [None if one is None else numbers.setdefault(one, len(numbers)) for one in ids], pl.Int64)


@pytest.mark.parametrize("name", LAYOUTS)
def test_our_reader_understands_what_is_written(written: Callable[[str], Path], trace: pl.DataFrame, name: str) -> None:
    options = ReadOptions(mapping=GATEWAY) if name == "csv" else ReadOptions()
    opened = survey(open_trace([str(written(name))], options=options))
    read = pl.concat([part.frame(opened.columns).collect() for part in opened.parts()])
    kept = trace if "status" in READ[name] else trace.filter(OK)
    expected = kept.select(**READ[name])
    if "request_id" in expected.columns:  # the reader breaks ties by it, as text where it is text
        expected = expected.sort("timestamp", "request_id", maintain_order=True)
    ids = RENAMED.get(name, ())
    assert_frame_equal(
        read.with_columns(by_appearance(read[one]) for one in ids),
        expected.with_columns(by_appearance(expected[one]) for one in ids),
        check_column_order=False,
        rel_tol=1e-12,
        abs_tol=1e-9,
    )
    assert opened.clock == ("relative" if name in {"burstgpt-v1", "burstgpt-v2", "mooncake", "chutes"} else "utc")
    assert all(part.intake(opened.columns).collect().item(0, "bad_rows") == 0 for part in opened.parts())


@pytest.mark.parametrize("name", LAYOUTS)
def test_rows_are_the_same_in_however_many_pieces_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: Callable[[str], Path], name: str
) -> None:
    whole, pieces = written(name), tmp_path / "pieces.gz"
    monkeypatch.setattr("llmtrace.synth.writing.FRAME_ROWS", 100)
    write(WORKLOAD, pieces, layout=name)
    unpacked = gzip.decompress(pieces.read_bytes())
    if LAYOUTS[name].kind == "parquet":
        assert pl.read_parquet(unpacked).equals(pl.read_parquet(whole))
    else:
        assert unpacked == whole.read_bytes()


@pytest.mark.parametrize("name", LAYOUTS)
def test_without_service_a_layout_is_the_same_or_refused(
    tmp_path: Path, written: Callable[[str], Path], trace: pl.DataFrame, name: str
) -> None:
    path, unserved = tmp_path / "unserved", replace(WORKLOAD, service=False, cached_from=0.0)
    needs = {"instance", "cached_tokens", "ttft_s", "duration_s"}
    try:
        LAYOUTS[name].rows(trace.drop(needs), datetime(2025, 4, 11))
    except pl.exceptions.ColumnNotFoundError:
        with pytest.raises(UsageError, match=f"--no-service: the layout {name}"):
            write(unserved, path, layout=name)
    else:
        write(unserved, path, layout=name)
        assert path.read_bytes() == written(name).read_bytes()


def test_gzip_is_transparent_and_repeatable(tmp_path: Path, written: Callable[[str], Path]) -> None:
    for folder in ("one", "other"):
        write(WORKLOAD, tmp_path / folder / "log.jsonl.gz", layout="jsonl")
    packed = (tmp_path / "one" / "log.jsonl.gz").read_bytes()
    assert packed == (tmp_path / "other" / "log.jsonl.gz").read_bytes()
    assert gzip.decompress(packed) == written("jsonl").read_bytes()
    plain, unpacked = (survey(open_trace([str(path)])) for path in (written("jsonl"), tmp_path / "one" / "log.jsonl.gz"))
    assert_frame_equal(*(pl.concat([part.frame(plain.columns).collect() for part in one.parts()]) for one in (plain, unpacked)))


def test_the_command_offers_every_layout() -> None:
    offered = get_args(get_args(get_type_hints(generate, include_extras=True)["shape"])[0])
    assert offered == (CANONICAL, *LAYOUTS)
