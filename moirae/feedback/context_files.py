"""Ready contexts, and what is known of them, from files."""

import csv
import gzip
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from archiver.times import to_micros
from moirae.errors import MoiraeError
from recall.relevance import AlertContext

# Characters of one field: a query may have thousands of relevant events.
_MAX_FIELD_LENGTH = 1 << 28


def read_alerts(path: Path) -> Iterator[AlertContext]:
    """The alerts of a file; a bad line is an error that names it."""
    seen: dict[str, int] = {}
    for number, line in _read_lines(path):
        try:
            alert = _parse_alert(line)
            if alert.event_id in seen:
                raise ValueError(
                    f"event_id {alert.event_id!r} stands in line {seen[alert.event_id]} already"
                )
        except ValueError as error:
            raise MoiraeError(f"{path}:{number}: {error}") from error
        seen[alert.event_id] = number
        yield alert


def read_groups(path: Path) -> dict[str, str]:
    """Groups by event id; an empty group is none."""
    return {event: group for event, group in _read_columns(path, "event_id", "group") if group}


def read_labels(path: Path) -> dict[str, str]:
    """What each event was, by event id: events of one label help with each other. An empty label is none."""
    return {event: label for event, label in _read_columns(path, "event_id", "label") if label}


def read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """Which past events help with each query, and how much: `event:gain` with spaces between them."""
    found: dict[str, dict[str, int]] = {}
    for number, (query, listed) in enumerate(
        _read_columns(path, "query", "relevant_events"), start=2
    ):
        gains = {}
        for one in listed.split():
            event, _, gain = one.rpartition(":")
            if not event or not gain.isdigit() or int(gain) == 0:
                raise MoiraeError(
                    f"{path}:{number}: {one!r} is not event:gain with a gain from 1 on"
                )
            gains[event] = int(gain)
        if gains:
            found[query] = gains
    return found


def _read_columns(path: Path, *names: str) -> Iterator[tuple[str, ...]]:
    """Some columns of a CSV file."""
    csv.field_size_limit(_MAX_FIELD_LENGTH)
    reader = csv.DictReader(line.decode("utf-8", "replace") for _, line in _read_lines(path))
    try:
        missing = set(names) - set(reader.fieldnames or ())
        if missing:
            raise MoiraeError(f"{path}:1: has no column {' and '.join(sorted(missing))}")
        for row in reader:
            yield tuple(row[name] or "" for name in names)
    except csv.Error as error:
        raise MoiraeError(f"{path}:{reader.line_num}: {error}") from error


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that are not blank."""
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        raise MoiraeError(f"{path}:{number + 1}: cannot be read: {error}") from error


def _parse_alert(line: bytes) -> AlertContext:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"is no JSON: {error}") from error
    if not isinstance(row, dict):
        raise ValueError("is no JSON object")
    place = row.get("host")
    return AlertContext(
        _parse_text(row, "event_id"),
        _parse_text(row, "event_type"),
        to_micros(_parse_time(row)),
        _parse_facts(row),
        location=place if isinstance(place, str) else None,
    )


def _parse_text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a text that is not empty")
    return value


def _parse_time(row: dict[str, Any]) -> datetime:
    text = _parse_text(row, "ts")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"ts {text!r} is no time; write it as 2024-05-01T12:30:00Z") from None
    if moment.tzinfo is None:
        raise ValueError(f"ts {text!r} has no time zone; write it as 2024-05-01T12:30:00Z")
    return moment


def _parse_facts(row: dict[str, Any]) -> dict[str, int]:
    facts = row.get("facts")
    if not isinstance(facts, dict):
        raise ValueError("facts must be an object of terms and counts")
    for term, count in facts.items():
        if type(count) is not int or not 1 <= count < 2**53:
            raise ValueError(f"the count of {term!r} must be an integer from 1 on")
    return facts
