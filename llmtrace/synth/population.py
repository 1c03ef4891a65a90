"""Population: who asks, what is asked, and what serves it, over the whole trace.

Models are numbered in order of their release. Each has an appeal that rises after its release and then fades; the most popular
ones fade fastest, so that the top changes while the long tail piles up. A user has a taste, a fixed place between 0 and 1 in
the models of the day laid end to end, oldest first and as long as their appeal: as new models come, each user moves from model
to model, early adopters first.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from llmtrace.synth.draws import draws, stream, zipf

if TYPE_CHECKING:
    from llmtrace.synth.draws import Floats, Ints
    from llmtrace.synth.profile import Profile
    from llmtrace.synth.workload import Workload

__all__ = ["Models", "Population", "Users", "population"]

_USERS, _MODELS = 2, 3
_GOLDEN = 0.618033988
_FAMILIES = ("heron", "lynx", "osprey", "marten", "ibis", "badger", "curlew", "otter", "plover", "stoat", "avocet", "sable")
_KINDS = ("mini", "code", "instruct", "chat", "reason")
"""From terse to verbose."""
_MINUTES = 60
_CACHED_FIRST = 0.6
"""Where the spread of models without a cache begins, so that the four most popular have one."""
_MOST_PROMPTS = 1 << 22
"""Applications times models, at most."""


class Users(NamedTuple):
    """Arrays by user: weight, first and last day, and habits."""

    weight: Floats
    joins: Floats
    leaves: Floats
    taste: Floats
    role: Floats
    scale: Floats
    chat: Floats
    streams: Floats
    app: Ints
    punctual: Floats
    minute: Ints


class Models(NamedTuple):
    """Arrays by model: release day, appeal, half-life, speeds, what an instance's cache holds (0: it has none), its instances."""

    release: Floats
    appeal: Floats
    half_life: Floats
    verbosity: Floats
    prefill_us: Floats
    decode_us: Floats
    cache_tokens: Ints
    pool_first: Ints
    pool_size: Ints


class Population(NamedTuple):
    """Users, models and applications of a workload, and the names of users and models."""

    users: Users
    models: Models
    system_tokens: Ints
    user_names: list[str]
    model_names: list[str]

    def user_weights(self, day: int) -> Floats:
        """Cumulative activity of the users on a day; those not there add nothing."""
        present = (self.users.joins <= day) & (day < self.users.leaves)
        return np.cumsum(np.where(present, self.users.weight, 0.0))

    def appeals(self, day: int, rise_days: float) -> Floats:
        """Appeal of each model on a day."""
        age = day - self.models.release
        risen = np.clip(age / rise_days, 0.0, 1.0)
        faded = np.maximum(age - rise_days, 0.0) / self.models.half_life
        return self.models.appeal * (risen * risen * (3.0 - 2.0 * risen)) / (1.0 + faded * faded)


def population(workload: Workload) -> Population:
    """The population of a workload."""
    models, names = _models(workload)
    users = _users(workload)
    apps = int(users.app.max()) + 1
    system = draws(workload.profile.system_tokens.table(), stream(workload.seed, _USERS, 1).random(apps)).astype(np.int64)
    return Population(users, models, system, _user_names(workload), names)


def _users(workload: Workload) -> Users:
    profile, count = workload.profile, workload.users
    rng = stream(workload.seed, _USERS)
    comes = (rng.random(count) - (1 - profile.newcomers)) / profile.newcomers
    joins = np.where(comes < 0, -1.0, comes * workload.days)
    leaves = joins + draws(profile.stay_days.table(), rng.random(count))
    joins[0], leaves[0] = -1.0, np.inf
    later = np.clip(comes, 0.0, 1.0)
    return Users(
        weight=zipf(count, profile.user_exponent, profile.user_shift),
        joins=joins,
        leaves=leaves,
        taste=_spread(count, rng.random()),
        role=_spread(count, rng.random(), step=0.7548776662),
        scale=draws(profile.user_scale.table(), rng.random(count)) * (1.0 + profile.cohort_growth * later),
        chat=rng.random(count),
        streams=rng.random(count),
        app=(rng.random(count) * _apps(workload)).astype(np.int64),
        punctual=rng.random(count),
        minute=(rng.random(count) * _MINUTES).astype(np.int64),
    )


