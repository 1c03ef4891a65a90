"""The requests of a trace as a replay takes them, from its frames in order of time, frame by frame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from llmtrace.errors import UsageError
from llmtrace.replay.route.blocks import Prompts
from llmtrace.replay.route.lasts import NONE, Previous
from llmtrace.replay.route.memory import at_least
from llmtrace.replay.route.policy import NOBODY
from llmtrace.replay.route.stream import MOST_TOKENS, Requests
from llmtrace.replay.sessions import LEFT_OUT, Reconstruction, SessionTracker
from llmtrace.schema import failed
from llmtrace.summaries import keys
from llmtrace.summaries.cells import list_parts
from llmtrace.summaries.interning import Interner

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.trace import Trace

    Integers = npt.NDArray[np.int64]
    Ids = npt.NDArray[np.uint32]

__all__ = ["Gatherer", "Lot", "OfBlocks", "OfSessions", "Speeds"]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SECOND_US = 1_000_000
_LONGEST_S = 100.0 * 366 * 86_400
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


class Lot(NamedTuple):
    """The requests of a frame that are routed.

    Attributes:
        requests: them.
        first_token_us: when each has its first token: as logged, else after its prefill.
        before: which request is before each in its session, by how many were routed before that; `lasts.NONE` if none is. Empty
            unless it was asked for.
        prompts: the blocks of their prompts, where instances hold blocks.
        blocks_before: the same as `before` of the uses of blocks.
    """

    requests: Requests
    first_token_us: Integers
    before: Integers
    prompts: Prompts | None
    blocks_before: Integers


_NOTHING = np.zeros(0, np.int64)


class Gatherer(ABC):
    """Takes the frames of a trace one after the other.

    Attributes:
        columns: canonical columns that the frames shall have.
        has_durations: whether the trace says how long requests took.
        has_first_tokens: whether it says when they had their first token.
        knows_users: whether it names users.
        is_dated: whether its times are dates.
        total: how many requests there were so far, with those that are not routed.
        routed: how many are routed.
    """

    def __init__(self, trace: Trace, speeds: Speeds, needed: frozenset[str], *, looks_back: bool) -> None:
        """Gather the requests of a trace, of which these columns are needed."""
        optional = {"user", "model", "session", "status", "duration_s", "ttft_s", "request_id"}
        self.columns = needed | {"timestamp", "input_tokens", "output_tokens"} | (optional & set(trace.columns))
        self.has_durations, self.has_first_tokens = "duration_s" in self.columns, "ttft_s" in self.columns
        self.knows_users, self.is_dated = "user" in self.columns, trace.clock == "utc"
        self.total, self.routed = 0, 0
        self._remarks: Counter[str] = Counter()
        self._speeds, self._looks_back = speeds, looks_back
        self._users, self._models = Interner(), Interner()

    @property
    @abstractmethod
    def is_given(self) -> bool | None:
        """Whether sessions are those of the trace; None where blocks are routed."""

    @property
    @abstractmethod
    def objects(self) -> int:
        """How many sessions, or blocks, there were so far."""

    @property
    def users(self) -> int:
        """How many users were named so far."""
        return self._users.keys.size

    @property
    def models(self) -> int:
        """How many models were named so far."""
        return self._models.keys.size

    @property
    def remarks(self) -> dict[str, int]:
        """How many requests so far are left out or lack something, by the sentence that says so."""
        return {sentence: count for sentence, count in self._remarks.items() if count}

    @abstractmethod
    def _taken(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, _Parts]:
        """The requests of a frame that are routed, and what is special to them."""

    def prepare(self, frame: pl.DataFrame) -> pl.DataFrame:
        """What `add` takes, worked out on the thread that has read the frame."""
        named = [name for name in ("user", "model", "session") if name in frame.columns]
        hashed = {f"{name}_key": pl.Series(keys.of(frame[name])) for name in named}
        prompt, total = pl.col("input_tokens"), pl.col("input_tokens") + pl.col("output_tokens")
        fits = prompt.is_between(0, MOST_TOKENS) & total.is_between(0, MOST_TOKENS)
        return frame.with_columns(**hashed).with_columns(
            fits.fill_null(value=False).alias("fits"), self._duration_s().alias("duration"), self._prefill_s().alias("prefill")
        )

    def add(self, frame: pl.DataFrame) -> Lot:
        """The requests of the next frame, which has been prepared."""
        self.total += frame.height
        taken, parts = self._taken(frame)
        self.routed += taken.height
        if "model_key" in taken.columns:
            self._models.add(taken["model_key"].to_numpy())
        arrival = taken["timestamp"].to_physical().to_numpy().astype(np.int64)
        self._remarks[_NO_DURATION] += taken["duration"].null_count()
        duration, prefill = (_microseconds(taken[name]) for name in ("duration", "prefill"))
        tokens = (taken[name].to_numpy().astype(np.int32) for name in ("input_tokens", "output_tokens"))
        requests = Requests(arrival, arrival + duration, parts.session, self._user_of(taken), *tokens)
        return Lot(requests, arrival + np.minimum(prefill, duration), parts.before, parts.prompts, parts.blocks_before)

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


class _Parts(NamedTuple):
    """What is special to sessions or to blocks in a `Lot`."""

    session: Ids
    before: Integers
    prompts: Prompts | None = None
    blocks_before: Integers = _NOTHING


class OfSessions(Gatherer):
    """Routes whole sessions: the trace's own, or reconstructed ones.

    Args:
        trace: an opened trace.
        speeds: see `Speeds`.
        rule: how sessions are reconstructed.
        reconstruct: whether they are even if the trace has some.
        looks_back: whether lots shall say which request is before each.

    Raises:
        MissingColumnError: if the trace has neither sessions nor what they are reconstructed from.
    """

    def __init__(
        self,
        trace: Trace,
        speeds: Speeds,
        rule: Reconstruction | None = None,
        *,
        reconstruct: bool = False,
        looks_back: bool = False,
    ) -> None:
        """Gather the sessions of a trace."""
        if reconstruct:
            self._tracker = SessionTracker.reconstructing(trace, rule or Reconstruction(), wanted_by="route")
        else:
            self._tracker = SessionTracker.of(trace, rule, wanted_by="route")
        self._previous = Previous()
        super().__init__(trace, speeds, self._tracker.columns, looks_back=looks_back)

    @property
    def is_given(self) -> bool | None:
        """Whether sessions are those of the trace."""
        return self._tracker.is_given

    @property
    def objects(self) -> int:
        """How many sessions there were so far."""
        return self._tracker.sessions

    @property
    def remarks(self) -> dict[str, int]:
        """How many requests so far are left out or lack something, by the sentence that says so."""
        left_out = {sentence: self._tracker.left_out[reason] for reason, sentence in LEFT_OUT.items()}
        return {**super().remarks, **{sentence: count for sentence, count in left_out.items() if count}}

    def prepare(self, frame: pl.DataFrame) -> pl.DataFrame:
        """What `add` takes, worked out on the thread that has read the frame."""
        return self._tracker.prepare(super().prepare(frame))

    def _taken(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, _Parts]:
        belongs, fits = frame["left_out"].to_numpy() == 0, frame["fits"].to_numpy()
        is_taken = belongs & fits
        requests = self._tracker.requests(frame)
        marks = self._looks_back and not self._tracker.is_given
        if marks:
            numbers = np.where(is_taken, self.routed + np.cumsum(is_taken), 0)
            requests = requests._replace(marks=numbers.astype(np.uint64))
        turns = self._tracker.linker.add(requests, self._tracker.keys)
        session, before = turns.session[is_taken].astype(np.uint32), _NOTHING
        if marks:
            before = turns.parent_marks[is_taken].astype(np.int64) - 1
        elif self._looks_back:
            before = self._previous.add(session)
        self._remarks[_TOO_LARGE] += int((belongs & ~fits).sum())
        return frame.filter(pl.Series(is_taken)), _Parts(session, before)


class OfBlocks(Gatherer):
    """Routes blocks of prompts; the session of a request, where the trace names one, tells whether it moved.

    Args:
        trace: an opened trace with block hashes.
        speeds: see `Speeds`.
        block_tokens: tokens of a block.
        looks_back: whether lots shall say which use of a session or a block is before each.
    """

    def __init__(self, trace: Trace, speeds: Speeds, block_tokens: int, *, looks_back: bool = False) -> None:
        """Gather the blocks of a trace."""
        super().__init__(trace, speeds, frozenset({"block_hashes"}), looks_back=looks_back)
        self._block_tokens = block_tokens
        self._blocks, self._sessions = Interner(), Numbers()
        self._previous, self._previous_block = Previous(), Previous()

    @property
    def is_given(self) -> bool | None:
        """Nothing is known of sessions."""
        return None

    @property
    def objects(self) -> int:
        """How many blocks there were so far."""
        return self._blocks.keys.size

    def _taken(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, _Parts]:
        taken = self._known(frame)
        offsets, hashes = list_parts(taken["block_hashes"])
        lengths = np.diff(offsets)
        if "model_key" in taken.columns:
            hashes = hashes ^ np.repeat(taken["model_key"].to_numpy() * _SPREAD, lengths)
        tokens = taken["input_tokens"].to_numpy()
        whole, begun = tokens // self._block_tokens, -(-tokens // self._block_tokens)
        self._remarks[_OTHER_BLOCKS] += int(((lengths < whole) | (lengths > begun)).sum())
        has_sessions = "session_key" in taken.columns
        key = taken["session_key"].to_numpy() if has_sessions else np.full(taken.height, keys.UNKNOWN)
        session, ids = self._sessions.add(key), self._blocks.add(hashes)
        prompts = Prompts(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), self._block_tokens)
        if not self._looks_back:
            return taken, _Parts(session, _NOTHING, prompts)
        before = self._previous.add(session) if has_sessions else np.full(taken.height, NONE)
        return taken, _Parts(session, before, prompts, self._previous_block.add(ids))

    def _known(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The requests with blocks, of those that did not fail."""
        is_failed = failed() if "status" in frame.columns else pl.lit(value=False)
        has_blocks = (pl.col("block_hashes").list.len() > 0).fill_null(value=False) & pl.col("input_tokens").is_not_null()
        known = has_blocks & pl.col("output_tokens").is_not_null()
        reasons = {_FAILED: is_failed, _NO_BLOCKS: ~is_failed & ~known, _TOO_LARGE: ~is_failed & known & ~pl.col("fits")}
        counts = frame.select(flag.sum().alias(sentence) for sentence, flag in reasons.items())
        self._remarks.update(counts.row(0, named=True))
        return frame.filter(~is_failed, known, pl.col("fits"))


