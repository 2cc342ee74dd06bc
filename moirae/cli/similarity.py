"""`moirae similarity run`: similar past events, from a file of events with their contexts."""

import csv
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, TypeVar

import typer

from moirae.cli.options import expand_option_groups
from moirae.config import parse_duration
from moirae.errors import MoiraeError, UsageError

if TYPE_CHECKING:
    from recall.learning import Resolution
    from recall.relevance.rankers import AlertContext, Ranker, SimilarAlerts

app = typer.Typer(help="Find and evaluate similar past events.", no_args_is_help=True)

Item = TypeVar("Item")

_CSV_COLUMNS = ("query", "rank", "event", "score")
_HELP_EVENTS = "Lines with event_id, event_type, ts and facts {term: count}: .jsonl or .jsonl.gz."
_HELP_GROUPS = (
    "CSV with event_id and group, .csv or .csv.gz: events of the same group (incident) are not "
    "compared."
)
_HELP_RESOLUTIONS = (
    "CSV with event_id, tag and known_at, .csv or .csv.gz: tags of events, used from known_at on. "
    "Requires --measure learned."
)
_HELP_LEAVE_ONE_OUT = "Compare with all other events, including newer ones; --gap is ignored."

GapOption = Annotated[
    str,
    typer.Option(
        metavar="DURATION", help="Minimum time from a past event to the event, such as 6h."
    ),
]
GroupsOption = Annotated[
    Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_GROUPS)
]
LeaveOneOutOption = Annotated[bool, typer.Option("--leave-one-out", help=_HELP_LEAVE_ONE_OUT)]


@dataclass(frozen=True)
class ComparedEvents:
    """The options that say which events are compared with which."""

    gap: GapOption = "0s"
    leave_one_out: LeaveOneOutOption = False
    groups: GroupsOption = None
    resolutions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_RESOLUTIONS),
    ] = None


@app.command()
@expand_option_groups
def run(
    events: Annotated[
        Path, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_EVENTS)
    ],
    k: Annotated[
        int, typer.Option(min=1, max=10_000, help="Maximum number of past events for each event.")
    ] = 10,
    measure: Annotated[
        str, typer.Option(help="Similarity measure: tfidf, binary, attributes or learned.")
    ] = "tfidf",
    compared: ComparedEvents = ComparedEvents(),
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Output file. Default: standard output.")
    ] = None,
) -> None:
    """Rank the most similar past events of each event, as CSV: query,rank,event,score."""
    from recall.relevance.rankers import find_similar
    from recall.similarity.measures import LEARNED_MEASURE

    measure = parse_measure(measure)
    min_age = parse_gap(compared.gap)
    if (measure == LEARNED_MEASURE) != (compared.resolutions is not None):
        raise UsageError("--measure learned and --resolutions require each other")
    alerts = load_alerts(events, compared.groups)
    ranker = _make_ranker(measure, alerts, events, compared)
    answers = find_similar(alerts, min_age, k, ranker, compared.leave_one_out)
    _write_answers(answers, len(alerts), out)


def _make_ranker(
    measure: str, alerts: "list[AlertContext]", events: Path, compared: ComparedEvents
) -> "Ranker":
    from archiver.times import duration_to_micros
    from recall.relevance.rankers import make_learned_ranker, rank_by
    from recall.similarity.measures import MEASURES

    if compared.resolutions is None:
        return rank_by(MEASURES[measure])
    resolutions = _load_resolutions(compared.resolutions, events, alerts)
    gap = duration_to_micros(parse_gap(compared.gap))
    return make_learned_ranker(alerts, resolutions, gap, compared.leave_one_out)


def _load_resolutions(path: Path, events: Path, alerts: "list[AlertContext]") -> "list[Resolution]":
    """The resolutions of --resolutions. Raises `MoiraeError` for unknown events."""
    from moirae.feedback import read_resolutions

    resolutions = read_resolutions(path)
    unknown_events = {resolution.event_id for resolution in resolutions}
    unknown_events -= {alert.event_id for alert in alerts}
    if unknown_events:
        raise MoiraeError(f"{path}: {min(unknown_events)!r} is not an event of {events}")
    return resolutions


def parse_gap(gap: str) -> timedelta:
    """The duration of --gap. Raises `UsageError`."""
    return parse_span(gap, "--gap")


def parse_span(span: str, option: str) -> timedelta:
    """The duration of an option. Raises `UsageError`."""
    try:
        return parse_duration(span)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def parse_measure(name: str) -> str:
    """The name of --measure. Raises `UsageError`."""
    from moirae.services.operations.similarity import check_measure

    return check_measure(name)


def load_alerts(events: Path, groups: Path | None) -> "list[AlertContext]":
    """The events of --events with the groups of --groups."""
    from moirae.feedback import read_alerts, read_groups

    group_by_event: Mapping[str, str] = {}
    if groups is not None:
        group_by_event = read_groups(groups)
    return [
        replace(alert, group=group_by_event.get(alert.event_id)) for alert in read_alerts(events)
    ]


def _write_answers(answers: Iterator["SimilarAlerts"], total: int, out: Path | None) -> None:
    with ExitStack() as stack:
        file: IO[str] = sys.stdout
        if out is not None:
            file = stack.enter_context(_open_output(out))
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_CSV_COLUMNS)
        for answer in show_progress(answers, total, "comparing"):
            for rank, (alert, score) in enumerate(answer.hits, start=1):
                writer.writerow((answer.query.event_id, rank, alert.event_id, repr(score)))


def _open_output(out: Path) -> IO[str]:
    try:
        return out.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise MoiraeError(f"{out}: {error.strerror}") from error


def show_progress(items: Iterable[Item], total: int, description: str) -> Iterator[Item]:
    """The items, with a progress bar when standard error is a terminal."""
    from rich.console import Console

    from moirae.runtime import open_progress_bar

    with open_progress_bar(Console(stderr=True)) as progress:
        yield from progress.track(items, total=total, description=description)
