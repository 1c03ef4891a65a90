"""The whole of a replay, from frames to tables, against caches that are a few lines of Python each."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.errors import InputError, MissingColumnError, UsageError
from llmtrace.replay.cache import requests as requests_module
from llmtrace.replay.cache.capacity import Capacity, parse
from llmtrace.replay.cache.question import Question, share_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmtrace.result import Result

START = datetime(2025, 4, 11)
NOTHING = {
    "user": "u",
    "endpoint": "chat",
    "model": "m",
    "session": "s",
    "output_tokens": 1,
    "status": None,
    "block_hashes": None,
}
SCHEMA: dict[str, Any] = {
    "timestamp": pl.Datetime("us"),
    "input_tokens": pl.Int64,
    "output_tokens": pl.Int64,
    "user": pl.String,
    "endpoint": pl.String,
    "model": pl.String,
    "session": pl.String,
    "status": pl.String,
    "block_hashes": pl.List(pl.UInt64),
}


def frame(rows: Sequence[dict[str, Any]], step_s: float = 1) -> pl.DataFrame:
    """Requests a second apart unless they say when they come."""
    dated = [{"timestamp": START + timedelta(seconds=step_s * place), **NOTHING, **row} for place, row in enumerate(rows)]
    return pl.DataFrame(dated, SCHEMA)


def ask(question: Question, *frames: pl.DataFrame, block_tokens: int | None = 10, columns: str = "") -> Result:
    names = columns.split() or [*SCHEMA]
    asked, gatherer = question.of_trace(names, block_tokens)
    for one in frames:
        gatherer.add(gatherer.prepare(one))
    return asked.answer(gatherer.requests(), threads=2)


def sessions(policies: str, *sizes: int, **others: Any) -> Question:  # noqa: ANN401
    return Question(tuple(policies.split()), tuple(parse(str(size)) for size in sizes), object="session", **others)


def blocks(policies: str, *sizes: int, **others: Any) -> Question:  # noqa: ANN401
    wanted = tuple(Capacity(f"{size}", Fraction(size), "blocks") for size in sizes)
    return Question(tuple(policies.split()), wanted, **others)


def ratios(result: Result, policy: str) -> list[tuple[float, ...]]:
    curve = result.tables["curve"].filter(pl.col("policy") == policy)
    return curve.select("request_hit_ratio", "token_hit_ratio_full", "token_hit_ratio_prefix").rows()


def naive_lru(uses: Sequence[tuple[str, int]], capacity: float) -> list[int]:
    """The size that each use of a session finds, 0 at a miss."""
    cache: dict[str, int] = {}
    found = []
    for name, size in uses:
        found.append(cache.pop(name, 0))
        if found[-1] or size <= capacity:
            cache[name] = size
        while sum(cache.values()) > capacity:
            del cache[next(iter(cache))]
    return found


TEN = [("a", 10), ("b", 4), ("a", 14), ("c", 6), ("a", 20), ("b", 9), ("d", 3), ("a", 8), ("c", 12), ("b", 9)]
"""Ten requests; at room for 24 LRU goes by hand:

    a 10 | b 4 | a found 10, now 14 | c 6 makes 24 | a found 14, now 20: b and c go | b misses, a goes | d 3 | a 8 misses
    | c 12 misses and b goes, 9 + 3 + 8 + 12 being over 24 | b misses and d goes
