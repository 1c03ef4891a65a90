from __future__ import annotations

import numpy as np

from llmtrace.synth.arrivals import Requests
from llmtrace.synth.seats import Seats

APPS, MODELS = 3, 2


def requests(*rows: tuple[int, int, int, int]) -> Requests:
    """Served requests with these sessions, turns, marks of the last turn, and models."""
    filled = Requests.empty(len(rows))
    for column in filled:
        column[:] = 0
    for place, (session, turn, last, model) in enumerate(rows):
        filled.session[place], filled.turn[place], filled.last[place], filled.model[place] = session, turn, last, model
    filled.app[:] = filled.session % APPS
    return filled


def test_a_conversation_keeps_its_number_until_it_ends_and_then_another_gets_it() -> None:
    seats = Seats(APPS, MODELS)
    begin = requests((4, 0, 0, 0), (7, 0, 0, 1))
    first = seats.take(begin).tolist()
    assert len(set(first)) == 2
    seats.leave(begin)
    on = requests((7, 1, 1, 1), (4, 1, 0, 0))
    assert seats.take(on).tolist() == first[::-1]
    seats.leave(on)
    more = requests((9, 0, 0, 0), (4, 2, 1, 0))
    assert seats.take(more).tolist() == [first[1], first[0]]
    seats.leave(more)


def test_a_single_turn_has_the_number_of_its_model() -> None:
    seats = Seats(APPS, MODELS)
    alone = requests((1, 0, 1, 0), (2, 0, 1, 1), (3, 0, 1, 0))
    numbers = seats.take(alone)
    assert numbers[0] == numbers[2] != numbers[1]
    seats.leave(alone)
    assert seats.heads.size == (APPS + 1) * MODELS


def test_prompts_have_a_number_for_each_application_and_model_and_no_number_means_two_things() -> None:
    seats = Seats(APPS, MODELS)
    asked = requests(*((APPS * model + app, 0, 0, model) for model in range(MODELS) for app in range(APPS)))
    prompts, conversations = seats.prompts(asked), seats.take(asked)
    assert len(set(prompts)) == APPS * MODELS
    assert len({*prompts.tolist(), *conversations.tolist(), *seats.take(requests((50, 0, 1, 0), (51, 0, 1, 1))).tolist()}) == 14
    assert seats.heads.size > conversations.max()


def test_numbers_follow_what_is_alive_not_what_was() -> None:
    seats = Seats(APPS, MODELS)
    for session in range(0, 4000, 4):
        begin = requests(*((session + one, 0, 0, 0) for one in range(4)))
        seats.take(begin)
        seats.leave(begin)
        end = requests(*((session + one, 1, 1, 0) for one in range(4)))
        seats.take(end)
        seats.leave(end)
    assert seats.heads.size <= (APPS + 1) * MODELS + 8
    assert np.all(seats.heads == -1)
