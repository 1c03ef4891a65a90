"""`sessions` against loops over the turns that the words of the paper give, and over lists of blocks."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from llmtrace.engine.ordered import in_order
from llmtrace.errors import MissingColumnError, UsageError
from llmtrace.formats.layout import ReadOptions
from llmtrace.replay.sessions import Reconstruction, Study
from llmtrace.trace import Trace, open_trace
from llmtrace.trace.store import Footer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from llmtrace.result import Result

START = datetime(2025, 4, 11)
BLOCK_SCHEMA = {
    "timestamp": pl.Datetime("us"),
    "input_tokens": pl.Int64(),
    "output_tokens": pl.Int64(),
    "user": pl.String(),
    "model": pl.String(),
    "block_hashes": pl.List(pl.UInt64),
}


def studied(trace: Trace, rule: Reconstruction | None, *, sensitivity: bool = False, highlight: tuple[str, ...] = ()) -> Result:
    study = Study(trace, rule, sensitivity=sensitivity, highlight=highlight)
    ordered = in_order(trace, study.columns, prepare=study.prepare)
    for frame in ordered:
        study.add(frame)
    return ordered.complete(study.result())


def opened(frame: pl.DataFrame, folder: Path) -> Trace:
    frame.write_parquet(folder / "trace.parquet", row_group_size=150)
    return open_trace(str(folder / "trace.parquet"))


@pytest.fixture(name="turns")
def _turns(requests: pl.DataFrame, reconstruct: Callable[..., list[Any]]) -> Callable[..., list[tuple[dict[str, Any], Any]]]:
    """The requests that belong to a session, each with its turn."""
    rows = requests.sort("timestamp", "request_id").rows(named=True)

    def found(k: int = 10, max_gap_s: float | None = None) -> list[tuple[dict[str, Any], Any]]:
        asked = []
        for row in rows:
            key = None if None in (row["user"], row["model"]) or row["status"] == "timeout" else (row["user"], row["model"])
            time_us = (row["timestamp"] - START) // timedelta(microseconds=1)
            asked.append((key, row["endpoint"], time_us, row["input_tokens"], row["output_tokens"], row))
        turns = reconstruct(asked, k, None if max_gap_s is None else max_gap_s * 1e6)
        return [(row, turn) for row, turn in zip(rows, turns, strict=True) if turn]

    return found


def lengths_of(turns: Sequence[Any]) -> list[int]:
    return list(Counter(turn.session for turn in turns).values())


def prefix_of(turn: Any) -> int:  # noqa: ANN401
    return turn.parent.total_tokens if turn.parent else 0


@pytest.mark.usefixtures("small_parts")
def test_scalars_are_those_of_loops(tmp_path: Path, requests: pl.DataFrame, turns: Callable[..., Any]) -> None:
    found, pairs = studied(opened(requests, tmp_path), Reconstruction()).scalars, turns()
    lengths = lengths_of([turn for _, turn in pairs])
    at = Counter(turn.turn for _, turn in pairs)
    inputs, prefixes = sum(row["input_tokens"] for row, _ in pairs), sum(prefix_of(turn) for _, turn in pairs)
    gaps = [(turn.time_us - turn.parent.time_us) / 1e6 for _, turn in pairs if turn.parent]
    assert found["requests"] == requests.height
    assert found["session_requests"] == len(pairs) == sum(lengths)
    assert found["sessions"] == len(lengths)
    assert found["single_turn_share"] == lengths.count(1) / len(lengths)
    assert found["mean_turns"] == pytest.approx(np.mean(lengths))
    assert found["last_turn_mean"] == pytest.approx(np.mean(lengths) - 1)
    last = np.array(lengths) - 1
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert found[f"last_turn_{name}"] == pytest.approx(np.quantile(last, share))
        assert found[f"gap_{name}_s"] == pytest.approx(np.quantile(gaps, share), rel=2**-11)
    assert found["last_turn_max"] == max(last) > 3
    assert [found[f"turn_{turn}_requests"] for turn in range(4)] == [at[turn] for turn in range(4)]
    assert (found["input_tokens"], found["prefix_tokens"]) == (inputs, prefixes)
    assert found["structural_reuse"] == prefixes / inputs


@pytest.mark.usefixtures("small_parts")
def test_tables_are_those_of_loops(tmp_path: Path, requests: pl.DataFrame, turns: Callable[..., Any]) -> None:
    tables, pairs = studied(opened(requests, tmp_path), Reconstruction()).tables, turns()
    lengths = lengths_of([turn for _, turn in pairs])
    by_turn = defaultdict(list)
    for row, turn in pairs:
        by_turn[turn.turn].append((row, turn))
    assert tables["turns"]["turn"].to_list() == sorted(by_turn)
    for row in tables["turns"].iter_rows(named=True):
        here = by_turn[row["turn"]]
        assert row["requests"] == len(here)
        assert row["requests_ratio"] == len(here) / len(pairs)
        assert row["ended_sessions"] == lengths.count(row["turn"] + 1)
        assert row["continued_ratio"] == len(by_turn[row["turn"] + 1]) / len(here)
        assert row["mean_input_tokens"] == pytest.approx(np.mean([one["input_tokens"] for one, _ in here]))
        assert row["mean_output_tokens"] == pytest.approx(np.mean([one["output_tokens"] for one, _ in here]))
        assert row["mean_prefix_tokens"] == pytest.approx(np.mean([prefix_of(turn) for _, turn in here]))
        inputs = sum(one["input_tokens"] for one, _ in here)
        assert row["reuse_ratio"] == pytest.approx(sum(prefix_of(turn) for _, turn in here) / inputs)
    for row in tables["lengths"].iter_rows(named=True):
        assert row["sessions"] == lengths.count(row["turns"]) > 0
        assert row["sessions_ratio"] == row["sessions"] / len(lengths)
        assert row["cumulative_ratio"] == pytest.approx(np.mean([one <= row["turns"] for one in lengths]))
        assert row["at_least_ratio"] == pytest.approx(np.mean([one >= row["turns"] for one in lengths]))
    assert tables["lengths"]["sessions"].sum() == len(lengths)


@pytest.mark.usefixtures("small_parts")
def test_gaps_are_counted_exactly_at_every_step(tmp_path: Path, requests: pl.DataFrame, turns: Callable[..., Any]) -> None:
    table, pairs = studied(opened(requests, tmp_path), Reconstruction()).tables["gaps"], turns()
    inputs = sum(row["input_tokens"] for row, _ in pairs)
    gaps = [((turn.time_us - turn.parent.time_us) / 1e6, prefix_of(turn)) for _, turn in pairs if turn.parent]
    for row in table.iter_rows(named=True):
        within = [prefix for gap, prefix in gaps if gap <= row["gap_s"]]
        assert row["gaps"] == len(within)
        assert row["covered_ratio"] == len(within) / len(gaps)
        assert row["prefix_covered_ratio"] == pytest.approx(sum(within) / sum(prefix for _, prefix in gaps))
        assert row["structural_reuse"] == pytest.approx(sum(within) / inputs)
    assert table["gaps"][-1] == len(gaps) > table["gaps"][-2]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("highlight", [(), ("m2", "nobody", "m0")])
def test_models_have_their_own_numbers(
    tmp_path: Path, requests: pl.DataFrame, turns: Callable[..., Any], highlight: tuple[str, ...]
) -> None:
    tables, pairs = studied(opened(requests, tmp_path), Reconstruction(), highlight=highlight).tables, turns()
    models = Counter(row["model"] for row, _ in pairs)
    order = sorted(models, key=lambda model: (-models[model], model))
    assert tables["by_model"]["model"].to_list() == order
    chosen = [name for name in highlight if name in models] or order
    for name in ("lengths_by_model", "gaps_by_model"):
        assert tables[name]["model"].unique(maintain_order=True).to_list() == chosen
    for row in tables["by_model"].iter_rows(named=True):
        here = [(one, turn) for one, turn in pairs if one["model"] == row["model"]]
        lengths = lengths_of([turn for _, turn in here])
        gaps = [(turn.time_us - turn.parent.time_us) / 1e6 for _, turn in here if turn.parent]
        assert (row["requests"], row["sessions"]) == (len(here), len(lengths))
        assert row["single_turn_share"] == lengths.count(1) / len(lengths)
        assert row["mean_turns"] == pytest.approx(np.mean(lengths))
        assert row["last_turn_p90"] == pytest.approx(np.quantile(np.array(lengths) - 1, 0.9))
        assert row["last_turn_max"] == max(lengths) - 1
        assert row["gap_p50_s"] == pytest.approx(np.median(gaps), rel=2**-8)
        reuse = sum(prefix_of(turn) for _, turn in here) / sum(one["input_tokens"] for one, _ in here)
        assert row["structural_reuse"] == pytest.approx(reuse)
        if row["model"] in chosen:
            table = tables["lengths_by_model"].filter(pl.col("model") == row["model"])
            assert dict(table.select("turns", "sessions").rows()) == Counter(lengths)
            curve = tables["gaps_by_model"].filter(pl.col("model") == row["model"])
            assert curve["gap_s"].to_numpy() == pytest.approx(np.quantile(gaps, curve["cumulative_ratio"].to_numpy()), rel=2**-8)


def judged_by_sessions(pairs: Sequence[tuple[dict[str, Any], Any]]) -> tuple[int, int, int, int, int]:
    """True, found, right, related and possible links, request by request."""
    truth: dict[Any, list[Any]] = defaultdict(list)
    before: dict[int, Any] = {}
    for row, turn in pairs:
        if row["session"] is not None:
            whose = truth[row["session"], row["model"]]
            before[id(turn)] = whose[-1] if whose else None
            whose.append(turn)
    session = {id(turn): row["session"] for row, turn in pairs}
    true = [(row, turn) for row, turn in pairs if before.get(id(turn))]
    found = [turn for _, turn in pairs if turn.parent and session[id(turn)] and session[id(turn.parent)]]
    right = [turn for turn in found if before[id(turn)] is turn.parent]
    related = [turn for turn in found if session[id(turn)] == session[id(turn.parent)]]
    possible = [turn for row, turn in true if before[id(turn)].total_tokens < row["input_tokens"]]
    return len(true), len(found), len(right), len(related), len(possible)


@pytest.mark.usefixtures("small_parts")
def test_links_are_judged_by_the_traces_own_sessions(tmp_path: Path, requests: pl.DataFrame, turns: Callable[..., Any]) -> None:
    few = requests.with_columns(
        session=pl.concat_str(pl.lit("s"), pl.col("user").str.slice(1), pl.col("request_id").str.slice(5))
    )
    few = few.with_columns(session=pl.when(pl.col("request_id") < "r01800").then("session"))
    result = studied(opened(few, tmp_path), Reconstruction())
    named = dict(few.select("request_id", "session").iter_rows())
    true, found, right, related, possible = judged_by_sessions(
        [({**row, "session": named[row["request_id"]]}, turn) for row, turn in turns()]
    )
    assert 0 < right < related < found
    assert possible < true
    assert result.tables["quality"].rows() == [
        ("session", true, found, right, right / found, right / true, related / found, possible / true)
    ]
    assert (result.scalars["link_precision"], result.scalars["link_recall"]) == (right / found, right / true)


@pytest.mark.usefixtures("small_parts")
def test_other_rules_are_tried_beside(tmp_path: Path, requests: pl.DataFrame, turns: Callable[..., Any]) -> None:
    trace = opened(requests, tmp_path)
    table = studied(trace, Reconstruction(k=4, max_gap_s=600), sensitivity=True).tables["sensitivity"]
    assert table.filter(pl.col("varied") == "k")["k"].to_list() == [1, 2, 3, 4, 5, 10, 20, 50, 100]
    gaps = table.filter(pl.col("varied") == "max_gap_s")["max_gap_s"].to_list()
    assert gaps == [10, 60, 300, 600, 900, 3_600, 43_200, 86_400, None]
    for row in table.iter_rows(named=True):
        assert row["k"] == 4 if row["varied"] == "max_gap_s" else row["max_gap_s"] == 600
        pairs = turns(row["k"], row["max_gap_s"])
        lengths = lengths_of([turn for _, turn in pairs])
        true, found, right, *_ = judged_by_sessions(pairs)
        assert (row["sessions"], row["single_turn_share"]) == (len(lengths), lengths.count(1) / len(lengths))
        reuse = sum(prefix_of(turn) for _, turn in pairs) / sum(one["input_tokens"] for one, _ in pairs)
        assert (row["structural_reuse"], row["precision"], row["recall"]) == (reuse, right / found, right / true)


def with_blocks(rng: np.random.Generator, rows: int = 600) -> pl.DataFrame:
    """Prompts in blocks of 4 tokens: some begin with an earlier prompt, whole or in part; a partial block may be at the end."""
    prompts: list[list[int]] = []
    frames = []
    for row in range(rows):
        base = prompts[rng.integers(len(prompts))][: rng.integers(1, 12)] if prompts and rng.random() < 0.8 else []
        blocks = [*base, *rng.integers(1, 2**62, rng.integers(0, 4)).tolist()]
        tokens = 4 * len(blocks) + int(rng.integers(0, 4))
        partial = [int(rng.integers(1, 2**62))] if tokens % 4 and rng.random() < 0.5 else []
        prompts.append(blocks)
        hashes = None if rng.random() < 0.05 else [*blocks, *partial]
        frames.append((START + timedelta(seconds=row), tokens, int(rng.integers(0, 4)), f"u{rng.integers(2)}", "m", hashes))
    return pl.DataFrame(frames, BLOCK_SCHEMA, orient="row")


def judged_by_blocks(
    frame: pl.DataFrame, block_size: int, k: int, reconstruct: Callable[..., list[Any]]
) -> tuple[int, int, int, int]:
    """True, found, right and related links, by comparing the whole blocks of every prompt with those of all before it."""
    rows = frame.rows(named=True)
    times = [(row["timestamp"] - START) // timedelta(microseconds=1) for row in rows]
    asked = [
        ((row["user"], row["model"]), 0, time_us, row["input_tokens"], row["output_tokens"])
        for row, time_us in zip(rows, times, strict=True)
    ]
    turns = reconstruct(asked, k)
    whole = [(row["block_hashes"] or [])[: row["input_tokens"] // block_size] for row in rows]
    of_turn = {id(turn): blocks for turn, blocks in zip(turns, whole, strict=True)}
    true = found = right = related = 0
    for place, (one, turn, blocks) in enumerate(zip(asked, turns, whole, strict=True)):
        before = [
            other
            for other, (key, *_, input_tokens, output_tokens) in zip(whole[:place], asked[:place], strict=True)
            if other and key == one[0] and blocks[: len(other)] == other and input_tokens + output_tokens < one[3]
        ]
        longest = max(before, key=len, default=None)
        true += longest is not None
        parent = of_turn[id(turn.parent)] if turn.parent else []
        if parent and blocks:
            found, right, related = found + 1, right + (parent == longest), related + (blocks[: len(parent)] == parent)
    return true, found, right, related


@pytest.mark.usefixtures("small_parts")
def test_links_are_judged_by_blocks(tmp_path: Path, reconstruct: Callable[..., list[Any]]) -> None:
    frame = with_blocks(np.random.default_rng(11))
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=150, metadata=Footer("utc", 4).metadata())
    result = studied(open_trace(str(tmp_path / "t.parquet")), Reconstruction(k=3))
    true, found, right, related = judged_by_blocks(frame, 4, 3, reconstruct)
    assert 0 < right < related < found
    assert result.tables["quality"].rows() == [
        ("block_hashes", true, found, right, right / found, right / true, related / found, 1.0)
    ]


def test_a_trace_may_know_both_truths(tmp_path: Path) -> None:
    frame = with_blocks(np.random.default_rng(2), 100).with_columns(session=pl.lit("s"))
    table = studied(opened(frame, tmp_path), Reconstruction()).tables["quality"]
    assert table["truth"].to_list() == ["session", "block_hashes"]
    assert table["related_ratio"][0] == 1.0


def weka(folder: Path) -> pl.DataFrame:
    """Conversations of coding agents, a user each, with the requests of their subagents."""
    rows = []
    for path in sorted(folder.glob("*.json")):
        for request in json.loads(path.read_text(encoding="utf-8"))["requests"]:
            inner = request.get("requests")
            for one in [request] if inner is None else inner:
                seconds = one["t"] + (0 if inner is None else request["t"])
                hashes = [int(path.stem[-4:]) << 32 | block for block in one["hash_ids"]]
                rows.append((START + timedelta(seconds=seconds), one["in"], one["out"], path.stem, one["model"], hashes))
    return pl.DataFrame(rows, BLOCK_SCHEMA, orient="row")


def test_conversations_of_coding_agents(real_traces: Path, tmp_path: Path, reconstruct: Callable[..., list[Any]]) -> None:
    """Nine conversations of Weka's, whose blocks of 64 tokens tell what a request continues: 48 of 54 links are found."""
    frame = weka(real_traces / "weka")
    frame.write_parquet(tmp_path / "t.parquet", metadata=Footer("relative", 64).metadata())
    result = studied(open_trace(str(tmp_path / "t.parquet")), Reconstruction())
    assert judged_by_blocks(frame.sort("timestamp", maintain_order=True), 64, 10, reconstruct) == (54, 52, 48, 48)
    assert result.tables["quality"].rows() == [("block_hashes", 54, 52, 48, 48 / 52, 48 / 54, 48 / 52, 1.0)]
    assert result.scalars["sessions"] == 17


