"""The look of every figure: half a page wide, legible in print and in grey, the same for all commands.

Lines differ in colour (Okabe and Ito's palette, which the colour-blind can tell apart), in dash pattern and in marker. Text is
7 points at 3.5 inches. Every figure ends in a caption line with the trace's name, period and filters.
"""

from __future__ import annotations

import io
import warnings
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from llmtrace.report import ticks
from llmtrace.report.caption import caption
from llmtrace.report.units import moment, shortened, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from numpy.typing import NDArray

    from llmtrace.result import Result

__all__ = [
    "LINES",
    "LOOK",
    "OVERALL",
    "NoDataError",
    "color_bar",
    "count_axis",
    "dots",
    "figure",
    "isolated",
    "legend",
    "line",
    "log_axis",
    "log_share_axis",
    "look",
    "names",
    "relative_axis",
    "save",
    "share_axis",
    "time_axis",
]

WIDTH_IN = 3.5
DPI = 300
TEXT_PT, CAPTION_PT = 7.0, 5.5
NAME_LENGTH = 22
LETTER_PT, LEGEND_HANDLE_PT = 4.1, 30.0
"""What a letter of a legend takes, on average, and what stands before it."""
CAPTION_LINE, CAPTION_LINES = 78, 3
MARKED_UP_TO, MARKS = 40, 8
"""A line of at most so many points shows each of them; how many a longer one shows where lines must be told apart."""
THIN_FROM = 150
RASTER_FROM = 20_000
"""A line of more points is a picture in SVG and PDF too, which would be huge otherwise."""

LINES: Sequence[tuple[str, Any, str]] = (
    ("#0072B2", "-", "o"),
    ("#D55E00", (0, (6, 1.2, 1.2, 1.2)), "s"),
    ("#009E73", (0, (1.2, 0.9)), "^"),
    ("#CC79A7", (0, (8, 1.8)), "D"),
    ("#56B4E9", (0, (2.5, 1)), "v"),
    ("#E69F00", (0, (6, 1, 1, 1, 1, 1)), "P"),
)
"""Colour, dash pattern and marker, to be taken in this order."""
OVERALL = ("#888888", (0, (3.5, 1.5)), "x")
"""The line of all requests, behind those of single models."""

LOOK: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": TEXT_PT,
    "axes.labelsize": TEXT_PT,
    "axes.titlesize": TEXT_PT,
    "xtick.labelsize": TEXT_PT,
    "ytick.labelsize": TEXT_PT,
    "legend.fontsize": TEXT_PT,
    "text.parse_math": False,
    "text.color": "#222222",
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#444444",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelpad": 2.5,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.4,
    "lines.markersize": 2.2,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "legend.borderaxespad": 0.1,
    "legend.columnspacing": 1.2,
    "legend.labelspacing": 0.25,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    "savefig.dpi": DPI,
    "svg.hashsalt": "llmtrace",
    "pdf.fonttype": 42,
    "timezone": "UTC",
}
"""What matplotlib is told of every figure."""
KILO = 1_000
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
PLAIN_POWERS = range(-4, 5)
"""The powers of ten up to which a tick without a prefix is written out."""
SHARE_TOP = 1.15
"""Where a logarithmic axis of shares ends, with room for a mark at 1."""
CORNERS = ("", "%Y", "%Y-%b", "%Y-%b-%d", "%Y-%b-%d", "%Y-%b-%d %H:%M")
"""What the corner of an axis of dates names where its ticks are years, months, days, hours, minutes or seconds."""
_SECONDS = (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0))


class NoDataError(Exception):
    """A result lacks what a figure shows; the message says what."""


class NotAskedError(NoDataError):
    """A figure shows what takes an option that was not given."""


@contextmanager
def look() -> Iterator[None]:
    """Draw and save in our style inside the block, whatever the user's matplotlib settings, which stay as they are.

    What the font has no letters for is a box, and no warning: whoever measures a text would be warned, and cannot help it.
    """
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        mpl.rcdefaults()
        mpl.rcParams.update(LOOK)  # type: ignore[arg-type]
        yield


def figure(result: Result, *, panels: int = 1, panel_in: float = 1.9, remark: str = "") -> tuple[Figure, list[Axes]]:
    """A captioned figure with panels one above the other on a common x axis, each `panel_in` inches high.

    `remark` goes into the caption too: what one must know to read the figure rightly.
    """
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(WIDTH_IN, panels * panel_in + 0.3), layout="constrained")
    axes = drawing.subplots(panels, sharex=True, squeeze=False)[:, 0]
    words = " · ".join(part for part in (caption(result), remark) if part)
    drawing.supxlabel(_wrapped(words), x=0.01, ha="left", fontsize=CAPTION_PT, color="#666666")
    return drawing, list(axes)


