"""Capacities: how large a cache is, in tokens, as a share of the working set, or in bytes of keys and values.

`MODELS` has the bytes that a token takes in the cache of some models, from the shapes in the `config.json` that each model is
published with: two bytes (bfloat16) times, per layer, keys and values of every key-value head, or, with multi-head latent
attention, the compressed vector and the rotary key. An engine that stores 8 bits takes half of that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from llmtrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "BLOCK_SHARES",
    "MODELS",
    "SESSION_SHARES",
    "Capacity",
    "Model",
    "capacities",
    "check_block_size",
    "kv_bytes_per_token",
    "parse",
]

SESSION_SHARES = tuple(map(Fraction, ("1e-5", "2e-5", "5e-5", "1e-4", "2e-4", "5e-4", "1e-3", "2e-3", "5e-3", "1e-2")))
"""Shares of the working set without `--capacity`: those of the paper's eviction figure."""
BLOCK_SHARES = tuple(map(Fraction, ("1e-3", "2e-3", "5e-3", "1e-2", "2e-2", "5e-2", "0.1", "0.2", "0.5", "1")))
"""The same for blocks, each of which the working set has whole and once, so that a share of 1 has room for all."""
_KIB_TOKENS = 1024
_MOST_TOKENS = 2**60
_MOST_BLOCK_TOKENS, _MOST_BYTES = 1 << 20, 1 << 30
"""Tokens of a block and bytes of a token, of which no more are meant and sums of more might not fit their type."""
_FORM = re.compile(r"(\d+(?:_\d{3})*|\d*\.\d+|\d+\.\d*)(?:e([+-]?\d{1,2}))?\s*(%|blocks?|[kMGT]i?B?|B)?", re.ASCII)
_SIZES = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BYTES = {"B": 1, **{f"{prefix}B": size for prefix, size in _SIZES.items()}}
_BYTES |= {f"{prefix}iB": 1024 ** (place + 1) for place, prefix in enumerate("kMGT")}
_HINT = "Give tokens (50000, 5M), a share of the working set (0.1%), or bytes with --kv-bytes-per-token or --kv-model (64GiB)."


class Model(NamedTuple):
    """The shape of a model's cache: layers, numbers that each keeps per token, and where that is published."""

    layers: int
    numbers: int
    source: str

    @property
    def bytes_per_token(self) -> int:
        """In two bytes a number."""
        return 2 * self.layers * self.numbers


def _grouped(layers: int, heads: int, size: int, source: str) -> Model:
    """Grouped-query attention: a key and a value per key-value head."""
    return Model(layers, 2 * heads * size, source)


_LATENT = 512 + 64
MODELS: Mapping[str, Model] = {
    "llama-3.1-8b": _grouped(32, 8, 128, "meta-llama/Llama-3.1-8B-Instruct"),
    "llama-3.3-70b": _grouped(80, 8, 128, "meta-llama/Llama-3.3-70B-Instruct"),
    "qwen3-32b": _grouped(64, 8, 128, "Qwen/Qwen3-32B"),
    "qwen3-30b-a3b": _grouped(48, 4, 128, "Qwen/Qwen3-30B-A3B"),
    "minimax-m2": _grouped(62, 8, 128, "MiniMaxAI/MiniMax-M2"),
    "gpt-oss-20b": _grouped(24, 8, 64, "openai/gpt-oss-20b"),
    "gpt-oss-120b": _grouped(36, 8, 64, "openai/gpt-oss-120b"),
    "deepseek-v3": Model(61, _LATENT, "deepseek-ai/DeepSeek-V3"),
    "kimi-k2": Model(61, _LATENT, "moonshotai/Kimi-K2-Instruct"),
}
"""Models by name; of gpt-oss, half of whose layers look back 128 tokens only, this is what an engine takes that keeps all."""


@dataclass(frozen=True)
class Capacity:
    """A capacity as it was asked for.

    Attributes:
        text: as it was written.
        amount: how many.
        unit: `tokens`, `share` of the working set, `blocks` or `bytes`.
    """

    text: str
    amount: Fraction
    unit: str

    def tokens(self, working_set_tokens: int, block_tokens: int | None, kv_bytes: int | None) -> int:
        """How many tokens that is, whole blocks where there are blocks.

        Raises:
            UsageError: if it is not even one, or the unit needs what is not there.
        """
        scale = self._scale(working_set_tokens, block_tokens, kv_bytes)
        unit = block_tokens or 1
        tokens = int(self.amount * scale) // unit * unit
        if tokens == 0:
            holds = f"no block of {unit:,} tokens" if block_tokens else "no token"
            raise UsageError(f"--capacity {self.text}: holds {holds}", "Give a larger one.")
        if tokens > _MOST_TOKENS:
            raise UsageError(f"--capacity {self.text}: larger than any cache", _HINT)
        return tokens

    def _scale(self, working_set_tokens: int, block_tokens: int | None, kv_bytes: int | None) -> Fraction:
        if self.unit == "bytes":
            if kv_bytes is None:
                raise UsageError(
                    f"--capacity {self.text}: bytes are no tokens",
                    "Say how many bytes a token takes, with --kv-bytes-per-token N or --kv-model NAME.",
                )
            return Fraction(1, kv_bytes)
        if self.unit == "blocks":
            if block_tokens is None:
                raise UsageError(f"--capacity {self.text}: sessions have no blocks", _HINT)
            return Fraction(block_tokens)
        return Fraction(working_set_tokens) if self.unit == "share" else Fraction(1)


