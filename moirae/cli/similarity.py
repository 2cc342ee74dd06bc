"""`similarity`: past events with a context like this one, from files of ready contexts."""

import csv
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, TypeVar

import typer

from moirae.durations import parse_duration
from moirae.errors import MoiraeError, UsageError

if TYPE_CHECKING:
    from recall.similarity.measure import Measure
    from recall.similarity.run import Alert, Answer

app = typer.Typer(help="Which past events had a context like this one.", no_args_is_help=True)

Found = TypeVar("Found")

_COLUMNS = ("query", "rank", "event", "score")
HELP_EVENTS = "Lines with event_id, event_type, ts and facts {term: count}: .jsonl or .jsonl.gz."
_HELP_GROUPS = "CSV with event_id and group, .csv or .csv.gz: events of one group, one incident, are not compared."
_HELP_LEAVE = "Compare with all others, newer ones too; the gap has no meaning."

Gap = Annotated[str, typer.Option(metavar="DURATION", help="How much older past events are, such as 6h.")]
Groups = Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_GROUPS)]
LeaveOneOut = Annotated[bool, typer.Option("--leave-one-out", help=_HELP_LEAVE)]


@app.command()
def run(
    events: Annotated[Path, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=HELP_EVENTS)],
    gap: Gap = "0s",
    k: Annotated[int, typer.Option(min=1, max=10_000, help="Most past events for each.")] = 10,
    measure: Annotated[str, typer.Option(help="How contexts are compared: tfidf, binary or attributes.")] = "tfidf",
    leave_one_out: LeaveOneOut = False,
    groups: Groups = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Standard output if not given.")] = None,
) -> None:
    """For each event the past ones most alike it, as CSV: query,rank,event,score."""
    from recall.similarity.run import answers

    how, span = chosen(measure), duration(gap)
    alerts = loaded(events, groups)
    _write(answers(alerts, span, k, how, leave_one_out), len(alerts), out)


def duration(gap: str) -> timedelta:
    """What --gap says."""
    try:
        return parse_duration(gap)
    except ValueError as error:
        raise UsageError(f"--gap {error}") from error


def chosen(name: str) -> "Measure":
    """What --measure says."""
    from recall.similarity.measure import MEASURES

    if name not in MEASURES:
        raise UsageError(f"no measure {name!r}; there are {', '.join(sorted(MEASURES))}")
    return MEASURES[name]


def loaded(events: Path, groups: Path | None) -> "list[Alert]":
    """What --events and --groups say."""
    from moirae.evaluation.files import read_alerts, read_groups

    known = read_groups(groups) if groups else {}
    return [replace(alert, group=known.get(alert.event_id)) for alert in read_alerts(events)]


def _write(answers: Iterator["Answer"], total: int, out: Path | None) -> None:
    with ExitStack() as stack:
        file = sys.stdout if out is None else stack.enter_context(_opened(out))
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for answer in watched(answers, total, "comparing"):
            asked = answer.query.event_id
            writer.writerows((asked, rank, e.event_id, repr(s)) for rank, (e, s) in enumerate(answer.hits, start=1))


def _opened(out: Path) -> IO[str]:
    try:
        return out.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise MoiraeError(f"{out}: {error.strerror}") from error


def watched(found: Iterable[Found], total: int, description: str) -> Iterator[Found]:
    """The same, with a progress bar where a terminal looks on."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(found, total=total, description=description)
