"""The requests of a trace as a replay takes them, from its frames in order of time."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from llmtrace.errors import InputError, UsageError
from llmtrace.replay.route.blocks import Prompts
from llmtrace.replay.route.policy import NOBODY
from llmtrace.replay.route.stream import MOST_TOKENS, Requests
from llmtrace.replay.sessions import LEFT_OUT, Reconstruction, SessionTracker
from llmtrace.schema import failed
from llmtrace.summaries import keys
from llmtrace.summaries.cells import list_parts
from llmtrace.summaries.interning import Interner

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from llmtrace.trace import Trace

    Integers = npt.NDArray[np.int64]
    Ids = npt.NDArray[np.uint32]

__all__ = ["Gathered", "Gatherer", "OfBlocks", "OfSessions", "Speeds"]

BYTES, BYTES_PER_BLOCK = 100, 12
"""What a request and a block take at most while requests are gathered and made ready."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SECOND_US = 1_000_000
_LONGEST_S = 100.0 * 366 * 86_400
_GIB = 1 << 30
_TOO_LARGE = f"{{count}} {{request has|requests have}} more than {MOST_TOKENS:,} tokens and {{is|are}} left out."
_NO_BLOCKS = "{count} {request has|requests have} no block hashes or no known tokens and {is|are} left out."
_OTHER_BLOCKS = (
    "{count} {request has|requests have} more or fewer blocks than {its|their} input tokens fill: is --block-size right?"
)
_FAILED = "{count} {request has|requests have} failed and {is|are} left out."
_NO_DURATION = "{count} {request has|requests have} no known duration and {loads|load} no instance."
_NO_USER = "{count} {request names|requests name} no user: by sticky and consistent-hash {it is|they are} routed as if new."


@dataclass(frozen=True)
class Speeds:
    """How fast an instance computes a request, where the trace does not say how long it took.

    Attributes:
        prefill_tokens_per_s: tokens of a prompt a second.
        decode_tokens_per_s: tokens of an answer a second.

    Raises:
        UsageError: if one is not above zero.
    """

    prefill_tokens_per_s: float = 10_000.0
    decode_tokens_per_s: float = 50.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for step, value in (("prefill", self.prefill_tokens_per_s), ("decode", self.decode_tokens_per_s)):
            if not 0 < value < float("inf"):
                raise UsageError(f"--{step}-tokens-per-s {value:g}: not above zero", "Give a number such as 10000.")


@dataclass(frozen=True)
class Gathered:
    """The requests that are routed, and what is known of all.

    Attributes:
        requests: those that are routed.
        first_token_us: when each has its first token: as logged, else after its prefill.
        prompts: the blocks of their prompts, where instances hold blocks.
        total: how many requests there are, with those that are not routed.
        models: how many models the trace names.
        remarks: how many requests are left out or lack something, by the sentence that says so.
    """

    requests: Requests
    first_token_us: Integers
    prompts: Prompts | None
    total: int
    models: int
    remarks: Mapping[str, int]