def parse(text: str) -> Capacity:
    """A capacity as it is written.

    Raises:
        UsageError: if it is none, or not above zero.

    >>> parse("0.1%").amount, parse("5M").amount, parse("64GiB").unit, parse("0.25").unit
    (Fraction(1, 1000), Fraction(5000000, 1), 'bytes', 'share')
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--capacity {text}: not a capacity", _HINT)
    number, power, unit = found.groups()
    amount = Fraction(number.replace("_", "")) * Fraction(10) ** int(power or 0)
    if amount == 0:
        raise UsageError(f"--capacity {text}: not above zero", _HINT)
    if unit == "%":
        return Capacity(text, amount / 100, "share")
    if unit in _BYTES:
        return Capacity(text, amount * _BYTES[unit], "bytes")
    if unit in _SIZES:
        return Capacity(text, amount * _SIZES[unit], "tokens")
    if unit:
        if not unit.startswith("block"):
            raise UsageError(f"--capacity {text}: there is no unit '{unit}'", _HINT)
        return Capacity(text, amount, "blocks")
    return Capacity(text, amount, "share" if amount < 1 else "tokens")


def capacities(wanted: Sequence[Capacity], working_set_tokens: int, block_tokens: int | None, kv_bytes: int | None) -> list[int]:
    """The capacities to replay in tokens, ascending, each once; the default ones if none is wanted, one at least.

    Default ones of sessions are cut down to whole 1,024 tokens from there on, as the paper cut its own.

    Raises:
        UsageError: see `Capacity.tokens`.

    >>> capacities([], 6_311_046_392, None, None)[:3]
    [62464, 125952, 315392]
    """
    if working_set_tokens == 0:
        return []
    if wanted:
        return sorted({one.tokens(working_set_tokens, block_tokens, kv_bytes) for one in wanted})
    if block_tokens is not None:
        found = {int(share * working_set_tokens) // block_tokens * block_tokens for share in BLOCK_SHARES}
    else:
        found = {_in_whole_kib(int(share * working_set_tokens)) for share in SESSION_SHARES}
    return sorted(found - {0}) or [working_set_tokens]


def _in_whole_kib(tokens: int) -> int:
    return tokens // _KIB_TOKENS * _KIB_TOKENS if tokens >= _KIB_TOKENS else tokens


def kv_bytes_per_token(given: int | None, model: str | None) -> int | None:
    """Bytes that a token takes, by either option; None without both.

    Raises:
        UsageError: if both are given, the number is out of range, or the model is not known.
    """
    if given is not None and model is not None:
        raise UsageError("--kv-bytes-per-token together with --kv-model: they say the same", "Leave out one of them.")
    if given is not None and given <= 0:
        raise UsageError(f"--kv-bytes-per-token {given}: not above zero", "Give a whole number, such as 131072.")
    if given is not None and given > _MOST_BYTES:
        raise UsageError(
            f"--kv-bytes-per-token {given}: more than a token takes",
            f"Give a whole number up to {_MOST_BYTES:,}, such as 131072.",
        )
    if model is None:
        return given
    if model not in MODELS:
        raise UsageError(
            f"--kv-model {model}: its shape is not known",
            f"Give --kv-bytes-per-token, or one of: {', '.join(MODELS)}.",
        )
    return MODELS[model].bytes_per_token


def check_block_size(tokens: int | None) -> None:
    """Check how many tokens a block is said to have, if it is.

    Raises:
        UsageError: if that is out of range.
    """
    if tokens is not None and not 1 <= tokens <= _MOST_BLOCK_TOKENS:
        wrong = "not above zero" if tokens <= 0 else "more than a block has"
        raise UsageError(
            f"--block-size {tokens}: {wrong}", f"Give the tokens of a block, up to {_MOST_BLOCK_TOKENS:,}, such as 16."
        )
