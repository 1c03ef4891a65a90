"""What `route` is asked: policies, instances, capacities and what they hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from llmtrace.errors import MissingColumnError, UsageError
from llmtrace.replay.cache.capacity import check_block_size
from llmtrace.replay.cache.policies.ttl import time_to_live_us
from llmtrace.replay.route.cell import CACHE_POLICIES, SEED, TTL, UNLIMITED, Cell, Key
from llmtrace.replay.route.gather import Gatherer, OfBlocks, OfSessions, Speeds
from llmtrace.replay.route.rules import BY_USER, HASHING, PAPER, Rule
from llmtrace.replay.route.search import GIVE_UP, candidates
from llmtrace.replay.route.stream import LOADS, Load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.replay.cache.capacity import Capacity
    from llmtrace.replay.sessions import Reconstruction
    from llmtrace.trace import Trace

__all__ = ["CAPACITIES", "INSTANCES", "Question"]

INSTANCES = (5, 10, 15, 20)
CAPACITIES = (1_125, 5_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000)
"""The paper's."""
MOST_INSTANCES = 4_096
LINK_GBPS = 80.0
"""10 gigabytes a second."""
_FORESIGHT = "it knows what a cache will be asked for, and here that depends on where requests go"
UNFIT: Mapping[str, str] = {
    "belady": _FORESIGHT,
    "belady-size": _FORESIGHT,
    "oracle": _FORESIGHT,
    "lrb": "it would train a model for every instance of every cell",
}
"""Policies of `cache` by which instances cannot evict, and why."""
Object: TypeAlias = Literal["session", "block"]


