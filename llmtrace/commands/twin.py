"""What `generate --like` does: study a trace, draw a twin of it, write it, and say how like it is."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmtrace.commands.telling import say
from llmtrace.errors import OutputError, UsageError
from llmtrace.wording import counted, either

if TYPE_CHECKING:
    from llmtrace.synth.twin.portrait import Portrait
    from llmtrace.synth.twin.study import Study
    from llmtrace.synth.writing import Partition
    from llmtrace.trace import Trace

__all__ = ["Twin", "fidelity_file", "make_twin", "study_of"]

_EPOCH = datetime(1970, 1, 1)
_NOT_STUDIED = frozenset({"request_id", "block_hashes"})


@dataclass(frozen=True)
class Twin:
    """What twin to make, and where.

    Attributes:
        destination: the folder to make, or a file if its name ends in `.parquet`.
        requests: how many requests it has; as many as the original if None.
        seed: which of the many twins.
        min_users: how many people a model, a word or a group of users needs behind it to be carried as one of its own.
        partition: a folder per day, per month, or none.
        threads: parts of the original that are read at once.
        force: replace what is in the way.
        quiet: no progress and no notes.
    """

    destination: Path
    requests: int | None = None
    seed: int = 1
    min_users: int = 5
    partition: Partition = "auto"
    threads: int | None = None
    force: bool = False
    quiet: bool = False


def make_twin(trace: Trace, twin: Twin) -> int:
    """Write a twin of a trace and the file that compares the two; give the number of its requests.

    Raises:
        UsageError: if an option is out of range or the destination is the trace itself.
        OutputError: if something is in the way or cannot be written.
        InputError: if the trace cannot be read.
    """
    from llmtrace.engine.convert import footer_of, refuse_itself
    from llmtrace.engine.progress import progress_bar
    from llmtrace.synth.twin.portrait import portrait
    from llmtrace.synth.twin.writing import write
    from llmtrace.trace.store import refuse_existing

    report = fidelity_file(twin.destination)
    _check(twin, report)
    refuse_itself(trace, twin.destination)
    refuse_existing(twin.destination, force=twin.force)
    study, notes = study_of(trace, twin)
    carried = portrait(study, twin.min_users)
    with progress_bar(quiet=twin.quiet) as progress:
        written = write(
            carried,
            twin.destination,
            footer_of(trace),
            requests=twin.requests,
            seed=twin.seed,
            partition=twin.partition,
            force=twin.force,
            progress=progress,
        )
    try:
        _write_json(report, _fidelity(trace, study, carried, twin, written), force=twin.force)
    except BaseException:  # a twin that nothing is told of would be in the way of the next attempt
        _remove(twin.destination)
        raise
    if not twin.quiet:
        for note in (*notes, *_suppressed(carried)):
            say(f"note: {note}")
    return written


def fidelity_file(destination: Path) -> Path:
    """Where the comparison goes: beside the twin, under its name."""
    name = destination.stem if destination.suffix == ".parquet" else os.path.realpath(destination).rpartition(os.sep)[2]
    return Path(os.path.realpath(destination)).parent / f"{name}.fidelity.json"


def study_of(trace: Trace, twin: Twin) -> tuple[Study, tuple[str, ...]]:
    """What is counted of a trace in one reading, and notes on how it was read.

    Raises:
        InputError: if the trace cannot be read.
    """
    from llmtrace.engine.aside import Aside
    from llmtrace.engine.ordered import in_order
    from llmtrace.engine.progress import progress_bar
    from llmtrace.schema import COLUMNS
    from llmtrace.synth.twin.study import Grid, Study

    with Aside() as aside, progress_bar(quiet=twin.quiet) as progress:
        ordered = in_order(trace, frozenset(COLUMNS) - _NOT_STUDIED, threads=twin.threads, progress=progress)
        window = ordered.trace.window() or ordered.trace.empty_part().interval
        start, end = ((edge - _EPOCH) // timedelta(microseconds=1) for edge in (window.start, window.end))
        rows = sum(piece.rows or 0 for piece in ordered.trace.slices)
        study = Study(frozenset(trace.columns), Grid.over(start, end, rows))
        for frame in ordered:
            aside.run(study.add, frame)
    nothing = () if study.requests.counts.size else ("No request passes the filters: the twin is empty.",)
    return study, (*trace.notes, *ordered.intake.problems, *nothing)


def _remove(destination: Path) -> None:
    if destination.is_dir() and not destination.is_symlink():
        shutil.rmtree(destination, ignore_errors=True)
    else:
        destination.unlink(missing_ok=True)


def _check(twin: Twin, report: Path) -> None:
    for option, value, least in (("--min-users", twin.min_users, 1), ("--requests", twin.requests, 1), ("--seed", twin.seed, 0)):
        if value is not None and value < least:
            raise UsageError(f"{option} {value}: out of range", f"Give a number from {least} on.")
    if report.exists() and not (twin.force and report.is_file()):
        raise OutputError(
            f"{report.name} exists already beside the destination", "Choose another name, or replace it with --force."
        )


def _suppressed(portrait: Portrait) -> list[str]:
    few, rare = portrait.min_users, portrait.merged_models
    who = "users" if "user" in portrait.columns else "requests"
    if not rare:
        return []
    own = either(rare, "is not carried as one of its own", "are not carried as models of their own")
    return [f"{counted(rare, 'model')} with fewer than {few} {who} {own}."]


def _fidelity(trace: Trace, study: Study, portrait: Portrait, twin: Twin, written: int) -> dict[str, Any]:
    """What the file says; without requests there is nothing to compare."""
    from llmtrace.synth.twin.fidelity import compared, distances
    from llmtrace.trace import open_trace

    told: dict[str, Any] = {
        "requests": {"original": portrait.requests, "twin": written},
        "parameters": {"seed": twin.seed, "min_users": twin.min_users},
        "ks": {},
        "scalars": {},
    }
    if written:
        copy = open_trace(str(twin.destination))
        told["ks"] = distances(study, study_of(copy, Twin(twin.destination, quiet=True))[0])
        told["scalars"] = compared(*(_scalars(one, trace, twin) for one in (trace, copy)))
    return told


def _scalars(measured: Trace, original: Trace, twin: Twin) -> dict[str, dict[str, Any]]:
    """Scalars by command, of those whose columns the original has."""
    from llmtrace.analyses.burstiness import Burstiness
    from llmtrace.analyses.hit_dist import HitDist
    from llmtrace.analyses.reuse_time import ReuseTime
    from llmtrace.analyses.stats import Stats
    from llmtrace.engine.local import run

    every = (Stats(), Burstiness(), ReuseTime(), HitDist())
    able = [one for one in every if frozenset(one.requires) <= frozenset(original.columns)]
    return {result.command: dict(result.scalars) for result in run(measured, able, threads=twin.threads)}


def _write_json(path: Path, told: dict[str, Any], *, force: bool) -> None:
    """Write a file that appears when it is complete.

    Raises:
        OutputError: if it cannot be written.
    """
    from llmtrace.trace.store import hidden_folder

    try:
        with hidden_folder(path, "tmp") as folder:
            written = folder / "written"
            written.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
            if path.exists() and not force:
                raise OutputError(
                    f"{path.name} exists already beside the destination", "Choose another name, or replace it with --force."
                )
            written.replace(path)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}",
            "Check the folder's permissions and the space left on its disk.",
        ) from None
