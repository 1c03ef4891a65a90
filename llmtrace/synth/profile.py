"""Profile: the shape of a synthetic workload, apart from its size.

Every number that cannot be set on the command line stands here, with its unit. `PAPER_YEAR` has the structure that was published
of a year of LLM serving (Nixon et al., "A Year in LLM Serving", arXiv 2608.13573); docs/generate.md holds its facts beside the
paper's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llmtrace.synth.draws import Lognormal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PAPER_YEAR", "PROFILES", "Profile", "Role"]


@dataclass(frozen=True)
class Role:
    """One way of using a model.

    A visit has `rounds`; each begins `round_gap_s` after the last request of the one before and opens `calls` sessions,
    `call_gap_s` after each other; a session has `turns`. The first turn's input is the application's shared system prompt and
    `opening_tokens`; each later one's is the turn before with its answer, and `reply_tokens` of new text.

    Attributes:
        name: a word for it.
        visits: its share of the visits.
        rounds: how often sessions are opened in a visit.
        round_gap_s: time from the last request of a round to the next one.
        calls: sessions opened side by side.
        call_gap_s: time between their beginnings.
        turns: requests in a session.
        think_s: time from an answer to the next turn: a person reading and typing, or a tool running.
        opening_tokens: the user's own text in the first turns of a round.
        call_spread: factor on it that tells the calls of one round apart.
        reply_tokens: new text in a later turn.
        output_tokens: length of an answer, before the year's drift.
        streamed: share of its users that stream.
        punctual: share of its users whose visits start on a whole second of their own minute of the hour, as scheduled jobs do.
    """

    name: str
    visits: float
    rounds: Lognormal
    round_gap_s: Lognormal
    calls: Lognormal
    call_gap_s: Lognormal
    turns: Lognormal
    think_s: Lognormal
    opening_tokens: Lognormal
    call_spread: Lognormal
    reply_tokens: Lognormal
    output_tokens: Lognormal
    streamed: float
    punctual: float = 0.0


@dataclass(frozen=True)
class Profile:
    """What repeats in every synthetic workload of a kind.

    Sequences that go with time are equally spaced over a year; a longer trace is one longer year, a shorter one its beginning.

    Attributes:
        roles: the ways of using a model.
        volume: requests a day over the year, relative.
        weekdays: requests by day of the week from Monday, relative.
        hours: requests by hour of a working day in UTC, relative.
        weekend_hours: the same for Saturday and Sunday.
        day_noise: relative standard deviation of a day's requests.
        output_drift: factor on output tokens over the year.
        chat: share of users on the chat endpoint over the year; the others use completion.
        streamed: factor on each role's streaming share over the year.
        user_exponent: Zipf exponent of the users' activity.
        user_shift: Mandelbrot's shift of it, which keeps the busiest users apart from the rest of the world.
        newcomers: share of the users that arrive during the trace; the others were there before.
        stay_days: how long a user stays.
        user_scale: factor on a user's own text.
        cohort_growth: how much larger that factor is for users who come at the end.
        explore: chance that a visit tries any model instead of the user's usual.
        stray: chance that a visit is in any role instead of the user's usual.
        users_per_app: users who share an application, and so a system prompt.
        system_tokens: length of a system prompt.
        model_exponent: Zipf exponent of the models' appeal.
        model_shift: Mandelbrot's shift of it.
        before_days: how long before the trace the oldest models came.
        rise_days: time from a model's release to its peak.
        head_half_life_days: time in which the appeal of the most popular model halves and halves again.
        tail_half_life_days: the same for the least popular one.
        verbosity: a model's factor on output tokens.
        prefill_tokens_per_s: a model's speed on input that is not cached.
        decode_tokens_per_s: a model's speed on output, for one request.
        overhead_s: time to first token besides waiting and prefill.
        jitter: factor on what a request takes.
        failed: chance that a session ends in a failed request.
        context_tokens: longest input that a model takes.
        cache_tokens: what the prefix cache of an instance holds, by model.
        without_cache: share of the models that have none.
        instance_days: how long an instance lives.
        uneven_requests: by how many requests in flight two instances of a model may differ before the cache no longer decides.
    """

    roles: tuple[Role, ...]
    volume: tuple[float, ...]
    weekdays: tuple[float, ...]
    hours: tuple[float, ...]
    weekend_hours: tuple[float, ...]
    day_noise: float
    output_drift: tuple[float, ...]
    chat: tuple[float, ...]
    streamed: tuple[float, ...]
    user_exponent: float
    user_shift: float
    newcomers: float
    stay_days: Lognormal
    user_scale: Lognormal
    cohort_growth: float
    explore: float
    stray: float
    users_per_app: int
    system_tokens: Lognormal
    model_exponent: float
    model_shift: float
    before_days: float
    rise_days: float
    head_half_life_days: float
    tail_half_life_days: float
    verbosity: Lognormal
    prefill_tokens_per_s: Lognormal
    decode_tokens_per_s: Lognormal
    overhead_s: Lognormal
    jitter: Lognormal
    failed: float
    context_tokens: int
    cache_tokens: Lognormal
    without_cache: float
    instance_days: int
    uneven_requests: float


_CHAT = Role(
    name="chat",
    visits=0.66,
    rounds=Lognormal(2.5, 0.8, low=1, high=20),
    round_gap_s=Lognormal(60, 1.2, low=3, high=1800),
    calls=Lognormal(1, 0),
    call_gap_s=Lognormal(1, 0),
    turns=Lognormal(2.4, 0.65, low=1, high=40),
    think_s=Lognormal(30, 1.3, low=0.5, high=3600),
    opening_tokens=Lognormal(1_200, 1.2, low=4, high=60_000),
    call_spread=Lognormal(1, 0),
    reply_tokens=Lognormal(420, 1.3, low=1, high=20_000),
    output_tokens=Lognormal(260, 0.9, low=1, high=8_000),
    streamed=0.85,
)
_AGENT = Role(
    name="agent",
    visits=0.15,
    rounds=Lognormal(3, 0.8, low=1, high=20),
    round_gap_s=Lognormal(20, 1.4, low=1, high=1800),
    calls=Lognormal(1.2, 0.5, low=1, high=6),
    call_gap_s=Lognormal(0.3, 1, low=0.01, high=30),
    turns=Lognormal(2.8, 0.55, low=1, high=30),
    think_s=Lognormal(6, 1.2, low=0.05, high=1800),
    opening_tokens=Lognormal(2_200, 0.9, low=100, high=90_000),
    call_spread=Lognormal(1, 0.3),
    reply_tokens=Lognormal(2_400, 1.1, low=1, high=30_000),
    output_tokens=Lognormal(150, 1.0, low=1, high=8_000),
    streamed=0.7,
)
_SWARM = Role(
    name="swarm",
    visits=0.09,
    rounds=Lognormal(2, 0.9, low=1, high=30),
    round_gap_s=Lognormal(40, 1.2, low=1, high=900),
    calls=Lognormal(20, 0.9, low=4, high=100),
    call_gap_s=Lognormal(0.02, 1.3, low=0.000_01, high=5),
    turns=Lognormal(2.3, 0.5, low=1, high=16),
    think_s=Lognormal(3, 1.0, low=0.02, high=600),
    opening_tokens=Lognormal(1_300, 0.8, low=100, high=60_000),
    call_spread=Lognormal(1, 0.6),
    reply_tokens=Lognormal(1_600, 1.0, low=1, high=20_000),
    output_tokens=Lognormal(170, 0.9, low=1, high=8_000),
    streamed=0.4,
)
_LABELS = Role(
    name="labels",
    visits=0.022,
    rounds=Lognormal(2, 0.9, low=1, high=20),
    round_gap_s=Lognormal(15, 1.2, low=1, high=900),
    calls=Lognormal(25, 1.0, low=3, high=120),
    call_gap_s=Lognormal(0.015, 1.3, low=0.000_01, high=5),
    turns=Lognormal(1, 0.2, low=1, high=3),
    think_s=Lognormal(0.5, 1.0, low=0.01, high=600),
    opening_tokens=Lognormal(14, 0.7, low=3, high=2_000),
    call_spread=Lognormal(1, 0.3),
    reply_tokens=Lognormal(40, 1.0, low=1, high=2_000),
    output_tokens=Lognormal(60, 0.8, low=1, high=2_000),
    streamed=0.1,
    punctual=0.3,
)
_PAPERS = Role(
    name="papers",
    visits=0.078,
    rounds=Lognormal(2, 0.9, low=1, high=20),
    round_gap_s=Lognormal(20, 1.2, low=1, high=900),
    calls=Lognormal(16, 0.9, low=2, high=100),
    call_gap_s=Lognormal(0.02, 1.3, low=0.000_01, high=5),
    turns=Lognormal(1, 0.25, low=1, high=3),
    think_s=Lognormal(0.5, 1.0, low=0.01, high=600),
    opening_tokens=Lognormal(3_800, 0.8, low=200, high=90_000),
    call_spread=Lognormal(1, 1.1),
    reply_tokens=Lognormal(120, 1.0, low=1, high=20_000),
    output_tokens=Lognormal(220, 0.8, low=1, high=8_000),
    streamed=0.3,
    punctual=0.3,
)

PAPER_YEAR = Profile(
    roles=(_CHAT, _AGENT, _SWARM, _LABELS, _PAPERS),
    volume=(0.40, 0.62, 0.86, 1.08, 1.25, 1.33, 1.36, 1.28, 1.14, 1.0, 0.92, 0.84, 0.78),
    weekdays=(1.0, 1.05, 1.07, 1.06, 0.98, 0.72, 0.68),
    hours=(
        *(0.55, 0.48, 0.44, 0.42, 0.43, 0.48, 0.58, 0.72, 0.88, 1.02, 1.12, 1.18),
        *(1.24, 1.34, 1.46, 1.55, 1.60, 1.58, 1.52, 1.44, 1.30, 1.10, 0.88, 0.68),
    ),
    weekend_hours=(
        *(0.72, 0.66, 0.60, 0.56, 0.54, 0.54, 0.58, 0.66, 0.78, 0.92, 1.04, 1.12),
        *(1.18, 1.22, 1.28, 1.32, 1.36, 1.38, 1.38, 1.34, 1.26, 1.14, 1.0, 0.86),
    ),
    day_noise=0.09,
    output_drift=(2.2, 2.1, 1.9, 1.65, 1.4, 1.2, 1.05, 0.9, 0.78, 0.68, 0.56, 0.48, 0.42),
    chat=(0.62, 0.68, 0.74, 0.8, 0.84, 0.88, 0.9),
    streamed=(1.0, 0.96, 0.9, 0.84, 0.78, 0.72, 0.66),
    user_exponent=1.15,
    user_shift=25.0,
    newcomers=0.75,
    stay_days=Lognormal(120, 1.0, low=2),
    user_scale=Lognormal(1.0, 0.6, low=0.1, high=10),
    cohort_growth=0.6,
    explore=0.3,
    stray=0.3,
    users_per_app=20,
    system_tokens=Lognormal(300, 0.9, low=16, high=8_000),
    model_exponent=1.1,
    model_shift=1.5,
    before_days=90.0,
    rise_days=25.0,
    head_half_life_days=70.0,
    tail_half_life_days=260.0,
    verbosity=Lognormal(1.0, 0.5, low=0.3, high=4),
    prefill_tokens_per_s=Lognormal(22_000, 0.5, low=5_000, high=90_000),
    decode_tokens_per_s=Lognormal(48, 0.45, low=12, high=180),
    overhead_s=Lognormal(0.45, 0.5, low=0.03, high=4),
    jitter=Lognormal(1.0, 0.25, low=0.4, high=4),
    failed=0.03,
    context_tokens=131_072,
    cache_tokens=Lognormal(400_000, 1.0, low=20_000, high=4_000_000),
    without_cache=0.15,
    instance_days=12,
    uneven_requests=4.0,
)

PROFILES: Mapping[str, Profile] = {"paper-year": PAPER_YEAR}
"""Profiles by name."""
