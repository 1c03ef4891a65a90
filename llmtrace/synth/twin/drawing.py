"""Drawing: the requests of one stretch of a twin's time, model by model: visits at its rates, and what happens in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from llmtrace.synth.twin.bins import COARSE_BITS, FINE_BITS, low, width
from llmtrace.synth.twin.counts import NOTHING, Table, sample
from llmtrace.synth.twin.portrait import DRAWN
from llmtrace.synth.twin.study import LAST, NULLABLE, PERIODS, RATIOS, WARPED
from llmtrace.synth.twin.visits import ANEW, BACK, LONGEST_TURN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmtrace.synth.draws import Floats, Ints

__all__ = ["UNKNOWN", "Clock", "Crowd", "Rates", "Rows", "Stage", "Talk", "draw_requests", "draw_sizes"]

UNKNOWN = -1
_OPEN = 64
"""Sessions of a visit that may go on at a time."""
_TRIES = 16
_CACHED, _TTFT, _DURATION = (1 << NULLABLE.index(name) for name in ("cached_tokens", "ttft_s", "duration_s"))

(
    _RETURNS,
    _BETWEEN,
    _SIZE,
    _WITHIN,
    _KIND,
    _LENGTH,
    _INPUT_IN_BIN,
    _OUTPUT_IN_BIN,
    _GROWTH,
    _ANSWER,
    _MARKS,
    _HITS,
    _TTFT,
    _DURATION,
) = range(len(DRAWN))


class Rows(NamedTuple):
    """Columns of requests, one array each; `UNKNOWN` is null.

    `chain` numbers texts: requests of a chain begin with the same blocks. `mark` is an index into the portrait's marks.
    """

    time_us: Ints
    model: Ints
    user: Ints
    instance: Ints
    session: Ints
    turn: Ints
    chain: Ints
    input_tokens: Ints
    output_tokens: Ints
    cached_tokens: Ints
    ttft_us: Ints
    duration_us: Ints
    mark: Ints

    @classmethod
    def empty(cls, rows: int) -> Rows:
        """That many rows, not yet filled in."""
        return cls(*(np.empty(rows, np.int64) for _ in cls._fields))

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Rows:
        """The rows picked, in that order."""
        return Rows(*(column[rows] for column in self))

    def then(self, other: Rows) -> Rows:
        """These rows and the other's after them."""
        return Rows(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class Crowd(NamedTuple):
    """Users and instances by model.

    `ring[first[m]:first[m + 1]]` are the users of the last visits to model m, of which there were `visits[m]`. `deck` are the
    users in the order in which they come to a model that they did not use before, `dealt` how many have.
    """

    first: Ints
    ring: Ints
    visits: Ints
    deck: Ints
    dealt: Ints
    nobody: Floats
    instance_first: Ints
    instances: Ints
    all_instances: int


class Clock(NamedTuple):
    """When the twin begins and ends, its intervals, the clock's tick, and the step of cached tokens."""

    start_us: int
    end_us: int
    width_us: int
    intervals: int
    tick_us: int
    cached_step: int


class Rates(NamedTuple):
    """What is due in one stretch.

    The visits to model m are of `sizes[due[m]:due[m + 1]]` requests. The original has `visits[k]` of them, with `requests[k]`, in
    `interval[k]`, k from `first[m]` to `first[m + 1]`.
    """

    due: Ints
    sizes: Ints
    first: Ints
    interval: Ints
    visits: Ints
    requests: Ints


class Talk(NamedTuple):
    """The open sessions of a visit, and in `state` the place of the one last spoken in and how many sessions there were so far.

    By place: session, turn of its last request, its tokens (`UNKNOWN` if not known), when it was last spoken in, and its chain.
    """

    session: Ints
    turn: Ints
    total: Ints
    used: Ints
    chain: Ints
    state: Ints

    @classmethod
    def silent(cls) -> Talk:
        """Nothing said yet."""
        return cls(*(np.zeros(_OPEN, np.int64) for _ in cls._fields))


class Stage(NamedTuple):
    """All that requests are drawn from: `nulls` are the null columns of each mark, `mood` the class of models' last gaps."""

    table: Table
    crowd: Crowd
    clock: Clock
    nulls: Ints
    mood: Ints
    talk: Talk


@njit(nogil=True, cache=True)
def draw_requests(rng: np.random.Generator, stage: Stage, rates: Rates, rows: Rows) -> int:
    """Fill the rows with the visits due, and count the sessions, which are numbered from 0; so are the chains.

    The mood and the crowd of the stage are brought up to date.
    """
    filled = 0
    stage.talk.state[:] = 0
    for model in range(rates.due.size - 1):
        sizes = rates.sizes[rates.due[model] : rates.due[model + 1]]
        if sizes.size:
            times = _times(rng, stage, rates, model, sizes.size)
            sizes = _placed(stage.clock, rates, model, times, sizes)
            for visit in range(sizes.size):
                _visit(rng, stage, rows, model, times[visit], filled, sizes[visit])
                filled += sizes[visit]
    return int(stage.talk.state[1])


@njit(nogil=True, cache=True)
def draw_sizes(rng: np.random.Generator, source: Table, visits: Ints, requests: Ints) -> tuple[Ints, Ints]:
    """Sizes of as many visits to each model as `visits` says, in proportion to what was drawn, that add up to its `requests`.

    Returns the sizes of all visits, and where each model's begin.
    """
    due = np.zeros(visits.size + 1, np.int64)
    due[1:] = np.cumsum(visits)
    sizes = np.empty(due[-1], np.int64)
    for model in range(visits.size):
        mine = sizes[due[model] : due[model + 1]]
        for visit in range(mine.size):
            mine[visit] = max(1, _value(rng, sample(source, _SIZE, model, 0, rng.random()), FINE_BITS))
        more, total = requests[model] - mine.size, mine.sum() - mine.size
        reached = given = 0
        for visit in range(mine.size):
            reached += mine[visit] - 1 if total else 1
            upto = int(more * (reached / (total or mine.size)))
            mine[visit] = 1 + upto - given
            given = upto
    return sizes, due


@njit(nogil=True, cache=True)
def _placed(clock: Clock, rates: Rates, model: int, times: Ints, sizes: Ints) -> Ints:
    """The same sizes in another order, so that intervals have about the requests that they have in the original.

    Sizes go to visits by rank: a visit's is the mean size of its interval's visits, which alone decides where it is the only
    one, times its own size, raised to the share of the others.
    """
    first, last = rates.first[model], rates.first[model + 1]
    cells = np.searchsorted(rates.interval[first:last], (times - clock.start_us) // clock.width_us)
    cells = np.minimum(cells, last - first - 1)
    visits = np.bincount(cells, minlength=last - first)
    keys = np.empty(sizes.size)
    for visit in range(sizes.size):
        alike = visits[cells[visit]]
        keys[visit] = rates.requests[first + cells[visit]] / alike * sizes[visit] ** (1.0 - 1.0 / alike)
    placed = np.empty_like(sizes)
    placed[np.argsort(keys, kind="mergesort")] = np.sort(sizes)
    return placed


@njit(nogil=True, cache=True)
def _times(rng: np.random.Generator, stage: Stage, rates: Rates, model: int, count: int) -> Ints:
    """When visits begin: a chain of gaps, each depending on the one before, stretched so that the visits follow the rates."""
    clock = stage.clock
    at, last = rates.first[model], rates.first[model + 1] - 1
    gaps = _gaps(rng, stage, rates, model, count)
    stretch = rates.visits[at : last + 1].sum() / max(gaps.sum(), 1.0)
    reached, before = rng.random() * gaps[0], 0.0
    times = np.empty(count, np.int64)
    for visit in range(count):
        reached += gaps[visit] if visit else 0.0
        while at < last and reached * stretch >= before + rates.visits[at]:
            before += rates.visits[at]
            at += 1
        share = min((reached * stretch - before) / rates.visits[at], 1.0)
        times[visit] = _ticked(clock, clock.start_us + int((rates.interval[at] + share) * clock.width_us))
        if visit and times[visit] <= times[visit - 1]:
            times[visit] = _ticked(clock, times[visit - 1] + (clock.tick_us if gaps[visit] else 0))
        elif visit and not gaps[visit]:
            times[visit] = times[visit - 1]
    return times


@njit(nogil=True, cache=True)
def _gaps(rng: np.random.Generator, stage: Stage, rates: Rates, model: int, count: int) -> Floats:
    """Gaps between visits in units of `WARPED` to the mean gap, each after the one before and at the rate of about its time."""
    mood = stage.mood
    at, last = rates.first[model], rates.first[model + 1] - 1
    stretch = rates.visits[at : last + 1].sum() / count / WARPED
    gaps = np.empty(count)
    reached, before = 0.0, 0.0
    for visit in range(count):
        while at < last and reached * stretch >= before + rates.visits[at]:
            before += rates.visits[at]
            at += 1
        state = _octave(rates.visits[at]) // 2 * 64 + mood[model]
        binned = sample(stage.table, _BETWEEN, model, state, rng.random())
        gaps[visit] = WARPED if binned == NOTHING else _value(rng, binned, COARSE_BITS)
        mood[model] = 0 if binned == NOTHING else _gap_class(binned)
        reached += gaps[visit]
    return gaps


@njit(nogil=True, cache=True)
def _visit(rng: np.random.Generator, stage: Stage, rows: Rows, model: int, time_us: int, first: int, size: int) -> None:
    """Write the requests of one visit from row `first` on."""
    table, crowd, clock, talk = stage.table, stage.crowd, stage.clock, stage.talk
    user, instance = _pick_user(rng, stage, model), _pick_instance(rng, crowd, model)
    talk.used[:] = -1
    coming = gap = 0
    for row in range(first, first + size):
        kind = ANEW
        if row > first:
            gap = 0 if coming == NOTHING else _gap_class(coming)
            time_us = _later(rng, clock, time_us, 0 if coming == NOTHING else _value(rng, coming, COARSE_BITS))
            turns = _turn_class(talk.turn[talk.state[0]])
            kind = sample(table, _KIND, model, (_octave(size) * 32 + gap) * 8 + turns, rng.random())
        place = _spoken(talk, kind, row)
        began = int(talk.turn[place] > 0)
        coming = sample(table, _WITHIN, model, (_octave(size) * 64 + gap) * 2 + began, rng.random())
        rows.time_us[row], rows.model[row], rows.user[row], rows.instance[row] = time_us, model, user, instance
        _lengths(rng, table, talk, rows, row, place, LAST if row + 1 == first + size else _gap_class(coming))
        _service(rng, stage, rows, row, talk.turn[place])
        talk.total[place] = rows.input_tokens[row] + rows.output_tokens[row]


@njit(nogil=True, cache=True)
def _spoken(talk: Talk, kind: int, row: int) -> int:
    """The place of the session that a request belongs to, its turn counted.

    It is the last one, the one of its turn that has waited longest, or a new one in the place of that which has.
    """
    place = talk.state[0]
    if kind >= BACK:
        place = _waiting(talk, kind - BACK)
    if kind == ANEW:
        for other in range(talk.used.size):
            place = other if talk.used[other] < talk.used[place] else place
        talk.session[place], talk.turn[place], talk.total[place], talk.chain[place] = talk.state[1], -1, UNKNOWN, talk.state[2]
        talk.state[1] += 1
        talk.state[2] += 1
    talk.turn[place] += 1
    talk.used[place], talk.state[0] = row, place
    return int(place)


@njit(nogil=True, cache=True)
def _waiting(talk: Talk, turns: int) -> int:
    """The place of the session that has waited longest among those whose turn is of that class, or nearest to it."""
    place, nearest = talk.state[0], LONGEST_TURN + 1
    for other in range(talk.used.size):
        if talk.used[other] < 0:
            continue
        distance = abs(_turn_class(talk.turn[other]) - turns)
        if distance < nearest or (distance == nearest and talk.used[other] < talk.used[place]):
            place, nearest = other, distance
    return int(place)


@njit(nogil=True, cache=True)
def _lengths(rng: np.random.Generator, table: Table, talk: Talk, rows: Rows, row: int, place: int, coming: int) -> None:
    """Input and output: grown from the session's last request, or else drawn together."""
    model, total = rows.model[row], talk.total[place]
    more = sample(table, _GROWTH, model, _octave(total), rng.random()) if total >= 0 else 0
    if more > 0:
        rows.input_tokens[row] = total + _value(rng, more - 1, COARSE_BITS)
        answer = sample(table, _ANSWER, model, _octave(rows.input_tokens[row]), rng.random())
    else:
        both = max(sample(table, _LENGTH, model, coming, rng.random()), 0)
        rows.input_tokens[row], answer = _tokens(rng, table, _INPUT_IN_BIN, model, both // 512), both % 512
        if total >= 0:
            talk.chain[place] = talk.state[2]
            talk.state[2] += 1
    rows.output_tokens[row] = _tokens(rng, table, _OUTPUT_IN_BIN, model, max(answer, 0))
    rows.session[row], rows.turn[row], rows.chain[row] = talk.session[place], talk.turn[place], talk.chain[place]


@njit(nogil=True, cache=True)
def _service(rng: np.random.Generator, stage: Stage, rows: Rows, row: int, turn: int) -> None:
    """The mark, and what it does not leave null of cached tokens, time to first token and duration."""
    table, clock, model = stage.table, stage.clock, rows.model[row]
    interval = min((rows.time_us[row] - clock.start_us) // clock.width_us, clock.intervals - 1)
    mark = sample(table, _MARKS, model, interval * PERIODS // clock.intervals, rng.random())
    rows.mark[row], nulls = mark, stage.nulls[mark]
    asked, cached, first, after = rows.input_tokens[row], UNKNOWN, UNKNOWN, UNKNOWN
    hit = sample(table, _HITS, model, int(turn > 0) * 64 + _octave(asked), rng.random())
    if nulls & _CACHED == 0 and hit != NOTHING:
        part = asked if hit > RATIOS else int((hit - rng.random()) * asked / RATIOS)
        cached = 0 if hit == 0 else part // clock.cached_step * clock.cached_step
    if nulls & _TTFT == 0:
        first = _drawn(rng, table, _TTFT, model, _octave(asked - max(cached, 0)))
    if nulls & _DURATION == 0:
        after = _drawn(rng, table, _DURATION, model, int(first >= 0) * 64 + _octave(rows.output_tokens[row]))
    rows.cached_tokens[row], rows.ttft_us[row] = cached, first
    rows.duration_us[row] = after + max(first, 0) if after >= 0 else UNKNOWN


@njit(nogil=True, cache=True)
def _pick_user(rng: np.random.Generator, stage: Stage, model: int) -> int:
    """Who comes: the user of a visit to the model some visits ago, or the next one to come to a model for the first time."""
    crowd = stage.crowd
    if crowd.deck.size == 0 or rng.random() < crowd.nobody[model]:
        return UNKNOWN
    first, room, visit = crowd.first[model], crowd.first[model + 1] - crowd.first[model], crowd.visits[model]
    ago = _value(rng, max(sample(stage.table, _RETURNS, model, 0, rng.random()), 0), COARSE_BITS)
    for _ in range(_TRIES):
        if ago <= min(visit, room):
            break
        ago = _value(rng, max(sample(stage.table, _RETURNS, model, 0, rng.random()), 0), COARSE_BITS)
    if 0 < ago <= min(visit, room):
        user = crowd.ring[first + (visit - ago) % room]
    else:
        user = crowd.deck[crowd.dealt[0] % crowd.deck.size]
        crowd.dealt[0] += 1
    crowd.ring[first + visit % room] = user
    crowd.visits[model] += 1
    return int(user)


@njit(nogil=True, cache=True)
def _pick_instance(rng: np.random.Generator, crowd: Crowd, model: int) -> int:
    share = rng.random()
    if crowd.instances[model] == 0:
        return UNKNOWN
    return int((crowd.instance_first[model] + int(share * crowd.instances[model])) % crowd.all_instances)


@njit(nogil=True, cache=True)
def _drawn(rng: np.random.Generator, source: Table, kind: int, model: int, sub: int) -> int:
    binned = sample(source, kind, model, sub, rng.random())
    return UNKNOWN if binned == NOTHING else _value(rng, binned, COARSE_BITS)


@njit(nogil=True, cache=True)
def _tokens(rng: np.random.Generator, source: Table, kind: int, model: int, coarse: int) -> int:
    """A number of tokens in a coarse bin, where the model's lengths lie in it; anywhere in it if too few are known."""
    fine = sample(source, kind, model, coarse, rng.random())
    smallest = low(coarse, COARSE_BITS)
    inside = fine != NOTHING and smallest <= low(fine, FINE_BITS) < smallest + width(coarse, COARSE_BITS)
    return _value(rng, fine, FINE_BITS) if inside else _value(rng, coarse, COARSE_BITS)


@njit(nogil=True, cache=True)
def _value(rng: np.random.Generator, binned: int, bits: int) -> int:
    """Any number of a bin."""
    return low(binned, bits) + int(rng.random() * width(binned, bits))


@njit(nogil=True, cache=True)
def _ticked(clock: Clock, time_us: int) -> int:
    """The time on the clock's ticks, and within the trace."""
    latest = clock.end_us - 1 - clock.start_us
    return int(clock.start_us + min(time_us - clock.start_us, latest) // clock.tick_us * clock.tick_us)


@njit(nogil=True, cache=True)
def _later(rng: np.random.Generator, clock: Clock, time_us: int, gap_us: int) -> int:
    """The time after a gap; what would come after the end comes between now and the end."""
    later = time_us + gap_us
    if later >= clock.end_us:
        later = time_us + int(rng.random() * (clock.end_us - time_us))
    return _ticked(clock, later)


@njit(nogil=True, cache=True)
def _gap_class(binned: int) -> int:
    return (binned + 15) // 16


@njit(nogil=True, cache=True)
def _octave(tokens: int) -> int:
    octave = 0
    while tokens >> octave > 0:
        octave += 1
    return octave


@njit(nogil=True, cache=True)
def _turn_class(turn: int) -> int:
    return min(_octave(turn), LONGEST_TURN)
