"""The options that commands share: groups, and the decorator that spreads a group over a command's signature.

A command takes `reading: Reading` and `writing: Writing`, or `storing: Storing`, beside its own options; `spread` shows their
fields to Typer as single options and puts the groups together again on a call. Nothing heavy is imported until a group is used.
"""

import functools
import inspect
import re
import signal
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_type_hints

import typer

from llmtrace.errors import UsageError

if TYPE_CHECKING:
    from llmtrace.report.writers import Output
    from llmtrace.trace import Trace

__all__ = ["Command", "Reading", "Storing", "Writing", "place", "spread"]

Command: TypeAlias = Callable[..., None]

_READING = "Reading"
_FILTERS = "Filters"
_OUTPUT = "Output"
_YEARS = range(1678, 2262)
"""The years in which times may lie, see `llmtrace.formats.times`."""
_Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace what is in the way.", rich_help_panel=_OUTPUT)]
_Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no notes on standard error.", rich_help_panel=_OUTPUT)
]


@dataclass(frozen=True)
class Reading:
    """What to read, how to understand it, and which requests count."""

    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE", help="Files, folders, globs or s3:// addresses; - is standard input (CSV, TSV, JSONL)."),
    ]
    layout: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FORMAT", help="Layout of the source; recognised by content without it.", rich_help_panel=_READING
        ),
    ] = None
    mapping: Annotated[
        list[str],
        typer.Option(
            "--map",
            metavar="CANONICAL=COLUMN",
            help="Read a canonical column from this source column; repeatable.",
            rich_help_panel=_READING,
        ),
    ] = field(default_factory=list)
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None,
        typer.Option(help="Unit of bare numbers in the time column.", rich_help_panel=_READING),
    ] = None
    tz: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE", help="IANA zone of wall-clock times that carry none; UTC without it.", rich_help_panel=_READING
        ),
    ] = None
    epoch: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Moment at which a relative clock stands at zero, as 2025-04-11T04:00:00Z: its times become dates.",
            rich_help_panel=_READING,
        ),
    ] = None
    cached_mode: Annotated[
        Literal["inclusive", "exclusive"] | None,
        typer.Option(
            help="Whether the source's input tokens include the cached ones; the layout knows, mostly.", rich_help_panel=_READING
        ),
    ] = None
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Stop at cells or rows that cannot be read; they are counted otherwise.", rich_help_panel=_READING
        ),
    ] = False
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Parts of the trace worked on at once; all cores without it.", rich_help_panel=_READING
        ),
    ] = None
    engine: Annotated[Literal["local"], typer.Option(help="Where the work runs.", rich_help_panel=_READING)] = "local"
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="First moment that counts: an ISO time, or a duration from the start such as 36h.",
            rich_help_panel=_FILTERS,
        ),
    ] = None
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="First moment that no longer counts.", rich_help_panel=_FILTERS)
    ] = None
    model: Annotated[
        list[str], typer.Option(metavar="NAME", help="Only requests to this model; repeatable.", rich_help_panel=_FILTERS)
    ] = field(default_factory=list)
    user: Annotated[
        list[str], typer.Option(metavar="NAME", help="Only requests of this user; repeatable.", rich_help_panel=_FILTERS)
    ] = field(default_factory=list)
    endpoint: Annotated[
        list[str], typer.Option(metavar="NAME", help="Only requests to this endpoint; repeatable.", rich_help_panel=_FILTERS)
    ] = field(default_factory=list)
    where: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help='SQL predicate on canonical columns: "input_tokens > 1000".', rich_help_panel=_FILTERS),
    ] = None

    @property
    def began(self) -> datetime | None:
        """The moment that `--epoch` names, in UTC.

        Raises:
            UsageError: if it names none, or one in a year in which no time may lie.
        """
        if self.epoch is None:
            return None
        try:
            moment = datetime.fromisoformat(self.epoch)
            moment = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
        except (ValueError, OverflowError):
            raise UsageError(f"--epoch {self.epoch}: not a time", "Give an ISO time, as in 2025-04-11T04:00:00Z.") from None
        if moment.year not in _YEARS:
            reason = f"times lie in the years {_YEARS[0]} to {_YEARS[-1]}"
            raise UsageError(f"--epoch {self.epoch}: {reason}", "Give a moment in one of them, as 2025-04-11T04:00:00Z.")
        return moment

    def open(self) -> "Trace":
        """The trace that these options describe; nothing is read yet but what recognising its layout takes.

        Raises:
            LlmtraceError: if a source or an option is not usable.
        """
        from llmtrace.formats.layout import ReadOptions
        from llmtrace.trace import Filters, open_trace

        if hasattr(signal, "siginterrupt"):
            # Polars has system calls go on after Ctrl-C: waiting for a silent standard input would never end.
            signal.siginterrupt(signal.SIGINT, True)  # noqa: FBT003
        filters = Filters(self.since, self.until, tuple(self.model), tuple(self.user), tuple(self.endpoint), self.where)
        options = ReadOptions(_mapping(self.mapping), self.time_unit, self.tz, self.cached_mode, self.began)
        return open_trace(self.sources, layout=self.layout, options=options, filters=filters, strict=self.strict)