"""


def test_ten_requests_by_hand() -> None:
    result = ask(sessions("lru", 24), frame([{"session": name, "input_tokens": size} for name, size in TEN]))
    total = sum(size for _, size in TEN)
    assert naive_lru(TEN, 24) == [0, 0, 10, 0, 14, 0, 0, 0, 0, 0]
    assert ratios(result, "lru") == [(2 / 10, 34 / total, 24 / total)]
    # Without bound a finds 10, 14 and 20, of which it uses 8; b 4 and 9; c 6.
    assert ratios(result, "ideal") == [(6 / 10, (14 + 20 + 9 + 8 + 12 + 9) / total, (10 + 14 + 4 + 8 + 6 + 9) / total)]
    assert result.scalars["working_set_tokens"] == 10 + 4 + 6 + 3
    assert (result.scalars["sessions_or_blocks"], result.scalars["uses"]) == (4, 10)


growing = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 30)), min_size=1, max_size=60)


@given(uses=growing, capacity=st.integers(1, 80), warmup=st.sampled_from([0.0, 0.3, 0.5]))
def test_sessions_are_replayed_as_a_naive_cache_does(uses: list[tuple[str, int]], capacity: int, warmup: float) -> None:
    rows = frame([{"session": name, "input_tokens": size} for name, size in uses])
    result = ask(sessions("lru", capacity, warmup=warmup), rows[:7], rows[7:])
    first = int(warmup * 10) * len(uses) // 10
    sizes = [size for _, size in uses][first:]
    for policy, room in (("lru", capacity), ("ideal", float("inf"))):
        found = naive_lru(uses, room)[first:]
        full = sum(size for size, was in zip(sizes, found, strict=True) if was)
        prefix = sum(map(min, sizes, found))
        hits = sum(was > 0 for was in found)
        assert ratios(result, policy) == [(hits / len(sizes), full / sum(sizes), prefix / sum(sizes))]


@given(uses=growing, room=st.integers(0, 60), warmup=st.sampled_from([0.0, 0.5]))
def test_the_curve_of_lru_at_once_is_that_of_its_replays(uses: list[tuple[str, int]], room: int, warmup: float) -> None:
    sizes: dict[str, int] = {}
    for place, (name, more) in enumerate(uses):
        sizes[name] = sizes.get(name, 0) + more
        uses[place] = (name, sizes[name])
    rows = frame([{"session": name, "input_tokens": size} for name, size in uses])
    curve = ask(sessions("lru", max(sizes.values()) + room, warmup=warmup), rows).tables["lru_curve"]
    assert curve["capacity_tokens"][0] == max(sizes.values())
    replays = ask(sessions("lru", *curve["capacity_tokens"].to_list(), warmup=warmup), rows)
    assert curve.select(pl.exclude("capacity_tokens")).rows() == ratios(replays, "lru")
    assert curve.rows()[-1][1:] == ratios(replays, "ideal")[0]


prompts = st.lists(st.integers(0, 40), min_size=1, max_size=40)


def path(leaf: int) -> list[int]:
    """The blocks from the root of a tree to a leaf, in which block n continues block (n - 1) // 2."""
    return [leaf] if leaf == 0 else [*path((leaf - 1) // 2), leaf]


@given(leaves=prompts, warmup=st.sampled_from([0.0, 0.5]))
def test_blocks_are_replayed_as_a_naive_cache_does(leaves: list[int], warmup: float) -> None:
    rows = frame([{"block_hashes": path(leaf), "input_tokens": 10 * len(path(leaf)) - 3} for leaf in leaves])
    curve = ask(blocks("lru", 9, warmup=warmup), rows[:5], rows[5:]).tables["lru_curve"]
    sizes = (curve["capacity_tokens"] // 10).to_list()
    replays = ask(blocks("lru", *sizes, warmup=warmup), rows)
    assert curve.select(pl.exclude("capacity_tokens")).rows() == ratios(replays, "lru")
    seen, found = set[int](), []
    for leaf in leaves:
        found.append(next((place for place, one in enumerate(path(leaf)) if one not in seen), len(path(leaf))))
        seen |= set(path(leaf))
    first = int(warmup * 2) * len(leaves) // 2
    tokens = [10 * len(path(leaf)) - 3 for leaf in leaves][first:]
    reused = sum(min(10 * one, all_) for one, all_ in zip(found[first:], tokens, strict=True))
    full = sum(all_ for one, all_ in zip(found[first:], tokens, strict=True) if one)
    assert ratios(replays, "ideal") == [
        (sum(one > 0 for one in found[first:]) / len(tokens), full / sum(tokens), reused / sum(tokens))
    ]
    assert replays.scalars["working_set_tokens"] == 10 * len(seen)


def test_a_block_counts_only_with_all_before_it_even_where_ids_are_not_chained() -> None:
    # The second prompt has block 2 where the first has 1: what follows is another prefix, whatever its id says.
    rows = frame([{"block_hashes": one, "input_tokens": 30} for one in ([1, 2, 3], [2, 9, 3], [2, 9, 3])])
    result = ask(blocks("lru", 6), rows)
    assert ratios(result, "ideal")[0][2] == (10 + 30) / 90
    assert result.tables["lru_curve"]["token_hit_ratio_prefix"][-1] == (10 + 30) / 90


def test_the_oracle_of_blocks_that_are_not_chained_is_that_of_all_blocks() -> None:
    rows = frame([{"block_hashes": one, "input_tokens": 30} for one in ([1, 2, 3], [2, 9, 3], [2, 9, 3])])
    result = ask(blocks("oracle belady", 4), rows)
    assert ratios(result, "oracle") == ratios(result, "belady")
    for question in (blocks("lru", 4, leaves_only=True), blocks("lru", 4, like="kvcache-simulator")):
        with pytest.raises(InputError, match="not of whole prefixes"):
            ask(question, rows)


def test_growing_session_in_words() -> None:
    # One conversation: a prompt of 600 tokens, then its 600 with an answer and a question, 900, then 1,500. In full both later
    # requests count whole, 2,400 of 3,000. By prefix they count with what the cache has of them, 600 and 900: half. The other 900
    # tokens are new, and no cache could have them. Where outputs of 100 and 200 are kept too, it has 700 and 1,100.
    rows = frame([{"input_tokens": size, "output_tokens": out} for size, out in ((600, 100), (900, 200), (1500, 50))])
    assert ratios(ask(sessions("lru", 10_000), rows), "lru") == [(2 / 3, 0.8, 0.5)]
    assert ratios(ask(sessions("lru", 10_000, keep_output=True), rows), "lru") == [(2 / 3, 0.8, 0.6)]


def test_what_one_model_has_is_of_no_use_to_another() -> None:
    rows: list[dict[str, Any]] = [{"model": model, "input_tokens": 20, "block_hashes": [1, 2]} for model in ("m", "n", "m", None)]
    for question in (sessions("lru", 1000), blocks("lru", 100)):
        assert ratios(ask(question, frame(rows)), "ideal") == [(0.25, 0.25, 0.25)]
    assert ratios(ask(sessions("lru", 1000), frame(rows), columns="session"), "ideal") == [(0.75, 0.75, 0.75)]


def test_what_cannot_be_replayed_is_left_out_and_said() -> None:
    rows: list[dict[str, Any]] = [
        {"input_tokens": 10},
        {"input_tokens": 10, "status": "error"},
        {"input_tokens": None},
        {"input_tokens": 0},
        {"input_tokens": 2**31},
        {"input_tokens": 10, "session": None},
        {"input_tokens": 20, "status": "ok"},
    ]
    result = ask(sessions("lru", 100), frame(rows))
    assert (result.scalars["requests"], result.scalars["replayed_requests"]) == (7, 2)
    assert ratios(result, "lru") == [(0.5, 20 / 30, 10 / 30)]
    assert (
        "Left out of 7 requests: 1 that failed, 2 without known input tokens, 1 of more than 2,147,483,647 tokens, 1 without a "
        "session."
    ) in result.notes
    hashed = [{"input_tokens": 10, "block_hashes": one} for one in ([1], [], None)]
    assert "Left out of 3 requests: 2 without block hashes." in ask(blocks("lru", 5), frame(hashed)).notes


def test_outputs_too_long_to_be_kept() -> None:
    rows = frame([{"input_tokens": 5, "output_tokens": 2**40}, {"input_tokens": 5, "output_tokens": None}])
    assert ask(sessions("lru", 9, keep_output=True), rows).scalars["replayed_requests"] == 1
    assert ask(sessions("lru", 9), rows).scalars["replayed_requests"] == 2


def test_blocks_of_another_size_are_said() -> None:
    rows = frame([{"input_tokens": 100, "block_hashes": [1, 2]}, {"input_tokens": 19, "block_hashes": [1]}])
    assert (
        "1 of 2 requests has more or fewer blocks than input tokens fill, at 10 a block: is --block-size right?"
        in ask(blocks("lru", 5), rows).notes
    )


def test_the_histogram_has_requests_by_what_they_find() -> None:
    # Nothing, 10 of 20 and 20 of 20 tokens.
    result = ask(sessions("lru", 100), frame([{"input_tokens": size} for size in (10, 20, 20)]))
    table = result.tables["histogram"].filter(pl.col("policy") == "lru")
    assert table.height == 51
    found = table.filter(pl.col("requests") > 0).select(
        "hit_ratio_from", "hit_ratio_to", "requests", "input_tokens", "cached_tokens"
    )
    assert found.rows() == [(0.0, 0.02, 1, 10, 0), (0.5, 0.52, 1, 20, 10), (1.0, 1.0, 1, 20, 20)]
    assert table["input_tokens_ratio"].sum() == pytest.approx(1)


def test_hits_by_idle_gap() -> None:
    times = [0, 0.5, 2.5, 62.5, 62.5 + 86_400]
    rows = [{"input_tokens": 10, "timestamp": START + timedelta(seconds=one)} for one in times]
    for question in (sessions("ttl", 100, ttl="1m"), blocks("ttl", 10, ttl="1m")):
        table = ask(question, frame([{**row, "block_hashes": [7]} for row in rows])).tables["by_gap"]
        found = table.filter(pl.col("policy") == "ttl", pl.col("capacity_tokens").is_not_null(), pl.col("reusable_tokens") > 0)
        columns = ("gap_from_s", "gap_to_s", "reusable_tokens", "hit_tokens", "token_hit_ratio")
        # A gap that is as long as the time to live is still a hit.
        assert found.select(columns).rows() == [
            (0, 1, 10, 10, 1.0),
            (1, 10, 10, 10, 1.0),
            (60, 600, 10, 10, 1.0),
            (86_400, None, 10, 0, 0.0),
        ]


def test_a_time_to_live_without_bound() -> None:
    rows = frame([{"input_tokens": 10}] * 3, step_s=2)
    curve = ask(sessions("ttl", 100, ttl="1999ms"), rows).tables["curve"].filter(pl.col("policy") == "ttl")
    assert curve.select("capacity_tokens", "request_hit_ratio").rows() == [(100, 0.0), (None, 0.0)]
    assert ratios(ask(sessions("ttl", 100, ttl="2s"), rows), "ttl") == [(2 / 3, 2 / 3, 2 / 3)] * 2


def test_reuse_skew() -> None:
    # Of eleven blocks one is used five times, one twice, the others once; 10 % of eleven are two, rounded up.
    rows = [{"input_tokens": 10, "block_hashes": [one]} for one in (0, 0, 0, 0, 0, 1, 1, *range(2, 11))]
    result = ask(blocks("lru", 5), frame(rows))
    assert result.scalars["top10_reuse_ratio"] == 1.0
    table = result.tables["reuse_skew"]
    assert table.filter(pl.col("objects_ratio") == 0.05).rows() == [(0.05, 1, 4, 0.8)]
    assert table.rows()[-1] == (1.0, 11, 5, 1.0)


def test_the_oracle_is_the_better_of_two() -> None:
    uses = [("a", 6), ("b", 1), ("c", 3), ("c", 3), ("a", 6), ("b", 1)]
    rows = frame([{"session": name, "input_tokens": size} for name, size in uses])
    result = ask(sessions("oracle belady belady-size", 8), rows)
    both = zip(*(ratios(result, name)[0] for name in ("belady", "belady-size")), strict=True)
    assert ratios(result, "oracle") == [tuple(max(pair) for pair in both)]


@given(leaves=prompts, capacity=st.integers(1, 20))
def test_the_oracle_bounds_blocks(leaves: list[int], capacity: int) -> None:
    rows = frame([{"block_hashes": path(leaf), "input_tokens": 10 * len(path(leaf))} for leaf in leaves])
    result = ask(blocks("oracle lru fifo sieve", capacity, leaves_only=True), rows)
    best = ratios(result, "oracle")[0][2]
    assert all(ratios(result, name)[0][2] <= best for name in ("lru", "fifo", "sieve"))


def test_capacities_in_other_units() -> None:
    rows = frame([{"input_tokens": 10, "block_hashes": [one]} for one in range(8)])
    wanted = (parse("25%"), parse("4blocks"), parse("6KiB".replace("K", "k")))
    curve = ask(Question(("lru",), wanted, kv_bytes=100), rows).tables["curve"].filter(pl.col("policy") == "lru")
    assert curve["capacity_blocks"].to_list() == [2, 4, 6]
    assert curve["capacity_ratio"].to_list() == [0.25, 0.5, 0.75]
    assert curve["capacity_gib"].to_list() == pytest.approx([20 * 100 / 2**30, 40 * 100 / 2**30, 60 * 100 / 2**30])


def test_the_number_of_another_tool_comes_first() -> None:
    rows = frame([{"input_tokens": 15, "block_hashes": [1, 2]}] * 2)
    result = ask(blocks("lru", 3, like="aiperf"), rows)
    assert (result.primary, result.table()["hit_ratio"].to_list()) == ("like", [0.5])
    assert result.notes[0].startswith("like: AIPerf 0.13.0")
    assert ratios(result, "ideal") == [(0.5, 0.5, 0.5)]


def test_without_requests_nothing_is_known() -> None:
    for question in (sessions("lru oracle", 24), blocks("lru", 3), Question(ttl="5m")):
        result = ask(question, frame([]))
        assert (result.scalars["requests"], result.scalars["ideal_token_hit_ratio"]) == (0, None)
        assert result.notes == ("No request can be replayed: there is none.",)
    failed = ask(sessions("lru", 24), frame([{"input_tokens": 3, "status": "error"}]))
    assert failed.notes == ("No request can be replayed: 1 that failed.",)


def test_everything_in_the_result_is_defined() -> None:
    rows = frame([{"input_tokens": 10, "block_hashes": [1]}] * 3)
    for question in (sessions("lru oracle", 24, kv_bytes=10), blocks("lru ttl", 3, ttl="5m", kv_bytes=10, like="lmcache")):
        result = ask(question, rows)
        named = {*result.scalars, *(f"{name}.{column}" for name, table in result.tables.items() for column in table.columns)}
        assert named - set(result.definitions) == set()


def test_blocks_are_taken_where_there_are_hashes_of_them() -> None:
    rows = frame([{"input_tokens": 10, "block_hashes": [1]}])
    assert ask(Question(), rows).parameters["object"] == "block"
    assert ask(Question(), rows, columns="session model").parameters["object"] == "session"


@pytest.mark.parametrize(
    ("wanted", "columns", "message"),
    [
        (None, "model", "cache needs one of the columns 'block_hashes', 'session' and 'user', which"),
        ("session", "block_hashes model", "cache needs one of the columns 'session' and 'user', which"),
        ("block", "session", "cache --object block needs the column 'block_hashes', which"),
    ],
)
def test_a_trace_that_says_nothing_of_the_kind(wanted: Literal["session", "block"] | None, columns: str, message: str) -> None:
    with pytest.raises(MissingColumnError, match=message):
        Question(object=wanted).of_trace(columns.split(), 16)


def test_sessions_are_reconstructed_where_the_trace_has_none() -> None:
    # 130 tokens continue the 120 and 5 before, more than the 100 and 20 of the first request; 120 are not more than those;
    # another user has nothing to continue.
    sizes = [("u", 100, 20), ("v", 130, 1), ("u", 120, 5), ("u", 130, 9), (None, 500, 1), ("u", 200, None)]
    rows = frame([{"user": user, "input_tokens": size, "output_tokens": out} for user, size, out in sizes])
    result = ask(sessions("lru", 1_000), rows[:2], rows[2:], columns="user model endpoint")
    assert ratios(result, "ideal") == [(1 / 4, 130 / 480, 120 / 480)]
    assert result.scalars["sessions_or_blocks"] == 3
    assert result.scalars["working_set_tokens"] == 100 + 130 + 120
    assert "Left out of 6 requests: 2 of unknown user, model or output tokens." in result.notes
    assert any(note.startswith("Sessions are reconstructed") for note in result.notes)
    kept = ask(sessions("lru", 1_000, keep_output=True), rows, columns="user model endpoint")
    assert ratios(kept, "ideal")[0][2] == 125 / 480
    # The trace's own sessions are taken unless told otherwise.
    assert ask(sessions("lru", 1_000), rows).scalars["sessions_or_blocks"] == 1
    again = ask(sessions("lru", 1_000, reconstruct=True), rows)
    assert again.tables["curve"].equals(result.tables["curve"])


def test_blocks_of_unknown_size() -> None:
    with pytest.raises(UsageError, match="how many tokens a block has"):
        Question().of_trace(["block_hashes"], None)
    assert Question(block_tokens=7).of_trace(["block_hashes"], None)[0].block_tokens == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policies": ("mru",)}, "--policy mru: there is no such policy"),
        ({"policies": ("ttl",)}, "--policy ttl needs a time to live"),
        ({"ttl": "5"}, "--ttl 5: not a length of time"),
        ({"ttl": "soon"}, "--ttl soon: not a length of time"),
        ({"ttl": "0s"}, "--ttl 0s: not above zero"),
        ({"ttl": "9999999w"}, "--ttl 9999999w: longer than a century"),
        ({"warmup": 1.0}, "--warmup 1: not a share from 0 to below 1"),
        ({"block_tokens": 0}, "--block-size 0: not above zero"),
        ({"block_tokens": 2**20 + 1}, "--block-size 1048577: more than a block has"),
        ({"object": "session", "leaves_only": True}, "--leaves-only: sessions have no leaves"),
        ({"object": "session", "block_tokens": 5}, "--block-size: sessions have no blocks"),
        ({"object": "block", "keep_output": True}, "--keep-output: block hashes are of inputs alone"),
        ({"object": "block", "reconstruct": True}, "--reconstruct: blocks belong to no sessions"),
        ({"object": "session", "like": "aiperf"}, "--like aiperf: it replays blocks, not sessions"),
        ({"like": "vidur"}, "--like vidur: there is no such tool"),
        ({"object": "block", "policies": ("belady-size",)}, "--policy belady-size: blocks are all of one size"),
    ],
)
def test_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Question(**options)
    assert caught.value.message == message


def test_options_are_checked_again_when_the_trace_decides_what_is_cached() -> None:
    with pytest.raises(UsageError, match="sessions have no leaves"):
        Question(leaves_only=True).of_trace(["session"], None)
    with pytest.raises(UsageError, match="of inputs alone"):
        Question(keep_output=True).of_trace(["block_hashes", "session"], 16)


@pytest.mark.parametrize("text", ["", "half", "-0.5", "1e-1", "0.5%%"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(UsageError, match="not a share"):
        share_of("--warmup", text)


def test_more_than_can_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = frame([{"input_tokens": 10, "block_hashes": [1, 2]}] * 3)
    monkeypatch.setattr(requests_module, "MOST", 5)
    with pytest.raises(InputError, match="more than 5 uses of blocks"):
        ask(blocks("lru", 3), replace_tokens(rows))
    monkeypatch.setattr(requests_module, "MOST", 2**31 - 1)
    monkeypatch.setattr(requests_module, "memory_bytes", lambda: 100)
    with pytest.raises(InputError, match="The replay of 3 requests") as caught:
        ask(sessions("lru", 3), rows)
    assert "--since" in caught.value.hint


def replace_tokens(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with so few tokens that these are not too many."""
    return rows.with_columns(pl.lit(5, pl.Int64).alias("input_tokens"))


def test_threads_change_nothing() -> None:
    rows = frame([{"session": f"{one * one % 7}", "input_tokens": 10 + one} for one in range(50)])
    question = replace(sessions("fifo lru arc gdsf sieve clock lfu lhd s3fifo oracle", 40, 90), object="session")
    asked, gatherer = question.of_trace([*SCHEMA], None)
    gatherer.add(gatherer.prepare(rows))
    found = gatherer.requests()
    one, many = (asked.answer(found, threads).tables["curve"] for threads in (1, 4))
    assert one.equals(many)


def test_capacities_below_the_longest_request_are_told() -> None:
    requests = frame([{"input_tokens": 50}, {"input_tokens": 60}])
    notes = ask(sessions("lru", 40), requests).notes
    assert (
        "1 of 1 capacity is smaller than the longest request, of 60 tokens; --capacity takes larger ones, such as 600." in notes
    )
    notes = ask(sessions("lru", 40, 70), requests).notes
    assert "1 of 2 capacities is smaller than the longest request, of 60 tokens." in notes