def _apps(workload: Workload) -> int:
    """How many applications there are; so many users and models have larger ones that their prompts would not fit into memory."""
    return max(1, min(workload.users // workload.profile.users_per_app, _MOST_PROMPTS // workload.models))


def _models(workload: Workload) -> tuple[Models, list[str]]:
    profile, count = workload.profile, workload.models
    rng = stream(workload.seed, _MODELS)
    span = workload.days + profile.before_days
    place = np.minimum(_spread(count, 0.1) + 0.06 * rng.random(count), 0.99)
    place[0] = min(place[0], 0.5 * profile.before_days / span)
    order = np.argsort(place, kind="stable")
    rank = order / count
    appeal = zipf(count, profile.model_exponent, profile.model_shift)[order]
    first, size = _pools(appeal, workload.instances)
    models = Models(
        release=place[order] * span - profile.before_days,
        appeal=appeal,
        half_life=profile.head_half_life_days + rank * (profile.tail_half_life_days - profile.head_half_life_days),
        verbosity=draws(profile.verbosity.table(), rng.random(count)),
        prefill_us=1e6 / draws(profile.prefill_tokens_per_s.table(), rng.random(count)),
        decode_us=1e6 / draws(profile.decode_tokens_per_s.table(), rng.random(count)),
        cache_tokens=_cache_tokens(profile, rng.random(count), _spread(count, _CACHED_FIRST)[order]),
        pool_first=first,
        pool_size=size,
    )
    return models, _model_names(rng.random(count), models.verbosity)


def _cache_tokens(profile: Profile, sizes: Floats, chances: Floats) -> Ints:
    """What an instance of each model caches; some models have no prefix cache."""
    sized = draws(profile.cache_tokens.table(), sizes).astype(np.int64)
    return np.where(chances < profile.without_cache, 0, sized)


def _spread(count: int, origin: float, step: float = _GOLDEN) -> Floats:
    """Places from 0 to 1 of which any first few are spread evenly, so that chance does not decide what the busiest do."""
    places = origin + step * np.arange(count)
    return np.asarray(places - np.floor(places))


def _pools(appeal: Floats, instances: int) -> tuple[Ints, Ints]:
    """First instance and number of instances of each model, in proportion to its appeal; pools overlap if there are too few."""
    cumulative = np.cumsum(appeal)
    bounds = [0, *(int(instances * (reached / cumulative[-1])) for reached in cumulative)]
    first = np.array([min(left, instances - 1) for left in bounds[:-1]])
    return first, np.array([max(1, right - left) for left, right in pairwise(bounds)])


def _user_names(workload: Workload) -> list[str]:
    """Names that do not tell a user's rank."""
    numbers = np.argsort(stream(workload.seed, _USERS, 2).random(workload.users), kind="stable")
    width = len(str(workload.users))
    return [f"u{number + 1:0{width}}" for number in numbers]


def _model_names(families: Floats, verbosity: Floats) -> list[str]:
    """Invented names: the generations of a family follow each other in time, and the kind tells how much a model talks."""
    some = _FAMILIES[: max(1, len(families) // 4)]
    kinds = np.argsort(np.argsort(verbosity, kind="stable")) * len(_KINDS) // len(verbosity)
    generation = dict.fromkeys(some, 0)
    names = []
    for share, kind in zip(families, kinds, strict=True):
        family = some[int(share * len(some))]
        generation[family] += 1
        names.append(f"{family}-{generation[family]}-{_KINDS[kind]}")
    return names
