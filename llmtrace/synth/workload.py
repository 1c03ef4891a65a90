"""Workload: the size of a synthetic trace, validated when built."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date, timedelta

from llmtrace.errors import UsageError
from llmtrace.synth.profile import PAPER_YEAR, Profile

__all__ = ["Workload"]

MOST_REQUESTS = 1_000_000_000_000
MOST_USERS, MOST_MODELS, MOST_INSTANCES = 10_000_000, 100_000, 1_000_000
LONGEST_DAYS = 36_500
SMALLEST_BLOCK_TOKENS = 16
EARLIEST, LATEST = date(1973, 3, 4), date(2262, 1, 1)
"""Between these lie the times that readers take for dates: earlier ones are elapsed time to them, later ones none."""


@dataclass(frozen=True)
class Workload:
    """What to generate; the same workload always gives the same requests, to the last bit.

    Attributes:
        requests: rows of the trace, exactly.
        days: calendar days that it covers.
        seed: which of the many traces of this size.
        users: population of users; not all of them need show up. Default: 4 sqrt(requests).
        models: models that come and go. Default: sqrt(requests) / 8.
        instances: replicas that serve them. Default: 11 sqrt(requests).
        start: the first day, in UTC.
        block_size: tokens per block of `block_hashes`; 0 leaves the column out.
        cached_from: share of the days (0 to 1) before which `cached_tokens` is null, "not logged".
        service: whether instances serve the requests; if not, there are no columns of instances, cached tokens and latencies.
        profile: the shape of the workload.

    Raises:
        UsageError: if a parameter is out of its range, or means nothing beside another; the message names its option.
    """

    requests: int = 200_000
    days: int = 365
    seed: int = 1
    users: int = 0
    models: int = 0
    instances: int = 0
    start: date = date(2025, 4, 11)
    block_size: int = 512
    cached_from: float = 0.0
    service: bool = True
    profile: Profile = field(default=PAPER_YEAR, repr=False)

    def __post_init__(self) -> None:
        """Fill in the defaults that follow from the number of requests, and check every range."""
        _within("--requests", self.requests, 1, MOST_REQUESTS)
        root = math.isqrt(self.requests)
        for name, usual, most in (
            ("users", 4 * root, MOST_USERS),
            ("models", root // 8, MOST_MODELS),
            ("instances", 11 * root, MOST_INSTANCES),
        ):
            object.__setattr__(self, name, getattr(self, name) or min(max(1, usual), most))
            _within(f"--{name}", getattr(self, name), 1, most)
        _within("--days", self.days, 1, LONGEST_DAYS)
        _within("--seed", self.seed, 0, (1 << 63) - 1)
        if self.block_size:
            _within("--block-size", self.block_size, SMALLEST_BLOCK_TOKENS, self.profile.context_tokens)
        _within("--cached-from", self.cached_from, 0, 1)
        if self.cached_from and not self.service:
            raise UsageError("--no-service --cached-from: nothing is served, so nothing is cached", "Give one of them.")
        if self.start < EARLIEST or (LATEST - self.start).days < self.days:
            raise UsageError(
                f"--start {self.start}: so many days from there do not lie between {EARLIEST} and {LATEST}",
                "Start later, or earlier, or take fewer --days.",
            )

    @property
    def end(self) -> date:
        """The first day that is no longer part of the trace."""
        return self.start + timedelta(days=self.days)

    def progress(self, day: float) -> float:
        """How far into the profile's year a day is, 0 to 1; a trace shorter than a year stays in its beginning."""
        return day / max(self.days, 365)


def _within(option: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UsageError(f"{option} {value}: out of range", f"Give a number from {low} to {high}.")