def line(axes: Axes, x: NDArray[np.float64], y: pl.Series, style: tuple[str, Any, str], *, marked: bool = False) -> Line2D:
    """Draw a line; what is null is a gap, and a point between two gaps a dot.

    A line of few points shows them all, a `marked` one some, to tell it from others.
    """
    color, dashes, marker = style
    few, many = y.len() <= MARKED_UP_TO, y.len() > THIN_FROM
    shown = set(isolated(y))
    if marker and (few or marked):
        shown |= set(range(y.len()) if few else range(y.len() // (2 * MARKS), y.len(), y.len() // MARKS))
    return axes.plot(
        x,
        y.cast(pl.Float64).to_numpy(),
        color=color,
        linestyle=dashes,
        linewidth=0.8 if many else 1.1,
        marker=(marker or "o") if shown else "",
        markersize=1.6 if many and not marked else LOOK["lines.markersize"],
        markeredgewidth=0 if many and not marked else None,
        markevery=sorted(shown),
        rasterized=y.len() > RASTER_FROM,
    )[0]


def isolated(y: pl.Series) -> list[int]:
    """The places of values between two that are not known, where a line would show nothing.

    >>> isolated(pl.Series([1, None, 3, None, 5, 6]))
    [0, 2]
    """
    known = y.cast(pl.Float64).is_finite().fill_null(value=False)
    before, after = (known.shift(step, fill_value=False) for step in (1, -1))
    return (known & ~before & ~after).arg_true().to_list()


def dots(axes: Axes, x: NDArray[np.float64], y: pl.Series) -> Line2D:
    """Draw a dot for every value that is known, so that one between two that are not is seen."""
    return axes.plot(
        x,
        y.cast(pl.Float64).to_numpy(),
        color=LINES[0][0],
        linestyle="",
        marker="o",
        markersize=1.6 if y.len() > MARKED_UP_TO else 2.2,
        markeredgewidth=0,
        rasterized=y.len() > RASTER_FROM,
    )[0]


def legend(drawing: Figure, lines: Sequence[Artist], labels: Sequence[str]) -> None:
    """Name the lines above the axes, where nothing is covered; a line alone needs no name."""
    if len(lines) == 1:
        return
    # A leading underscore would hide a line from matplotlib's legend.
    shown = [f" {label}" if label.startswith("_") else label for label in labels]
    entry_pt = LEGEND_HANDLE_PT + LETTER_PT * max(map(len, shown))
    drawing.legend(lines, shown, loc="outside upper left", ncols=max(1, int(WIDTH_IN * 72 // entry_pt)))


def names(wanted: Sequence[str]) -> list[str]:
    """Names short enough for a legend and still different: without their organisation, then without their middle.

    >>> names(["meta/llama-3.3-70b-instruct-fp8", "a/chat", "b/chat"])
    ['llama-3.3-7…struct-fp8', 'a/chat', 'b/chat']
    """
    whole = [visible(name) for name in wanted]
    bare = [name.rpartition("/")[2] or name for name in whole]
    short = [shortened(part if bare.count(part) == 1 else name, NAME_LENGTH) for part, name in zip(bare, whole, strict=True)]
    return [name if short.count(name) == 1 else f"{name} ({place})" for place, name in enumerate(short, 1)]


def count_axis(axes: Axes, label: str) -> None:
    """A linear y axis of counts from zero, with SI prefixes."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_ylabel(label)
    axes.set_ylim(0, max(1.0, axes.get_ylim()[1]))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 2.5, 5, 10], min_n_ticks=1))
    axes.yaxis.set_major_formatter(FuncFormatter(_prefixed))


def relative_axis(axes: Axes, label: str) -> None:
    """A linear y axis of multiples from zero, with a line at one."""
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.axhline(1, color="#999999", linewidth=0.6, zorder=1)


def share_axis(axes: Axes, label: str) -> None:
    """A y axis of shares from 0 to 1."""
    axes.set_ylabel(label)
    axes.set_ylim(0, 1.01)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])


def log_axis(axes: Axes, label: str, *, prefixes: bool, vertical: bool = False, whole: bool = False) -> None:
    """A logarithmic x (or y) axis, with SI prefixes or plain numbers; a zero lies beyond its left (or lower) end.

    Args:
        axes: where.
        label: what the axis shows.
        prefixes: whether large numbers have SI prefixes.
        vertical: whether it is the y axis.
        whole: whether it shows a count, which has no fractions.
    """
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis, scale = (axes.yaxis, axes.set_yscale) if vertical else (axes.xaxis, axes.set_xscale)
    axis.set_label_text(label)
    scale("log", nonpositive="clip")
    ticks.of_powers(axis, whole=whole)
    axis.set_major_formatter(FuncFormatter(_prefixed if prefixes else _plain))
    axis.set_minor_formatter(NullFormatter())


def log_share_axis(axes: Axes, label: str) -> None:
    """A logarithmic y axis of shares, which ends at 1 if they come near that."""
    log_axis(axes, label, prefixes=False, vertical=True)
    axes.set_ylim(top=min(axes.get_ylim()[1], SHARE_TOP))


def time_axis(axes: Axes, times: pl.Series) -> NDArray[np.float64]:
    """Make the x axis one of time and return the positions on it: dates, or on a relative clock time since the first request.

    A time alone is all that its axis names.
    """
    relative = times.dtype.is_numeric()
    times = times if relative else times.cast(pl.Datetime("us"))
    positions = _relative_axis(axes, times) if relative else _date_axis(axes, times)
    if len(positions) == 1:
        axes.set_xlim(positions[0] - 0.5, positions[0] + 0.5)
        axes.set_xticks(positions, [f"{positions[0]:g}" if relative else moment(times[0])])
    return positions


def _relative_axis(axes: Axes, times: pl.Series) -> NDArray[np.float64]:
    low, high = float(times.min() or 0), float(times.max() or 0)  # type: ignore[arg-type]
    symbol, size = _time_unit(high - low or abs(high))
    axes.set_xlabel(f"Time since first request ({symbol})")
    positions: NDArray[np.float64] = times.to_numpy() / size
    return positions


def _date_axis(axes: Axes, times: pl.Series) -> NDArray[np.float64]:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num

    locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    # What ticks leave out stands in the corner: of the last time, since the axis may end on the next day.
    last = times.max()
    corners = [last.strftime(form) for form in CORNERS] if isinstance(last, datetime) else None
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, offset_formats=corners))  # type: ignore[no-untyped-call]
    axes.set_xlabel("Time (UTC)")
    positions: NDArray[np.float64] = date2num(times.to_numpy())  # type: ignore[no-untyped-call]
    return positions


def color_bar(axes: Axes, mesh: ScalarMappable, label: str, *, clipped: bool) -> Colorbar:
    """The scale of a heat map's colours; `clipped` says that some cells lie beyond its end."""
    from matplotlib.ticker import FuncFormatter

    extend = "max" if clipped else "neither"
    bar = axes.figure.colorbar(mesh, ax=axes, extend=extend, format=FuncFormatter(_prefixed), pad=0.02)
    bar.set_label(label)
    bar.outline.set_visible(False)
    return bar


def save(drawing: Figure, file_format: str) -> bytes:
    """The figure as a file, the same bytes for the same figure and version of matplotlib."""
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[file_format]
    stream = io.BytesIO()
    drawing.align_ylabels()
    with look():
        drawing.savefig(stream, format=file_format, metadata=metadata)
    return stream.getvalue()


def _prefixed(value: float, _position: int | None = None) -> str:
    """A tick of a count: with an SI prefix from a thousand on.

    >>> [_prefixed(value) for value in (0.25, 750, 2_500_000)]
    ['0.25', '750', '2.5 M']
    """
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep=" ")(value) if abs(value) >= KILO else f"{value:g}"


def _plain(value: float, _position: int | None = None) -> str:
    """A tick without a prefix; what is tiny or huge as a power of ten.

    >>> [_plain(value) for value in (0, 0.0001, 1e-05, 2e-12, 300, 20_000, 100_000, -5e6)]
    ['0', '0.0001', '10⁻⁵', '2·10⁻¹²', '300', '20000', '10⁵', '-5·10⁶']
    """
    digits, _, power = f"{value:.5e}".partition("e")
    if not value or int(power) in PLAIN_POWERS:
        return f"{value:g}"
    return f"{float(digits):g}·10".removeprefix("1·") + str(int(power)).translate(SUPERSCRIPTS)


def _time_unit(span_s: float) -> tuple[str, float]:
    """The unit in which a span has at least two to show.

    >>> _time_unit(3537.0)
    ('min', 60.0)
    """
    return next((pair for pair in _SECONDS if span_s >= 2 * pair[1]), _SECONDS[-1])


def _wrapped(text: str) -> str:
    """A caption on as many lines as it may take; what does not fit ends in an ellipsis."""
    import textwrap

    return "\n".join(textwrap.wrap(text, CAPTION_LINE, max_lines=CAPTION_LINES, placeholder=" …", break_on_hyphens=False))
