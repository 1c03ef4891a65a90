"""Ten requests on two instances, worked out by hand for every policy and every measure.

 request  at (s)  lasts (s)  session  user  prompt  answer  session then holds
       0       0         25        A     0      10       2                  12
       1      10        100        B     1      20       4                  24
       2      20         15        A     0      14       2                  16
       3      30        100        C     0       6       1                   7
       4      40          5        B     1      30       3                  33
       5      50         20        A     0      20       1                  21
       6      60         10        D     2       8       2                  10
       7      70         10        C     0       9       2                  11
       8      80         10        B     1      40       5                  45
       9      90         10        A     0      30       2                  32

With seed 10 the draws among two are 0, 1, 0, 1, 1, 1, 1, 1, 1, 0.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from llmtrace.replay.draws import below, new_draws
from llmtrace.replay.route.cell import UNLIMITED, Cell, run
from llmtrace.replay.route.measures import Moving, load, tradeoff
from llmtrace.replay.route.rules import parse
from llmtrace.replay.route.stream import Requests, prepare

ROWS = np.array(
    [
        (0, 25, 0, 0, 10, 2),
        (10, 100, 1, 1, 20, 4),
        (20, 15, 0, 0, 14, 2),
        (30, 100, 2, 0, 6, 1),
        (40, 5, 1, 1, 30, 3),
        (50, 20, 0, 0, 20, 1),
        (60, 10, 3, 2, 8, 2),
        (70, 10, 2, 0, 9, 2),
        (80, 10, 1, 1, 40, 5),
        (90, 10, 0, 0, 30, 2),
    ],
    np.int64,
)
ARRIVAL = ROWS[:, 0] * 1_000_000
STREAM = prepare(
    Requests(
        ARRIVAL,
        ARRIVAL + ROWS[:, 1] * 1_000_000,
        ROWS[:, 2].astype(np.uint32),
        ROWS[:, 3].astype(np.uint32),
        ROWS[:, 4].astype(np.int32),
        ROWS[:, 5].astype(np.int32),
    )
)
MOVING = Moving(kv_bytes=1_000, link_gbps=0.008, prefill_tokens_per_s=10.0)
PROMPTS = 187


def row(policy: str, instances: int = 2, capacity: int = UNLIMITED) -> dict[str, object]:
    [rule] = parse([policy])
    found: dict[str, object] = tradeoff([run(STREAM, Cell(rule, instances, capacity))], STREAM.extent, MOVING).row(0, named=True)
    return found


def test_the_draws() -> None:
    draws = new_draws(10)
    assert [below(draws, 2) for _ in range(10)] == [0, 1, 0, 1, 1, 1, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("policy", "chosen", "hit_tokens", "moved_turns"),
    [
        # A finds 12 on 0, and 21 on 1 where 5 left it; B finds 33 on 0; C finds 7 on 1.
        ("round-robin", "0101010101", 73, 2),
        # The other one than the draw says if instance 1 is the less loaded, which it is from request 1 on.
        ("load-first", "0010000001", 92, 3),
        # User 0 by draw 0 to 0; user 1 by draw 1 to the more loaded, 0; user 2 by draw 0 to the less loaded, 1.
        ("sticky", "0000001000", 113, 0),
        # A to 0 by draw 0, B to 0 by draw 1, C to 1 by draw 0, D to 0 by draw 1; every session stays.
        ("cache-first", "0001000100", 113, 0),
        ("random", "0101111110", 92, 2),
        # Ties at 0, 2, 4, 5, 7, 8, 9.
        ("least-requests", "0110010111", 61, 4),
        # With two instances both are drawn: the less loaded one.
        ("power-of-two", "0100001000", 89, 1),
        # Request 2: 12/14 held beats a load of 12/24 at half weight; 6 goes to load 24, not 28.
        ("score", "0100101010", 113, 0),
        # Request 4: 24 of 30 held outweigh the rest; 24 + 6 is not twice 7 + 30.
        ("preble", "0100101010", 113, 0),
        # Request 3: one in flight on each, so that draw 1 decides; 6: one in flight on 0, two on 1.
        ("threshold", "0101100110", 113, 0),
        # Requests 4, 5, 7, 8, 9 find none in flight on 0 and two on 1.
        ("threshold:abs=1,rel=1", "0101000000", 82, 2),
    ],
)
def test_where_requests_go(policy: str, chosen: str, hit_tokens: int, moved_turns: int) -> None:
    [rule] = parse([policy])
    outcome = run(STREAM, Cell(rule, 2, UNLIMITED))
    assert outcome.books.requests.tolist() == [chosen.count("0"), chosen.count("1")]
    found = row(policy)
    assert found["token_hit_ratio"] == hit_tokens / PROMPTS
    assert found["moved_turns"] == moved_turns


def test_a_user_or_a_session_hashes_to_one_instance() -> None:
    found = row("consistent-hash", instances=8)
    assert (found["moved_turns"], found["replication"]) == (0, 1.0)
    # Three users: one instance each.
    assert found["users_per_instance"] == 3 / 8


def test_a_bound_passes_requests_on() -> None:
    """Request 1 to 0 or 1 with request 0 in flight there: 2 are more than 1.25 times 2 / 8, rounded up."""
    outcome = run(STREAM, Cell(parse(["consistent-hash:bound=1.25"])[0], 8, UNLIMITED))
    assert np.count_nonzero(outcome.books.requests) > 3


def test_every_measure_of_round_robin() -> None:
    """Instance 0 has requests 0, 2, 4, 6, 8; instance 1 has 1, 3, 5, 7, 9. Samples are at 0 s, which sees none, and at 60 s.

    At 60 s instance 0 has none in flight (4 left at 45 s, 6 comes at that moment), instance 1 has 1, 3 and 5: rates 24/100, 7/100
    and 21/20. Physical: A 16 + 32, B 45 + 24, C 11, D 10; logical: A 32, B 45, C 11, D 10. Requests 4 and 5 find nothing, where
    the other instance holds 24 of B and 16 of A.
    """
    found = row("round-robin")
    assert found == {
        "policy": "round-robin",
        "instances": 2,
        "capacity_tokens": None,
        "token_hit_ratio": 73 / PROMPTS,
        "request_hit_ratio": 4 / 10,
        "replication": 138 / 98,
        "imbalance_ratio": pytest.approx(1.0),
        "jain": pytest.approx(0.5),
        "cv": pytest.approx(1.0),
        "max_min": None,
        "instances_per_session": 6 / 4,
        "imbalance_requests_ratio": 0.0,
        "requests_in_flight": 3 / 4,
        "users_per_instance": (3 + 2) / 2,
        "moved_turns": 2,
        "moved_turns_ratio": 2 / 6,
        "moved_sessions_ratio": 2 / 3,
        "elsewhere_requests": 2,
        "elsewhere_tokens": 40,
        "token_hit_ratio_with_moves": 113 / PROMPTS,
        "moved_bytes": 40_000,
        "move_s": 0.04,
        "recompute_s": 4.0,
    }


def test_load_over_time() -> None:
    outcome = run(STREAM, Cell(parse(["round-robin"])[0], 2, UNLIMITED))
    table = load([outcome], STREAM.extent)
    assert table["time"].to_physical().to_list() == [0, 60_000_000]
    assert table["mean_tokens_per_s"].to_list() == [0.0, pytest.approx(0.68)]
    assert table["max_tokens_per_s"].to_list() == [0.0, pytest.approx(1.36)]
    assert table["min_tokens_per_s"].to_list() == [0.0, 0.0]
    assert table["imbalance_ratio"].to_list() == [None, pytest.approx(1.0)]


def test_a_small_cache_evicts_the_least_recently_used() -> None:
    """One instance with 40 tokens: 3 makes A 16 + C 7, for B 24 goes; 4 evicts A for B 33 and keeps C; 5 evicts both.

    Request 2 finds 12 of A. Request 4 finds nothing. 7: C went at 5. 8: B went at 5, and alone is larger than the cache; it stays
    until 9 evicts it.
    """
    found = row("round-robin", instances=1, capacity=40)
    assert found["token_hit_ratio"] == 12 / PROMPTS
    assert found["replication"] == 1.0


def test_what_alone_is_too_large_stays() -> None:
    """No cache at all still has the last session: only consecutive turns of one would find it, and there are none."""
    assert row("round-robin", instances=1, capacity=0)["token_hit_ratio"] == 0
    single = prepare(
        Requests(
            np.array([0, 1]),
            np.array([0, 1]),
            np.zeros(2, np.uint32),
            np.zeros(2, np.uint32),
            np.array([5, 9], np.int32),
            np.array([1, 1], np.int32),
        )
    )
    outcome = run(single, Cell(parse(["round-robin"])[0], 1, 0))
    assert outcome.books.counts[0] == 6


def test_identical_loads_are_even() -> None:
    """Two streams of the same requests at the same moments, one for each instance."""
    rows = 20
    time = np.repeat(np.arange(rows // 2) * 30_000_000, 2)
    tokens = np.repeat(np.arange(1, rows // 2 + 1), 2).astype(np.int32)
    alone = np.arange(rows, dtype=np.uint32)
    stream = prepare(Requests(time, time + 90_000_000, alone, alone, tokens, tokens))
    table = tradeoff([run(stream, Cell(parse(["round-robin"])[0], 2, UNLIMITED))], stream.extent, MOVING)
    assert table.select("imbalance_ratio", "jain", "cv", "max_min", "imbalance_requests_ratio").row(0) == (
        0.0,
        1.0,
        0.0,
        1.0,
        0.0,
    )
    assert (
        load([run(stream, Cell(parse(["round-robin"])[0], 2, UNLIMITED))], stream.extent)["imbalance_ratio"]
        .drop_nulls()
        .eq(0)
        .all()
    )


def test_without_load_nothing_is_known_of_it() -> None:
    time = np.arange(3)
    one = np.zeros(3, np.uint32)
    tokens = np.ones(3, np.int32)
    stream = prepare(Requests(time, time, one, one, tokens, tokens))
    table = tradeoff([run(stream, Cell(parse(["round-robin"])[0], 2, UNLIMITED))], stream.extent, Moving(None, 80.0, 10.0))
    unknown = ["imbalance_ratio", "jain", "cv", "max_min", "moved_bytes", "move_s"]
    assert table.select(pl.col(unknown).is_null().all()).row(0) == (True,) * 6
