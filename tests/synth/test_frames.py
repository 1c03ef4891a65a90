"""What the generator claims about its traces, each claim by a plain recount."""

from __future__ import annotations

from collections import defaultdict, deque
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

from llmtrace.schema import COLUMNS, problems
from llmtrace.synth import rates
from llmtrace.synth.frames import frames
from llmtrace.synth.workload import Workload

FIRST, END = datetime(2025, 4, 11), datetime(2026, 4, 11)
BLOCK = 512


def sessions(trace: pl.DataFrame) -> list[pl.DataFrame]:
    return trace.partition_by("session", maintain_order=True)


def turns(trace: pl.DataFrame, *columns: str) -> list[list[tuple[Any, ...]]]:
    """What these columns hold in the requests of each session."""
    found = defaultdict(list)
    for session, *cells in trace.select("session", *columns).iter_rows():
        found[session].append(tuple(cells))
    return list(found.values())


def months(column: str, trace: pl.DataFrame) -> list[float]:
    by_month = trace.group_by(pl.col("timestamp").dt.truncate("1mo")).agg(pl.col(column).median()).sort("timestamp")
    return by_month[column].to_list()


def gaps_s(trace: pl.DataFrame, model: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    times = trace.filter(pl.col("model") == model)["timestamp"].dt.epoch("us").to_numpy()
    return np.diff(times) / 1e6


def busiest(trace: pl.DataFrame, column: str, count: int) -> list[str]:
    return trace[column].value_counts(sort=True).sort("count", column, descending=[True, False])[column].head(count).to_list()


def test_it_is_a_canonical_table_with_every_column(year: pl.DataFrame) -> None:
    assert problems(dict(year.schema)) == []
    assert list(year.columns) == list(COLUMNS)


def test_rows_are_as_many_as_asked_for_in_order_and_on_the_days_asked_for(year: pl.DataFrame) -> None:
    assert year.height == 60_000
    assert year["timestamp"].is_sorted()
    assert year["request_id"].to_list() == list(range(60_000))
    assert year["timestamp"].min() >= FIRST  # type: ignore[operator]
    assert year["timestamp"].max() < END  # type: ignore[operator]


def test_failed_requests_are_few_and_have_no_tokens(year: pl.DataFrame) -> None:
    failed = year.filter(pl.col("status") != "ok")
    assert 0.005 < failed.height / year.height < 0.05
    assert set(failed["status"]) == {"rate_limited", "timeout", "error"}
    for column in ("input_tokens", "output_tokens", "cached_tokens", "ttft_s", "instance", "block_hashes"):
        assert failed[column].null_count() == failed.height
    for column in ("user", "model", "session", "endpoint", "duration_s", "turn"):
        assert failed[column].null_count() == 0


def test_what_was_served_is_complete(served: pl.DataFrame) -> None:
    assert {name for name in served.columns if served[name].null_count()} == {"ttft_s", "cached_tokens"}
    assert served["input_tokens"].min() >= 1  # type: ignore[operator]
    assert served["output_tokens"].min() >= 1  # type: ignore[operator]


def test_time_to_first_token_is_there_exactly_when_streaming(served: pl.DataFrame) -> None:
    assert (served["ttft_s"].is_not_null() == served["stream"]).all()
    streamed = served.filter("stream")
    assert (streamed["ttft_s"] > 0).all()
    assert (streamed["ttft_s"] <= streamed["duration_s"]).all()
    assert 0.2 < streamed.height / served.height < 0.7


def test_cached_tokens_are_logged_in_the_second_half_only(served: pl.DataFrame) -> None:
    logged_from = FIRST + timedelta(days=0.5 * 365)
    assert (served["cached_tokens"].is_not_null() == (served["timestamp"] >= logged_from)).all()


def test_cached_tokens_are_less_than_the_input_and_in_whole_blocks(served: pl.DataFrame) -> None:
    logged = served.drop_nulls("cached_tokens")
    assert (logged["cached_tokens"] < logged["input_tokens"]).all()
    assert (logged["cached_tokens"] >= 0).all()
    assert (logged["cached_tokens"] % 16 == 0).all()


def test_a_hit_is_a_system_prompt_or_what_the_same_instance_saw_of_the_session(served: pl.DataFrame) -> None:
    """Every hit is explained by an earlier turn on that instance, or else is the one length of the application's prompt."""
    prompts: dict[str, set[int]] = defaultdict(set)
    hits = 0
    for session in turns(served, "user", "instance", "input_tokens", "output_tokens", "cached_tokens"):
        seen: dict[str, int] = {}
        for user, instance, asked, answered, cached in session:
            if cached and cached != seen.get(instance, 0) // 16 * 16:
                prompts[user].add(cached)
            elif cached:
                hits += 1
            seen[instance] = asked + answered
    assert hits > 2000
    assert max(len(lengths) for lengths in prompts.values()) == 1


def test_hits_are_much_or_little_rather_than_in_between(served: pl.DataFrame) -> None:
    ratio = served.select(pl.col("cached_tokens") / pl.col("input_tokens")).drop_nulls().to_series().to_numpy()
    tenths = np.histogram(ratio, 10, (0, 1))[0] / ratio.size
    assert tenths[4:6].max() < 0.5 * min(tenths[0], tenths[9])
    assert np.mean(ratio == 0) > 0.1


def test_sessions_are_one_users_conversation_that_grows_strictly(year: pl.DataFrame) -> None:
    long = 0
    for session in turns(year, "turn", "user", "model", "status", "input_tokens", "output_tokens"):
        turn, users, models, status, asked, answered = zip(*session, strict=True)
        assert turn == tuple(range(len(session)))
        assert len(set(users)) == len(set(models)) == 1
        assert status[:-1] == ("ok",) * (len(session) - 1)
        wholes = map(sum, zip(asked[:-1], answered[:-1], strict=True))
        assert all(after is None or after > before for before, after in zip(wholes, asked[1:], strict=True))
        long += len(session) >= 5
    assert long > 500


def test_a_turn_waits_for_the_answer_before_it(served: pl.DataFrame) -> None:
    ended = pl.col("timestamp") + pl.duration(microseconds=(pl.col("duration_s") * 1e6).round())
    follows = served.with_columns(ended=ended.shift(1).over("session")).drop_nulls("ended")
    assert follows.height > 10_000
    assert (follows["timestamp"] >= follows["ended"]).all()


def test_reconstruction_from_lengths_finds_parents(served: pl.DataFrame) -> None:
    """The ten last requests of a user to a model hold a parent for almost every later turn, as the paper's method needs."""
    recent: dict[tuple[str, str], deque[int]] = defaultdict(lambda: deque(maxlen=10))
    later = found = 0
    for user, model, turn, asked, answered in served.select("user", "model", "turn", "input_tokens", "output_tokens").iter_rows():
        if turn > 0:
            later += 1
            found += any(whole < asked for whole in recent[user, model])
        recent[user, model].append(asked + answered)
    assert later > 10_000
    assert found / later > 0.97


def test_few_users_make_most_requests(year: pl.DataFrame) -> None:
    counts = year["user"].value_counts(sort=True)["count"].to_numpy()
    slope = np.polyfit(np.log(np.arange(1, 201)), np.log(counts[:200]), 1)[0]
    assert -1.5 < slope < -0.5
    assert counts[: len(counts) // 10].sum() > 0.5 * counts.sum()
    assert counts[0] < 0.15 * counts.sum()


def test_equal_requests_are_very_unequal_burdens(served: pl.DataFrame) -> None:
    burden = served.group_by("user").agg(pl.len(), tokens=pl.col("input_tokens").sum())
    per_request = burden.filter(pl.col("len").is_between(20, 60)).select(pl.col("tokens") / pl.col("len")).to_series()
    assert per_request.quantile(0.95) > 8 * per_request.quantile(0.05)  # type: ignore[operator]


def test_models_rise_and_fall(year: pl.DataFrame) -> None:
    first, last = (
        year.filter(pl.col("timestamp") < FIRST + timedelta(90)),
        year.filter(pl.col("timestamp") >= END - timedelta(90)),
    )
    assert busiest(first, "model", 1)[0] not in busiest(last, "model", 3)
    assert busiest(last, "model", 1)[0] not in busiest(first, "model", 3)


def test_ever_more_models_are_active_and_the_rest_gains_on_the_top(year: pl.DataFrame) -> None:
    days = year.group_by(pl.col("timestamp").dt.truncate("1d")).agg(pl.col("model").n_unique()).sort("timestamp")["model"]
    assert days.tail(90).mean() > 1.5 * days.head(90).mean()  # type: ignore[operator]
    top_three = [
        part.filter(pl.col("model").is_in(busiest(part, "model", 3))).height / part.height
        for part in (year.head(5000), year.tail(5000))
    ]
    assert top_three[0] > 1.3 * top_three[1]


def test_arrivals_are_bursty_per_model(year: pl.DataFrame) -> None:
    for model in busiest(year, "model", 10):
        gaps = gaps_s(year, model)
        assert gaps.std(ddof=1) / gaps.mean() > 1.5
        ranks = gaps.argsort().argsort()
        assert np.corrcoef(ranks[:-1], ranks[1:])[0, 1] > 0.1
        logs = np.log(np.maximum(gaps, 1e-6))
        assert np.corrcoef(logs[:-1], logs[1:])[0, 1] > 0.1


def test_half_of_the_gaps_of_a_user_to_a_model_are_within_a_second(year: pl.DataFrame) -> None:
    gaps = year.select(pl.col("timestamp").diff().over("user", "model").dt.total_microseconds()).to_series().drop_nulls()
    assert (gaps < 100_000).mean() > 0.3  # type: ignore[operator]
    assert (gaps < 10_000_000).mean() > 0.55  # type: ignore[operator]


def test_days_and_hours_have_their_seasons(year: pl.DataFrame) -> None:
    hours = np.bincount(year["timestamp"].dt.hour().to_numpy(), minlength=24)
    assert hours[12:20].sum() > 1.5 * 8 / 24 * hours.sum() * 0.85
    assert hours[:6].sum() < 0.6 * 6 / 24 * hours.sum()
    weekdays = np.bincount(year["timestamp"].dt.weekday().to_numpy(), minlength=8)[1:]
    assert weekdays[:5].min() > 1.15 * weekdays[5:].max()


def test_inputs_stay_in_the_thousands_and_outputs_shrink(served: pl.DataFrame) -> None:
    inputs, outputs = months("input_tokens", served), months("output_tokens", served)
    assert 1000 < min(inputs) < max(inputs) < 10_000
    assert outputs[0] > 200
    assert outputs[-1] < 0.4 * outputs[0]


def test_first_token_waits_for_input_that_is_not_cached(served: pl.DataFrame) -> None:
    streamed = (
        served.filter("stream").drop_nulls("cached_tokens").with_columns(fresh=pl.col("input_tokens") - pl.col("cached_tokens"))
    )
    little = streamed.filter(pl.col("fresh") < 500)["ttft_s"].median()
    much = streamed.filter(pl.col("fresh") > 20_000)["ttft_s"].median()
    assert much > 3 * little  # type: ignore[operator]
    long = streamed.filter(pl.col("input_tokens") > 20_000)
    hit = pl.col("cached_tokens") > 0.9 * pl.col("input_tokens")
    assert long.filter(hit)["ttft_s"].median() < 0.5 * long.filter(~hit)["ttft_s"].median()  # type: ignore[operator]


def test_answers_take_as_long_as_they_are(served: pl.DataFrame) -> None:
    medians = [
        served.filter(pl.col("output_tokens").is_between(low, low + 50)).select(pl.col("duration_s").median()).item()
        for low in (10, 200, 800, 1600)
    ]
    assert medians == sorted(medians)
    assert medians[-1] > 10 * medians[0]


def test_models_have_instances_of_their_own(served: pl.DataFrame) -> None:
    assert served.group_by("instance").agg(pl.col("model").n_unique())["model"].max() == 1
    assert served["instance"].n_unique() > 100


def test_blocks_are_chained_prefixes(served: pl.DataFrame) -> None:
    assert (served["block_hashes"].list.len() == served["input_tokens"] // BLOCK).all()
    place_of: dict[int, tuple[int, int | None]] = {}
    for blocks in served["block_hashes"].to_list():
        for place, block in enumerate(blocks):
            here = (place, blocks[place - 1] if place else None)
            assert place_of.setdefault(block, here) == here


def test_a_turn_begins_with_the_blocks_of_the_turn_before(served: pl.DataFrame) -> None:
    for session in sessions(served.filter(pl.len().over("session") > 1)):
        chains = session["block_hashes"].to_list()
        assert all(after[: len(before)] == before for before, after in pairwise(chains))


def test_sessions_share_blocks_only_through_a_system_prompt(served: pl.DataFrame) -> None:
    firsts = served.filter(pl.col("turn") == 0).select("model", "user", first=pl.col("block_hashes").list.first()).drop_nulls()
    shared = firsts.group_by("first").agg(pl.len(), pl.col("model").n_unique(), users=pl.col("user").n_unique())
    assert shared["model"].max() == 1
    assert shared["users"].max() > 1  # type: ignore[operator]
    assert 0.02 < (shared["len"] == 1).mean() < 1  # type: ignore[operator]


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    one, same, other = (pl.concat(frames(Workload(requests=3000, days=20, seed=seed))) for seed in (3, 3, 4))
    assert one.equals(same)
    assert not one.equals(other)


def test_parts_of_days_make_the_same_kind_of_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A day too large for one block is cut; sessions go on across the cuts."""
    monkeypatch.setattr(rates, "_BLOCK_ROWS", 30)
    workload = Workload(requests=5000, days=3)
    assert len(list(rates.blocks(workload))) == 3 * 96
    trace = pl.concat(frames(workload))
    assert trace.height == 5000
    assert trace["timestamp"].is_sorted()
    assert trace["timestamp"].max() < FIRST + timedelta(3)  # type: ignore[operator]
    for session in sessions(trace):
        assert session["turn"].to_list() == list(range(session.height))


@pytest.mark.parametrize(
    "workload",
    [
        Workload(requests=1, days=1),
        Workload(requests=1, days=365),
        Workload(requests=2000, days=1, users=1, models=1, instances=1),
        Workload(requests=500, days=700),
        Workload(requests=500, days=10, models=40, instances=3),
        Workload(requests=500, days=10, block_size=0),
    ],
    ids=repr,
)
def test_extremes(workload: Workload) -> None:
    trace = pl.concat(frames(workload))
    assert trace.height == workload.requests
    assert ("block_hashes" in trace.columns) == (workload.block_size > 0)
    assert trace["timestamp"].is_sorted()
