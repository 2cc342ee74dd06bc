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

from moirae.config import parse_duration
from moirae.errors import MoiraeError, UsageError

if TYPE_CHECKING:
    from recall.relevance import AlertContext, SimilarAlerts
    from recall.similarity import Measure

app = typer.Typer(help="Which past events had a context like this one.", no_args_is_help=True)

Item = TypeVar("Item")

_CSV_COLUMNS = ("query", "rank", "event", "score")
HELP_EVENTS = "Lines with event_id, event_type, ts and facts {term: count}: .jsonl or .jsonl.gz."
_HELP_GROUPS = "CSV with event_id and group, .csv or .csv.gz: events of one group, one incident, are not compared."
_HELP_LEAVE_ONE_OUT = "Compare with all others, newer ones too; the gap has no meaning."

GapOption = Annotated[
    str, typer.Option(metavar="DURATION", help="How much older past events are, such as 6h.")
]
GroupsOption = Annotated[
    Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_GROUPS)
]
LeaveOneOutOption = Annotated[bool, typer.Option("--leave-one-out", help=_HELP_LEAVE_ONE_OUT)]


@app.command()
def run(
    events: Annotated[
        Path, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=HELP_EVENTS)
    ],
    gap: GapOption = "0s",
    k: Annotated[int, typer.Option(min=1, max=10_000, help="Most past events for each.")] = 10,
    measure: Annotated[
        str, typer.Option(help="How contexts are compared: tfidf, binary or attributes.")
    ] = "tfidf",
    leave_one_out: LeaveOneOutOption = False,
    groups: GroupsOption = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Standard output if not given.")
    ] = None,
) -> None:
    """For each event the past ones most alike it, as CSV: query,rank,event,score."""
    from recall.relevance import find_similar

    how, span = parse_measure(measure), parse_gap(gap)
    alerts = load_alerts(events, groups)
    _write_answers(find_similar(alerts, span, k, how, leave_one_out), len(alerts), out)


def parse_gap(gap: str) -> timedelta:
    """What --gap says."""
    try:
        return parse_duration(gap)
    except ValueError as error:
        raise UsageError(f"--gap {error}") from error


def parse_measure(name: str) -> "Measure":
    """What --measure says."""
    from recall.similarity import MEASURES

    if name not in MEASURES:
        raise UsageError(f"no measure {name!r}; there are {', '.join(sorted(MEASURES))}")
    return MEASURES[name]


def load_alerts(events: Path, groups: Path | None) -> "list[AlertContext]":
    """What --events and --groups say."""
    from moirae.feedback import read_alerts, read_groups

    known = read_groups(groups) if groups else {}
    return [replace(alert, group=known.get(alert.event_id)) for alert in read_alerts(events)]


def _write_answers(answers: Iterator["SimilarAlerts"], total: int, out: Path | None) -> None:
    with ExitStack() as stack:
        file = sys.stdout if out is None else stack.enter_context(_open_output(out))
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_CSV_COLUMNS)
        for answer in show_progress(answers, total, "comparing"):
            asked = answer.query.event_id
            writer.writerows(
                (asked, rank, e.event_id, repr(s))
                for rank, (e, s) in enumerate(answer.hits, start=1)
            )


def _open_output(out: Path) -> IO[str]:
    try:
        return out.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise MoiraeError(f"{out}: {error.strerror}") from error


def show_progress(items: Iterable[Item], total: int, description: str) -> Iterator[Item]:
    """The same, with a progress bar where a terminal looks on."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(items, total=total, description=description)