class Numbers:
    """Dense numbers of keys, of which an unknown one is another each time and is not remembered.

    >>> numbers = Numbers()
    >>> numbers.add(np.array([7, 0, 7], np.uint64)), numbers.add(np.array([0, 9, 7], np.uint64))
    (array([0, 1, 0], dtype=uint32), array([2, 3, 0], dtype=uint32))
    """

    def __init__(self) -> None:
        """Know no key."""
        self._known, self._numbers, self._given = Interner(), np.zeros(0, np.uint32), 0

    def add(self, key: npt.NDArray[np.uint64]) -> Ids:
        """The number of each key."""
        before, is_known = self._known.keys.size, key != keys.UNKNOWN
        ids = self._known.add(key[is_known])
        # Numbers of new keys rise by one from each to the next.
        highest = np.maximum.accumulate(np.concatenate([[before - 1], ids.astype(np.int64)]))
        is_new = ~is_known
        is_new[is_known] = ids > highest[:-1]
        numbers = (self._given + np.cumsum(is_new) - 1).astype(np.uint32)
        self._given += int(is_new.sum())
        self._numbers = at_least(self._numbers, self._known.keys.size)
        is_first = is_new[is_known]
        self._numbers[ids[is_first]] = numbers[is_known][is_first]
        numbers[is_known] = self._numbers[ids]
        return numbers


def _microseconds(seconds: pl.Series) -> Integers:
    """Whole microseconds; nothing where it is not known."""
    rounded: Integers = np.rint(seconds.fill_null(0.0).to_numpy() * _SECOND_US).astype(np.int64)
    return rounded
