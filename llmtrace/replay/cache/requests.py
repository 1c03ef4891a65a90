"""The requests of a trace as arrays that a replay takes: what each uses, when, and how many tokens it has.

Of sessions 16 bytes a request are held (20 where outputs are kept too), of blocks 20 bytes a request and 5 a block. What a
replay needs besides depends on the policy: up to some 60 bytes per session or block, and 8 per use for those that know the
stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from llmtrace.errors import InputError
from llmtrace.replay.cache.room import FEWER, GIB, memory_bytes
from llmtrace.replay.cache.stream import of_blocks, of_objects
from llmtrace.schema import failed
from llmtrace.summaries import keys
from llmtrace.summaries.cells import list_parts
from llmtrace.summaries.interning import Interner, first_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from llmtrace.replay.cache.stream import Ids, Offsets, Sizes, Stream
    from llmtrace.replay.sessions.tracker import SessionTracker
    from llmtrace.summaries.interning import Keys

    Integers = npt.NDArray[np.int64]

__all__ = ["Blocks", "Gatherer", "Reconstructed", "Requests", "Sessions"]

MOST = np.iinfo(np.int32).max
"""Uses that a replay can number, and tokens that a request can have in it."""
_TAKEN, _FAILED, _NO_INPUT, _TOO_LARGE, _UNKNOWN = range(5)
_REASONS = {_FAILED: "failed_requests", _NO_INPUT: "no_input_requests", _TOO_LARGE: "too_large_requests"}
_PEAK = 3
"""A replay of what is gathered needs up to so many times its bytes."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Requests:
    """The requests that are replayed, in order.

    Attributes:
        stream: what they use.
        times_us: when each arrives, in microseconds, ascending.
        input_tokens: of each.
        block_tokens: tokens per block; None where whole sessions are used.
        counts: `requests`, all there are; `replayed_requests`; why the others were left out; and what else is worth a note.
    """

    stream: Stream
    times_us: Integers
    input_tokens: Sizes
    block_tokens: int | None
    counts: Mapping[str, int]

    @property
    def unit_tokens(self) -> int:
        """Tokens in a unit of the cache: those of a block, or 1."""
        return self.block_tokens or 1

    @cached_property
    def working_set_tokens(self) -> int:
        """Of sessions the sizes at their first requests together, as in the paper; of blocks every one once, as a whole one."""
        if self.block_tokens is not None:
            return self.stream.objects * self.block_tokens
        firsts = first_rows(self.stream.ids, self.stream.objects)
        return int(self.stream.sizes[firsts].sum(dtype=np.int64))

    @property
    def held_bytes(self) -> int:
        """Bytes of all arrays."""
        arrays = {id(one): one.nbytes for one in (self.stream.ids, self.stream.sizes, self.times_us, self.input_tokens)}
        return sum(arrays.values()) + (0 if self.stream.offsets is None else self.stream.offsets.nbytes)