class Gatherer(ABC):
    """Takes the frames of a trace one after the other.

    Attributes:
        columns: canonical columns that the frames shall have.
        has_durations: whether the trace says how long requests took.
        has_first_tokens: whether it says when they had their first token.
        knows_users: whether it names users.
    """

    def __init__(self, trace: Trace, speeds: Speeds, needed: frozenset[str]) -> None:
        """Gather the requests of a trace, of which these columns are needed."""
        optional = {"user", "model", "session", "status", "duration_s", "ttft_s", "request_id"}
        self.columns = needed | {"timestamp", "input_tokens", "output_tokens"} | (optional & set(trace.columns))
        self.has_durations, self.has_first_tokens = "duration_s" in self.columns, "ttft_s" in self.columns
        self.knows_users = "user" in self.columns
        self._speeds, self._total = speeds, 0
        self._users, self._models = Interner(), Interner()
        self._remarks: Counter[str] = Counter()
        self._lots: dict[str, list[npt.NDArray[Any]]] = {}

    @property
    @abstractmethod
    def is_given(self) -> bool | None:
        """Whether sessions are those of the trace; None where blocks are routed."""

    @abstractmethod
    def _taken(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The requests of a frame that are routed; what is special to them is put aside."""

    def prepare(self, frame: pl.DataFrame) -> pl.DataFrame:
        """What `add` takes, worked out on the thread that has read the frame."""
        named = [name for name in ("user", "model", "session") if name in frame.columns]
        hashed = {f"{name}_key": pl.Series(keys.of(frame[name])) for name in named}
        prompt, total = pl.col("input_tokens"), pl.col("input_tokens") + pl.col("output_tokens")
        fits = prompt.is_between(0, MOST_TOKENS) & total.is_between(0, MOST_TOKENS)
        return frame.with_columns(**hashed).with_columns(
            fits.fill_null(value=False).alias("fits"), self._duration_s().alias("duration"), self._prefill_s().alias("prefill")
        )

    def add(self, frame: pl.DataFrame) -> None:
        """Take the next frame, which has been prepared.

        Raises:
            InputError: if there are more requests than memory has room for.
        """
        self._total += frame.height
        taken = self._taken(frame)
        if "model_key" in taken.columns:
            self._models.add(taken["model_key"].to_numpy())
        arrival = taken["timestamp"].to_physical().to_numpy().astype(np.int64)
        self._remarks[_NO_DURATION] += taken["duration"].null_count()
        duration, prefill = (_microseconds(taken[name]) for name in ("duration", "prefill"))
        self._put("arrival_us", arrival)
        self._put("complete_us", arrival + duration)
        self._put("first_token_us", arrival + np.minimum(prefill, duration))
        self._put("user", self._user_of(taken))
        self._put("input_tokens", taken["input_tokens"].to_numpy().astype(np.int32))
        self._put("output_tokens", taken["output_tokens"].to_numpy().astype(np.int32))
        self._check_room()

    def gathered(self) -> Gathered:
        """All that was added, which is given up."""
        names = ("arrival_us", "complete_us", "session", "user", "input_tokens", "output_tokens")
        requests = Requests(*(self._whole(name) for name in names))
        remarks = {sentence: count for sentence, count in self._remarks.items() if count}
        models = self._models.keys.size
        return Gathered(requests, self._whole("first_token_us"), self._prompts(), self._total, models, remarks)

    def _prompts(self) -> Prompts | None:
        return None

    def _duration_s(self) -> pl.Expr:
        """Seconds until a request is complete; null if that is not known."""
        if self.has_durations:
            return pl.when(pl.col("duration_s").is_between(0, _LONGEST_S)).then(pl.col("duration_s"))
        decode = pl.col("output_tokens") / self._speeds.decode_tokens_per_s
        return (pl.col("input_tokens") / self._speeds.prefill_tokens_per_s + decode).clip(0, _LONGEST_S)

    def _prefill_s(self) -> pl.Expr:
        """Seconds until the first token: as logged, else estimated."""
        estimated = (pl.col("input_tokens") / self._speeds.prefill_tokens_per_s).clip(0, _LONGEST_S)
        if not self.has_first_tokens:
            return estimated
        return pl.when(pl.col("ttft_s").is_between(0, _LONGEST_S)).then(pl.col("ttft_s")).otherwise(estimated)

    def _user_of(self, taken: pl.DataFrame) -> Ids:
        user = np.full(taken.height, NOBODY, np.uint32)
        if self.knows_users:
            key = taken["user_key"].to_numpy()
            is_known = key != keys.UNKNOWN
            user[is_known] = self._users.add(key[is_known])
            self._remarks[_NO_USER] += int((~is_known).sum())
        return user

    def _put(self, name: str, values: npt.NDArray[Any]) -> None:
        self._lots.setdefault(name, []).append(values)

    def _whole(self, name: str) -> npt.NDArray[Any]:
        return np.concatenate(self._lots.pop(name))

    def _check_room(self) -> None:
        requests, blocks = (sum(lot.size for lot in self._lots.get(name, [])) for name in ("arrival_us", "ids"))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
        if memory is not None and BYTES * requests + BYTES_PER_BLOCK * blocks > memory:
            raise InputError(
                f"More than {requests:,} requests are to be routed, for which {memory / _GIB:.1f} GiB of memory are too small",
                "Route a part of the trace, with --since and --until or with --model.",
            )


class OfSessions(Gatherer):
    """Routes whole sessions: the trace's own, or reconstructed ones.

    Args:
        trace: an opened trace.
        speeds: see `Speeds`.
        rule: how sessions are reconstructed.
        reconstruct: whether they are even if the trace has some.

    Raises:
        MissingColumnError: if the trace has neither sessions nor what they are reconstructed from.
    """

    def __init__(self, trace: Trace, speeds: Speeds, rule: Reconstruction | None = None, *, reconstruct: bool = False) -> None:
        """Gather the sessions of a trace."""
        if reconstruct:
            self._tracker = SessionTracker.reconstructing(trace, rule or Reconstruction(), wanted_by="route")
        else:
            self._tracker = SessionTracker.of(trace, rule, wanted_by="route")
        super().__init__(trace, speeds, self._tracker.columns)

    @property
    def is_given(self) -> bool | None:
        """Whether sessions are those of the trace."""
        return self._tracker.is_given

    def prepare(self, frame: pl.DataFrame) -> pl.DataFrame:
        """What `add` takes, worked out on the thread that has read the frame."""
        return self._tracker.prepare(super().prepare(frame))

    def gathered(self) -> Gathered:
        """All that was added, which is given up."""
        self._remarks.update({sentence: self._tracker.left_out[reason] for reason, sentence in LEFT_OUT.items()})
        return super().gathered()

    def _taken(self, frame: pl.DataFrame) -> pl.DataFrame:
        session = self._tracker.add(frame).session
        fits = frame["fits"].to_numpy()
        self._remarks[_TOO_LARGE] += int(((session >= 0) & ~fits).sum())
        is_taken = (session >= 0) & fits
        self._put("session", session[is_taken].astype(np.uint32))
        return frame.filter(pl.Series(is_taken))


class OfBlocks(Gatherer):
    """Routes blocks of prompts; the session of a request, where the trace names one, tells whether it moved.

    Args:
        trace: an opened trace with block hashes.
        speeds: see `Speeds`.
        block_tokens: tokens of a block.
    """

    def __init__(self, trace: Trace, speeds: Speeds, block_tokens: int) -> None:
        """Gather the blocks of a trace."""
        super().__init__(trace, speeds, frozenset({"block_hashes"}))
        self._block_tokens = block_tokens
        self._blocks, self._sessions, self._alone = Interner(), Interner(), 0

    @property
    def is_given(self) -> bool | None:
        """Nothing is known of sessions."""
        return None

    def _taken(self, frame: pl.DataFrame) -> pl.DataFrame:
        is_failed = failed() if "status" in frame.columns else pl.lit(value=False)
        has_blocks = (pl.col("block_hashes").list.len() > 0).fill_null(value=False) & pl.col("input_tokens").is_not_null()
        known = has_blocks & pl.col("output_tokens").is_not_null()
        reasons = {_FAILED: is_failed, _NO_BLOCKS: ~is_failed & ~known, _TOO_LARGE: ~is_failed & known & ~pl.col("fits")}
        counts = frame.select(flag.sum().alias(sentence) for sentence, flag in reasons.items())
        self._remarks.update(counts.row(0, named=True))
        taken = frame.filter(~is_failed, known, pl.col("fits"))
        offsets, hashes = list_parts(taken["block_hashes"])
        lengths = np.diff(offsets)
        if "model_key" in taken.columns:
            hashes = hashes ^ np.repeat(taken["model_key"].to_numpy() * _SPREAD, lengths)
        self._put("ids", self._blocks.add(hashes))
        self._put("lengths", lengths.astype(np.int64))
        tokens = taken["input_tokens"].to_numpy()
        whole, begun = tokens // self._block_tokens, -(-tokens // self._block_tokens)
        self._remarks[_OTHER_BLOCKS] += int(((lengths < whole) | (lengths > begun)).sum())
        self._put("session", self._session_of(taken))
        return taken

    def _session_of(self, taken: pl.DataFrame) -> Ids:
        """Dense numbers of sessions; a request that names none is alone in one."""
        key = taken["session_key"].to_numpy().copy() if "session_key" in taken.columns else np.zeros(taken.height, np.uint64)
        is_alone = key == keys.UNKNOWN
        alone = int(is_alone.sum())
        key[is_alone] = np.arange(self._alone, self._alone + alone, dtype=np.uint64) * _SPREAD
        self._alone += alone
        return self._sessions.add(key)

    def _prompts(self) -> Prompts:
        lengths = self._whole("lengths")
        offsets = np.zeros(lengths.size + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return Prompts(self._whole("ids"), offsets, self._block_tokens)


def _microseconds(seconds: pl.Series) -> Integers:
    """Whole microseconds; nothing where it is not known."""
    rounded: Integers = np.rint(seconds.fill_null(0.0).to_numpy() * _SECOND_US).astype(np.int64)
    return rounded