@dataclass(frozen=True)
class Writing:
    """Where the result goes, and in which form."""

    format: Annotated[
        Literal["table", "csv", "json", "markdown", "parquet"],
        typer.Option(
            help="Form of the result on standard output; parquet is for the tables in --output.", rich_help_panel=_OUTPUT
        ),
    ] = "table"
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show this table alone (table, csv, markdown).", rich_help_panel=_OUTPUT),
    ] = None
    output: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Also write result.json, a file per table and the figures there.", rich_help_panel=_OUTPUT
        ),
    ] = None
    figures: Annotated[str | None, typer.Option(metavar="DIR", help="Also write the figures there.", rich_help_panel=_OUTPUT)] = (
        None
    )
    figure_format: Annotated[Literal["png", "svg", "pdf"], typer.Option(help="Form of the figures.", rich_help_panel=_OUTPUT)] = (
        "png"
    )
    force: _Force = False
    quiet: _Quiet = False

    def target(self) -> "Output":
        """What the writers need to know.

        Raises:
            UsageError: if a folder has an empty name.
        """
        from llmtrace.report.writers import Output

        output = None if self.output is None else place("--output", self.output)
        figures = None if self.figures is None else place("--figures", self.figures)
        return Output(self.format, self.table, output, figures, self.figure_format, self.force)


@dataclass(frozen=True)
class Storing:
    """How a trace is written."""

    force: _Force = False
    quiet: _Quiet = False


def place(option: str, name: str) -> Path:
    """The path that an option names. An empty one, such as an unset variable of a script, is not the current folder.

    Raises:
        UsageError: if the name is empty, or one of what is read from but not written to.
    """
    if not name:
        raise UsageError(f"{option} has an empty name", "Name a folder; . is the current one.")
    if name == "-":
        raise UsageError(f"{option} -: files do not go to standard output", "Name a folder; ./- is one of that name.")
    if re.match(r"[a-z][a-z0-9+.-]*://", name, re.IGNORECASE):
        raise UsageError(f"{option} {name}: only folders of this machine are written to", "Name one, and copy it there.")
    return Path(name)


def spread(function: Command) -> Command:
    """The command with each parameter that is a group of options replaced by the group's fields.

    >>> def show(reading: Reading, top: int = 3) -> None:
    ...     print(reading.sources, reading.model, top)
    >>> spread(show)(sources=["trace.csv"], model=["m"], top=5)
    ['trace.csv'] ['m'] 5
    """
    hints = get_type_hints(function, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    shown: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        shown += _parameters(groups[name]) if name in groups else [_parameter(name, hints[name], parameter.default)]

    @functools.wraps(function)
    def command(**values: object) -> None:
        for name, group in groups.items():
            values[name] = group(**{one.name: values.pop(one.name) for one in fields(group) if one.name in values})
        function(**values)

    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return command


def _parameters(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [_parameter(one.name, hints[one.name], _default(one)) for one in fields(group)]


def _parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _default(one: Field[Any]) -> object:
    if one.default_factory is not MISSING:
        return one.default_factory()
    return inspect.Parameter.empty if one.default is MISSING else one.default


def _mapping(pairs: list[str]) -> dict[str, str]:
    from llmtrace.schema import COLUMNS

    mapping: dict[str, str] = {}
    for pair in pairs:
        canonical, _, column = pair.partition("=")
        if not column:
            raise UsageError(f"--map {pair}: not of the form CANONICAL=COLUMN", "Write for example --map user=account_id.")
        if canonical not in COLUMNS:
            raise UsageError(f"--map {pair}: there is no canonical column '{canonical}'", f"Choose one of: {', '.join(COLUMNS)}.")
        if canonical in mapping:
            raise UsageError(f"--map {pair}: '{canonical}' is mapped twice", "Give each canonical column one source column.")
        mapping[canonical] = column
    return mapping
