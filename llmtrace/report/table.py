"""The result as a person reads it in a terminal: rounded, with separators and units, as wide as the screen.

Nothing is left out without a line that says what and how to get it.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from llmtrace.report.caption import filters, is_relative, period, rows, trace_name
from llmtrace.report.cells import text_frame
from llmtrace.report.units import NULL, aligned, duration, is_duration, is_time, label, moment, number, shortened, visible
from llmtrace.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import JustifyMethod, RenderableType

    from llmtrace.result import Result, Scalar

__all__ = ["render"]

ROWS, ROWS_OF_NAMED_TABLE = 20, 1_000
"""A table longer than this is shortened; one that is asked for by name may be longer."""
DEFINITIONS_FROM_WIDTH = 110
WIDEST_TEXT = 110
"""Sentences are no wider than this, however wide the screen."""
WIDEST_CELL, SHORT_CELL = 40, 20
"""Texts are shortened to so many characters; to fewer where more columns fit then, and different ones stay different."""
PARTIAL, MARK = "partial", "*"
"""A column that is told by a mark on the first cell of the rows where it is true."""
NARROWEST_SENTENCE = 20
"""A column of sentences is broken into lines, of at least this width."""
GAP = 2
DAY_S = 86_400


def render(result: Result, *, width: int = 80, color: bool = False, table: str | None = None) -> str:
    """The result as text of at most `width` columns; with `color` as escape sequences for a terminal.

    Shown are title, scalars, the primary table and those the result wants shown, the names of the others, and the notes; with
    `table` only title, that table and notes.

    Raises:
        UsageError: if there is no table of that name.
    """
    shown = result.table(table)
    name = table or result.primary
    blocks = [_title(result)]
    if table is None and result.scalars:
        blocks.append(_scalars(result, width))
    blocks.append(_table(name, shown, result, width, ROWS if table is None else ROWS_OF_NAMED_TABLE))
    if table is None:
        blocks += [_table(other, result.table(other), result, width, ROWS) for other in result.shown]
        blocks += [_others(result)] if len(result.tables) > 1 + len(result.shown) else []
    if result.notes:
        blocks.append(_bulleted("Notes", result.notes))
    return _printed(blocks, width, color=color)


def _printed(blocks: Iterable[RenderableType], width: int, *, color: bool) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for place, block in enumerate(blocks):
        if place:
            console.print()
        console.print(block)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def _title(result: Result) -> RenderableType:
    """The command and the trace, then its period, rows and filters."""
    title = Text.assemble((f"llmtrace {result.command}", "bold"), "  ", (trace_name(result), "bold cyan"))
    facts = ", ".join(part for part in (period(result), rows(result)) if part)
    chosen = filters(result)
    lines = [title, Text(facts, "dim"), Text(f"Filters: {chosen}" if chosen else "", "dim")]
    return Group(*(line for line in lines if line))


def _scalars(result: Result, width: int) -> RenderableType:
    """Name, value and, where the screen is wide enough, definition of every scalar."""
    defined = any(name in result.definitions for name in result.scalars)
    wide = defined and width >= DEFINITIONS_FROM_WIDTH
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    if wide:
        grid.add_column(max_width=WIDEST_TEXT, style="dim")
    for name, value in result.scalars.items():
        cells = [Text(name, "cyan"), Text(_scalar(name, value, relative=is_relative(result)))]
        grid.add_row(*cells, *([Text(visible(result.definitions.get(name, "")))] if wide else []))
    hint = f"Definitions: on a screen of {DEFINITIONS_FROM_WIDTH} columns, or with --format json or markdown."
    return Group(grid, Text(hint, "dim")) if defined and not wide else grid


def _scalar(name: str, value: Scalar, *, relative: bool) -> str:
    if value is None:
        return NULL
    if isinstance(value, datetime):
        return f"{moment(value)} UTC"
    if isinstance(value, (str, date)):
        return visible(str(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_duration(name) or (relative and is_time(name)):
        return duration(value)
    return number(value)


def _table(name: str, table: pl.DataFrame, result: Result, width: int, limit: int) -> RenderableType:
    """The table's head, its rows as far as they are shown, and a line for everything that is not."""
    full = f"--format csv{'' if name == result.primary else f' --table {name}'}"
    kept, gap = _kept(table, limit)
    unknown = [column for column in table.columns if table.height and table[column].null_count() == table.height]
    columns, is_marked = _columns(kept.drop(unknown), gap, width, relative=is_relative(result))
    fitting = _fitting(columns, width)
    lines = [
        f"{MARK} {PARTIAL}: the trace has only a part of it." if is_marked else "",
        f"{kept.height:,} of {counted(table.height, 'row')} shown; {full} prints all." if kept.height < table.height else "",
        f"Not known (null in every row): {', '.join(unknown)}." if unknown else "",
        f"Too wide for {width} columns: {', '.join(c.name for c in columns[fitting:])}; {full} has all."
        if fitting < len(columns)
        else "",
    ]
    head = Text.assemble((name, "bold"), (f"  {counted(table.height, 'row')}", "dim"))
    body = [_grid(_spread(columns[:fitting], width))] if fitting else []
    return Group(head, *body, *(Text(visible(line), "dim") for line in lines if line))


