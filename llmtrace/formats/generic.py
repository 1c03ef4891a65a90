"""Generic: any table of requests, by the names that columns of this kind usually have, and by `--map` before all.

Names are compared without case, spaces and punctuation, and without a unit at the end (`latency_ms`), which is heeded. Where two
columns could be meant, none is guessed: for a required one that is an error, an optional one is left out and said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import polars as pl

from llmtrace.errors import MissingColumnError
from llmtrace.formats.cells import elapsed
from llmtrace.formats.columns import SURPLUS, Draft, Scheme, plain, shown, without_unit
from llmtrace.formats.layout import Cell
from llmtrace.schema import COLUMNS, REQUIRED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.formats.layout import Raw, Reading, ReadOptions

__all__ = ["SYNONYMS", "Generic", "candidates", "complete_status"]

SYNONYMS: dict[str, tuple[str, ...]] = {
    "timestamp": (
        "timestamp", "time", "ts", "datetime", "arrival", "arrival_time", "arrival_timestamp", "arrived_at", "start_time",
        "started_at", "start", "start_timestamp", "timestamp_start_unix", "created", "created_at", "created_time",
        "request_time", "request_timestamp", "request_start", "request_start_time", "request_created_at", "received_at",
        "startTimeUnix",
    ),
    "input_tokens": (
        "input_tokens", "prompt_tokens", "context_tokens", "request_tokens", "input_length", "prompt_length", "input_len",
        "prompt_len", "input_toks", "prompt_toks", "num_input_tokens", "num_prompt_tokens", "num_prefill_tokens",
        "input_token_count", "prompt_token_count", "tokens_prompt", "tokens_input", "usage.prompt_tokens", "usage.input_tokens",
    ),
    "output_tokens": (
        "output_tokens", "completion_tokens", "generated_tokens", "response_tokens", "output_length", "output_len",
        "response_length", "completion_length", "output_toks", "completion_toks", "generation_tokens", "num_output_tokens",
        "num_completion_tokens", "num_decode_tokens", "output_token_count", "completion_token_count", "tokens_completion",
        "tokens_output", "usage.completion_tokens", "usage.output_tokens",
    ),
    "request_id": ("request_id", "id", "request_uuid", "invocation_id", "generation_id"),
    "user": ("user", "user_id", "username", "end_user", "tenant", "tenant_id", "customer_id", "account_id", "client_id"),
    "model": ("model", "model_name", "model_id"),
    "instance": ("instance", "instance_id", "replica", "replica_id", "worker", "worker_id", "pod", "pod_name", "upstream_host"),
    "endpoint": ("endpoint", "route", "call_type", "operation", "request_type", "function_name"),
    "session": ("session", "session_id", "conversation", "conversation_id", "thread_id"),
    "turn": ("turn", "turn_id", "turn_index", "round_index"),
    "stream": ("stream", "streamed", "is_stream", "streaming"),
    "cached_tokens": (
        "cached_tokens", "cached_input_tokens", "cached_prompt_tokens", "input_cached_tokens", "prompt_cached_tokens",
        "tokens_cached", "cache_read_tokens", "cache_read_input_tokens", "usage.prompt_tokens_details.cached_tokens",
        "usage.cache_read_input_tokens",
    ),
    "ttft_s": ("ttft", "time_to_first_token", "first_token_latency"),
    "duration_s": (
        "duration", "latency", "e2e", "e2e_latency", "end_to_end_latency", "elapsed", "elapsed_time", "response_time",
        "request_duration", "total_time",
    ),
    "status": ("status", "status_code", "response_status", "response_status_code"),
    "block_hashes": ("block_hashes", "hash_ids", "block_ids"),
}  # fmt: skip
"""Canonical column to the names it usually has."""

ENDS = ("end_time", "ended_at", "end", "finished_at", "completed_at", "end_timestamp", "request_end_time")
"""Names of the time of a request's end, from which a missing duration is reckoned."""

OK = ("ok", "success", "succeeded", "successful", "completed", "200")
"""Statuses, in lower case, that mean success; any other is an error word."""