@dataclass(frozen=True)
class Question:
    """The parameters of the experiment.

    Attributes:
        rules: the policies; the paper's four if empty.
        instances: how many there are, in every way that is asked; the paper's if empty.
        wanted: the capacities of one instance's cache; the paper's if empty. None is without limit.
        cache_policy: how an instance evicts, one of `cell.CACHE_POLICIES`.
        ttl: the time to live of the cache policy `ttl`, such as `5m`.
        object: what instances hold; None takes blocks if the trace has them.
        block_tokens: tokens of a block, where the trace does not say.
        rule: how sessions are reconstructed, where the trace has none.
        reconstruct: whether they are reconstructed even if the trace has some, or has hashes.
        load: what a request in flight weighs.
        hash_by: what `consistent-hash` hashes; the user if it is None.
        seed: of what is drawn at random.
        search: whether to look for the weights of `score`.
        give_up: what share of the best hit ratio a search may give up for balance; `search.GIVE_UP` if it is None.
        speeds: how fast requests are computed.
        kv_bytes: bytes that a token takes in the cache, if known.
        link_gbps: what a link between instances carries, in gigabits a second.
        prefill: instances that compute prompts only, where those that decode are others.
        decode: instances that decode only.

    Raises:
        UsageError: if they make no sense together.
    """

    name: ClassVar[str] = "route"

    rules: tuple[Rule, ...] = ()
    instances: tuple[int, ...] = ()
    wanted: tuple[Capacity | None, ...] = ()
    cache_policy: str = "lru"
    ttl: str | None = None
    object: Object | None = None
    block_tokens: int | None = None
    rule: Reconstruction | None = None
    reconstruct: bool = False
    load: Load = "tokens"
    hash_by: Key | None = None
    seed: int = SEED
    search: bool = False
    give_up: float | None = None
    speeds: Speeds = field(default_factory=Speeds)
    kv_bytes: int | None = None
    link_gbps: float = LINK_GBPS
    prefill: int | None = None
    decode: int | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        self._check_instances()
        self._check_cache_policy()
        self._check_alone()
        if self.load not in LOADS:
            raise UsageError(f"--load {self.load}: not a load", f"Choose one of: {', '.join(LOADS)}.")
        if not 0 <= self.seed < 1 << 63:
            raise UsageError(f"--seed {self.seed}: out of range", "Give a whole number from 0 to below 2^63.")
        if not 0 < self.link_gbps < float("inf"):
            raise UsageError(f"--link-gbps {self.link_gbps:g}: not above zero", "Give gigabits a second, such as 80.")
        check_block_size(self.block_tokens)
        self._check_object()

    def _check_cache_policy(self) -> None:
        if self.cache_policy not in CACHE_POLICIES:
            why = UNFIT.get(self.cache_policy, "there is no such policy")
            raise UsageError(f"--cache-policy {self.cache_policy}: {why}", f"Choose one of: {', '.join(CACHE_POLICIES)}.")
        if self.cache_policy == TTL and self.ttl is None:
            raise UsageError("--cache-policy ttl needs a time to live", "Give one, as in --ttl 5m.")
        if self.cache_policy != TTL and self.ttl is not None:
            raise UsageError(f"--ttl {self.ttl}: caches do not evict by age", "Leave it out, or add --cache-policy ttl.")
        _ = self.ttl_us

    def _check_alone(self) -> None:
        """Check options that belong to another."""
        if self.give_up is not None and not 0 <= self.give_up <= 1:
            raise UsageError(f"--give-up {self.give_up:g}: not a share from 0 to 1", "Give for example 0.01.")
        if self.give_up is not None and not self.search:
            raise UsageError(f"--give-up {self.give_up:g}: there is no search", "Leave it out, or add --search.")
        if self.hash_by is not None and all(rule.policy != HASHING for rule in self.rules):
            raise UsageError(f"--hash-by {self.hash_by}: no policy hashes", f"Leave it out, or add {HASHING} with --policy.")

    @property
    def ttl_us(self) -> int:
        """The time to live in microseconds; 0 without one.

        Raises:
            UsageError: if it is none.
        """
        return 0 if self.ttl is None else time_to_live_us(self.ttl)

    def _check_object(self) -> None:
        if self.object == "block" and self.reconstruct:
            raise UsageError("--reconstruct: blocks belong to no sessions", "Leave it out, or route sessions.")
        if self.block_tokens is not None and (self.object == "session" or self.reconstruct):
            raise UsageError("--block-size: sessions have no blocks", "Leave it out, or route blocks with --object block.")

    def _check_instances(self) -> None:
        apart = {"--prefill": self.prefill, "--decode": self.decode}
        for option, count in (*(("--instances", one) for one in self.instances), *apart.items()):
            if count is not None and not 1 <= count <= MOST_INSTANCES:
                raise UsageError(f"{option} {count}: out of range", f"Give a whole number from 1 to {MOST_INSTANCES:,}.")
        if (self.prefill is None) != (self.decode is None):
            raise UsageError("--prefill and --decode go together", "Give both, or --instances for instances that do both.")
        if self.prefill is not None and self.instances:
            raise UsageError("--instances together with --prefill and --decode", "Leave out one or the other.")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of instances, ascending, each once."""
        if self.prefill is not None:
            return (self.prefill,)
        return tuple(sorted(set(self.instances or INSTANCES)))

    def of_trace(self, trace: Trace) -> Question:
        """The question with policies and what instances hold decided.

        Raises:
            MissingColumnError: if the trace lacks what is asked for.
            UsageError: if blocks are of unknown size.
        """
        has_blocks = "block_hashes" in trace.columns and not self.reconstruct
        chosen: Object = self.object or ("block" if has_blocks else "session")
        decided = replace(self, object=chosen, rules=self._rules(trace))
        if chosen == "session":
            return decided
        trace.require({"block_hashes"}, "route --object block")
        if self.hash_by == "session":
            trace.require({"session"}, "route --hash-by session")
        size = self.block_tokens or trace.block_size
        if size is None:
            raise UsageError("The trace does not say how many tokens a block has", "Say it, as in --block-size 16.")
        return replace(decided, block_tokens=size)

    def gatherer(self, trace: Trace, *, looks_back: bool = False) -> Gatherer:
        """What gathers the requests for a question that has been decided.

        Args:
            trace: an opened trace.
            looks_back: whether it says which request is before each in its session.

        Raises:
            MissingColumnError: if the trace has neither sessions nor what they are reconstructed from.
        """
        if self.object == "block" and self.block_tokens is not None:
            return OfBlocks(trace, self.speeds, self.block_tokens, looks_back=looks_back)
        return OfSessions(trace, self.speeds, self.rule, reconstruct=self.reconstruct, looks_back=looks_back)

    def _rules(self, trace: Trace) -> tuple[Rule, ...]:
        """The policies; without users, the default ones that can do without."""
        rules = self.rules or tuple(Rule(policy) for policy in PAPER)
        wanting = [
            rule for rule in rules if rule.policy in BY_USER and not (rule.policy != "sticky" and self.hash_by == "session")
        ]
        if not wanting or "user" in trace.columns:
            return rules
        if not self.rules:
            return tuple(rule for rule in rules if rule not in wanting)
        raise MissingColumnError(
            f"--policy {wanting[0].label} needs the column 'user', which the trace does not have",
            "Name the source column with --map user=COLUMN, or leave the policy out.",
        )

    def cells(self, working_set_tokens: int) -> list[Cell]:
        """By policy, then instances, then capacity; the last of a policy is the largest.

        Args:
            working_set_tokens: of the trace, if a capacity is a share of it.

        Raises:
            UsageError: if a capacity makes no sense.
        """
        capacities = self._capacities(working_set_tokens)
        return [
            Cell(
                rule,
                instances,
                capacity,
                self.cache_policy,
                (self.hash_by or "user") if rule.policy == HASHING else "user",
                self.seed,
                self.ttl_us,
            )
            for rule in self.rules
            for instances in self.sizes
            for capacity in capacities
        ]

    def tried(self, reference: Cell) -> list[Cell]:
        """The cells of the search, as large as the largest of the others; none if there is no search."""
        return [replace(reference, rule=rule, key="user") for rule in candidates()] if self.search else []

    @property
    def tolerance(self) -> float:
        """What share of the best hit ratio a search gives up for balance."""
        return GIVE_UP if self.give_up is None else self.give_up

    @property
    def needs_working_set(self) -> bool:
        """Whether a capacity is a share of the working set."""
        return any(one is not None and one.unit == "share" for one in self.wanted)

    def _capacities(self, working_set_tokens: int) -> list[int]:
        """Capacities in tokens, ascending, each once."""
        if not self.wanted:
            return list(CAPACITIES)
        return sorted(
            {
                UNLIMITED if one is None else one.tokens(working_set_tokens, self.block_tokens, self.kv_bytes)
                for one in self.wanted
            }
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "policies": [rule.label for rule in self.rules],
            "instances": list(self.sizes),
            "capacities": ["unlimited" if one is None else one.text for one in self.wanted],
            "cache_policy": self.cache_policy,
            "ttl": self.ttl,
            "object": self.object,
            "block_tokens": self.block_tokens,
            "reconstruct": self.reconstruct,
            "load": self.load,
            "hash_by": self.hash_by or "user",
            "seed": self.seed,
            "search": self.search,
            "give_up": self.tolerance,
            "prefill_tokens_per_s": self.speeds.prefill_tokens_per_s,
            "decode_tokens_per_s": self.speeds.decode_tokens_per_s,
            "kv_bytes_per_token": self.kv_bytes,
            "link_gbps": self.link_gbps,
            "prefill": self.prefill,
            "decode": self.decode,
        }
