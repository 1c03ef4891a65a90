"""From the frames of a trace to the result: who is routed, what is decided, identities, and refusals."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from llmtrace.engine.ordered import in_order
from llmtrace.errors import InputError, MissingColumnError, UsageError
from llmtrace.replay.cache.capacity import parse as capacity
from llmtrace.replay.cache.question import Question as CacheQuestion
from llmtrace.replay.route import cell, grid
from llmtrace.replay.route.gather import Speeds
from llmtrace.replay.route.passes import Routing
from llmtrace.replay.route.question import Question
from llmtrace.replay.route.rules import Rule, parse
from llmtrace.replay.sessions import Reconstruction, SessionTracker
from llmtrace.trace import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from llmtrace.result import Result

START = datetime(2025, 5, 1)


def write(folder: Path, frame: pl.DataFrame) -> str:
    path = folder / "trace.parquet"
    frame.write_parquet(path)
    return str(path)


def ask(source: str, question: Question, threads: int = 1) -> Result:
    asked = Routing(question, open_trace(source), threads)
    for one in asked.passes():
        ordered = in_order(open_trace(source), one.columns, prepare=one.prepare)
        for frame in ordered:
            one.add(frame)
    return ordered.complete(asked.answer())


def conversations(rows: int = 400, seed: int = 1) -> pl.DataFrame:
    """Users with conversations that grow, a request every few seconds, each in flight for minutes."""
    draws = np.random.default_rng(seed)
    session = draws.integers(0, 30, rows)
    sizes: dict[int, int] = {}
    prompts, answers = [], draws.integers(1, 50, rows)
    for one, answer in zip(session.tolist(), answers.tolist(), strict=True):
        prompts.append(sizes.get(one, 0) + int(draws.integers(1, 200)))
        sizes[one] = prompts[-1] + answer
    return pl.DataFrame(
        {
            "timestamp": [START + timedelta(seconds=int(second)) for second in np.cumsum(draws.integers(0, 9, rows))],
            "input_tokens": prompts,
            "output_tokens": answers,
            "user": [f"user-{one % 7}" for one in session],
            "session": [f"session-{one}" for one in session],
            "duration_s": draws.uniform(1, 300, rows),
        }
    )


def one_cell(policy: str, instances: int, size: str | None = None, **more: Any) -> Question:  # noqa: ANN401 - the parameters of a question
    return Question(parse([policy]), (instances,), (None if size is None else capacity(size),), **more)


def test_cache_first_without_limit_finds_all_that_can_be_found(tmp_path: Path) -> None:
    """Structural reuse: the tokens that each turn has in common with the turn before."""
    source = write(tmp_path, conversations())
    result = ask(source, one_cell("cache-first", 6))
    tracker = SessionTracker.given(open_trace(source))
    [frame] = [tracker.prepare(frame) for frame in in_order(open_trace(source), tracker.columns)]
    reusable = int(tracker.add(frame).prefix_tokens.sum())
    ratio = reusable / int(frame["input_tokens"].sum())
    assert result.tables["tradeoff"]["token_hit_ratio"].item() == ratio
    assert result.scalars["ideal_token_hit_ratio"] == ratio


@pytest.mark.parametrize("policies", [["sticky", "cache-first"], ["cache-first", "sticky"]])
def test_of_policies_that_hit_as_much_the_most_even_is_best(tmp_path: Path, policies: list[str]) -> None:
    """Both find all that can be found; seven users on six instances are less even than requests are."""
    result = ask(write(tmp_path, conversations()), Question(parse(policies), (6,), (None,)))
    rows = {row["policy"]: row for row in result.tables["largest"].rows(named=True)}
    assert rows["sticky"]["token_hit_ratio"] == rows["cache-first"]["token_hit_ratio"] == result.scalars["ideal_token_hit_ratio"]
    assert rows["sticky"]["imbalance_ratio"] > rows["cache-first"]["imbalance_ratio"]
    assert result.scalars["best_policy"] == "cache-first"


def test_policies_that_are_alike_stand_as_they_were_listed(tmp_path: Path) -> None:
    """On one instance nothing is uneven."""
    for policies in (["sticky", "cache-first"], ["cache-first", "sticky"]):
        result = ask(write(tmp_path, conversations()), Question(parse(policies), (1,), (None,)))
        assert result.scalars["best_policy"] == policies[0]


def test_reconstructed_sessions_are_those_of_the_tracker(tmp_path: Path) -> None:
    source = write(tmp_path, conversations().drop("session"))
    tracker = SessionTracker.of(open_trace(source))
    [frame] = [tracker.prepare(frame) for frame in in_order(open_trace(source), tracker.columns)]
    turns = tracker.add(frame)
    result = ask(source, one_cell("cache-first", 3))
    assert result.scalars["sessions_or_blocks"] == tracker.sessions
    assert result.scalars["ideal_token_hit_ratio"] == int(turns.prefix_tokens.sum()) / int(frame["input_tokens"].sum())
    assert any("reconstructed" in note for note in result.notes)


def test_sessions_can_be_reconstructed_although_there_are_some(tmp_path: Path) -> None:
    source, bare = write(tmp_path, conversations()), tmp_path / "bare.parquet"
    conversations().drop("session").write_parquet(bare)
    found = ask(source, one_cell("cache-first", 3, reconstruct=True, rule=Reconstruction(k=3)))
    expected = ask(str(bare), one_cell("cache-first", 3, rule=Reconstruction(k=3)))
    assert found.tables["tradeoff"].equals(expected.tables["tradeoff"])
    assert found.scalars["sessions_or_blocks"] != ask(source, one_cell("cache-first", 3)).scalars["sessions_or_blocks"]


def test_mooncake_finds_what_the_cache_simulator_finds(real_traces: Path) -> None:
    """One instance with 5,637 blocks; and without limit, 0.3736 of the tokens, as other simulators have it too."""
    source = str(real_traces / "mooncake" / "conversation_trace.jsonl")
    result = ask(source, one_cell("round-robin", 1, "5637blocks"))
    trace = open_trace(source)
    asked, gatherer = CacheQuestion(("lru",), (capacity("5637blocks"),)).of_trace(trace.columns, trace.block_size)
    for frame in in_order(trace, gatherer.needs, prepare=gatherer.prepare):
        gatherer.add(frame)
    curve = asked.answer(gatherer.requests()).tables["curve"].filter(policy="lru")
    assert result.tables["tradeoff"]["token_hit_ratio"].item() == curve["token_hit_ratio_prefix"].item()
    assert result.tables["tradeoff"]["request_hit_ratio"].item() == curve["request_hit_ratio"].item()
    assert result.scalars["ideal_token_hit_ratio"] == pytest.approx(0.3736, abs=5e-5)


def test_sticky_never_copies_a_session(tmp_path: Path) -> None:
    table = ask(write(tmp_path, conversations()), Question(parse(["sticky"]))).tables["tradeoff"]
    assert table.height == 4 * 9
    assert (table["replication"] == 1).all()
    assert (table["moved_turns"] == 0).all()


def test_more_capacity_never_hurts_and_threads_change_nothing(tmp_path: Path) -> None:
    source = write(tmp_path, conversations())
    question = Question(parse(["round-robin,sticky,random"]), (2, 5))
    one, two = ask(source, question), ask(source, question, threads=4)
    for name, table in one.tables.items():
        assert table.equals(two.tables[name])
    assert one.scalars == two.scalars
    # Where a policy does not look at caches, LRU with more room holds whatever it held with less.
    ratios = one.tables["tradeoff"].group_by("policy", "instances", maintain_order=True).agg("token_hit_ratio")
    assert all(np.diff(found).min() >= 0 for found in ratios["token_hit_ratio"].to_list())


def test_progress_is_of_all_cells_and_can_stop_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell, "AT_ONCE", 150)
    trace = open_trace(write(tmp_path, conversations()))
    told: list[tuple[int, int]] = []
    for one in Routing(one_cell("sticky,random", 2), trace, 1).passes():
        for frame in in_order(trace, one.columns, prepare=one.prepare):
            one.add(frame, lambda done, total: told.append((done, total)))
    # Two cells, and one instance without limit.
    assert told == [(400 * before + done, 1200) for before in range(3) for done in (150, 300, 400)]

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    for one in Routing(one_cell("sticky,random", 2), trace, 2).passes():
        [frame] = in_order(trace, one.columns, prepare=one.prepare)
        if one.tells:
            with pytest.raises(KeyboardInterrupt):
                one.add(frame, stop)
            break
        one.add(frame, stop)


def test_another_seed_is_another_draw(tmp_path: Path) -> None:
    source = write(tmp_path, conversations())
    ratios = {ask(source, one_cell("random", 5, seed=seed)).tables["tradeoff"]["token_hit_ratio"].item() for seed in range(3)}
    assert len(ratios) == 3


def test_several_parts_are_one_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path, conversations())
    whole = ask(source, one_cell("cache-first", 4, "2000"))
    monkeypatch.setattr("llmtrace.engine.ordered.part_rows", lambda _: 37)
    conversations().write_parquet(source, row_group_size=20)
    cut = ask(source, one_cell("cache-first", 4, "2000"))
    assert cut.tables["tradeoff"].equals(whole.tables["tradeoff"])


def test_who_is_left_out_is_said(tmp_path: Path) -> None:
    frame = conversations(10).with_columns(
        status=pl.Series(["ok"] * 9 + ["timeout"]),
        input_tokens=pl.Series([None, 1 << 40, *range(1, 9)], dtype=pl.Int64),
        duration_s=pl.Series([1.0, 1.0, None, -5.0, *[1.0] * 6]),
        user=pl.Series(["a"] * 4 + [None] + ["a"] * 5),
        model=pl.Series(["m", "n"] * 5),
    )
    result = ask(write(tmp_path, frame), one_cell("sticky", 2))
    assert (result.scalars["requests"], result.scalars["routed_requests"], result.scalars["users"]) == (10, 7, 1)
    said = " ".join(result.notes)
    assert "1 request has failed" in said
    assert "1 request has no known input or output tokens" in said
    assert "1 request has more than 1,073,741,824 tokens and is left out." in said
    assert "2 requests have no known duration and load no instance." in said
    assert "1 request names no user: by sticky and consistent-hash it is routed as if new." in said
    assert "All instances serve all 2 models here" in said


def test_nothing_to_route_is_a_result(tmp_path: Path) -> None:
    result = ask(write(tmp_path, conversations(5).with_columns(status=pl.lit("timeout"))), Question(search=True))
    assert result.scalars["routed_requests"] == 0
    assert result.scalars["recommended_policy"] is None
    assert result.tables["tradeoff"]["token_hit_ratio"].null_count() == 4 * 4 * 9
    assert "No request can be routed." in result.notes


def test_durations_are_estimated_where_none_are_logged(tmp_path: Path) -> None:
    """A prompt of 1,000 tokens at 10 tokens/s and an answer of 100 at 5: 120 s, so that samples at 60 and 120 s see it."""
    frame = pl.DataFrame(
        {
            "timestamp": [START + timedelta(seconds=1), START + timedelta(seconds=181)],
            "input_tokens": [1_000, 1],
            "output_tokens": [100, 1],
            "session": ["a", "b"],
        }
    )
    result = ask(write(tmp_path, frame), one_cell("round-robin", 1, speeds=Speeds(10.0, 5.0)))
    # At 121 s the request is complete, and the sample at 121 s does not see it: samples are at 1, 61, 121 and 181 s.
    assert result.tables["load"]["mean_tokens_per_s"].to_list() == [0, 1_100 / 120, 0, 0]
    assert any("logs no durations" in note for note in result.notes)


def test_idle_instances_are_said(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"timestamp": [START, START + timedelta(days=9)], "input_tokens": 20_000, "output_tokens": 1, "user": "u"}
    )
    idle = " requests in flight on average: most are idle at most times"
    [seldom] = [note for note in ask(write(tmp_path, frame), one_cell("round-robin", 1)).notes if idle in note]
    assert seldom.startswith("An instance has less than 0.001 requests")
    often = ask(write(tmp_path, frame), one_cell("round-robin", 1, speeds=Speeds(0.1, 5.0))).notes
    assert [note.partition(idle)[0] for note in often if idle in note] == ["An instance has 0.26"]


def test_prompts_and_answers_apart(tmp_path: Path) -> None:
    """Two requests of a session: the prompt of the first is held, its answer is not."""
    frame = pl.DataFrame(
        {
            "timestamp": [START, START + timedelta(seconds=100)],
            "input_tokens": [100, 150],
            "output_tokens": [20, 10],
            "session": ["a", "a"],
            "duration_s": [90.0, 50.0],
            "ttft_s": [70.0, 10.0],
        }
    )
    question = Question(parse(["cache-first"]), wanted=(None,), prefill=1, decode=2, kv_bytes=1_000, link_gbps=0.008)
    result = ask(write(tmp_path, frame), question)
    assert result.tables["tradeoff"]["token_hit_ratio"].item() == 100 / 250
    # The sample at 60 s sees the first request in prefill.
    assert result.tables["load"]["mean_tokens_per_s"].to_list() == [0, 100 / 70]
    # Decoding begins at 70 s and at 110 s: one sample at 70 s, which sees none.
    assert result.scalars["decode_imbalance_ratio"] is None
    assert result.scalars["transferred_bytes"] == 250_000
    assert result.scalars["mean_transfer_s"] == 0.125
    assert result.scalars["links_in_use"] == pytest.approx(0.25 / 40)


def test_blocks_are_routed_where_the_trace_has_them(tmp_path: Path) -> None:
    frame = conversations(30).with_columns(
        block_hashes=pl.Series([[1, 2, 3][: 1 + row % 3] for row in range(30)], dtype=pl.List(pl.UInt64)),
        input_tokens=pl.Series([16 * (1 + row % 3) for row in range(30)]),
    )
    source = write(tmp_path, frame)
    with pytest.raises(UsageError, match="does not say how many tokens a block has"):
        ask(source, one_cell("round-robin", 1))
    result = ask(source, one_cell("round-robin", 1, block_tokens=16))
    # Only 1, 2 and 3 are ever computed.
    assert result.tables["tradeoff"]["token_hit_ratio"].item() == 1 - 48 / int(frame["input_tokens"].sum())
    assert result.scalars["working_set_tokens"] == 48
    assert result.scalars["sessions_or_blocks"] == 3
    wrong = "is --block-size right?"
    assert not any(wrong in note for note in result.notes)
    of_another_size = ask(source, one_cell("round-robin", 1, block_tokens=8)).notes
    assert "30 requests have more or fewer blocks than their input tokens fill: is --block-size right?" in of_another_size
    given = ask(source, one_cell("round-robin", 1, object="session"))
    assert given.parameters["object"] == "session"


def test_bytes_of_moves_do_not_wrap(tmp_path: Path) -> None:
    row = {"input_tokens": 2**30 - 1, "output_tokens": 1, "session": "a", "user": "u"}
    frame = conversations(40).with_columns(**{name: pl.lit(value) for name, value in row.items()})
    result = ask(write(tmp_path, frame), one_cell("round-robin", 2, kv_bytes=2**30))
    [moves] = result.tables["tradeoff"].select("elsewhere_tokens", "moved_bytes").rows()
    assert moves[0] > 0
    assert moves[1] == moves[0] * 2**30


def test_blocks_of_two_models_are_different(tmp_path: Path) -> None:
    frame = conversations(2).with_columns(
        block_hashes=pl.Series([[1, 2], [1, 2]], dtype=pl.List(pl.UInt64)), input_tokens=pl.lit(32), model=pl.Series(["a", "b"])
    )
    result = ask(write(tmp_path, frame), one_cell("cache-first", 1, block_tokens=16))
    assert result.tables["tradeoff"]["token_hit_ratio"].item() == 0


def test_without_users_the_default_leaves_sticky_out(tmp_path: Path) -> None:
    source = write(tmp_path, conversations(20).drop("user"))
    result = ask(source, Question(instances=(2,)))
    assert result.tables["largest"]["policy"].to_list() == ["round-robin", "load-first", "cache-first"]
    assert result.scalars["users"] is None
    assert any("sticky is left out" in note for note in result.notes)
    with pytest.raises(MissingColumnError, match="--policy sticky needs the column 'user'"):
        ask(source, Question(parse(["sticky"])))
    assert ask(source, one_cell("consistent-hash", 2, hash_by="session")).tables["tradeoff"]["moved_turns"].item() == 0


def test_shares_are_of_the_working_set(tmp_path: Path) -> None:
    result = ask(write(tmp_path, conversations()), one_cell("round-robin", 2, "50%"))
    whole = result.scalars["working_set_tokens"]
    assert isinstance(whole, int)
    assert result.tables["tradeoff"]["capacity_tokens"].item() == whole // 2


def test_a_search_finds_weights(tmp_path: Path) -> None:
    result = ask(write(tmp_path, conversations()), one_cell("cache-first", 5, "5000", search=True))
    searched, front = result.tables["searched"], result.tables["pareto"]
    assert searched.height == 57
    assert front.equals(searched.filter("is_on_front").drop("is_on_front"))
    [taken] = searched.filter("is_recommended").iter_rows(named=True)
    assert taken["policy"] == result.scalars["recommended_policy"]
    again = ask(write(tmp_path, conversations()), one_cell(str(taken["policy"]), 5, "5000")).tables["tradeoff"]
    assert again["token_hit_ratio"].item() == taken["token_hit_ratio"]
    assert again["imbalance_ratio"].item() == taken["imbalance_ratio"]
    assert result.notes[0].startswith(f"Recommended: {taken['policy']}")


def test_every_number_is_defined(tmp_path: Path) -> None:
    plain = ask(write(tmp_path, conversations(50)), one_cell("cache-first", 2, "5000", search=True))
    apart = Question(parse(["cache-first"]), wanted=(None,), prefill=1, decode=2)
    for result in (plain, ask(write(tmp_path, conversations(50)), apart)):
        numbers = {*result.scalars, *(f"{name}.{column}" for name, table in result.tables.items() for column in table.columns)}
        assert numbers == set(result.definitions)


def test_a_trace_that_shrinks_meanwhile_is_refused(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path, conversations(20)))
    passes = Routing(one_cell("sticky", 2), trace).passes()
    survey = next(passes)
    for frame in in_order(trace, survey.columns, prepare=survey.prepare):
        survey.add(frame)
    replay = next(passes)
    for frame in in_order(trace, replay.columns, prepare=replay.prepare):
        replay.add(frame.head(19))
    with pytest.raises(InputError, match="has fewer requests than when it was first gone through"):
        next(passes)


def test_a_trace_that_grows_meanwhile_is_refused(tmp_path: Path) -> None:
    first, second = (open_trace(write(tmp_path, conversations(rows))) for rows in (20, 20))
    passes = Routing(one_cell("sticky", 2), first).passes()
    survey = next(passes)
    for frame in in_order(first, survey.columns, prepare=survey.prepare):
        survey.add(frame)
    replay = next(passes)
    [frame] = in_order(second, replay.columns, prepare=replay.prepare)
    replay.add(frame)
    with pytest.raises(InputError, match="has more requests than when it was first gone through"):
        replay.add(frame)


def test_caches_that_outgrow_memory_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "memory_bytes", lambda: 1 << 10)
    with pytest.raises(InputError, match=r"The caches of 2 cells take 0\.0 GiB by now, and there are 0\.0 GiB of memory"):
        ask(write(tmp_path, conversations(20)), one_cell("sticky", 2))
    monkeypatch.setattr(grid, "memory_bytes", lambda: None)
    assert ask(write(tmp_path, conversations(20)), one_cell("sticky", 2)).scalars["routed_requests"] == 20


def test_an_answer_takes_all_passes(tmp_path: Path) -> None:
    asked = Routing(one_cell("sticky", 2), open_trace(write(tmp_path, conversations(20))))
    next(asked.passes())
    with pytest.raises(RuntimeError, match="not been gone through"):
        asked.answer()


@pytest.mark.parametrize("size", ["9000", None])
def test_a_cache_forgets_what_is_old(tmp_path: Path, size: str | None) -> None:
    """Whatever room there is, nothing is found of a session that was asked for more than a second before."""
    frame = conversations().with_columns(timestamp=pl.Series([START + timedelta(seconds=3 * row) for row in range(400)]))
    again = frame.with_columns(pl.col("timestamp") + timedelta(seconds=1)).vstack(frame).sort("timestamp")
    source = write(tmp_path, again)
    found = {
        ttl: ask(source, one_cell("sticky", 2, size, cache_policy="ttl", ttl=ttl)).tables["tradeoff"]["request_hit_ratio"].item()
        for ttl in ("500ms", "1s", "1w")
    }
    assert found["500ms"] == 0
    assert found["1s"] == 0.5
    lru = ask(source, one_cell("sticky", 2, size)).tables["tradeoff"]["request_hit_ratio"].item()
    assert found["1w"] == lru > 0.5


def test_loads_are_dated_to_the_second(tmp_path: Path) -> None:
    frame = conversations(20).with_columns(pl.col("timestamp") + timedelta(microseconds=123_456))
    times = ask(write(tmp_path, frame), one_cell("sticky", 2)).tables["load"]["time"]
    assert times[0] == frame["timestamp"][0].replace(microsecond=0)


def test_loads_on_a_relative_clock_begin_at_zero(tmp_path: Path) -> None:
    path = tmp_path / "relative.jsonl"
    path.write_text(
        "".join(f'{{"timestamp": {ms}, "input_length": 16, "output_length": 1, "hash_ids": [0]}}\n' for ms in (750, 200_500))
    )
    load = ask(str(path), one_cell("round-robin", 2)).tables["load"]
    assert load["time"].to_list()[:2] == [0.0, 60.0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"instances": (0,)}, "--instances 0: out of range"),
        ({"instances": (5_000,)}, "--instances 5000: out of range"),
        ({"prefill": 3}, "--prefill and --decode go together"),
        ({"prefill": 3, "decode": 0}, "--decode 0: out of range"),
        ({"prefill": 3, "decode": 3, "instances": (2,)}, "--instances together with --prefill and --decode"),
        ({"cache_policy": "lifo"}, "--cache-policy lifo: there is no such policy"),
        (
            {"cache_policy": "belady"},
            "--cache-policy belady: it knows what a cache will be asked for, and here that depends on where requests go",
        ),
        ({"cache_policy": "lrb"}, "--cache-policy lrb: it would train a model for every instance of every cell"),
        ({"cache_policy": "ttl"}, "--cache-policy ttl needs a time to live"),
        ({"ttl": "5m"}, "--ttl 5m: caches do not evict by age"),
        ({"cache_policy": "ttl", "ttl": "5"}, "--ttl 5: not a length of time"),
        ({"hash_by": "session"}, "--hash-by session: no policy hashes"),
        ({"rules": (Rule("sticky"),), "hash_by": "user"}, "--hash-by user: no policy hashes"),
        ({"give_up": 0.1}, "--give-up 0.1: there is no search"),
        ({"load": "heavy"}, "--load heavy: not a load"),
        ({"seed": -1}, "--seed -1: out of range"),
        ({"link_gbps": 0.0}, "--link-gbps 0: not above zero"),
        ({"give_up": 1.5}, "--give-up 1.5: not a share from 0 to 1"),
        ({"block_tokens": 0}, "--block-size 0: not above zero"),
        ({"block_tokens": 1 << 70}, "--block-size 1180591620717411303424: more than a block has"),
        ({"block_tokens": 16, "object": "session"}, "--block-size: sessions have no blocks"),
        ({"block_tokens": 16, "reconstruct": True}, "--block-size: sessions have no blocks"),
        ({"object": "block", "reconstruct": True}, "--reconstruct: blocks belong to no sessions"),
    ],
)
def test_what_makes_no_sense(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Question(**parameters)
    assert caught.value.message == message
    assert caught.value.hint


@pytest.mark.parametrize("speeds", [(0.0, 1.0), (1.0, -1.0), (float("inf"), 1.0), (float("nan"), 1.0)])
def test_speeds_are_above_zero(speeds: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="not above zero"):
        Speeds(*speeds)


def test_columns_that_are_asked_for_must_be_there(tmp_path: Path) -> None:
    source = write(tmp_path, conversations(5).drop("session", "user"))
    with pytest.raises(MissingColumnError, match="route needs 'user' to reconstruct sessions"):
        ask(source, Question())
    with pytest.raises(MissingColumnError, match="route --object block needs the column 'block_hashes'"):
        ask(source, Question(object="block"))
    with pytest.raises(UsageError, match="--block-size: sessions have no blocks"):
        ask(source, Question(block_tokens=16))
    blocks = conversations(5).drop("session").with_columns(block_hashes=pl.Series([[1]] * 5, dtype=pl.List(pl.UInt64)))
    with pytest.raises(MissingColumnError, match="route --hash-by session needs the column 'session'"):
        ask(write(tmp_path, blocks), Question((Rule("consistent-hash"),), hash_by="session", block_tokens=16))
