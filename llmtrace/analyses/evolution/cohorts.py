"""When users came first: by their own first request, or by a side table where their ids change over time.

A provider that hashes its user ids anew every few months makes new users of old ones. Such traces come with a table that says for
each id in which month the user behind it came first; a user known from that table is then not new with a new id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from llmtrace.errors import InputError
from llmtrace.summaries import keys

if TYPE_CHECKING:
    import numpy.typing as npt

    from llmtrace.summaries.interning import Keys
    from llmtrace.summaries.periods import Periods

    Integers = npt.NDArray[np.int64]

__all__ = ["Cohorts", "FirstSeen", "first_seen"]

_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Cohorts:
    """A side table of users.

    Attributes:
        source: its name.
        users: `user`, each once, and `start` and `end`: its first request lies between the two, the end excluded.
        digest: what tells tables apart.
    """

    source: str
    users: pl.DataFrame = field(compare=False, repr=False)
    digest: str

    @classmethod
    def of(cls, source: str, rows: pl.DataFrame, zero: datetime | None) -> Cohorts:
        """A side table from its text.

        Args:
            source: its name.
            rows: `user` and `cohort`: the number of a month (1 is the first one of a relative clock), a month (2025-04), a day or
                a time; where every row has the first day of a month, it means the month.
            zero: when the relative clock of the trace stands at zero, on the trace's own clock; None if it never was relative.

        Raises:
            InputError: if a cohort is none of these, or a number and there is no relative clock.
        """
        known = rows.drop_nulls("user")
        number, moment = known["cohort"].str.to_integer(strict=False), _moments(known["cohort"])
        wrong = known.filter(number.is_null() & moment.is_null())
        if wrong.height:
            raise InputError(
                f"{source}: {wrong['cohort'][0]!r} is no cohort ({wrong.height:,} of {known.height:,} rows)",
                "Give each user the number of a month, counted from 1, a month such as 2025-04, or a date.",
            )
        if number.count() and zero is None:
            raise InputError(
                f"{source} gives cohorts as numbers of months, but this trace has dates",
                "Give months such as 2025-04, or dates; numbers count from the zero of a relative clock, which --epoch may date.",
            )
        bounds = _of_numbers(number, zero) if number.count() else _of_moments(moment)
        return cls.among(source, known.select("user").with_columns(bounds))

    @classmethod
    def among(cls, source: str, users: pl.DataFrame) -> Cohorts:
        """A side table of `user`, `start` and `end`; of a user that stands there several times the earliest entry counts."""
        once = users.sort("user", "start", "end").unique("user", keep="first", maintain_order=True)
        return cls(source, once, f"{once.height} rows, {once.hash_rows(seed=0).sum()}")


@dataclass(frozen=True)
class FirstSeen:
    """When users came first.

    Attributes:
        times_us: per user, in microseconds since 1970; the start of what a side table says, unless its own first request is in
            that.
        known: how many users are in the side table; None without one.
        vague: how many of them are known to have come within a time that has parts of several periods.
        late: how many a side table has come after their own first request, which then counts.
    """

    times_us: Integers
    known: int | None = None
    vague: int = 0
    late: int = 0


def first_seen(users: Keys, first_us: Integers, periods: Periods, side: Cohorts | None) -> FirstSeen:
    """When users came first.

    Args:
        users: their keys, ascending.
        first_us: the first request of each.
        periods: how time is cut.
        side: the side table, if there is one.
    """
    if side is None:
        return FirstSeen(first_us)
    places, start, end = _matched(users, side.users)
    seen, times_us = first_us[places], first_us.copy()
    earlier = seen >= end
    times_us[places[earlier]] = start[earlier]
    vague = periods.floor(start[earlier]) != periods.floor(end[earlier] - 1)
    return FirstSeen(times_us, places.size, int(vague.sum()), int((seen < start).sum()))


def _matched(users: Keys, table: pl.DataFrame) -> tuple[Integers, Integers, Integers]:
    """The users that a side table has: their places, and the bounds that it gives them, in microseconds since 1970."""
    sought = keys.of(table["user"])
    places = np.searchsorted(users, sought)
    there = np.flatnonzero(users[np.minimum(places, users.size - 1)] == sought) if users.size else np.empty(0, np.int64)
    start, end = (table[name].to_physical().to_numpy()[there] for name in ("start", "end"))
    return places[there], start, end


def _moments(text: pl.Series) -> pl.Series:
    """Months, days and times as the moments at which they begin; null what is neither."""
    forms = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d")
    plain = text.str.strip_chars().str.strip_suffix("Z").str.replace(r"^(\d{4}-\d{2})$", "${1}-01")
    return reduce(
        lambda found, form: found.zip_with(found.is_not_null(), plain.str.to_datetime(form, time_unit="us", strict=False)),
        forms,
        pl.Series("cohort", [None] * text.len(), dtype=pl.Datetime("us")),
    )


def _of_numbers(number: pl.Series, zero: datetime | None) -> list[pl.Series]:
    """The bounds of numbered months: those of 1970, moved from its beginning to `zero`."""
    moved = (zero or _EPOCH) - _EPOCH
    months = number.cast(pl.Int64).to_numpy() - 1
    edges = (pl.Series(name, (months + more).astype("M8[M]").astype("M8[us]")) for name, more in (("start", 0), ("end", 1)))
    return [edge + moved for edge in edges]


def _of_moments(moment: pl.Series) -> list[pl.Series]:
    """The bounds of months, days or times, whichever they are."""
    if (moment.dt.truncate("1mo") == moment).all():
        return [moment.alias("start"), moment.dt.offset_by("1mo").alias("end")]
    days = (moment.dt.truncate("1d") == moment).all()
    return [moment.alias("start"), (moment + (timedelta(days=1) if days else timedelta(microseconds=1))).alias("end")]