_EXCLUSIVE = ("cachereadinputtokens", "usage.cachereadinputtokens")


class Generic:
    """Any table with a time, input tokens and output tokens in each row."""

    name: ClassVar[str] = "generic"
    names: ClassVar[Mapping[str, tuple[str, ...]]] = SYNONYMS

    def matches(self, raw: Raw) -> bool:  # noqa: ARG002 - the protocol's
        """Always: what this layout cannot read, `read` explains."""
        return True

    def read(self, raw: Raw, options: ReadOptions) -> Reading:
        """The reading by usual names.

        Raises:
            MissingColumnError: if a required column, or one that `options` names, is not there, or two could be it.
            UsageError: if the times cannot be understood.
        """
        found = {name: candidates(raw, name) for name in COLUMNS if name not in options.mapping}
        _check_required(raw, found)
        chosen = {name: (columns[0],) for name, columns in found.items() if len(columns) == 1}
        draft = Draft(raw, options, Scheme(self.name, chosen))
        draft.notes += [
            f"{name} is left out: it could be {_either(columns)}; choose with --map {name}=COLUMN."
            for name, columns in found.items()
            if len(columns) > 1
        ]
        _complete(draft)
        return draft.reading()


def candidates(raw: Raw, name: str) -> list[str]:
    """The columns that could be meant: the canonical name alone if it is there, and nested JSON only if nothing else is."""
    if name in raw.schema:
        return [name]
    wanted = {plain(synonym) for synonym in (name, *SYNONYMS[name])}
    found = [column for column in raw.schema if column != SURPLUS and {plain(column), plain(without_unit(column))} & wanted]
    return [column for column in found if "." not in column] or found


def complete_status(draft: Draft) -> None:
    """Have what others call a success, 200 among it, be ok."""
    if status := draft.cells.get("status"):
        word = status.value.str.to_lowercase()
        value = pl.when(word.is_in(OK)).then(pl.lit("ok")).otherwise(status.value)
        draft.cells["status"] = Cell(value, status.bad, status.sources)


def _check_required(raw: Raw, found: dict[str, list[str]]) -> None:
    unclear = {name: columns for name, columns in found.items() if name in REQUIRED and len(columns) != 1}
    if not unclear:
        return
    several = {name: columns for name, columns in unclear.items() if columns}
    listing = f"{raw.name} has the columns: {', '.join(shown(raw))}."
    if several:
        name, columns = next(iter(several.items()))
        raise MissingColumnError(
            f"{raw.name}: '{name}' could be {_either(columns)}", f"Choose with --map {name}=COLUMN. {listing}"
        )
    if list(unclear) == ["timestamp"]:
        raise MissingColumnError(
            f"{raw.name} has token counts but no arrival times, without which there is no workload in time",
            f"If a column holds them, name it with --map timestamp=COLUMN. {listing}",
        )
    names = ", ".join(f"'{name}'" for name in unclear)
    raise MissingColumnError(
        f"{raw.name}: no column is recognised as {names}", f"Name them, as in --map {next(iter(unclear))}=COLUMN. {listing}"
    )


def _either(columns: list[str]) -> str:
    return " or ".join(f"'{column}'" for column in columns)


def _complete(draft: Draft) -> None:
    """What follows from columns that are there: a duration from an end, a status in our words, and warnings."""
    end = draft.column(*ENDS)
    if end is not None and "duration_s" not in draft.columns:
        draft.put("duration_s", elapsed(draft.cells["timestamp"], draft.times("duration_s", end).cell))
    complete_status(draft)
    for name in ("ttft_s", "duration_s"):
        column = draft.columns.get(name)
        if column is not None and without_unit(column) == column:
            draft.notes.append(f"'{column}' names no unit and is taken as seconds.")
    cached = draft.columns.get("cached_tokens")
    if cached is not None and plain(cached) in _EXCLUSIVE and draft.options.cached_mode is None:
        draft.notes.append(
            f"'{cached}' is usually not part of the input tokens; if that is so here, say --cached-mode exclusive."
        )
