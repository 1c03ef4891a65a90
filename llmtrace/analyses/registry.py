"""Every analysis there is, in one list: apart from the package, so that a command imports only its own."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from llmtrace.analyses.balance import Balance, BusyDay
from llmtrace.analyses.burstiness import Burstiness
from llmtrace.analyses.check import Check
from llmtrace.analyses.evolution import Evolution
from llmtrace.analyses.hit_dist import HitDist
from llmtrace.analyses.latency import Latency
from llmtrace.analyses.popularity import Access, Popularity
from llmtrace.analyses.reuse_time import ReuseTime
from llmtrace.analyses.stats import Stats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.analyses.base import Analysis

__all__ = ["ANALYSES"]

ANALYSES: Mapping[str, tuple[Analysis, ...]] = {
    Stats.name: (Stats(), Stats("7s"), Stats("1h"), Stats("1w")),
    Burstiness.name: (Burstiness(), Burstiness("user"), Burstiness("all")),
    ReuseTime.name: (ReuseTime(), ReuseTime(("session",), 2), ReuseTime(min_gaps=3, highlight=("model-1",))),
    HitDist.name: (HitDist(), HitDist(("model-1",), 0.1, 0.9), HitDist(per_user=True), HitDist(skip=("users", "ttft"))),
    Evolution.name: (
        Evolution(),
        Evolution("1h"),
        Evolution("30m", top=2),
        Evolution("1h", merge_suffix=("-1",), names=(("model-0", "model-2"),)),
        Evolution(skip=("users",)),
    ),
    Latency.name: (Latency(), Latency(("model-1", "none"), "7s", 100, 10), Latency(interval="1h")),
    Popularity.name: (
        Popularity(),
        Popularity(most_users=2),
        Access("user", "user-1", 1, datetime(2025, 4, 10, 23, 30), datetime(2025, 4, 11, 1)),
        Access("model", "model-2", 1, datetime(2025, 4, 10, 23), datetime(2025, 5, 11)),
    ),
    Balance.name: (
        Balance(min_requests=3),
        Balance("7s", "session", 1, all_rows=True),
        Balance(skip=("replication", "regimes", "latency")),
        BusyDay(datetime(2025, 4, 10, 23), 2),
        BusyDay(datetime(2025, 4, 11, 1, 30)),
    ),
    Check.name: (Check(),),
}
"""Every analysis by the name of its command, with examples of its parameters that differ; `tests/test_laws.py` tries them all."""
