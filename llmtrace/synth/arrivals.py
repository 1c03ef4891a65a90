"""Arrivals: the requests of one block of time, from visits to sessions to turns.

A visit is one user coming to one model in one role: a person's conversations, an agent's runs, or batches of calls fired side by
side. It has rounds, each of which opens one session or several; a session's turns follow each other, each with the whole
conversation so far as its input. Blocks are drawn independently of each other; what serves the requests, and how fast, is not
decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from llmtrace.synth.draws import between, draw, pick, stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmtrace.synth.draws import Floats, Ints
    from llmtrace.synth.population import Models, Population, Users
    from llmtrace.synth.profile import Profile
    from llmtrace.synth.rates import Block
    from llmtrace.synth.workload import Workload

__all__ = ["NEVER_US", "STATUSES", "Arrivals", "Requests"]

STATUSES = ("ok", "rate_limited", "timeout", "error")
"""Words of the status column; the index is what `Requests.status` holds."""
NEVER_US = np.iinfo(np.int64).max
"""The time of a next turn that never comes."""
_PURPOSE = 4
_SLOT_US = 900_000_000
_HOUR_US = 3_600_000_000
_MINUTE_US = 60_000_000
_SECOND_US = 1_000_000
_PUNCTUAL_SECONDS = 20
_TASTE_WIDTH = 0.1
_LARGEST_VISIT = 4
"""A visit makes up a block's requests divided by this at most, so that no small day is all one user's."""
_LEAST_ROWS = 40
"""What a visit may have however few that are."""


class Requests(NamedTuple):
    """Columns of requests, one array each.

    `session` and `turn` count from 0; `history` is the input and output of the turn before, which this turn's input begins with;
    `next_us` is the time until the session's next turn; `last` is 1 on the last turn of a session that is served; `status` is an
    index into `STATUSES`; `chat` and `stream` are 0 or 1.
    """

    time_us: Ints
    session: Ints
    turn: Ints
    user: Ints
    model: Ints
    app: Ints
    history: Ints
    input_tokens: Ints
    output_tokens: Ints
    next_us: Ints
    last: Ints
    status: Ints
    chat: Ints
    stream: Ints

    @classmethod
    def empty(cls, rows: int) -> Requests:
        """That many rows, not yet filled in."""
        return cls(*(np.empty(rows, np.int64) for _ in cls._fields))

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Requests:
        """The rows picked, in that order."""
        return Requests(*(column[rows] for column in self))

    def then(self, other: Requests) -> Requests:
        """These rows and the other's after them."""
        return Requests(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class _Roles(NamedTuple):
    """Arrays by role: cumulative share of the visits, habits, and quantile tables in tokens or microseconds."""

    visits: Floats
    punctual: Floats
    streamed: Floats
    rounds: Floats
    round_gap_us: Floats
    calls: Floats
    call_gap_us: Floats
    turns: Floats
    think_us: Floats
    opening: Floats
    call_spread: Floats
    reply: Floats
    output: Floats


class _Cast(NamedTuple):
    """Everyone who may appear."""

    roles: _Roles
    users: Users
    models: Models
    system_tokens: Ints


class _Scene(NamedTuple):
    """What the visits of one block are drawn from; the three arrays are cumulative weights."""

    start_us: int
    trace_end_us: int
    slots: Floats
    users: Floats
    models: Floats
    explore: float
    stray: float
    output_drift: float
    chat: float
    streamed: float
    failed: float
    context_tokens: int


class _Visit(NamedTuple):
    """Who comes, as what, to which model, when, and before which row the visit ends at the latest."""

    user: int
    role: int
    model: int
    start_us: int
    end_row: int


class Arrivals:
    """Draws the requests of any block of a workload."""

    def __init__(self, workload: Workload, people: Population, trace_end_us: int) -> None:
        """Prepare what all blocks share; no request arrives at `trace_end_us` or later."""
        self.workload, self.population, self.trace_end_us = workload, people, trace_end_us
        self._cast = _Cast(_roles(workload.profile), people.users, people.models, people.system_tokens)

    def of(self, block: Block) -> tuple[Requests, int]:
        """The requests of the sessions that begin in a block, session by session, and how many sessions they are.

        Sessions are numbered from 0. Arrivals may lie beyond the block's end but not beyond the trace's.
        """
        rows = Requests.empty(block.rows)
        rng = stream(self.workload.seed, _PURPOSE, block.index)
        return rows, int(_fill(rng, self._scene(block), self._cast, rows))

    def _scene(self, block: Block) -> _Scene:
        profile, progress = self.workload.profile, self.workload.progress(block.day)
        return _Scene(
            start_us=block.start_us,
            trace_end_us=self.trace_end_us,
            slots=np.cumsum(block.curve),
            users=self.population.user_weights(block.day),
            models=np.cumsum(self.population.appeals(block.day, profile.rise_days)),
            explore=profile.explore,
            stray=profile.stray,
            output_drift=between(profile.output_drift, progress),
            chat=between(profile.chat, progress),
            streamed=between(profile.streamed, progress),
            failed=profile.failed,
            context_tokens=profile.context_tokens,
        )


def _roles(profile: Profile) -> _Roles:
    roles = profile.roles
    return _Roles(
        visits=np.cumsum([role.visits for role in roles]),
        punctual=np.array([role.punctual for role in roles]),
        streamed=np.array([role.streamed for role in roles]),
        rounds=np.array([role.rounds.table() for role in roles]),
        round_gap_us=np.array([role.round_gap_s.table(_SECOND_US) for role in roles]),
        calls=np.array([role.calls.table() for role in roles]),
        call_gap_us=np.array([role.call_gap_s.table(_SECOND_US) for role in roles]),
        turns=np.array([role.turns.table() for role in roles]),
        think_us=np.array([role.think_s.table(_SECOND_US) for role in roles]),
        opening=np.array([role.opening_tokens.table() for role in roles]),
        call_spread=np.array([role.call_spread.table() for role in roles]),
        reply=np.array([role.reply_tokens.table() for role in roles]),
        output=np.array([role.output_tokens.table() for role in roles]),
    )


@njit(nogil=True, cache=True)
def _fill(rng: np.random.Generator, scene: _Scene, cast: _Cast, rows: Requests) -> int:
    """Fill all rows with visits, the last one cut short, and count the sessions."""
    filled = sessions = 0
    while filled < rows.time_us.size:
        most = max(_LEAST_ROWS, rows.time_us.size // _LARGEST_VISIT)
        visit = _visit(rng, scene, cast, min(filled + most, rows.time_us.size))
        start_us = visit.start_us
        for _ in range(int(draw(cast.roles.rounds[visit.role], rng.random()))):
            if filled == visit.end_row or start_us >= scene.trace_end_us:
                break
            filled, sessions = _round(rng, scene, cast, rows, filled, sessions, visit, start_us)
            start_us = rows.time_us[filled - 1] + int(draw(cast.roles.round_gap_us[visit.role], rng.random()))
    return sessions


@njit(nogil=True, inline="always")
def _round(
    rng: np.random.Generator,
    scene: _Scene,
    cast: _Cast,
    rows: Requests,
    filled: int,
    sessions: int,
    visit: _Visit,
    start_us: int,
) -> tuple[int, int]:
    """Write the sessions of one round, of which there is at least one; return the row after them and how many there are now."""
    opening = draw(cast.roles.opening[visit.role], rng.random())
    for _ in range(int(draw(cast.roles.calls[visit.role], rng.random()))):
        if filled == visit.end_row or start_us >= scene.trace_end_us:
            break
        rows.session[filled] = sessions
        filled = _session(rng, scene, cast, rows, filled, visit, start_us, opening)
        sessions += 1
        start_us += 1 + int(draw(cast.roles.call_gap_us[visit.role], rng.random()))
    return filled, sessions


@njit(nogil=True, inline="always")
def _visit(rng: np.random.Generator, scene: _Scene, cast: _Cast, end_row: int) -> _Visit:
    user = pick(scene.users, rng.random())
    usual, role_share, model_share = rng.random(), rng.random(), rng.random()
    if usual >= scene.stray:
        role_share = cast.users.role[user]
    if usual >= scene.explore:
        model_share = cast.users.taste[user] + _TASTE_WIDTH * (model_share - 0.5)
        model_share -= np.floor(model_share)
    role = pick(cast.roles.visits, role_share)
    slot = pick(scene.slots, rng.random())
    start_us = scene.start_us + int((slot + rng.random()) * _SLOT_US)
    offset_us = cast.users.minute[user] * _MINUTE_US + int(_PUNCTUAL_SECONDS * rng.random()) * _SECOND_US
    planned_us = start_us - start_us % _HOUR_US + offset_us
    if cast.users.punctual[user] < cast.roles.punctual[role] and planned_us >= scene.start_us:
        start_us = planned_us
    return _Visit(user, role, pick(scene.models, model_share), start_us, end_row)


@njit(nogil=True, inline="always")
def _session(
    rng: np.random.Generator,
    scene: _Scene,
    cast: _Cast,
    rows: Requests,
    first: int,
    visit: _Visit,
    start_us: int,
    opening: float,
) -> int:
    """Write the turns of one session, of which there is at least one, from row `first` on; return the row after them."""
    roles, users, models = cast.roles, cast.users, cast.models
    role, user, model = visit.role, visit.user, visit.model
    last = min(visit.end_row, first + int(draw(roles.turns[role], rng.random())))
    history, prompt = 0, cast.system_tokens[users.app[user]]
    added = opening * draw(roles.call_spread[role], rng.random())
    row = first
    while row == first or (row < last and start_us < scene.trace_end_us and prompt < scene.context_tokens):
        prompt = min(prompt + 1 + int(added * users.scale[user]), scene.context_tokens)
        answer = max(1, int(draw(roles.output[role], rng.random()) * models.verbosity[model] * scene.output_drift))
        rows.time_us[row], rows.turn[row], rows.history[row] = start_us, row - first, history
        rows.input_tokens[row], rows.output_tokens[row] = prompt, answer
        rows.user[row], rows.model[row], rows.app[row] = user, model, users.app[user]
        rows.session[row], rows.status[row], rows.last[row] = rows.session[first], 0, 0
        rows.chat[row] = users.chat[user] < scene.chat
        rows.stream[row] = users.streams[user] < roles.streamed[role] * scene.streamed
        busy_us = (prompt - history) * models.prefill_us[model] + answer * models.decode_us[model]
        rows.next_us[row] = 1 + int(busy_us + draw(roles.think_us[role], rng.random()))
        start_us += rows.next_us[row]
        prompt += answer
        history = prompt
        added = draw(roles.reply[role], rng.random())
        row += 1
    rows.next_us[row - 1] = NEVER_US
    rows.status[row - 1] = _outcome(scene.failed, rng.random())
    served = row - 1 if rows.status[row - 1] == 0 else row - 2
    if served >= first:
        rows.last[served] = 1
    return row


@njit(nogil=True, inline="always")
def _outcome(failed: float, share: float) -> int:
    """An index into STATUSES: the share of failures is divided evenly among their kinds."""
    kinds = len(STATUSES) - 1
    return 1 + int(share / failed * kinds) if share < failed else 0
