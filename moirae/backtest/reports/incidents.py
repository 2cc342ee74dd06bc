"""Known incidents: which a rule would have caught, and how early."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from archiver.ingest import parse_iso_time
from archiver.times import Micros, from_micros, to_micros
from moirae.alerts import Positions
from moirae.backtest.alert_columns import AlertColumns, ShownAlerts
from moirae.backtest.alerts import BacktestAlert
from moirae.errors import MoiraeError, Problem, ProblemsError

_NEVER = datetime.max.replace(tzinfo=UTC)
_TIMES = ("starts_at", "ends_at")


@dataclass(frozen=True)
class KnownIncident:
    """A known incident. `labels`: those that an alert of it has."""

    id: str
    starts_at: datetime
    ends_at: datetime
    labels: Mapping[str, str]


class CaughtIncident(NamedTuple):
    """An incident with the alerts that overlap it and have its labels.

    `lead`: from the first of them to the end of the incident; `delay`: from the incident's start to it,
    negative if it came before.
    """

    incident: KnownIncident
    alerts: Sequence[BacktestAlert]
    lead: timedelta
    delay: timedelta


class IncidentReport(NamedTuple):
    """`false_alerts`: shown alerts of no incident."""

    caught: Sequence[CaughtIncident]
    missed: Sequence[KnownIncident]
    false_alerts: Sequence[BacktestAlert]


def read_incidents(path: Path) -> list[KnownIncident]:
    """CSV with a header, or JSON lines (`.jsonl`): `id`, `starts_at`, `ends_at`, and any labels.

    Raises `ProblemsError` with the lines that are not valid.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise MoiraeError(f"{path}: cannot be read: {error}") from error
    problems: list[Problem] = []
    incidents: list[KnownIncident] = []
    first_lines: dict[str, int] = {}
    for line, row in _read_rows(path, text):
        try:
            incident = _make_incident(row)
            first = first_lines.setdefault(incident.id, line)
            if first != line:
                raise ValueError(f"duplicate id {incident.id!r}, first in line {first}")
            incidents.append(incident)
        except ValueError as error:
            problems.append(Problem(str(path), line, None, str(error)))
    if not incidents and not problems:
        problems.append(Problem(str(path), 1, None, "has no incidents: id, starts_at, ends_at"))
    if problems:
        raise ProblemsError(problems)
    return incidents


def _read_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if path.suffix not in (".jsonl", ".ndjson"):
        reader = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
        columns = reader.fieldnames or ()
        missing = [name for name in ("id", *_TIMES) if name not in columns]
        if columns and missing:
            message = f"no column {missing[0]}; columns are: {', '.join(columns)}"
            raise ProblemsError([Problem(str(path), 1, None, message)])
        for row in reader:
            yield reader.line_num, row
        return
    # Not `splitlines`: other line ends are part of a text.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except ValueError:
            values = None
        if not isinstance(values, dict):
            raise ProblemsError([Problem(str(path), number, None, "is not a JSON object")])
        yield number, values


def _make_incident(row: Mapping[str, Any]) -> KnownIncident:
    """Raises `ValueError` with the reason."""
    if not row.get("id"):
        raise ValueError("id is missing")
    times: list[datetime] = []
    for name in _TIMES:
        moment = parse_iso_time(str(row.get(name) or ""))
        if moment is None:
            raise ValueError(f"{name} is not a time in ISO 8601: {row.get(name)!r}")
        times.append(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    if times[1] < times[0]:
        raise ValueError("ends_at is before starts_at")
    labels: dict[str, str] = {}
    for name, value in row.items():
        if name in ("id", *_TIMES) or value in (None, ""):
            continue
        if isinstance(value, list | dict):
            raise ValueError(f"label {name}: not a text, or more values than columns")
        labels[name] = str(value)
    return KnownIncident(str(row["id"]), times[0], times[1], labels)


class IncidentCounts(NamedTuple):
    """Which incidents alerts catch. `delays`: of those that are caught, as `CaughtIncident.delay`."""

    caught: Sequence[str]
    missed: Sequence[str]
    delays: Sequence[timedelta]
    false_alerts: int


def find_caught(
    incidents: Sequence[KnownIncident], alerts: Sequence[BacktestAlert]
) -> IncidentReport:
    """An alert catches an incident if it fires during it, or still fires when it starts."""
    shown = [alert for alert in alerts if alert.is_shown]
    times = _times_of(shown)
    caught: list[CaughtIncident] = []
    missed: list[KnownIncident] = []
    is_false = np.ones(len(shown), bool)
    for incident, positions in _match(incidents, times):
        is_false[positions] = False
        if not len(positions):
            missed.append(incident)
            continue
        matching = [shown[position] for position in positions.tolist()]
        first = from_micros(int(times.fired[positions].min()))
        lead, delay = incident.ends_at - first, first - incident.starts_at
        caught.append(CaughtIncident(incident, matching, lead, delay))
    false_alerts = [shown[position] for position in np.flatnonzero(is_false).tolist()]
    return IncidentReport(caught, missed, false_alerts)


def count_caught(incidents: Sequence[KnownIncident], alerts: AlertColumns) -> IncidentCounts:
    """As `find_caught`, without an object for each alert."""
    times = alerts.find_shown()
    caught: list[str] = []
    missed: list[str] = []
    delays: list[timedelta] = []
    is_false = np.ones(len(times.fired), bool)
    for incident, positions in _match(incidents, times):
        is_false[positions] = False
        if not len(positions):
            missed.append(incident.id)
            continue
        caught.append(incident.id)
        delays.append(from_micros(int(times.fired[positions].min())) - incident.starts_at)
    return IncidentCounts(caught, missed, delays, int(is_false.sum()))


def _times_of(shown: Sequence[BacktestAlert]) -> ShownAlerts:
    fired: list[Micros] = []
    ended: list[Micros] = []
    for alert in shown:
        assert alert.fired_at is not None
        fired.append(to_micros(alert.fired_at))
        ended.append(to_micros(_NEVER if alert.ends_at is None else alert.ends_at))
    return ShownAlerts(
        np.array(fired, np.int64),
        np.array(ended, np.int64),
        [alert.labels for alert in shown],
        np.arange(len(shown)),
    )


def _match(
    incidents: Sequence[KnownIncident], alerts: ShownAlerts
) -> Iterator[tuple[KnownIncident, Positions]]:
    """Each incident with the positions of the alerts that catch it."""
    for incident in incidents:
        starts, ends = to_micros(incident.starts_at), to_micros(incident.ends_at)
        incident_labels = incident.labels.items()
        has_labels = np.array([incident_labels <= labels.items() for labels in alerts.labels], bool)
        positions = np.flatnonzero((alerts.fired <= ends) & (alerts.ended >= starts))
        yield incident, positions[has_labels[alerts.label_numbers[positions]]]
