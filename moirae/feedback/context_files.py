"""Files of alerts with ready contexts, and of the feedback on them.

Errors are `MoiraeError` with the place, `file:line: reason`. Files named `.gz` are decompressed.
"""

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
from recall.learning import Resolution
from recall.relevance.rankers import AlertContext

# Maximum length of a CSV field: a query may have thousands of relevant events.
_MAX_FIELD_LENGTH = 1 << 28  # characters
# Counts from here on are not exact in double precision.
_MAX_COUNT = 2**53
_TIME_EXAMPLE = "write it as 2024-05-01T12:30:00Z"


def read_alerts(path: Path) -> Iterator[AlertContext]:
    """Read JSON lines with event_id, event_type, ts, facts and optionally host."""
    line_by_event_id: dict[str, int] = {}
    for number, line in _read_lines(path):
        try:
            alert = _parse_alert(line)
            if alert.event_id in line_by_event_id:
                first = line_by_event_id[alert.event_id]
                raise ValueError(
                    f"duplicate event_id {alert.event_id!r}, first used in line {first}"
                )
        except ValueError as error:
            raise MoiraeError(f"{path}:{number}: {error}") from error
        line_by_event_id[alert.event_id] = number
        yield alert


def read_groups(path: Path) -> dict[str, str]:
    """Read the group of each event by event ID. Events with an empty group are left out."""
    return _read_values(path, "group")


def read_labels(path: Path) -> dict[str, str]:
    """Read the kind of each event by event ID. Events with an empty label are left out."""
    return _read_values(path, "label")


def read_resolutions(path: Path) -> list[Resolution]:
    """Read the tag of each event and the time from which it was known.

    Of several rows of an event, the one that was known last counts, and the last one of these.
    Rows with an empty tag are left out.
    """
    resolution_by_event: dict[str, Resolution] = {}
    rows = _read_columns(path, "event_id", "tag", "known_at")
    for number, (event_id, tag, known_at) in enumerate(rows, start=2):
        if not tag.strip():
            continue
        try:
            known_time = to_micros(_parse_time_text(known_at))
        except ValueError as error:
            raise MoiraeError(f"{path}:{number}: known_at: {error}") from error
        earlier = resolution_by_event.get(event_id)
        if earlier is None or earlier.known_at <= known_time:
            resolution_by_event[event_id] = Resolution(event_id, tag, known_time)
    return list(resolution_by_event.values())


def read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """Read the gains of past events by query: `event:gain`, separated by spaces.

    Queries without relevant events are left out.
    """
    gains_by_query: dict[str, dict[str, int]] = {}
    rows = _read_columns(path, "query", "relevant_events")
    for number, (query, relevant_events) in enumerate(rows, start=2):
        gains = {}
        for item in relevant_events.split():
            event_id, _, gain = item.rpartition(":")
            if not event_id or not gain.isdigit() or int(gain) == 0:
                raise MoiraeError(
                    f"{path}:{number}: {item!r} must be event:gain with a positive integer gain"
                )
            gains[event_id] = int(gain)
        if gains:
            gains_by_query[query] = gains
    return gains_by_query


def _read_values(path: Path, column: str) -> dict[str, str]:
    """The values of a column that are not empty, by event ID. Raises `MoiraeError` if an event has
    two of them.
    """
    value_by_event: dict[str, str] = {}
    rows = _read_columns(path, "event_id", column)
    for number, (event_id, value) in enumerate(rows, start=2):
        if not value:
            continue
        earlier = value_by_event.setdefault(event_id, value)
        if earlier != value:
            raise MoiraeError(
                f"{path}:{number}: event {event_id!r} has {column} {value!r} here and {earlier!r} "
                "in an earlier row"
            )
    return value_by_event


def _read_columns(path: Path, *names: str) -> Iterator[tuple[str, ...]]:
    """The values of the named columns, row by row; empty if a row ends before a column."""
    csv.field_size_limit(_MAX_FIELD_LENGTH)
    reader = csv.DictReader(_decode_lines(path))
    try:
        missing = sorted(set(names) - set(reader.fieldnames or ()))
        if missing:
            raise MoiraeError(f"{path}:1: missing column: {', '.join(missing)}")
        for row in reader:
            yield tuple(row[name] or "" for name in names)
    except csv.Error as error:
        raise MoiraeError(f"{path}:{reader.line_num}: {error}") from error


def _decode_lines(path: Path) -> Iterator[str]:
    for number, line in _read_lines(path):
        try:
            # Spreadsheets begin files with a byte order mark.
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise MoiraeError(f"{path}:{number}: is not UTF-8: {error.reason}") from error


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1."""
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
        raise ValueError(f"is not valid JSON: {error}") from error
    if not isinstance(row, dict):
        raise ValueError("must be a JSON object")
    location = row.get("host")
    if not isinstance(location, str):
        location = None
    return AlertContext(
        event_id=_parse_text(row, "event_id"),
        event_type=_parse_text(row, "event_type"),
        ts=to_micros(_parse_time(row)),
        term_counts=_parse_term_counts(row),
        location=location,
    )


def _parse_text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a non-empty string")
    return value


def _parse_time(row: dict[str, Any]) -> datetime:
    return _parse_time_text(_parse_text(row, "ts"))


def _parse_time_text(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"invalid timestamp {text!r}: {_TIME_EXAMPLE}") from None
    if time.tzinfo is None:
        raise ValueError(f"timestamp {text!r} has no time zone: {_TIME_EXAMPLE}")
    return time


def _parse_term_counts(row: dict[str, Any]) -> dict[str, int]:
    term_counts = row.get("facts")
    if not isinstance(term_counts, dict):
        raise ValueError("facts must be an object of terms and counts")
    for term, count in term_counts.items():
        if type(count) is not int or not 1 <= count < _MAX_COUNT:
            raise ValueError(f"the count of {term!r} must be a positive integer")
    return term_counts
