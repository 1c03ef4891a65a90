"""What the service says of caches and instances, replayed naively from the finished trace."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, cast

import numpy as np
import polars as pl
import pytest

from llmtrace.synth import rates
from llmtrace.synth.frames import frames
from llmtrace.synth.population import population
from llmtrace.synth.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Hashable

WORKLOAD = Workload(requests=12_000, days=90, seed=5, users=60, models=6, instances=200, block_size=0)


class Cache:
    """An instance's prefix cache in plain Python: least recently used conversations, and prompts among them."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.held = capacity, cast("OrderedDict[Hashable, int]", OrderedDict())

    def found(self, *keys: Hashable) -> int:
        return max(self.held.get(key, 0) for key in keys)

    def hold(self, key: Hashable, tokens: int) -> None:
        before = self.held.pop(key, None)
        if before is None:
            self._shrink(self.capacity - tokens, 0)
        self.held[key] = max(tokens, before or 0)
        if before is not None:
            self._shrink(self.capacity, 1)

    def _shrink(self, room: int, left: int) -> None:
        while len(self.held) > left and sum(self.held.values()) > room:
            self.held.popitem(last=False)


def replayed(trace: pl.DataFrame, workload: Workload) -> list[int]:
    """Cached tokens of each served request, as caches on the instances of the trace would have found them."""
    people = population(workload)
    app = dict(zip(people.user_names, people.users.app.tolist(), strict=True))
    capacity = dict(zip(people.model_names, people.models.cache_tokens.tolist(), strict=True))
    caches: dict[tuple[str, str], Cache] = {}
    found = []
    columns = ("model", "instance", "user", "session", "input_tokens", "output_tokens")
    for model, instance, user, session, asked, answered in trace.select(columns).iter_rows():
        prompt = int(people.system_tokens[app[user]])
        cache = caches.setdefault((model, instance), Cache(capacity[model]))
        if capacity[model]:
            found.append(min(cache.found(("app", app[user]), session), asked - 1) // 16 * 16)
            cache.hold(("app", app[user]), prompt)
            cache.hold(session, asked + answered)
        else:
            found.append(0)
    return found


@pytest.fixture(scope="module")
def trace() -> pl.DataFrame:
    return pl.concat(frames(WORKLOAD)).filter(pl.col("status") == "ok")


def test_cached_tokens_are_what_lru_caches_on_the_instances_hold(trace: pl.DataFrame) -> None:
    """The oracle keeps a cache for each name for ever; a name comes back only after all others of its place have."""
    assert trace["cached_tokens"].to_list() == replayed(trace, WORKLOAD)
    assert (trace["cached_tokens"] > 0).mean() > 0.3  # type: ignore[operator]


def test_caches_that_are_too_small_evict(trace: pl.DataFrame) -> None:
    """Else the oracle would agree without evicting anything."""
    people = population(WORKLOAD)
    held = trace.group_by("model", "instance").agg(pl.col("input_tokens").filter(pl.col("turn") == 0).sum())
    capacity = dict(zip(people.model_names, people.models.cache_tokens.tolist(), strict=True))
    assert sum(tokens > 2 * capacity[model] > 0 for model, _, tokens in held.iter_rows()) >= 3


def test_blocks_of_any_length_give_the_same_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_BLOCK_ROWS", 20)
    workload = Workload(requests=3000, days=4, seed=5, users=30, models=2, instances=8, block_size=0)
    cut = pl.concat(frames(workload)).filter(pl.col("status") == "ok")
    assert cut["cached_tokens"].to_list() == replayed(cut, workload)


def test_busy_hours_are_spread_over_more_instances(trace: pl.DataFrame) -> None:
    hourly = trace.group_by("user", "model", pl.col("timestamp").dt.truncate("1h")).agg(pl.len(), pl.col("instance").n_unique())
    quiet, busy = hourly.filter(pl.col("len") < 10)["instance"].mean(), hourly.filter(pl.col("len") >= 25)["instance"].mean()
    assert busy > 1.2 * quiet  # type: ignore[operator]


def test_a_burst_waits_for_the_first_token(trace: pl.DataFrame) -> None:
    """At like uncached input, requests in a crowded second on an instance wait longer than those that come alone."""
    second = pl.col("timestamp").dt.truncate("1s")
    like = trace.with_columns(crowd=pl.len().over("instance", second)).filter(
        "stream", (pl.col("input_tokens") - pl.col("cached_tokens")).is_between(1000, 6000)
    )
    crowded, alone = like.filter(pl.col("crowd") >= 8)["ttft_s"], like.filter(pl.col("crowd") == 1)["ttft_s"]
    assert len(crowded) > 20
    assert np.median(crowded) > 1.5 * np.median(alone)


def test_an_instance_serves_for_a_while_and_another_takes_its_place(trace: pl.DataFrame) -> None:
    lives: dict[str, list[int]] = defaultdict(list)
    for instance, day in trace.select("instance", pl.col("timestamp").dt.ordinal_day()).iter_rows():
        lives[instance].append(day)
    assert len(lives) > 12
    assert max(max(days) - min(days) for days in lives.values()) <= WORKLOAD.profile.instance_days