def _kept(table: pl.DataFrame, limit: int) -> tuple[pl.DataFrame, int | None]:
    """The rows shown and where a gap is among them: a course of time keeps both ends, any other order its head."""
    if table.height <= limit:
        return table, None
    if table.columns and is_time(table.columns[0]):
        return pl.concat([table.head(limit - limit // 2), table.tail(limit // 2)]), limit - limit // 2
    return table.head(limit), limit


@dataclass(frozen=True)
class _Column:
    """One column as text: header lines, cells, alignment, the width that they take, and whether cells are broken into lines."""

    name: str
    header: str
    cells: list[str]
    right: bool
    width: int
    breaks: bool


def _columns(table: pl.DataFrame, gap: int | None, width: int, *, relative: bool) -> tuple[list[_Column], bool]:
    """The columns of a table, texts shortened as the width asks for, and whether rows are marked as partial."""
    marked = table[PARTIAL].to_list() if PARTIAL in table.columns[1:] else []
    told = table.drop(PARTIAL) if any(marked) else table
    long = [_column(column, gap, WIDEST_CELL, relative=relative) for column in told]
    fits = _fitting(long, width) == len(long)
    short = long if fits else [_column(column, gap, SHORT_CELL, relative=relative) for column in told]
    is_clear = all(len(set(a.cells)) == len(set(b.cells)) for a, b in zip(long, short, strict=True))
    columns = short if is_clear and _fitting(short, width) > _fitting(long, width) else long
    return (_marked(columns, marked, gap), True) if any(marked) else (columns, False)


def _marked(columns: list[_Column], marked: list[bool], gap: int | None) -> list[_Column]:
    """The columns with a mark behind the first cell of some rows."""
    first, rows = columns[0], list(marked)
    if gap is not None:
        rows.insert(gap, False)
    cells = [f"{cell} {MARK}" if is_marked else cell for cell, is_marked in zip(first.cells, rows, strict=True)]
    return [replace(first, cells=cells, width=max(first.width, *map(cell_len, cells))), *columns[1:]]


def _column(column: pl.Series, gap: int | None, widest: int, *, relative: bool) -> _Column:
    column = _spoken(column)
    time = is_time(column.name) and (relative or column.dtype.is_temporal())
    breaks = _holds_sentences(column)
    cells = _times(column) if time else _texts(column, None if breaks else widest)
    words = _words(column.name, utc=time and isinstance(column.dtype, pl.Datetime))
    width = NARROWEST_SENTENCE if breaks else max(cell_len(text) for text in (*words, *cells))
    if gap is not None:
        cells.insert(gap, "⋮")
    right = not time and (column.dtype.is_numeric() or isinstance(column.dtype, pl.Duration))
    return _Column(column.name, _filled(words, width), cells, right, width, breaks)


def _spoken(column: pl.Series) -> pl.Series:
    """A column of JSON objects as words and rounded numbers; any other as it is."""
    if column.dtype != pl.String or not column.str.starts_with('{"').all() or column.is_empty():
        return column
    return pl.Series(column.name, [None if text is None else _in_words(text) for text in column], pl.String)


def _in_words(text: str) -> str:
    """What a JSON object of numbers says.

    >>> _in_words('{"shape": 0.16253709877502487, "scale_s": 536.7053723310612}')
    'shape 0.1625, scale 8 min 57 s'
    """
    try:
        found = json.loads(text).items()
        return ", ".join(f"{label(name)} {duration(value) if is_duration(name) else number(value)}" for name, value in found)
    except (ValueError, TypeError):
        return text


def _holds_sentences(column: pl.Series) -> bool:
    if column.dtype != pl.String:
        return False
    long = (column.str.len_chars() > WIDEST_CELL) & column.str.contains(" ", literal=True)
    return bool(long.any())


def _spread(columns: list[_Column], width: int) -> list[_Column]:
    """The columns with what is left of the screen given to the sentences among them, as far as they need it."""
    spare = width - sum(column.width + GAP for column in columns) + GAP
    wide = list[_Column]()
    for column in columns:
        longest = max((cell_len(text) for text in column.cells), default=0)
        taken = max(min(spare, longest - column.width), 0) if column.breaks else 0
        spare -= taken
        wide.append(replace(column, width=column.width + taken))
    return wide


def _words(name: str, *, utc: bool) -> list[str]:
    words = re.sub(r"/(?!s\b)", " /", label(visible(name))).split()
    return [*words, "(UTC)"] if utc else words


def _filled(words: list[str], width: int) -> str:
    """The words of a header on as few lines as the width allows."""
    lines = [words[0]]
    for word in words[1:]:
        joint = "" if word.startswith("/") else " "
        if cell_len(lines[-1] + joint + word) <= width:
            lines[-1] += joint + word
        else:
            lines.append(word)
    return "\n".join(lines)


def _texts(column: pl.Series, widest: int | None) -> list[str]:
    """A column's cells, each written by what the column's name and dtype say it is; text shortened to `widest`."""
    if isinstance(column.dtype, pl.Duration):
        column = column.dt.total_microseconds() / 1e6
        return [NULL if value is None else duration(value) for value in column]
    if column.dtype.is_numeric():
        values = column.to_list()
        return [NULL if value is None else duration(value) for value in values] if is_duration(column.name) else aligned(values)
    texts = text_frame(column.to_frame()).to_series().cast(pl.String)
    shown = [NULL if text is None else visible(text) for text in texts]
    return shown if widest is None else [shortened(text, widest) for text in shown]


def _times(column: pl.Series) -> list[str]:
    """Points in time, in one form for the whole column: as short as its finest needs, beginnings of months without a day.

    Elapsed times a second or more apart are shown to the second.
    """
    if column.dtype.is_numeric():
        steps = column.drop_nulls().unique().sort().diff().drop_nulls()
        elapsed = column.round() if steps.len() and (steps >= 1).all() else column
        return [NULL if value is None else _elapsed(value) for value in elapsed]
    if isinstance(column.dtype, pl.Date):
        return [NULL if value is None else f"{value:%Y-%m-%d}" for value in column]
    texts = column.cast(pl.Datetime("us")).dt.to_string("%Y-%m-%d %H:%M:%S%.6f")
    # One day alone, the first of a month or not, is a day.
    for zeros in (".000000", ":00", " 00:00", "-01")[: None if texts.drop_nulls().n_unique() > 1 else -1]:
        if texts.str.ends_with(zeros).all():
            texts = texts.str.strip_suffix(zeros)
    return [NULL if text is None else text for text in texts]


def _elapsed(seconds: float) -> str:
    """Seconds since the first arrival as on a stopwatch: `2 d 03:00:00`.

    >>> _elapsed(183600.25)
    '2 d 03:00:00.25'
    """
    if seconds < 0:
        return f"-{_elapsed(-seconds)}"
    whole, micros = divmod(round(seconds * 1_000_000), 1_000_000)
    days, rest = divmod(whole, DAY_S)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    return f"{days:,} d {text}{fraction}" if days else text + fraction


def _fitting(columns: list[_Column], width: int) -> int:
    """How many columns, from the left, a screen of that width holds; at least one."""
    used = 0
    for place, column in enumerate(columns):
        used += column.width + (GAP if place else 0)
        if used > width and place:
            return place
    return len(columns)


def _grid(columns: list[_Column]) -> RenderableType:
    grid = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0), header_style="bold")
    broken = any(column.breaks for column in columns)
    for column in columns:
        justify: JustifyMethod = "right" if column.right else "left"
        grid.add_column(
            Text(column.header),
            justify=justify,
            vertical="top" if broken else "bottom",
            no_wrap=not column.breaks,
            min_width=column.width,
            max_width=column.width,
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        grid.add_row(*map(Text, cells))
    return grid


def _others(result: Result) -> RenderableType:
    """The names of the tables that are not shown, and how to see them."""
    shown = (result.primary, *result.shown)
    named = [f"{name} ({table.height:,})" for name, table in result.tables.items() if name not in shown]
    names = Text.assemble(("Other tables", "bold"), " (rows): ", ", ".join(named))
    return Group(names, Text("--table NAME shows one, --output DIR writes all of them and the figures.", "dim"))


def _bulleted(title: str, sentences: Iterable[str]) -> RenderableType:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column()
    grid.add_column(max_width=WIDEST_TEXT)
    for sentence in sentences:
        grid.add_row("-", Text(visible(sentence)))
    return Group(Text(title, "bold"), Padding(grid, 0))