def words_of(messages: str | list[dict[str, Any]]) -> list[str]:
    read = json.loads(messages) if isinstance(messages, str) else messages
    return [f"{one['role']} {word}" for one in read for word in one["content"].split()]


def otel(folder: Path) -> pl.DataFrame:
    """Nine runs of agents, a user each. They have texts and no count of tokens in most, so a word is a token, and a block."""
    rows, known = [], dict[tuple[str, ...], int]()
    for path in sorted(folder.glob("*.json")):
        for span in json.loads(path.read_text(encoding="utf-8"))["spans"]:
            told = span["attributes"]
            words, text = words_of(told["gen_ai.input.messages"]), told.get("gen_ai.output.text")
            output = len(words_of(told["gen_ai.output.messages"]) if text is None else text.split())
            hashes = [known.setdefault(tuple(words[:count]), len(known)) for count in range(1, len(words) + 1)]
            time = datetime.fromisoformat(span["start_time"]).replace(tzinfo=None)
            rows.append((time, len(words), output, path.stem, told["gen_ai.request.model"], hashes))
    return pl.DataFrame(rows, BLOCK_SCHEMA, orient="row")


def test_runs_of_agents_in_telemetry(real_traces: Path, tmp_path: Path, reconstruct: Callable[..., list[Any]]) -> None:
    """Of 73 requests 17 continue another's messages; agents that work side by side on longer and longer texts seem to as well."""
    frame = otel(real_traces / "otel")
    frame.write_parquet(tmp_path / "t.parquet", metadata=Footer("utc", 1).metadata())
    result = studied(open_trace(str(tmp_path / "t.parquet")), Reconstruction())
    assert judged_by_blocks(frame.sort("timestamp", maintain_order=True), 1, 10, reconstruct) == (17, 30, 11, 11)
    assert result.tables["quality"].rows() == [("block_hashes", 17, 30, 11, 11 / 30, 11 / 17, 11 / 30, 1.0)]
    assert result.scalars["session_requests"] == 73


