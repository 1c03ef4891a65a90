"""Layouts: a synthetic trace as the files that others publish, with their columns, clocks and oddities.

They show what the readers of such files must cope with, and give every reader a file to try. Where a layout has no place for
failed requests they are left out; what it has no column for is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from uuid import NAMESPACE_URL, uuid5

import numpy as np
import polars as pl
import pyarrow as pa

from llmtrace.schema import succeeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

__all__ = ["LAYOUTS", "Layout"]

MOONCAKE_BLOCK_TOKENS = 512
_SECOND_US, _DAY_US = 1_000_000, 86_400_000_000
_BURSTGPT_V2_BEGINS_S = 225 * 86_400
"""The second release of BurstGPT goes on with the clock of the first."""
_REHASH_DAYS = 92
_CHUTES_DIGITS = 10_000_000
_SPLITMIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@dataclass(frozen=True)
class Layout:
    """A foreign layout.

    Attributes:
        name: the word for it on the command line.
        what: whose layout it is.
        kind: how the rows are laid out as bytes.
        rows: foreign rows of a canonical frame, given the moment at which the trace starts.
        newline: what ends a line.
        last_newline: whether the last line has it too.
        block_size: tokens per block if it holds prefix blocks, which the trace must then have.
        served: whether it has columns of what only service gives.
    """

    name: str
    what: str
    kind: Literal["csv", "jsonl", "parquet"]
    rows: Callable[[pl.DataFrame, datetime], pl.DataFrame]
    newline: str = "\n"
    last_newline: bool = True
    block_size: int | None = None
    served: bool = False


def _azure_2023(frame: pl.DataFrame, _: datetime) -> pl.DataFrame:
    """Ticks of 100 ns, one digit more than we keep: it is made up."""
    tick = (pl.col("request_id") * 7 % 10).cast(pl.String)
    time = pl.col("timestamp").dt.strftime("%Y-%m-%d %H:%M:%S%.6f") + tick
    return frame.filter(succeeded()).select(TIMESTAMP=time, ContextTokens="input_tokens", GeneratedTokens="output_tokens")


def _azure_2024(frame: pl.DataFrame, _: datetime) -> pl.DataFrame:
    return frame.filter(succeeded()).select(
        TIMESTAMP=_offset_time(), ContextTokens="input_tokens", GeneratedTokens="output_tokens"
    )


def _azure_lmm(frame: pl.DataFrame, _: datetime) -> pl.DataFrame:
    """A third of the sessions have one to three images."""
    images = (_number("session") * 5 % 9 - 5).clip(lower_bound=0)
    return frame.filter(succeeded()).select(
        TIMESTAMP=_offset_time(), NumImages=images, ContextTokens="input_tokens", GeneratedTokens="output_tokens"
    )


def _offset_time() -> pl.Expr:
    """UTC with its offset; a whole second has no fraction."""
    time = pl.col("timestamp")
    whole = time.dt.strftime("%Y-%m-%d %H:%M:%S+00:00")
    return pl.when(time.dt.microsecond() == 0).then(whole).otherwise(time.dt.strftime("%Y-%m-%d %H:%M:%S%.6f+00:00"))


def _burstgpt_v1(frame: pl.DataFrame, start: datetime) -> pl.DataFrame:
    """Whole seconds since the first midnight; a failed request has no tokens."""
    return frame.select((_elapsed_us(start) // _SECOND_US).alias("Timestamp"), **_burstgpt())


def _burstgpt_v2(frame: pl.DataFrame, start: datetime) -> pl.DataFrame:
    """Only conversations have a session; the clock starts where the first release stopped."""
    time = (_elapsed_us(start) // _SECOND_US + _BURSTGPT_V2_BEGINS_S).cast(pl.Float64)
    session = pl.when(endpoint="chat").then(_uuid(frame["session"]))
    elapsed = pl.col("duration_s").round().cast(pl.Int64)
    return frame.select(time.alias("Timestamp"), session.alias("Session ID"), elapsed.alias("Elapsed time"), **_burstgpt())


def _burstgpt() -> dict[str, pl.Expr]:
    asked, answered = (pl.col(name).fill_null(0) for name in ("input_tokens", "output_tokens"))
    kind = pl.when(endpoint="chat").then(pl.lit("Conversation log")).otherwise(pl.lit("API log"))
    return {
        "Model": pl.col("model"),
        "Request tokens": asked,
        "Response tokens": answered,
        "Total tokens": asked + answered,
        "Log Type": kind,
    }


def _mooncake(frame: pl.DataFrame, start: datetime) -> pl.DataFrame:
    """Milliseconds; the last block counts even if it is not full, and has an id of its own, an odd one."""
    full = pl.col("block_hashes").list.eval(pl.element() * 2)
    partial = pl.col("input_tokens") % MOONCAKE_BLOCK_TOKENS > 0
    own = pl.concat_list(2 * pl.col("request_id") + 1).list.head(partial.cast(pl.Int64)).cast(pl.List(pl.UInt64))
    return frame.filter(succeeded()).select(
        timestamp=_elapsed_us(start) // 1000,
        input_length="input_tokens",
        output_length="output_tokens",
        hash_ids=full.list.concat(own),
    )


def _chutes(frame: pl.DataFrame, start: datetime) -> pl.DataFrame:
    """Elapsed time dressed as 1970, ids anew every three months, small floats, and no tokens or end where a request failed."""
    started = pl.from_epoch(_elapsed_us(start), "us")
    rehash = (_elapsed_us(start) // (_REHASH_DAYS * _DAY_US) + 1).cast(pl.Int32)
    user = (_number("user") * 7_654_321 + rehash * 1_234_567) % _CHUTES_DIGITS
    completed = pl.when(succeeded()).then(started + pl.duration(microseconds=(pl.col("duration_s") * _SECOND_US).round()))
    return frame.select(
        invocation_id=pl.col("request_id") * 7 + 100_000_000_000,
        function_name=pl.col("endpoint") + pl.when("stream").then(pl.lit("_stream")).otherwise(pl.lit("")),
        chute_id=_model_uuid(frame["model"]),
        user_id=pl.format("u{}_{}", rehash, _seven_digits(user)),
        rehash_round=rehash,
        instance_id=pl.format("i{}", _seven_digits(_number("instance"))),
        started_at=started,
        completed_at=completed.cast(pl.Datetime("us")),
        it=pl.col("input_tokens").cast(pl.Float32),
        ot=pl.col("output_tokens").cast(pl.Float32),
        ct=pl.col("cached_tokens").cast(pl.Float32),
        ttft=pl.col("ttft_s").cast(pl.Float32),
    )


def _gateway_csv(frame: pl.DataFrame, _: datetime) -> pl.DataFrame:
    """Names of no one's standard."""
    return frame.select(
        pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").alias("Received (UTC)"),
        pl.col("user").alias("API Key"),
        pl.col("model").alias("Deployment"),
        pl.col("instance").alias("Pod"),
        pl.col("endpoint").alias("Route"),
        pl.col("session").alias("Thread"),
        pl.col("stream").alias("Streaming?"),
        pl.col("input_tokens").alias("Tokens In"),
        pl.col("cached_tokens").alias("Tokens In (cached)"),
        pl.col("output_tokens").alias("Tokens Out"),
        pl.col("ttft_s").alias("First Token (s)"),
        pl.col("duration_s").alias("Total (s)"),
        pl.col("status").alias("Outcome"),
    )


