"""Words that agree with numbers, for every sentence about a count."""

from __future__ import annotations

import re

__all__ = ["counted", "either", "worded"]

_CHOICE = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}")


def either(count: int, one: str, many: str) -> str:
    """The words that agree with a count.

    >>> either(1, "has", "have"), either(0, "has", "have")
    ('has', 'have')
    """
    return one if count == 1 else many


def counted(count: int, one: str, many: str | None = None) -> str:
    """A count and what is counted; without `many`, more than one of it end in an s.

    >>> counted(1, "request"), counted(12_000, "request"), counted(0, "row has", "rows have")
    ('1 request', '12,000 requests', '0 rows have')
    """
    return f"{count:,} {either(count, one, f'{one}s' if many is None else many)}"


def worded(sentence: str, count: int) -> str:
    """A sentence that was written before its count was known: `{count}` stands for it, `{one|many}` for words that agree.

    >>> worded("{count} {row has|rows have} no time.", 1), worded("{count} {row has|rows have} no time.", 2_000)
    ('1 row has no time.', '2,000 rows have no time.')
    """
    return _CHOICE.sub(r"\1" if count == 1 else r"\2", sentence).replace("{count}", f"{count:,}")
