"""Policies by name, and how a user writes one with its parameters: `score:alpha=1,beta=0.5`."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llmtrace.errors import UsageError
from llmtrace.replay.route.policies import (
    cache_first,
    consistent_hash,
    least_requests,
    load_first,
    power_of_two,
    preble,
    random,
    round_robin,
    score,
    sticky,
    threshold,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["BY_USER", "HASHING", "PAPER", "POLICIES", "Rule", "defaults", "parse"]

POLICIES: Mapping[str, Callable[..., Any]] = {
    "round-robin": round_robin.new,
    "load-first": load_first.new,
    "sticky": sticky.new,
    "cache-first": cache_first.new,
    "random": random.new,
    "least-requests": least_requests.new,
    "power-of-two": power_of_two.new,
    "consistent-hash": consistent_hash.new,
    "score": score.new,
    "preble": preble.new,
    "threshold": threshold.new,
}
"""What makes the state of each policy."""

PAPER = ("round-robin", "load-first", "sticky", "cache-first")
"""The policies of the paper's routing experiment."""

HASHING = "consistent-hash"
"""The policy that hashes users, or sessions."""

BY_USER = frozenset({"sticky", HASHING})
"""Policies that need to know the user."""


@dataclass(frozen=True)
class Rule:
    """A policy with the parameters that are not its defaults.

    Raises:
        UsageError: if there is no such policy or parameter, or a value is out of range.

    >>> Rule("score", (("beta", 0.5),)).label
    'score:beta=0.5'
    """

    policy: str
    parameters: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        """Check the policy and its parameters."""
        if self.policy not in POLICIES:
            raise UsageError(f"--policy {self.policy}: there is no such policy", f"Choose from {', '.join(POLICIES)}.")
        for name, value in self.parameters:
            _check(self.policy, name, value)
        names = [name for name, _ in self.parameters]
        if len(set(names)) < len(names):
            raise UsageError(f"--policy {self.label}: a parameter is given twice", "Give each parameter once.")

    @property
    def label(self) -> str:
        """The policy as a user writes it."""
        listed = ",".join(f"{name}={value:g}" for name, value in self.parameters)
        return f"{self.policy}:{listed}" if listed else self.policy

    def new(self, instances: int, users: int) -> Any:
        """The state of the policy before the first request."""
        return POLICIES[self.policy](instances, users, **dict(self.parameters))


def defaults(policy: str) -> dict[str, float]:
    """The parameters of a policy with the values they have without more.

    >>> defaults("preble"), defaults("random")
    ({'balance': 2.0}, {})
    """
    parameters = inspect.signature(POLICIES[policy]).parameters.values()
    return {one.name: one.default for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}


def parse(texts: Sequence[str]) -> tuple[Rule, ...]:
    """The rules that a user lists, one or several to a text.

    Raises:
        UsageError: if one is not a policy, is given twice, or a parameter makes no sense.

    >>> [rule.label for rule in parse(["sticky,score:alpha=1,beta=2", "random"])]
    ['sticky', 'score:alpha=1,beta=2', 'random']
    """
    rules = [_rule(text) for text in _split(texts)]
    labels = [rule.label for rule in rules]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UsageError(f"--policy {twice}: the policy is given twice", "Give each once, or with other parameters.")
    return tuple(rules)


def _split(texts: Sequence[str]) -> list[str]:
    """A text per rule: a piece with an equals sign but no colon goes on with the rule before it."""
    found: list[str] = []
    for piece in (piece.strip() for text in texts for piece in text.split(",")):
        if "=" in piece and ":" not in piece and found and ":" in found[-1]:
            found[-1] += f",{piece}"
        else:
            found.append(piece)
    return found


def _rule(text: str) -> Rule:
    policy, _, rest = text.partition(":")
    return Rule(policy, tuple(_parameter(text, pair) for pair in rest.split(",")) if rest else ())


def _parameter(text: str, pair: str) -> tuple[str, float]:
    name, _, value = pair.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise UsageError(f"--policy {text}: '{pair}' is not NAME=NUMBER", "Write for example score:alpha=1,beta=0.5.") from None


def _check(policy: str, name: str, value: float) -> None:
    known = defaults(policy)
    if name not in known:
        listed = f"It has {', '.join(known)}." if known else "It has none."
        raise UsageError(f"--policy {policy}: there is no parameter '{name}'", listed)
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"--policy {policy}: {name}={value:g} is not a number from zero up", "Give such a number.")
    if (policy, name) == ("consistent-hash", "bound") and 0 < value <= 1:
        raise UsageError(
            f"--policy {policy}: bound={value:g} leaves no room for every request",
            "Give a bound above 1, such as 1.25, or 0 for none.",
        )
