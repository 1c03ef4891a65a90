"""Columns against plain loops over the same numbers."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from llmtrace.schema import COLUMNS, problems
from llmtrace.synth.arrivals import STATUSES, Requests
from llmtrace.synth.dressing import Dress, frame_of
from llmtrace.synth.population import Population, population
from llmtrace.synth.rates import DAY_US, span_us
from llmtrace.synth.service import Served
from llmtrace.synth.workload import Workload

ROWS = 400
WORKLOAD = Workload(requests=5000, days=10, cached_from=0.5, block_size=64)
SERVED = ("instance", "cached_tokens", "ttft_s", "duration_s")


def requests(people: Population) -> Requests:
    rng, start_us = np.random.default_rng(1), span_us(WORKLOAD)[0]
    rows = Requests.empty(ROWS)
    limits = {"user": len(people.user_names), "model": len(people.model_names), "app": people.system_tokens.size}
    limits |= {"status": len(STATUSES), "chat": 2, "stream": 2, "turn": 9, "input_tokens": 9000, "output_tokens": 700}
    for name, limit in limits.items():
        getattr(rows, name)[:] = rng.integers(0, limit, ROWS)
    rows.time_us[:] = start_us + np.sort(rng.integers(0, 10 * DAY_US, ROWS))
    rows.session[:] = np.concatenate([[0, 9, 10, 99, 100, 10**12], rng.integers(0, 3000, ROWS - 6)])
    return rows


def served() -> Served:
    rng = np.random.default_rng(2)
    columns = {name: rng.integers(0, 5000, ROWS) for name in Served._fields}
    return Served(**columns | {"instance": rng.integers(-1, WORKLOAD.instances, ROWS)})


def plain(row: int, rows: Requests, answers: Served, people: Population) -> dict[str, Any]:
    """A row as it should come out."""
    time = datetime(1970, 1, 1) + timedelta(microseconds=int(rows.time_us[row]))
    ok, streamed = rows.status[row] == 0, rows.stream[row] == 1
    logged = time >= datetime(2025, 4, 11) + timedelta(days=5)
    blocks = int(rows.input_tokens[row]) // 64
    return {
        "timestamp": time,
        "input_tokens": rows.input_tokens[row] if ok else None,
        "output_tokens": rows.output_tokens[row] if ok else None,
        "request_id": row,
        "user": people.user_names[rows.user[row]],
        "model": people.model_names[rows.model[row]],
        "instance": f"i{answers.instance[row] + 1:03}" if ok else None,
        "endpoint": "chat" if rows.chat[row] else "completion",
        "session": f"s{rows.session[row]}",
        "turn": rows.turn[row],
        "stream": streamed,
        "cached_tokens": answers.cached_tokens[row] if ok and logged else None,
        "ttft_s": answers.ttft_ms[row] / 1000 if ok and streamed else None,
        "duration_s": answers.duration_ms[row] / 1000,
        "status": STATUSES[rows.status[row]],
        "block_hashes": blocks if ok else None,
    }


@pytest.mark.parametrize("service", [True, False])
def test_rows_are_what_a_plain_loop_makes_of_the_numbers(*, service: bool) -> None:
    people = population(WORKLOAD)
    rows, answers = requests(people), served()
    # An instance that failed requests do not have, and that no dictionary has either.
    answers.instance[rows.status == 0] = np.maximum(answers.instance[rows.status == 0], 0)
    dress = Dress(WORKLOAD, people, span_us(WORKLOAD)[0])
    frame = frame_of(dress.table(rows, answers if service else None))
    expected = [plain(row, rows, answers, people) for row in range(ROWS)]
    names = [name for name in COLUMNS if service or name not in SERVED]
    assert frame.columns == names
    assert problems(dict(frame.schema)) == []
    counted = frame.with_columns(pl.col("block_hashes").list.len())
    assert counted.to_dicts() == [{name: row[name] for name in names} for row in expected]


def test_ids_go_on_from_table_to_table() -> None:
    people = population(WORKLOAD)
    dress = Dress(WORKLOAD, people, span_us(WORKLOAD)[0])
    ids = [dress.table(requests(people), None)["request_id"].to_pylist() for _ in range(2)]
    assert ids == [list(range(ROWS)), list(range(ROWS, 2 * ROWS))]


def test_a_slice_of_a_table_is_the_slice_of_its_frame() -> None:
    people = population(WORKLOAD)
    table = Dress(WORKLOAD, people, span_us(WORKLOAD)[0]).table(requests(people), served())
    assert pa.types.is_dictionary(table.schema.field("user").type)
    assert frame_of(table.slice(17, 100)).equals(frame_of(table)[17:117])