def _gateway_jsonl(frame: pl.DataFrame, _: datetime) -> pl.DataFrame:
    """Epoch milliseconds, and the words of the OpenAI interface for tokens."""
    return frame.select(
        id="request_id",
        created_at=pl.col("timestamp").dt.epoch("ms"),
        user_id="user",
        model="model",
        stream="stream",
        prompt_tokens="input_tokens",
        completion_tokens="output_tokens",
        cached_tokens="cached_tokens",
        ttft_ms=(pl.col("ttft_s") * 1000).round().cast(pl.Int64),
        latency_ms=(pl.col("duration_s") * 1000).round().cast(pl.Int64),
        status="status",
    )


def _elapsed_us(start: datetime) -> pl.Expr:
    return (pl.col("timestamp") - start).dt.total_microseconds()


def _number(name: str) -> pl.Expr:
    """The number in an id such as u0012."""
    return pl.col(name).str.slice(1).cast(pl.Int64)


def _seven_digits(number: pl.Expr) -> pl.Expr:
    return number.cast(pl.String).str.zfill(7)


def _model_uuid(models: pl.Series) -> pl.Expr:
    names = models.unique()
    return pl.col("model").replace_strict(names, [str(uuid5(NAMESPACE_URL, name)) for name in names])


def _uuid(sessions: pl.Series) -> pl.Series:
    """UUIDs by session number, two words of SplitMix64 each."""
    numbers = sessions.str.slice(1).cast(pl.UInt64).to_numpy()
    words = np.column_stack([_mixed(2 * numbers), _mixed(2 * numbers + 1)]).astype(">u8")
    raw = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(numbers), [None, pa.py_buffer(words.tobytes())])
    digits = pl.Series(pl.from_arrow(raw.cast(pa.binary()))).bin.encode("hex").alias("digits").to_frame()
    parts = [pl.col("digits").str.slice(*place) for place in ((0, 8), (8, 4), (12, 4), (16, 4), (20, 12))]
    return digits.select(pl.concat_str(parts, separator="-")).to_series()


def _mixed(words: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    step, first, second = (np.uint64(constant) for constant in _SPLITMIX)
    mixed = (words + np.uint64(1)) * step
    mixed = (mixed ^ (mixed >> np.uint64(30))) * first
    mixed = (mixed ^ (mixed >> np.uint64(27))) * second
    return mixed ^ (mixed >> np.uint64(31))


LAYOUTS: Mapping[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("azure-2023", "Azure LLM inference trace of 2023", "csv", _azure_2023, newline="\r\n", last_newline=False),
        Layout("azure-2024", "Azure LLM inference traces of 2024", "csv", _azure_2024),
        Layout("azure-lmm", "Azure multimodal trace of 2025", "csv", _azure_lmm),
        Layout("burstgpt-v1", "BurstGPT, first release", "csv", _burstgpt_v1),
        Layout("burstgpt-v2", "BurstGPT, second release", "csv", _burstgpt_v2, served=True),
        Layout("mooncake", "Mooncake", "jsonl", _mooncake, block_size=MOONCAKE_BLOCK_TOKENS),
        Layout("chutes", "Chutes", "parquet", _chutes, served=True),
        Layout("csv", "some gateway's CSV log", "csv", _gateway_csv, served=True),
        Layout("jsonl", "some gateway's JSON log", "jsonl", _gateway_jsonl, served=True),
    )
}
"""Every foreign layout by name."""