def test_first_rows_of_published_sessions_have_no_link(real_traces: Path) -> None:
    """Four requests of as many sessions, in BurstGPT, which has no users: whatever is found, by model, is wrong."""
    result = studied(open_trace(str(real_traces / "burstgpt" / "burstgpt_v3_head.csv")), Reconstruction(by=("model",)))
    assert result.tables["quality"].rows() == [("session", 0, 2, 0, 0.0, None, 0.0, None)]
    result = studied(open_trace(str(real_traces / "burstgpt" / "burstgpt_v3_head.csv")), None)
    assert (result.scalars["sessions"], result.scalars["mean_turns"]) == (4, 1.0)


def test_one_request_with_blocks_has_no_link(real_traces: Path) -> None:
    options = ReadOptions(mapping={"user": "type"})
    result = studied(open_trace(str(real_traces / "bailian" / "qwen_bailian_head.jsonl"), options=options), Reconstruction())
    assert result.tables["quality"].rows() == [("block_hashes", 0, 0, 0, None, None, None, None)]


def test_the_published_sessions_judge_the_published_excerpt(real_traces: Path) -> None:
    """27 of 28 links; that of 110239438327 leads elsewhere, since the excerpt lacks what continued its rival 110239438217."""
    trace = open_trace(str(real_traces / "chutes" / "chutes_excerpt_36rows.csv"))
    result = studied(trace, Reconstruction())
    assert result.tables["quality"].rows() == [("session", 28, 28, 27, 27 / 28, 27 / 28, 27 / 28, 1.0)]
    assert (result.scalars["session_requests"], result.scalars["sessions"]) == (36, 36 - 28)


