"""The input of a rule test as tables: rows that are written out, series, and files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from archiver.delta import EXTRA_COLUMN, StreamSchema
from archiver.formats import DEFAULT_TIME_READING, JSONL, Format, RecordReading
from archiver.ingest import parse_iso_time
from archiver.ingest.decoding import decode_lines
from archiver.times import Micros, from_micros, to_micros
from moirae.config import Relation, Settings, parse_duration, relation_schema, stream_schema
from moirae.documents import Document, KeyPath
from moirae.errors import Problem, ProblemsError
from moirae.rule_tests.model import InputFile, InputRows, InputSeries, Row, RuleTest
from moirae.rule_tests.scratch_archive import make_versions
from moirae.rule_tests.series import MISSING, expand_series
from moirae.rule_tests.stream_files import read_stream_file

_PlacedRow = tuple[Row, KeyPath]


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


@dataclass(frozen=True)
class RuleTestInput:
    """The rows of a test by stream, and the row versions of relations."""

    rows: Mapping[str, pa.Table]
    relations: Mapping[str, pa.Table]
    start: Micros


def read_input(test: RuleTest, settings: Settings, origin: RuleTestOrigin) -> RuleTestInput:
    """Raises `ProblemsError` with the places of all rows that are not valid."""
    problems: list[Problem] = []
    start = parse_start(test.start_timestamp)
    if start is None:
        message = f"{test.start_timestamp!r} is not a time in ISO 8601 or in seconds since 1970"
        raise ProblemsError([origin.make_problem(message, "start_timestamp")])
    reader = _InputReader(start, test.interval, origin, problems)
    rows: dict[str, pa.Table] = {}
    for stream, items in test.input.items():
        declared = settings.streams.get(stream)
        if declared is None:
            names = ", ".join(settings.streams)
            problems.append(
                origin.make_problem(f"unknown stream; streams are {names}", "input", stream)
            )
            continue
        schema = stream_schema(stream, declared)
        rows[stream] = reader.read_stream(schema, declared.source.record_format, items)
    relations: dict[str, pa.Table] = {}
    for name in test.relations.keys() - settings.relations.keys():
        names = ", ".join(settings.relations) or "none"
        problems.append(
            origin.make_problem(f"unknown relation; relations are {names}", "relations", name)
        )
    for name, relation in settings.relations.items():
        table = reader.read_relation(name, relation, test.relations.get(name, ()))
        if not problems:
            relations[name] = make_versions(table, relation.key, relation.valid_from)
    if problems:
        raise ProblemsError(problems)
    return RuleTestInput(rows, relations, start)


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


@dataclass
class _InputReader:
    start: Micros
    interval: timedelta
    origin: RuleTestOrigin
    problems: list[Problem]

    def read_stream(
        self, schema: StreamSchema, source_format: Format, items: Sequence[InputRows]
    ) -> pa.Table:
        tables = [schema.arrow_schema().empty_table().select([*schema.columns, EXTRA_COLUMN])]
        # Rows are written by columns, whatever fields records of the stream have.
        by_column = replace(schema, fields={}, was={}, time_reading=DEFAULT_TIME_READING)
        rows: list[_PlacedRow] = []
        for index, item in enumerate(items):
            path = ("input", schema.name, index)
            if isinstance(item, InputFile):
                tables += self._read_file(schema, source_format, item, path)
            elif isinstance(item, InputSeries):
                rows += ((row, path) for row in self._expand(schema, item, path))
            else:
                rows.append((item, path))
        tables.append(self._decode(by_column, rows))
        return pa.concat_tables(table.select(tables[0].column_names) for table in tables)

    def read_relation(self, name: str, relation: Relation, rows: Sequence[Row]) -> pa.Table:
        schema = replace(relation_schema(name, relation), fields={})
        placed = [(row, ("relations", name, index)) for index, row in enumerate(rows)]
        table = self._decode(schema, placed).drop_columns([EXTRA_COLUMN]).combine_chunks()
        if len(table) == len(rows):  # else some are refused, and positions differ
            self._check_versions(name, relation, table)
        return table

    def _check_versions(self, name: str, relation: Relation, rows: pa.Table) -> None:
        """Each row is the only one with its key, and with its time if the relation has one."""
        columns = list(relation.key)
        if relation.valid_from is not None:
            columns.append(relation.valid_from)
        first_indexes: dict[tuple[Any, ...], int] = {}
        for index, row in enumerate(rows.select(columns).to_pylist()):
            values = tuple(row.values())
            first = first_indexes.setdefault(values, index)
            if first != index:
                message = f"duplicate {', '.join(columns)}, first in row {first + 1}"
                self.problems.append(self.origin.make_problem(message, "relations", name, index))

    def _expand(
        self, schema: StreamSchema, series: InputSeries, path: KeyPath
    ) -> Iterator[dict[str, Any]]:
        values_by_column: dict[str, list[object]] = {}
        for column in (*series.series, *series.values):
            message = None
            if column == schema.time:
                message = f"{column} of a series follows from start_timestamp and interval"
            elif column in series.series and column in series.values:
                message = f"{column} is in `series` and in `values`"
            if message is not None:
                self.problems.append(self.origin.make_problem(message, *path))
                return
        for column, text in series.values.items():
            try:
                values_by_column[column] = expand_series(text)
            except ValueError as error:
                problem = self.origin.make_problem(f"{column}: {error}", *path, "values", column)
                self.problems.append(problem)
        for number in range(max(map(len, values_by_column.values()), default=0)):
            row: dict[str, Any] = {}
            for column, values in values_by_column.items():
                if number < len(values) and values[number] is not MISSING:
                    row[column] = values[number]
            if row:
                moment = from_micros(self.start) + number * self.interval
                yield {schema.time: moment.isoformat(), **series.series, **row}

    def _decode(self, schema: StreamSchema, rows: Sequence[_PlacedRow]) -> pa.Table:
        """Rows that are written by column. Those that are not valid become problems."""
        lines: list[bytes] = []
        unknown: dict[str, KeyPath] = {}
        for row, path in rows:
            record = dict(row)
            undeclared = record.pop(EXTRA_COLUMN, None) or {}
            for name in record.keys() - schema.columns.keys():
                unknown.setdefault(name, path)
            if schema.time in record:
                record[schema.time] = resolve_time(record[schema.time], self.start)
            lines.append(json.dumps({**undeclared, **record}).encode())
        for name, path in sorted(unknown.items()):
            message = f"{schema.name} has no column {name!r}: write {', '.join(schema.columns)}"
            self.problems.append(self.origin.make_problem(message, *path))
        decoded = decode_lines(schema, RecordReading(JSONL), lines, 0)
        for refused in decoded.refused_lines:
            _, path = rows[refused.line]
            self.problems.append(self.origin.make_problem(refused.detail, *path))
        return decoded.table

    def _read_file(
        self, schema: StreamSchema, source_format: Format, item: InputFile, path: KeyPath
    ) -> Iterator[pa.Table]:
        file = Path(self.origin.document.file).parent / item.file
        if not file.is_file():
            problem = self.origin.make_problem(f"{file}: no such file", *path, "file")
            self.problems.append(problem)
            return
        for part in read_stream_file(schema, source_format, file, self.start):
            if part.problem is not None:
                self.problems.append(part.problem)
            yield part.rows
