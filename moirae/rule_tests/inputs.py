"""What is written in rule tests as their input: rows, series, and names of files. No I/O."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from archiver.ingest import parse_iso_time
from archiver.times import Micros, from_micros, to_micros
from moirae.config import Settings, parse_duration
from moirae.documents import Document, KeyPath
from moirae.errors import Problem
from moirae.rule_tests.model import InputFile, InputSeries, Row, RuleTest
from moirae.rule_tests.series import MISSING, expand_series


@dataclass(frozen=True)
class RuleTestOrigin:
    """Where in a file a test is written."""

    document: Document
    path: KeyPath

    def locate(self, *path: str | int) -> str:
        """The place of a value of the test, as `file:line:column`."""
        line, column = self.document.position((*self.path, *path))
        return f"{self.document.file}:{line}:{column}"

    def make_problem(self, message: str, *path: str | int) -> Problem:
        """A problem with a value of the test."""
        position = self.document.position((*self.path, *path))
        return Problem(self.document.file, *position, message)


def parse_start(text: str) -> Micros | None:
    """The time of `start_timestamp`; None: it is none."""
    try:
        return to_micros(datetime.fromtimestamp(float(text), UTC))
    except (ValueError, OverflowError, OSError):
        moment = parse_iso_time(text)
    if moment is None:
        return None
    return to_micros(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))


def resolve_time(value: Any, start: Micros) -> Any:
    """A time since the start as ISO text; other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        offset = parse_duration(value)
    except ValueError:
        return value
    return (from_micros(start) + offset).isoformat()


class PlacedRow(NamedTuple):
    """A row, and where in the test it is written."""

    row: Row
    path: KeyPath


class PlacedFile(NamedTuple):
    """A file with rows, and where in the test it is named."""

    file: InputFile
    path: KeyPath


class WrittenInput:
    """The input of a test as it is written. `problems`: what is not valid of it.

    `rows`, `files`: by stream.
    """

    def __init__(self, test: RuleTest, origin: RuleTestOrigin, settings: Settings) -> None:
        self.test = test
        self.origin = origin
        self.problems: list[Problem] = []
        self.rows: dict[str, list[PlacedRow]] = {}
        self.files: dict[str, list[PlacedFile]] = {}
        start = parse_start(test.start_timestamp)
        self.start: Micros = 0 if start is None else start
        if start is None:
            message = f"{test.start_timestamp!r} is not a time in ISO 8601 or in seconds since 1970"
            self.add_problem(message, "start_timestamp")
            return
        for stream in test.input:
            if stream in settings.streams:
                self._collect(stream, settings.streams[stream].time)
            else:
                names = ", ".join(settings.streams)
                self.add_problem(f"unknown stream; streams are {names}", "input", stream)
        for name in test.relations.keys() - settings.relations.keys():
            names = ", ".join(settings.relations) or "none"
            self.add_problem(f"unknown relation; relations are {names}", "relations", name)

    def add_problem(self, message: str, *path: str | int) -> None:
        """Add a problem with a value of the test."""
        self.problems.append(self.origin.make_problem(message, *path))

    def _collect(self, stream: str, time: str) -> None:
        """The rows and files of a stream whose event time is in a column."""
        rows = self.rows[stream] = []
        files = self.files[stream] = []
        for index, item in enumerate(self.test.input[stream]):
            path: KeyPath = ("input", stream, index)
            if isinstance(item, InputFile):
                files.append(PlacedFile(item, path))
            elif isinstance(item, InputSeries):
                rows += (PlacedRow(row, path) for row in self._expand(time, item, path))
            else:
                rows.append(PlacedRow(item, path))

    def _expand(self, time: str, series: InputSeries, path: KeyPath) -> Iterator[dict[str, Any]]:
        values_by_column: dict[str, list[object]] = {}
        for column in (*series.series, *series.values):
            message = None
            if column == time:
                message = f"{column} of a series follows from start_timestamp and interval"
            elif column in series.series and column in series.values:
                message = f"{column} is in `series` and in `values`"
            if message is not None:
                self.add_problem(message, *path)
                return
        for column, text in series.values.items():
            try:
                values_by_column[column] = expand_series(text)
            except ValueError as error:
                self.add_problem(f"{column}: {error}", *path, "values", column)
        for number in range(max(map(len, values_by_column.values()), default=0)):
            row: dict[str, Any] = {}
            for column, values in values_by_column.items():
                if number < len(values) and values[number] is not MISSING:
                    row[column] = values[number]
            if row:
                moment = from_micros(self.start) + number * self.test.interval
                yield {time: moment.isoformat(), **series.series, **row}
