"""The analysis `balance`: its parameters, its state, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from llmtrace.analyses.balance import minutes, models, notes, regimes, spread
from llmtrace.analyses.balance import part as parts
from llmtrace.analyses.balance.definitions import definitions
from llmtrace.analyses.base import Analysis, State
from llmtrace.analyses.latency import by_load, tables
from llmtrace.errors import UsageError
from llmtrace.result import Result
from llmtrace.summaries import fleet, hexagons, loads, parameters
from llmtrace.summaries.accumulator import Counter
from llmtrace.summaries.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from llmtrace.result import Scalar

__all__ = ["Balance"]

_KEYS = ("user", "session")


@dataclass(frozen=True)
class Balance(Analysis):
    """Load over instances by minute, copies of contexts by load, hits by instance, and latency by the load of the instance.

    Attributes:
        window: in which the instances that serve a key are counted: a whole number and one of s, m, h, d, w.
        by: whose context a cache holds: `user` or `session`, each with one model.
        min_requests: how many requests a user's busiest hour needs.
        all_rows: whether tables by minute and by window have their rows however many they are.
        skip: what is left out, of `part.PARTS`.

    Raises:
        UsageError: if `window` is no such width, a number is out of range, or there is no such key or part.

    >>> sorted(Balance(skip=("regimes", "latency")).uses)
    ['input_tokens', 'instance', 'model', 'output_tokens', 'status', 'timestamp', 'user']
    """

    name: ClassVar[str] = "balance"
    requires: ClassVar[frozenset[str]] = frozenset({"instance"})

    window: str = "15m"
    by: str = "user"
    min_requests: int = 200
    all_rows: bool = False
    skip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the parameters."""
        Interval.parse(self.window, "--window")
        if self.by not in _KEYS:
            raise UsageError(f"--by {self.by}: not a key", f"Choose one of: {', '.join(_KEYS)}.")
        if self.min_requests < 1:
            raise UsageError(f"--min-requests {self.min_requests}: out of range", "Give a whole number from 1.")
        for name in self.skip:
            if name not in parts.PARTS:
                raise UsageError(f"--skip {name}: there is no such part", f"Choose one of: {', '.join(parts.PARTS)}.")

    @property
    def kept(self) -> tuple[str, ...]:
        """What is not left out."""
        return tuple(name for name in parts.PARTS if name not in self.skip)

    @property
    def uses(self) -> frozenset[str]:
        """The columns that it reads."""
        key = {self.by} if "replication" in self.kept else set()
        return parts.NEEDED.union(key, *(parts.PARTS[name] for name in self.kept))

    @cached_property
    def width(self) -> Interval:
        """The width of a window."""
        return Interval.parse(self.window, "--window")

    def partial(self, part: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
        """The plan that summarises a part: a table per key of the state."""
        return {
            "parameters": parameters.plan(**self._described()),
            "counts": parts.counts(part, self.by, self.uses),
            **parts.plans(part, self),
        }

    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time.

        Raises:
            ValueError: if they were made with different parameters.
        """
        combined = parameters.combine([state["parameters"] for state in states])
        return {
            "parameters": combined,
            "counts": parts.summed([state["counts"] for state in states]),
            **parts.combine(states, self),
        }

    def accumulator(self) -> Counter[State]:
        """A counter of states: two at once, as what is open in many would take much memory together."""
        return Counter(self.combine)

    def finish(self, state: State) -> Result:
        """The result: `load`, hour by hour, as the primary table."""
        whole = {name: table for skipped in self.skip for name, table in parts.empty(skipped).items()} | state
        over = fleet.closed(whole)
        by_minute = minutes.measured(over["minutes"])
        copies = spread.read(whole, self.width)
        served = regimes.read(whole, self.min_requests)
        closed = loads.closed(whole, parts.PANELS)
        found: dict[str, pl.DataFrame] = {
            "load": minutes.by_hour(by_minute),
            "load_by_minute": minutes.by_minute(by_minute, all_rows=self.all_rows),
            "by_model": models.by_model(over["pools"], copies.by_model, whole["model_names"]),
            "instances": minutes.instances(whole),
            "replication_by_load": copies.by_load,
            "replication_by_window": minutes.limited(copies.by_window, all_rows=self.all_rows),
            "regimes": served.instances,
            "regime_users": served.listed,
            **{name: by_load.in_hexagons(closed, name) for name in by_load.HEXAGONS},
            "latencies": tables.latencies(whole),
        }
        counts = whole["counts"].row(0, named=True)
        scalars = {
            **minutes.scalars(counts, by_minute, whole["instances"]),
            **models.scalars(over["pools"]),
            **self._known(copies.scalars, counts, "replication", "placed_with_key"),
            **self._known(served.scalars, counts, "regimes", "placed_with_user", "logged"),
        }
        return Result(
            command=self.name,
            parameters={
                **self._described(),
                "least_requests": fleet.LEAST_REQUESTS,
                "least_instances": fleet.LEAST_INSTANCES,
                "least_keys": spread.LEAST_KEYS,
                "high_at": regimes.HIGH_AT,
                "low_at": regimes.LOW_AT,
                "least_in_hexagon": by_load.LEAST_REQUESTS,
                "hexagons_per_decade": hexagons.PER_DECADE,
            },
            scalars=scalars,
            tables=found,
            primary="load",
            notes=notes.notes(self, counts, scalars, found, closed),
            definitions=definitions(self),
            shown=("replication_by_load",) if copies.by_load.height else (),
        )

    def _known(self, scalars: Mapping[str, Scalar], counts: Mapping[str, int], part: str, *needed: str) -> Mapping[str, Scalar]:
        """The scalars of a part; not known, instead of zero, if it was left out or no request has what it needs."""
        lacks = counts["placed"] > 0 and not all(counts[name] for name in needed)
        return dict.fromkeys(scalars) if part in self.skip or lacks else scalars

    def _described(self) -> dict[str, Any]:
        return {
            "window": str(self.width),
            "by": self.by,
            "min_requests": self.min_requests,
            "all_rows": self.all_rows,
            "skip": list(self.skip),
        }
