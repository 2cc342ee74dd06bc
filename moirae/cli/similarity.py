"""`similarity`: past events with a context like this one, from files of ready contexts."""

import csv
import gzip
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import orjson
import typer

from moirae.durations import parse_duration
from moirae.errors import MoiraeError, UsageError

if TYPE_CHECKING:
    from recall.similarity.measure import Measure
    from recall.similarity.run import Alert, Answer

app = typer.Typer(help="Which past events had a context like this one.", no_args_is_help=True)

_COLUMNS = ("query", "rank", "event", "score")
_HELP_GROUPS = "CSV with event_id and group, .csv or .csv.gz: events of one group, one incident, are not compared."
_HELP_EVENTS = "Lines with event_id, event_type, ts and facts {term: count}: .jsonl or .jsonl.gz."


@app.callback()
def _similarity() -> None:
    """Keeps `run` a command of its own."""


@app.command()
def run(
    events: Annotated[Path, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_EVENTS)],
    gap: Annotated[str, typer.Option(metavar="DURATION", help="How much older past events are, such as 6h.")] = "0s",
    k: Annotated[int, typer.Option(min=1, max=10_000, help="Most past events for each.")] = 10,
    measure: Annotated[str, typer.Option(help="How contexts are compared: tfidf, binary or attributes.")] = "tfidf",
    leave_one_out: Annotated[
        bool, typer.Option("--leave-one-out", help="Compare with all others, newer ones too; the gap has no meaning.")
    ] = False,
    groups: Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_GROUPS)] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Standard output if not given.")] = None,
) -> None:
    """For each event the past ones most alike it, as CSV: query,rank,event,score."""
    from recall.similarity.run import answers

    chosen, span = _measure(measure), _gap(gap)
    alerts = _grouped(list(read_alerts(events)), read_groups(groups) if groups else {})
    _write(answers(alerts, span, k, chosen, leave_one_out), len(alerts), out)


def _gap(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--gap {error}") from error


def _grouped(alerts: list["Alert"], groups: Mapping[str, str]) -> list["Alert"]:
    return [replace(alert, group=groups.get(alert.event_id)) for alert in alerts]


def _measure(name: str) -> "Measure":
    from recall.similarity.measure import MEASURES

    if name not in MEASURES:
        raise UsageError(f"no measure {name!r}; there are {', '.join(sorted(MEASURES))}")
    return MEASURES[name]


def _write(answers: Iterator["Answer"], total: int, out: Path | None) -> None:
    with ExitStack() as stack:
        file = sys.stdout if out is None else stack.enter_context(_opened(out))
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for answer in _watched(answers, total):
            asked = answer.query.event_id
            writer.writerows((asked, rank, e.event_id, repr(s)) for rank, (e, s) in enumerate(answer.hits, start=1))


def _opened(out: Path) -> IO[str]:
    try:
        return out.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise MoiraeError(f"{out}: {error.strerror}") from error


def _watched(answers: Iterator["Answer"], total: int) -> Iterator["Answer"]:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(answers, total=total, description="comparing")


def read_alerts(path: Path) -> Iterator["Alert"]:
    """The alerts of a file; a bad line is an error that names it."""
    seen: dict[str, int] = {}
    for number, line in _lines(path):
        try:
            alert = _alert(line)
            if alert.event_id in seen:
                raise ValueError(f"event_id {alert.event_id!r} stands in line {seen[alert.event_id]} already")
        except ValueError as error:
            raise MoiraeError(f"{path}:{number}: {error}") from error
        seen[alert.event_id] = number
        yield alert


def read_groups(path: Path) -> dict[str, str]:
    """Groups by event id; an empty group is none."""
    reader = csv.DictReader(line.decode("utf-8", "replace") for _, line in _lines(path))
    try:
        missing = {"event_id", "group"} - set(reader.fieldnames or ())
        if missing:
            raise MoiraeError(f"{path}:1: has no column {' and '.join(sorted(missing))}")
        return {row["event_id"]: row["group"] for row in reader if row["group"]}
    except csv.Error as error:
        raise MoiraeError(f"{path}:{reader.line_num}: {error}") from error


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that are not blank."""
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        raise MoiraeError(f"{path}:{number + 1}: cannot be read: {error}") from error


def _alert(line: bytes) -> "Alert":
    from archiver.times import to_micros
    from recall.similarity.run import Alert

    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"is no JSON: {error}") from error
    if not isinstance(row, dict):
        raise ValueError("is no JSON object")
    return Alert(_text(row, "event_id"), _text(row, "event_type"), to_micros(_moment(row)), _facts(row))


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a text that is not empty")
    return value


def _moment(row: dict[str, Any]) -> datetime:
    text = _text(row, "ts")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"ts {text!r} is no time; write it as 2024-05-01T12:30:00Z") from None
    if moment.tzinfo is None:
        raise ValueError(f"ts {text!r} has no time zone; write it as 2024-05-01T12:30:00Z")
    return moment


def _facts(row: dict[str, Any]) -> dict[str, int]:
    facts = row.get("facts")
    if not isinstance(facts, dict):
        raise ValueError("facts must be an object of terms and counts")
    for term, count in facts.items():
        if type(count) is not int or not 1 <= count < 2**53:
            raise ValueError(f"the count of {term!r} must be a whole number from 1 on")
    return facts
