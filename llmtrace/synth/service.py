"""Service: which instance takes each request, what it has cached, and how long it takes.

Every model has a deployment of its own, of which more places are up when there is more to do. Each place is taken by another
instance every few weeks, which begins with an empty cache.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from llmtrace.replay.route.copies import NONE
from llmtrace.replay.route.memory import at_least
from llmtrace.replay.route.places import Places
from llmtrace.synth.deployments import Asked, Chance, Served, Work, empty, new_deployment, run
from llmtrace.synth.draws import between, draws, stream

if TYPE_CHECKING:
    from llmtrace.synth.arrivals import Requests
    from llmtrace.synth.deployments import Deployment
    from llmtrace.synth.draws import Ints
    from llmtrace.synth.population import Population
    from llmtrace.synth.rates import Block
    from llmtrace.synth.workload import Workload

__all__ = ["Served", "Service"]

_PURPOSE = 5
_GOLDEN = 0.618033988
"""By which part of an instance's life neighbouring places change hands apart from each other."""


class Service:
    """Serves the requests of a workload, block after block."""

    def __init__(self, workload: Workload, people: Population) -> None:
        """All instances idle and empty."""
        self.workload, self.population = workload, people
        # What caches hold has a number: an application's prompt on a model its own, a conversation a place after those.
        self._prompts = len(people.system_tokens) * len(people.model_names)
        self._heads, self._places_of_sessions = np.full(self._prompts, NONE, np.int32), Places()
        self._deployments: dict[int, Deployment] = {}
        self._until = [0] * len(people.model_names)
        profile = workload.profile
        self._overhead_us, self._jitter = profile.overhead_s.table(1e6), profile.jitter.table()
        # One more than the days allow, since places change hands at different times.
        turns = 1 + -(-workload.days // profile.instance_days)
        self._turns = np.minimum(turns, people.models.pool_size)
        self._places = people.models.pool_size // self._turns

    def serve(self, requests: Requests, block: Block) -> Served:
        """What becomes of requests that arrive in a block, sorted by time and not before those served last."""
        rows = requests.time_us.size
        rng = stream(self.workload.seed, _PURPOSE, block.index)
        chance = Chance(draws(self._overhead_us, rng.random(rows)), draws(self._jitter, rng.random(rows)))
        work = Work(requests, chance, Served(*(np.zeros(rows, np.int64) for _ in Served._fields)))
        order = np.argsort(requests.model, kind="stable")
        asked, up = self._asked(requests, order), self._up(block.day)
        models, firsts = np.unique(requests.model[order], return_index=True)
        for model, (start, stop) in zip(models.tolist(), pairwise([*firsts.tolist(), rows]), strict=True):
            deployment = self._ready(model, block.day, up[:, model])
            self._deployments[model] = run(deployment, asked, self._heads, work, order[start:stop])
        return work.served

    def _asked(self, requests: Requests, order: Ints) -> Asked:
        """The requests as caches see them; `order` is that in which they are served, and so in which conversations end."""
        rows, served = requests.time_us.size, order[requests.status[order] == 0]
        places = self._places_of_sessions.give(requests.session[served], requests.last[served] == 1)
        self._heads = at_least(self._heads, self._prompts + self._places_of_sessions.most, NONE)
        objects, tokens, held = np.empty((3, rows, 2), np.int32)
        last = np.zeros((rows, 2), np.bool_)
        objects[:, 0] = requests.model * len(self.population.system_tokens) + requests.app
        objects[served, 1] = self._prompts + places
        held[:, 0], held[:, 1] = self.population.system_tokens[requests.app], requests.input_tokens + requests.output_tokens
        tokens[:] = requests.input_tokens[:, None]
        last[:, 1] = requests.last
        return Asked(objects.ravel(), last.ravel(), tokens.ravel(), held.ravel())

    def _ready(self, model: int, day: int, up: Ints) -> Deployment:
        """A model's deployment on a day, with the instances whose turn it is."""
        if model not in self._deployments:
            self._deployments[model] = self._new(model)
        if day >= self._until[model]:
            self._change_hands(model, day)
        deployment = self._deployments[model]
        return deployment._replace(machines=deployment.machines._replace(up=up))

    def _change_hands(self, model: int, day: int) -> None:
        """Put the instances whose turn it is into their places, with empty caches, and note when the next one's is."""
        deployment, places = self._deployments[model], np.arange(self._places[model])
        life = self.workload.profile.instance_days
        ahead = life * (_GOLDEN * places % 1.0)
        epochs = ((day + ahead) // life).astype(np.int64)
        names = self.population.models.pool_first[model] + places + places.size * (epochs % self._turns[model])
        for place in np.flatnonzero(names != deployment.machines.names).tolist():
            empty(deployment.store.copies, deployment.seen, place)
        self._until[model] = int(np.ceil((life * (epochs + 1) - ahead).min()))
        self._deployments[model] = deployment._replace(machines=deployment.machines._replace(names=names))

    def _new(self, model: int) -> Deployment:
        models = self.population.models
        return new_deployment(
            int(self._places[model]),
            int(models.cache_tokens[model]),
            (models.prefill_us[model], models.decode_us[model]),
            self.workload.profile.uneven_requests,
            self.workload.seed + model,
        )

    def _up(self, day: int) -> Ints:
        """Places up, hours x models: in proportion to the day's volume, the model's appeal and the hour."""
        profile, models = self.workload.profile, self.population.models
        busy = between(profile.volume, self.workload.progress(day)) / max(profile.volume)
        appeal = self.population.appeals(day, profile.rise_days) / models.appeal
        wanted = np.outer(np.array(profile.hours) / max(profile.hours), self._places * appeal * busy)
        return np.clip(np.ceil(wanted).astype(np.int64), 1, self._places)
