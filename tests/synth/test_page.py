"""The page on the generator compares a generated year, and a busy day, with what was published: every number of it is made here.

Each row is a fact, its published value, the generated one, and the bounds within which it counts as reproduced. Rows whose value
lies outside say so on the page, too.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import pytest

import llmtrace
from llmtrace.cli import main
from llmtrace.synth.workload import Workload
from llmtrace.synth.writing import write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PAGE = (Path(__file__).parents[2] / "docs" / "generate.md").read_text(encoding="utf-8")
YEAR = Workload(requests=1_000_000, block_size=0)
DAY = Workload(requests=500_000, days=1, users=4000, models=1, instances=40, block_size=0)
CAPACITIES = (25_000, 5_000_000)


class Answer(NamedTuple):
    """A result, whose numbers are taken as they come."""

    scalars: Mapping[str, Any]
    tables: Mapping[str, Any]


@dataclass(frozen=True)
class Fact:
    """A row of the page: `low` and `high` bound the value; `form` writes all three."""

    name: str
    published: str
    value: float
    low: float | None
    high: float | None
    form: Callable[[float], str]

    @property
    def row(self) -> str:
        return f"| {self.name} | {self.published} | {self.form(self.value)} | {self._bounds} |"

    @property
    def holds(self) -> bool:
        return (self.low is None or self.low <= self.value) and (self.high is None or self.value <= self.high)

    @property
    def _bounds(self) -> str:
        if self.low is None or self.high is None:
            return f"{'at least' if self.high is None else 'at most'} {self.form(self.low or self.high or 0)}"
        return f"{self.form(self.low)} to {self.form(self.high)}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def tenths(share: float) -> str:
    return f"{100 * share:.1f} %"


def whole(number: float) -> str:
    return f"{number:,.0f}"


def plain(number: float) -> str:
    return f"{number:.2f}"


def seconds(number: float) -> str:
    return f"{number:.2g} s"


def printed(*arguments: str) -> dict[str, Any]:
    """What a command gives as JSON."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        assert main([*arguments, "--format", "json", "--quiet"]) == 0
    read: dict[str, Any] = json.loads(out.getvalue())
    return read


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "year"
    write(YEAR, folder)
    return folder


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "day"
    write(DAY, folder)
    return folder


def arrivals(reuse: Answer, bursts: Answer, stats: Answer) -> list[Fact]:
    week = stats.tables["hour_of_week"]
    hours = week.group_by("hour").agg(pl.col("requests").sum()).sort("requests")["hour"]
    by_day = week.group_by("weekday").agg(pl.col("requests_per_day").sum())
    working, free = (
        by_day.filter(pl.col("weekday").is_in(days))["requests_per_day"].mean() for days in ([1, 2, 3, 4, 5], [6, 7])
    )
    return [
        Fact("gaps of a user to a model within 0.1 s", "about 50 %", reuse.scalars["within_100ms"], 0.45, 0.55, percent),
        Fact("gaps within 10 s", "about 80 %", reuse.scalars["within_10s"], 0.75, 0.85, percent),
        Fact("gaps within 15 min", "99 %", reuse.scalars["within_15min"], 0.97, 1.0, tenths),
        Fact("models with a CV of gaps above 1", "most", bursts.scalars["share_keys_cv_above_1"], 0.8, None, percent),
        Fact(
            "models with a positive lag-1 rank correlation",
            "most",
            bursts.scalars["share_keys_lag1_positive"],
            0.8,
            None,
            percent,
        ),
        Fact("busiest month of the year", "summer to autumn", busiest_month(stats.tables["rates"]), 7, 11, whole),
        Fact("busiest hour, UTC", "afternoon to evening", hours[-1], 12, 20, whole),
        Fact("working day over weekend day", "busier", working / free, 1.2, None, plain),
    ]


def busiest_month(rates: Any) -> int:  # noqa: ANN401
    month: int = rates.group_by(pl.col("time").dt.month()).agg(pl.col("requests").sum()).sort("requests")["time"][-1]
    return month