class Gatherer(ABC):
    """Takes the frames of a trace in order, and gives its requests.

    Args:
        by_model: whether the trace names models, so that what one has cached is of no use to another.
    """

    columns: ClassVar[frozenset[str]]
    """Canonical columns that the frames need."""
    unknown: ClassVar[str]
    """What requests are counted as whose object is not known."""

    def __init__(self, *, by_model: bool) -> None:
        """Hold nothing."""
        self.by_model = by_model
        self._interner = Interner()
        self._counts = Counter[str]()
        self._lots: dict[str, list[npt.NDArray[Any]]] = {}

    @property
    def needs(self) -> frozenset[str]:
        """The columns, the model's among them if it counts."""
        return self.columns | ({"model"} if self.by_model else set())

    def prepare(self, frame: pl.DataFrame) -> pl.DataFrame:
        """What `add` takes, made of a part's frame: on whatever thread has read it."""
        named = self._named(frame)
        size = self._size()
        tokens = pl.col("input_tokens").fill_null(0)
        why = (
            pl.when(failed())
            .then(_FAILED)
            .when(tokens <= 0)
            .then(_NO_INPUT)
            .when((tokens > MOST) | (size > MOST))
            .then(_TOO_LARGE)
            .when(self._is_unknown())
            .then(_UNKNOWN)
            .otherwise(_TAKEN)
            .alias("why")
        )
        time = pl.col("timestamp").to_physical().alias("time_us")
        return named.select(time, tokens, size.alias("size"), why, *self._object())

    def add(self, frame: pl.DataFrame) -> None:
        """Take a prepared frame.

        Raises:
            InputError: if there are more requests or blocks than a replay can number, or than memory holds.
        """
        counts = np.bincount(frame["why"].to_numpy(), minlength=5)
        self._counts.update({"requests": frame.height, "replayed_requests": int(counts[_TAKEN])})
        reasons = {**_REASONS, _UNKNOWN: self.unknown}
        self._counts.update({name: int(counts[why]) for why, name in reasons.items() if counts[why]})
        taken = frame.filter(pl.col("why") == _TAKEN)
        self._put("times_us", taken["time_us"].to_numpy())
        self._put("input_tokens", taken["input_tokens"].to_numpy().astype(np.int32))
        self._take(taken, frame)
        self._check_room()

    @abstractmethod
    def requests(self) -> Requests:
        """All that was added."""

    def _named(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with what tells objects apart."""
        return frame.with_columns(pl.col("model").fill_null("")) if self.by_model else frame

    @abstractmethod
    def _size(self) -> pl.Expr:
        """Tokens that a request leaves in the cache."""

    @abstractmethod
    def _is_unknown(self) -> pl.Expr:
        """Whether it is not known what a request uses."""

    @abstractmethod
    def _object(self) -> list[pl.Expr]:
        """What it uses."""

    @abstractmethod
    def _take(self, taken: pl.DataFrame, frame: pl.DataFrame) -> None:
        """Keep what the requests that are taken use, of all in the frame."""

    def _put(self, name: str, values: npt.NDArray[Any]) -> None:
        self._lots.setdefault(name, []).append(values)

    def _whole(self, name: str) -> npt.NDArray[Any]:
        """An array of all lots, which are given up."""
        lots = self._lots.pop(name)
        return np.concatenate(lots)

    def _objects_in_all(self) -> int:
        """How many objects there are; their keys are given up, which take more memory than many a replay."""
        known = self._interner.keys.size
        self._interner = Interner()
        return known

    def _check_room(self) -> None:
        uses = sum(lot.size for lot in self._lots["ids"])
        if uses > MOST:
            raise InputError(f"There are more than {MOST:,} uses of {self._what} to replay", f"{FEWER}.")
        held = sum(lot.nbytes for lots in self._lots.values() for lot in lots)
        memory = memory_bytes()
        if memory is not None and _PEAK * held > memory:
            raise InputError(
                f"The replay of {self._counts['requests']:,} requests, and of those to come, needs more than the "
                f"{memory / GIB:.1f} GiB of memory that there are",
                f"{FEWER}.",
            )

    @property
    def _what(self) -> str:
        return "blocks" if isinstance(self, Blocks) else "sessions"


class Sessions(Gatherer):
    """Every session is one object, which grows from request to request.

    Args:
        keep_output: whether a session holds its outputs too.
        by_model: see `Gatherer`.
    """

    columns: ClassVar[frozenset[str]] = frozenset({"timestamp", "input_tokens", "output_tokens", "session", "status"})
    unknown: ClassVar[str] = "no_session_requests"

    def __init__(self, *, keep_output: bool, by_model: bool) -> None:
        """Hold nothing."""
        super().__init__(by_model=by_model)
        self.keep_output = keep_output

    def requests(self) -> Requests:
        """All that was added."""
        tokens: Sizes = self._whole("input_tokens")
        sizes: Sizes = self._whole("sizes") if self.keep_output else tokens
        stream = of_objects(self._whole("ids"), sizes, self._objects_in_all())
        return Requests(stream, self._whole("times_us"), tokens, None, dict(self._counts))

    def _size(self) -> pl.Expr:
        output = pl.col("output_tokens").fill_null(0).clip(0, MOST + 1)
        tokens = pl.col("input_tokens").fill_null(0).clip(0, MOST + 1)
        return tokens + output if self.keep_output else tokens

    def _is_unknown(self) -> pl.Expr:
        return pl.col("session").is_null()

    def _object(self) -> list[pl.Expr]:
        return [keys.key("session", *(["model"] if self.by_model else [])).alias("object")]

    def _take(self, taken: pl.DataFrame, frame: pl.DataFrame) -> None:
        self._put("ids", self._interner.add(self._objects(taken, frame)))
        if self.keep_output:
            self._put("sizes", taken["size"].to_numpy().astype(np.int32))

    def _objects(self, taken: pl.DataFrame, frame: pl.DataFrame) -> Keys:  # noqa: ARG002
        """The key of the session of each request that is taken."""
        found: Keys = taken["object"].to_numpy()
        return found


class Reconstructed(Sessions):
    """The same with sessions that are found while the trace is read, as in `llmtrace sessions`.

    Args:
        tracker: what finds them.
        keep_output: see `Sessions`.
    """

    unknown: ClassVar[str] = "no_key_requests"

    def __init__(self, tracker: SessionTracker, *, keep_output: bool) -> None:
        """Hold nothing."""
        super().__init__(keep_output=keep_output, by_model=False)
        self._tracker = tracker

    @property
    def needs(self) -> frozenset[str]:
        """What tells users, models and endpoints apart too."""
        return self._tracker.columns | {"status"}

    def _named(self, frame: pl.DataFrame) -> pl.DataFrame:
        return self._tracker.prepare(frame)

    def _is_unknown(self) -> pl.Expr:
        return pl.col("left_out") > 0

    def _object(self) -> list[pl.Expr]:
        return [pl.col("timestamp"), pl.col("^(session_key|endpoint_key|total_tokens|left_out)$")]

    def _objects(self, taken: pl.DataFrame, frame: pl.DataFrame) -> Keys:  # noqa: ARG002
        sessions = self._tracker.add(frame).session
        found: Keys = sessions[frame["why"].to_numpy() == _TAKEN].astype(np.uint64)
        return found


class Blocks(Gatherer):
    """Every block of a prompt is an object.

    Args:
        block_tokens: tokens per block.
        by_model: see `Gatherer`.
    """

    columns: ClassVar[frozenset[str]] = frozenset({"timestamp", "input_tokens", "block_hashes", "status"})
    unknown: ClassVar[str] = "no_block_requests"

    def __init__(self, *, block_tokens: int, by_model: bool) -> None:
        """Hold nothing."""
        super().__init__(by_model=by_model)
        self.block_tokens = block_tokens

    def requests(self) -> Requests:
        """All that was added."""
        lengths = self._whole("lengths")
        offsets: Offsets = np.zeros(lengths.size + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        stream = of_blocks(self._whole("ids"), offsets, self._objects_in_all())
        return Requests(stream, self._whole("times_us"), self._whole("input_tokens"), self.block_tokens, dict(self._counts))

    def _size(self) -> pl.Expr:
        return pl.lit(0, pl.Int64)

    def _is_unknown(self) -> pl.Expr:
        return pl.col("block_hashes").list.len().fill_null(0) == 0

    def _object(self) -> list[pl.Expr]:
        return [pl.col("block_hashes"), *([keys.key("model").alias("object")] if self.by_model else [])]

    def _take(self, taken: pl.DataFrame, frame: pl.DataFrame) -> None:  # noqa: ARG002
        offsets, hashes = list_parts(taken["block_hashes"])
        lengths = np.diff(offsets)
        if self.by_model:
            hashes = hashes ^ np.repeat(taken["object"].to_numpy() * _SPREAD, lengths)
        ids: Ids = self._interner.add(hashes)
        self._put("ids", ids)
        self._put("lengths", lengths.astype(np.int32))
        tokens = taken["input_tokens"].to_numpy()
        whole, begun = tokens // self.block_tokens, -(-tokens // self.block_tokens)
        self._counts["other_blocks_requests"] += int(((lengths < whole) | (lengths > begun)).sum())
