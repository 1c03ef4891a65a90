"""What an analysis is: a plan per part, a lawful combine, a finish.

The laws, which `tests/test_laws.py` holds for every registered analysis: cutting the trace anywhere in time and combining
gives the answer of the whole; regrouping the combines changes nothing; an empty part changes nothing; inputs are not changed;
a state survives Parquet; states with other parameters refuse to combine.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import polars as pl

    from llmtrace.result import Result
    from llmtrace.summaries.accumulator import Accumulator

__all__ = ["Analysis", "Engine", "State"]

Engine: TypeAlias = Literal["in-memory", "streaming"]
State: TypeAlias = "dict[str, pl.DataFrame]"
"""The summary of one or several neighbouring parts: small tidy frames by name."""


class Analysis(Protocol):
    """A frozen dataclass of parameters, validated when built, that summarises a trace part by part."""

    name: ClassVar[str]
    """The command's word, as in `stats`."""

    rows_at_once: ClassVar[int] = 0
    """Rows of all parts in work together, where larger parts make this analysis faster; 0 keeps a million a part."""

    engine: ClassVar[Engine] = "streaming"
    """How Polars runs its plans. `in-memory` is for those that hand a part to a function and do nothing else: then it keeps none
    of the threads busy that Polars reads other parts with, and the part is not taken to pieces on the way."""

    @property
    @abstractmethod
    def requires(self) -> frozenset[str]:
        """Canonical columns without which the analysis has no answer (besides the three that every trace has)."""

    @property
    @abstractmethod
    def uses(self) -> frozenset[str]:
        """All canonical columns it reads, `requires` included. One that the trace lacks arrives as a column of nulls."""

    @property
    def tells(self) -> frozenset[str]:
        """Those of `uses` whose values the result names; values that are too long are shortened in them (see `engine.names`)."""
        return self.uses

    def for_span(self, first: datetime, last: datetime) -> Self:  # noqa: ARG002 - most have no such parameter
        """The analysis with every parameter that depends on the trace's span fixed, as `--interval auto` does."""
        return self

    @abstractmethod
    def partial(self, part: pl.LazyFrame) -> Mapping[str, pl.LazyFrame]:
        """The plan that summarises one part: a lazy frame per table of the state. Nothing is collected here.

        `part` has every column of `uses`, in canonical dtypes, sorted by timestamp.
        """

    @abstractmethod
    def combine(self, states: Sequence[State]) -> State:
        """One state from those of neighbouring parts, in order of time.

        Raises:
            ValueError: if the states come from different parameters, or are in another order where that matters.
        """

    @abstractmethod
    def accumulator(self) -> Accumulator[State]:
        """What brings the states of neighbouring parts together one by one, to the same as `combine` all at once."""

    def accumulator_of_all(self) -> Accumulator[State]:
        """The same for a whole trace, whose state is only finished: it may leave out what states beside it would ask for."""
        return self.accumulator()

    @abstractmethod
    def finish(self, state: State) -> Result:
        """The result; times in it are `datetime`s, whichever clock the trace is on."""