def gain(table: Any, column: str) -> float:  # noqa: ANN401
    """How much more a daily ratio is on average in the last 90 days than in the first 90."""
    days = table.sort("time")[column].to_numpy()
    return float(np.nanmean(days[-90:]) - np.nanmean(days[:90]))


def lengths(evolution: Answer, stats: Answer) -> list[Fact]:
    months = evolution.tables["tokens_by_month"].filter(~pl.col("partial"))
    inputs, outputs = months["p50_input_tokens"], months["p50_output_tokens"]
    cohorts = evolution.tables["cohorts"].filter(~pl.col("partial") & (pl.col("eligible_users") >= 20)).sort("time")
    spread = pl.col("p90_input_tokens") - pl.col("p10_input_tokens")
    first, last = (part.select("p50_input_tokens", spread=spread).mean() for part in (cohorts.head(3), cohorts.tail(3)))
    later = (last / first).row(0)
    return [
        Fact("mean of input tokens", "5,847", stats.scalars["input_tokens_per_request"], 4000, 9000, whole),
        Fact("mean of output tokens", "412", stats.scalars["output_tokens_per_request"], 250, 600, whole),
        Fact("lowest monthly median of input tokens", "thousands throughout", inputs.min(), 1000, 9999, whole),
        Fact("highest monthly median of input tokens", "thousands throughout", inputs.max(), 1000, 9999, whole),
        Fact("median of output tokens, first whole month", "a few hundred", outputs[0], 200, 900, whole),
        Fact("median of output tokens, last whole month", "below 100", outputs[-1], None, 100, whole),
        Fact("median input of the last three cohorts over the first three's", "longer", later[0], 1.1, None, plain),
        Fact("range of it from P10 to P90, the same", "more varied", later[1], 1.1, None, plain),
    ]


def mix(evolution: Answer, stats: Answer, popularity: Answer) -> list[Fact]:
    models = stats.tables["rates"]["models"]
    growth = models.max() / models.head(30).mean()
    shares = evolution.tables["model_share"].filter(~pl.col("partial")).sort("requests", descending=True)
    others = shares.filter(pl.col("rank").is_null()).sort("time")["requests_ratio"]
    named = shares.filter(pl.col("rank").is_not_null()).group_by("time", maintain_order=True)
    chats = gain(stats.tables["endpoints"].filter(pl.col("endpoint") == "chat"), "requests_ratio")
    streams = gain(stats.tables["streaming"], "stream_ratio")
    return [
        Fact("chat's share of the requests, gain from the first to the last 90 days", "up", chats, 0.05, None, percent),
        Fact("streaming's share, the same", "down", streams, None, -0.02, percent),
        Fact("most models of a day over the mean of the first 30 days", "400 over 100", growth, 4, None, plain),
        Fact("share of the models below the top ten, gain over the year", "widens", others[-1] - others[0], 0.15, None, percent),
        Fact("models that lead a month", "several", named.first()["model"].n_unique(), 3, None, whole),
        Fact("Zipf exponent of users", "Zipf", popularity.scalars["zipf_users"], 0.5, 1.5, plain),
        Fact("Zipf exponent of models", "Zipf", popularity.scalars["zipf_models"], 0.5, 1.5, plain),
    ]


def burden(folder: Path) -> Fact:
    served = pl.scan_parquet(folder / "**" / "*.parquet", hive_partitioning=False).filter(pl.col("status") == "ok")
    users = served.group_by("user").agg(pl.len(), tokens=pl.col("input_tokens").sum() + pl.col("output_tokens").sum())
    alike = users.filter(pl.col("len").is_between(100, 200))
    ratio = alike.select(pl.col("tokens").quantile(0.95) / pl.col("tokens").quantile(0.05)).collect().item()
    return Fact("tokens of users with 100 to 200 requests, P95 over P5", "an order of magnitude", ratio, 10, None, whole)


