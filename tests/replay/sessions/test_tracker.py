"""The tracker: frames of any trace in, sessions out; what belongs to none is counted; the published chains come out."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from llmtrace.engine.ordered import in_order
from llmtrace.errors import MissingColumnError, UsageError
from llmtrace.replay.sessions import Reconstruction, SessionTracker
from llmtrace.trace import Trace, open_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

START = datetime(2025, 4, 11)
RIVAL, BEREFT = 110239438217, 110239438327
FAILED, NO_TOKENS, NO_KEY = 1, 2, 3


def opened(frame: pl.DataFrame, folder: Path) -> Trace:
    frame.write_parquet(folder / "trace.parquet", row_group_size=150)
    return open_trace(str(folder / "trace.parquet"))


def tracked(trace: Trace, tracker: SessionTracker) -> pl.DataFrame:
    """All rows in order, with what the tracker finds."""
    frames = []
    for frame in in_order(trace, tracker.columns, prepare=tracker.prepare):
        turns = tracker.add(frame)
        found = pl.DataFrame(
            {
                "found_session": turns.session,
                "found_turn": turns.turn,
                "prefix_tokens": turns.prefix_tokens,
                "gap_us": turns.gap_us,
            }
        )
        frames.append(frame.hstack(found))
    return pl.concat(frames)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    ("rule", "drop"),
    [
        (Reconstruction(), []),
        (Reconstruction(k=3, max_gap_s=20), []),
        (Reconstruction(by=("user",)), ["status"]),
        (Reconstruction(), ["model", "endpoint"]),
        (Reconstruction(by=("model", "session")), ["request_id"]),
    ],
)
def test_sessions_of_a_trace_are_those_of_the_paper(
    tmp_path: Path, reconstruct: Callable[..., list[Any]], requests: pl.DataFrame, rule: Reconstruction, drop: list[str]
) -> None:
    frame = requests.sort("timestamp", "request_id").drop(drop)
    trace = opened(frame, tmp_path)
    tracker = SessionTracker.reconstructing(trace, rule)
    found = tracked(trace, tracker)
    key = rule.by or ("user", *({"model"} & set(frame.columns)))
    rows = []
    left = {FAILED: 0, NO_TOKENS: 0, NO_KEY: 0}
    for row in frame.iter_rows(named=True):
        whose = tuple(row[name] for name in key)
        tokens = row["input_tokens"], row["output_tokens"]
        reason = (
            FAILED if row.get("status") not in {None, "ok"} else NO_TOKENS if None in tokens else NO_KEY if None in whose else 0
        )
        left |= {reason: left.get(reason, 0) + 1}
        time_us = (row["timestamp"] - START) // timedelta(microseconds=1)
        rows.append((None if reason else whose, row.get("endpoint"), time_us, *tokens))
    turns = reconstruct(rows, rule.k, None if rule.max_gap_s is None else rule.max_gap_s * 1_000_000)
    columns = found.select("found_session", "found_turn", "prefix_tokens", "gap_us").rows()
    assert columns == [(-1, -1, 0, -1) if turn is None else turn.found for turn in turns]
    assert tracker.sessions == 1 + max(turn.session for turn in turns if turn)
    assert tracker.left_out == {reason: left[reason] for reason in (FAILED, NO_TOKENS, NO_KEY)}
    assert min(tracker.left_out.values()) > 0 or drop == ["status"]


@pytest.mark.usefixtures("small_parts")
def test_given_sessions_are_taken_as_they_are(tmp_path: Path, requests: pl.DataFrame) -> None:
    trace = opened(requests, tmp_path)
    tracker = SessionTracker.of(trace)
    assert tracker.is_given
    found = tracked(trace, tracker).filter(pl.col("left_out") == 0)
    total = pl.col("input_tokens") + pl.col("output_tokens")
    expected = found.with_columns(
        pl.int_range(pl.len()).over("session", "model").cast(pl.Int32).alias("turn"),
        pl.min_horizontal(total.shift().over("session", "model").fill_null(0), "input_tokens").alias("prefix"),
        pl.col("timestamp").diff().over("session", "model").dt.total_microseconds().fill_null(-1).alias("gap"),
    )
    assert found["found_turn"].to_list() == expected["turn"].to_list()
    assert found["prefix_tokens"].to_list() == expected["prefix"].to_list()
    assert found["gap_us"].to_list() == expected["gap"].to_list()
    both = found.select(pl.struct("session", "model").alias("whose"), "found_session").unique()
    assert both.height == both["whose"].n_unique() == both["found_session"].n_unique() == tracker.sessions


def test_sessions_are_reconstructed_where_there_are_none(tmp_path: Path, requests: pl.DataFrame) -> None:
    tracker = SessionTracker.of(opened(requests.drop("session"), tmp_path), Reconstruction(k=2))
    assert not tracker.is_given
    assert tracker.columns == {"timestamp", "input_tokens", "output_tokens", "request_id", "user", "model", "endpoint", "status"}


def test_a_sum_of_tokens_does_not_wrap(tmp_path: Path) -> None:
    largest = (1 << 63) - 1
    frame = pl.DataFrame(
        {
            "timestamp": [START] * 2,
            "input_tokens": [largest] * 2,
            "output_tokens": [largest, 0],
            "user": ["a"] * 2,
            "model": ["m"] * 2,
        }
    )
    found = tracked(trace := opened(frame.cast({"timestamp": pl.Datetime("us")}), tmp_path), SessionTracker.of(trace))
    assert found["total_tokens"].to_list() == [largest, largest]
    assert found["found_session"].to_list() == [0, 1]


def test_the_published_chains_come_out(real_traces: Path) -> None:
    """35 of 36 published parents.

    The excerpt lacks the request that continued 110239438217 before 110239438327 came. So that one is still free here, and with
    more tokens below the input it is the better parent.
    """
    path = real_traces / "chutes" / "chutes_excerpt_36rows.csv"
    trace = open_trace(str(path))
    found = tracked(trace, SessionTracker.reconstructing(trace, Reconstruction()))
    ids = found["request_id"].cast(pl.Int64).to_list()
    latest: dict[int, int] = {}
    parents = {}
    for request, session, turn in zip(ids, found["found_session"], found["found_turn"], strict=True):
        parents[request] = latest.get(session) if turn else None
        latest[session] = request
    published = pl.read_csv(path).select("invocation_id", "parent_invocation_id")
    assert published.height == 36
    wrong = {request: parents[request] for request, parent in published.iter_rows() if parents[request] != parent}
    assert wrong == {BEREFT: RIVAL}


def test_what_is_missing_is_named_and_what_to_do(tmp_path: Path, requests: pl.DataFrame) -> None:
    frame = requests
    with pytest.raises(MissingColumnError, match="sessions needs 'user' to reconstruct sessions") as error:
        SessionTracker.reconstructing(opened(frame.drop("user"), tmp_path), Reconstruction())
    own = "The trace has sessions of its own: take those with --given"
    assert error.value.hint == f"{own}, or take another key with --by, of: model, session."
    with pytest.raises(MissingColumnError, match="cache needs 'user'") as error:
        SessionTracker.of(opened(frame.drop("user", "session"), tmp_path), wanted_by="cache")
    assert error.value.hint == "Name the source column with --map user=COLUMN, or take another key with --by, of: model."
    with pytest.raises(MissingColumnError) as error:
        SessionTracker.of(opened(frame.drop("user", "session", "model"), tmp_path))
    assert error.value.hint == "Name the source column with --map user=COLUMN."


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": 0}, "--k 0"),
        ({"k": 1_001}, "--k 1001"),
        ({"max_gap_s": 0.0}, "--max-gap 0.0"),
        ({"max_gap_s": float("nan")}, "--max-gap nan"),
        ({"max_gap_s": float("inf")}, "--max-gap inf"),
        ({"by": ("user", "user")}, "--by user,user: not a list of different columns"),
        ({"by": ()}, "--by : not a list"),
        ({"by": ("stream",)}, "'stream' cannot be part of a key"),
    ],
)
def test_rules_that_make_no_sense_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Reconstruction(**parameters)