@pytest.mark.usefixtures("small_parts")
def test_given_sessions_are_described_and_not_judged(tmp_path: Path, requests: pl.DataFrame) -> None:
    result = studied(opened(requests, tmp_path), None)
    columns = ("session", "model", "input_tokens", "output_tokens")
    known = requests.filter(pl.col("status").ne_missing("timeout")).drop_nulls(columns)
    lengths = known.group_by("session", "model").len()["len"]
    assert result.scalars["sessions"] == lengths.len()
    assert dict(result.tables["lengths"].select("turns", "sessions").iter_rows()) == Counter(lengths)
    assert result.tables["quality"].is_empty()
    assert result.scalars["link_precision"] is None
    assert result.parameters == {"given": True, "k": None, "max_gap_s": None, "by": ["session", "model"], "highlight": []}
    assert result.notes[0].startswith("Sessions are the trace's own")


def test_without_requests_every_name_is_there(tmp_path: Path, requests: pl.DataFrame) -> None:
    full = studied(opened(requests, tmp_path), Reconstruction(), sensitivity=True)
    empty = studied(opened(requests.with_columns(user=pl.lit(None, pl.String)), tmp_path), Reconstruction(), sensitivity=True)
    assert empty.scalars.keys() == full.scalars.keys()
    assert empty.scalars["sessions"] == 0
    assert empty.scalars["structural_reuse"] is None
    for name, table in full.tables.items():
        assert empty.tables[name].schema == table.schema, name


def test_every_number_is_defined(tmp_path: Path, requests: pl.DataFrame) -> None:
    result = studied(opened(requests, tmp_path), Reconstruction(), sensitivity=True)
    columns = {f"{name}.{column}" for name, table in result.tables.items() for column in table.columns}
    assert result.definitions.keys() == result.scalars.keys() | columns
    assert all(sentence.endswith(".") for sentence in result.definitions.values())
    assert result.primary in result.tables


def test_a_key_without_a_model_gives_no_numbers_by_model(tmp_path: Path, requests: pl.DataFrame) -> None:
    result = studied(opened(requests, tmp_path), Reconstruction(by=("user",)))
    assert result.scalars["sessions"]
    assert result.tables["by_model"].is_empty()
    assert "Sessions are not confined to a model, so there are no numbers by model." in result.notes


def test_what_cannot_be_studied_is_told(tmp_path: Path, requests: pl.DataFrame) -> None:
    trace = opened(requests.drop("session"), tmp_path)
    with pytest.raises(MissingColumnError, match="sessions --given needs the column 'session'"):
        Study(trace, None)
    with pytest.raises(UsageError, match="--sensitivity"):
        Study(opened(requests, tmp_path), None, sensitivity=True)