def conversations(sessions: Mapping[str, float]) -> list[Fact]:
    return [
        Fact("sessions of one turn", "36 %, 41 %", sessions["single_turn_share"], 0.31, 0.46, percent),
        Fact("last turn, from 0, mean", "2.9, 1.9", sessions["last_turn_mean"], 1.5, 3.4, plain),
        Fact("last turn, median", "2, 1", sessions["last_turn_p50"], 1, 2, whole),
        Fact("last turn, P90", "7, 5", sessions["last_turn_p90"], 4, 8, whole),
        Fact("last turn, P99", "11, 10", sessions["last_turn_p99"], 8, 13, whole),
        Fact("structural reuse", "0.64, 0.55", sessions["structural_reuse"], 0.5, 0.7, plain),
    ]


def service(hits: Answer, latency: Answer, balance: Answer) -> list[Fact]:
    bands = hits.tables["by_input_length"]
    short, long = (
        bands.filter(rule).select((pl.col("mean_request_hit_ratio") * pl.col("requests")).sum() / pl.col("requests").sum()).item()
        for rule in (pl.col("input_tokens_to") <= 1000, pl.col("input_tokens_from") >= 8000)
    )
    loads = latency.tables["load"].filter(pl.col("ttft_requests") >= 1000).sort("load_from_tokens_per_s")["ttft_p90_s"]
    spread = balance.tables["replication_by_load"].filter(pl.col("keys") >= 100)
    spread = spread.filter(pl.col("load_of") == spread["load_of"][0]).sort("load_from_tokens_per_s")["instances_per_key"]
    return [
        Fact("Sarle's bimodality of hit ratios (above 0.56: bimodal)", "bimodal", hits.scalars["bimodality"], 0.56, None, plain),
        Fact("depth of the valley between the modes", "bimodal", hits.scalars["valley_depth"], 0.3, None, plain),
        Fact(
            "mean hit ratio, inputs below 1,000 tokens less those from 8,000 on", "high, low", short - long, 0.05, None, percent
        ),
        Fact(
            "prefill's share of the latency, median", "decode dominates", latency.scalars["prefill_share_p50"], None, 0.5, percent
        ),
        Fact("TTFT, P50", "1.0 s (excerpt)", latency.scalars["ttft_p50_s"], 0.3, 3, seconds),
        Fact("TTFT, P90", "5.2 s (excerpt)", latency.scalars["ttft_p90_s"], 1.7, 16, seconds),
        Fact("TTFT, P99", "21 s (excerpt)", latency.scalars["ttft_p99_s"], 7, 63, seconds),
        Fact("P90 of TTFT at the busiest load over the quietest", "rises with load", loads[-1] / loads[0], 1.5, None, plain),
        Fact(
            "instances per user and model at the busiest load over the quietest",
            "rises with load",
            spread[-1] / spread[0],
            1.1,
            None,
            plain,
        ),
    ]


def routing(cells: pl.DataFrame) -> list[Fact]:
    """Of the routing experiment with 20 instances; published are MiniMax M2.5 and DeepSeek V3.2."""

    def of(policy: str, column: str, capacity: int) -> float:
        value: float = cells.filter((pl.col("policy") == policy) & (pl.col("capacity_tokens") == capacity))[column].item()
        return value

    small, large = CAPACITIES
    hit, copies, uneven = "token_hit_ratio", "replication", "imbalance_ratio"
    blind = max(of("round-robin", hit, large), of("load-first", hit, large))
    others = max(of(policy, uneven, large) for policy in ("round-robin", "load-first", "cache-first"))
    return [
        Fact(
            "hits at 25,000 tokens, cache-first over sticky",
            "5.0, 1.3",
            of("cache-first", hit, small) / of("sticky", hit, small),
            1.2,
            None,
            plain,
        ),
        Fact(
            "hits at 5,000,000 tokens, cache-first over sticky",
            "1.00, 0.98",
            of("cache-first", hit, large) / of("sticky", hit, large),
            0.95,
            1.05,
            plain,
        ),
        Fact(
            "hits at 5,000,000 tokens, better cache-blind policy over cache-first",
            "0.16, 0.13",
            blind / of("cache-first", hit, large),
            None,
            0.3,
            plain,
        ),
        Fact("replication of sticky", "1, 1", of("sticky", copies, small), 1, 1, plain),
        Fact(
            "replication of round-robin at 25,000 tokens; of the next: the bound",
            "2.62, 1.94",
            of("round-robin", copies, small),
            max(of(policy, copies, small) for policy in ("load-first", "cache-first")),
            None,
            plain,
        ),
        Fact(
            "imbalance of sticky at 5,000,000 tokens over the next",
            "431, 119",
            of("sticky", uneven, large) / others,
            10,
            None,
            whole,
        ),
    ]


