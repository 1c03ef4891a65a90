"""Capacities as they are written, and what they are in tokens."""

from __future__ import annotations

import pytest

from llmtrace.errors import UsageError
from llmtrace.replay.cache.capacity import MODELS, capacities, kv_bytes_per_token, parse

WORKING_SET = 6_311_046_392
"""That of MiniMax M2.5 in the paper."""


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("50000", 50_000),
        ("1_000_000", 1_000_000),
        ("5e6", 5_000_000),
        ("2.5k", 2_500),
        ("5M", 5_000_000),
        ("1T", 10**12),
        ("0.1%", 10_000),
        ("0.001", 10_000),
        ("100%", 10_000_000),
        ("250 %", 25_000_000),
        ("1GiB", 8_192),
        ("1 GB", 10**9 // 131_072),
        ("131072B", 1),
    ],
)
def test_tokens_of_a_capacity(text: str, tokens: int) -> None:
    assert parse(text).tokens(10_000_000, None, 131_072) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"), [("3blocks", 1_536), ("1 block", 512), ("1000", 512), ("0.1%", 9_728), ("1GiB", 8_192)]
)
def test_blocks_are_whole(text: str, tokens: int) -> None:
    assert parse(text).tokens(10_000_000, 512, 131_072) == tokens


@pytest.mark.parametrize("text", ["", "many", "-5", "0x10", "nan", "inf", "1,5", "5 apples", "%", "1e999", "٣", "5kB/s", "1..2"])
def test_what_is_no_capacity(text: str) -> None:
    with pytest.raises(UsageError, match="not a capacity") as caught:
        parse(text)
    assert "64GiB" in caught.value.hint


@pytest.mark.parametrize("text", ["0", "0%", "0.0", "000GiB", "0e5"])
def test_a_capacity_is_above_zero(text: str) -> None:
    with pytest.raises(UsageError, match="not above zero"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "block_tokens", "kv_bytes", "message"),
    [
        ("1GiB", None, None, "--capacity 1GiB: bytes are no tokens"),
        ("3blocks", None, None, "--capacity 3blocks: sessions have no blocks"),
        ("511", 512, None, "--capacity 511: holds no block of 512 tokens"),
        ("1e-9%", None, None, "--capacity 1e-9%: holds no token"),
        ("1B", None, 131_072, "--capacity 1B: holds no token"),
        ("9e99", None, None, "--capacity 9e99: larger than any cache"),
    ],
)
def test_what_fits_no_trace(text: str, block_tokens: int | None, kv_bytes: int | None, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text).tokens(10_000_000, block_tokens, kv_bytes)
    assert caught.value.message == message


def test_default_capacities_of_sessions_are_those_of_the_paper() -> None:
    kib = [61, 123, 308, 616, 1232, 3081, 6163, 12326, 30815, 61631]
    assert capacities([], WORKING_SET, None, None) == [1024 * one for one in kib]
    assert capacities([], 21_094_370_937, None, None)[0] == 1024 * 205


def test_default_capacities_of_small_traces_are_not_cut_to_nothing() -> None:
    assert capacities([], 300_000, None, None) == [3, 6, 15, 30, 60, 150, 300, 600, 1_024, 2_048]
    assert capacities([], 10, None, None) == [10]


def test_default_capacities_of_blocks_reach_up_to_all_of_them() -> None:
    assert capacities([], 512 * 1_000, 512, None) == [512 * one for one in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)]


def test_capacities_come_once_and_in_order() -> None:
    assert capacities([parse("2k"), parse("1k"), parse("2000")], 10, None, None) == [1_000, 2_000]


def test_without_requests_there_are_none() -> None:
    assert capacities([parse("1%")], 0, None, None) == []


@pytest.mark.parametrize(
    ("model", "expected"),
    [("llama-3.1-8b", 128 * 1024), ("llama-3.3-70b", 320 * 1024), ("qwen3-30b-a3b", 96 * 1024), ("deepseek-v3", 70_272)],
)
def test_bytes_of_a_token_by_model(model: str, expected: int) -> None:
    assert kv_bytes_per_token(None, model) == expected


def test_a_thousand_blocks_of_qwen3_30b_a3b_are_one_and_a_half_gib() -> None:
    # As the card of the data set 2026_prefixcache says of blocks of 16 tokens.
    assert 1_000 * 16 * MODELS["qwen3-30b-a3b"].bytes_per_token / 2**30 == pytest.approx(1.5, abs=0.05)


def test_bytes_given_twice_or_wrong() -> None:
    with pytest.raises(UsageError, match="together with"):
        kv_bytes_per_token(1, "llama-3.1-8b")
    with pytest.raises(UsageError, match="not above zero"):
        kv_bytes_per_token(0, None)
    with pytest.raises(UsageError, match="--kv-model gpt-2") as caught:
        kv_bytes_per_token(None, "gpt-2")
    assert "qwen3-32b" in caught.value.hint
    assert kv_bytes_per_token(77, None) == 77
    assert kv_bytes_per_token(None, None) is None
