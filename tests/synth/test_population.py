from __future__ import annotations

import numpy as np
import pytest

from llmtrace.synth.population import population
from llmtrace.synth.workload import Workload


@pytest.mark.parametrize("models", [1, 2, 5, 55, 3000])
def test_names_are_unique(models: int) -> None:
    people = population(Workload(users=500, models=models))
    assert len(set(people.model_names)) == models
    assert len(set(people.user_names)) == 500


def test_names_do_not_tell_the_rank() -> None:
    numbers = [int(name[1:]) for name in population(Workload(users=2000)).user_names]
    assert abs(np.corrcoef(numbers, np.arange(2000))[0, 1]) < 0.1


@pytest.mark.parametrize(("models", "days"), [(1, 1), (1, 3650), (3, 3650), (55, 365), (4, 2)])
def test_there_is_always_someone_and_something(models: int, days: int) -> None:
    workload = Workload(models=models, days=days, users=5)
    people = population(workload)
    for day in range(days):
        assert people.user_weights(day)[-1] > 0
        assert people.appeals(day, workload.profile.rise_days).sum() > 0


@pytest.mark.parametrize(("models", "instances"), [(1, 1), (50, 7), (50, 2000)])
def test_every_model_has_a_pool_inside_the_fleet(models: int, instances: int) -> None:
    chosen = population(Workload(models=models, instances=instances)).models
    assert np.all(chosen.pool_size >= 1)
    assert np.all((chosen.pool_first >= 0) & (chosen.pool_first + chosen.pool_size <= instances))


def test_models_come_one_after_another_and_the_first_before_the_trace() -> None:
    release = population(Workload()).models.release
    assert np.all(np.diff(release) >= 0)
    assert release[0] < 0
    assert release[-1] < 365


def test_the_most_popular_fade_fastest() -> None:
    models = population(Workload()).models
    assert np.all(np.diff(models.half_life[np.argsort(-models.appeal)]) > 0)


def test_later_users_write_more() -> None:
    users = population(Workload(users=4000)).users
    early, late = users.scale[users.joins < 90], users.scale[users.joins > 270]
    assert np.median(late) > 1.3 * np.median(early)