def eviction(curve: pl.DataFrame) -> list[Fact]:
    """Of the caching experiment, at the capacities from a thousandth of the working set on."""
    wide = curve.filter(pl.col("capacity_ratio") >= 9e-4).pivot("policy", index="capacity_tokens", values="token_hit_ratio_full")
    rivals = pl.max_horizontal("arc", "gdsf", "sieve")
    worst = wide.select(
        (pl.col("lru") / rivals).min(), fifo=(pl.col("fifo") / rivals).min(), oracle=(pl.col("lru") / pl.col("belady-size")).max()
    )
    return [
        Fact(
            "hits of LRU over the best of ARC, GDSF and SIEVE, the least",
            "level or above",
            worst["lru"].item(),
            0.95,
            None,
            plain,
        ),
        Fact("hits of FIFO over the same, the least", "level or above", worst["fifo"].item(), 0.9, None, plain),
        Fact("hits of LRU over the oracle's, the most", "below", worst["oracle"].item(), None, 1.0, plain),
    ]


@pytest.fixture(scope="module")
def facts(year: Path, day: Path) -> list[Fact]:
    results = llmtrace.run(
        llmtrace.open_trace(str(year)),
        [
            llmtrace.Stats(interval="1d"),
            llmtrace.Burstiness(),
            llmtrace.ReuseTime(),
            llmtrace.HitDist(),
            llmtrace.Evolution(),
            llmtrace.Latency(),
            llmtrace.Popularity(),
            llmtrace.Balance(),
        ],
    )
    stats, bursts, reuse, hits, evolution, latency, popularity, balance = (Answer(one.scalars, one.tables) for one in results)
    capacities = ",".join(map(str, CAPACITIES))
    routed = printed("route", str(day), "--instances", "20", "--capacity", capacities)
    cached = printed("cache", str(day), "--policy", "fifo,lru,arc,gdsf,sieve,belady-size")
    return [
        *arrivals(reuse, bursts, stats),
        *lengths(evolution, stats),
        *mix(evolution, stats, popularity),
        burden(year),
        *conversations(printed("sessions", str(year))["scalars"]),
        *service(hits, latency, balance),
        *routing(pl.DataFrame(routed["tables"]["tradeoff"], infer_schema_length=None)),
        *eviction(pl.DataFrame(cached["tables"]["curve"], infer_schema_length=None)),
    ]


def test_the_page_has_every_fact_with_its_number_and_bounds(facts: list[Fact]) -> None:
    missing = [fact.row for fact in facts if fact.row not in PAGE]
    assert not missing, "\n".join(["docs/generate.md should have", *missing])


def test_generated_values_are_within_their_bounds(facts: list[Fact]) -> None:
    assert [fact.row for fact in facts if not fact.holds] == []


def test_the_page_has_no_other_facts(facts: list[Fact]) -> None:
    rows = PAGE.partition("## What it reproduces")[2].partition("\n## ")[0].splitlines()
    assert {row for row in rows if row.startswith("| ") and not row.startswith("| fact")} == {fact.row for fact in facts}
