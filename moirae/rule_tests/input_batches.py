"""The input of rule tests as tables: that of many small tests at once."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from archiver.delta import ARROW_TYPES, EXTRA_COLUMN, StreamSchema
from archiver.formats import DEFAULT_TIME_READING, JSONL, Format, RecordReading
from archiver.ingest.decoding import decode_lines
from archiver.times import Micros
from moirae.config import Relation, Settings, relation_schema, stream_schema
from moirae.errors import Problem
from moirae.rule_tests.inputs import (
    PlacedFile,
    PlacedRow,
    RuleTestOrigin,
    WrittenInput,
    resolve_time,
)
from moirae.rule_tests.model import Row, RuleTest
from moirae.rule_tests.scratch_archive import ScratchRows, archive_rows, make_versions
from moirae.rule_tests.stream_files import read_stream_file

_MANY_ROWS = 20_000  # of the tests of a batch
_MANY_TESTS = 500


@dataclass(frozen=True)
class RuleTestInput:
    """The input of a test: `rows` by stream, as an archive has them, and versions of relations.

    If there are `problems`, it is not complete.
    """

    test: RuleTest
    origin: RuleTestOrigin
    start: Micros
    rows: Mapping[str, pa.Table]
    relations: Mapping[str, pa.Table]
    problems: Sequence[Problem]


@dataclass(frozen=True)
class InputBatch:
    """The input of some tests. `streams`: the rows of all of them.

    `query_columns`: those of each stream that queries may name.
    """

    inputs: Sequence[RuleTestInput]
    streams: Mapping[str, ScratchRows]
    query_columns: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class _InputStream:
    """`by_column`: for rows that are written by columns, whatever fields records have."""

    schema: StreamSchema
    source_format: Format
    by_column: StreamSchema


class InputReader:
    """Reads the input of tests of a workspace."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._streams: dict[str, _InputStream] = {}
        for name, declared in settings.streams.items():
            schema = stream_schema(name, declared)
            by_column = replace(schema, fields={}, was={}, time_reading=DEFAULT_TIME_READING)
            self._streams[name] = _InputStream(schema, declared.source.record_format, by_column)

    def read(self, tests: Iterable[tuple[RuleTest, RuleTestOrigin]]) -> Iterator[InputBatch]:
        """The input of tests in their order. Tests with files are alone in their batch."""
        small: list[WrittenInput] = []
        row_count = 0
        for test, origin in tests:
            written = WrittenInput(test, origin, self._settings)
            has_files = any(written.files.values())
            if small and has_files:
                yield self._read(small)
                small, row_count = [], 0
            small.append(written)
            row_count += sum(map(len, written.rows.values()))
            if has_files or row_count >= _MANY_ROWS or len(small) >= _MANY_TESTS:
                yield self._read(small)
                small, row_count = [], 0
        if small:
            yield self._read(small)

    def _read(self, batch: Sequence[WrittenInput]) -> InputBatch:
        streams: dict[str, ScratchRows] = {}
        for name, stream in self._streams.items():
            if any(name in written.rows for written in batch):
                streams[name] = self._read_stream(stream, batch)
        inputs: list[RuleTestInput] = []
        for number, written in enumerate(batch):
            rows = {name: stream_rows.select(number) for name, stream_rows in streams.items()}
            relations = self._read_relations(written)
            values = (written.test, written.origin, written.start)
            inputs.append(RuleTestInput(*values, rows, relations, written.problems))
        columns = {name: list(self._streams[name].schema.query_columns) for name in streams}
        return InputBatch(inputs, streams, columns)

    def _read_stream(self, stream: _InputStream, batch: Sequence[WrittenInput]) -> ScratchRows:
        name = stream.schema.name
        columns = [*stream.schema.columns, EXTRA_COLUMN]
        counts = np.zeros(len(batch), np.int64)
        tables: list[pa.Table] = []
        for number, written in enumerate(batch):
            for file in written.files.get(name, ()):
                for table in _read_file(stream, written, file):
                    tables.append(table.select(columns))
                    counts[number] += len(table)
        numbered: list[tuple[int, PlacedRow]] = []
        for number, written in enumerate(batch):
            numbered += ((number, row) for row in written.rows.get(name, ()))
        decoded, test_numbers = _decode(stream.by_column, batch, numbered)
        counts += np.bincount(test_numbers, minlength=len(batch))
        rows = pa.concat_tables([*tables, decoded.select(columns)])
        return archive_rows(stream.schema, rows, counts.tolist())

    def _read_relations(self, written: WrittenInput) -> dict[str, pa.Table]:
        """The row versions of all relations that are valid."""
        versions: dict[str, pa.Table] = {}
        for name, relation in self._settings.relations.items():
            rows = written.test.relations.get(name, ())
            table = _read_relation(name, relation, rows, written)
            if not written.problems:
                versions[name] = make_versions(table, relation.key, relation.valid_from)
        return versions


def _read_relation(
    name: str, relation: Relation, rows: Sequence[Row], written: WrittenInput
) -> pa.Table:
    schema = replace(relation_schema(name, relation), fields={})
    numbered = [(0, PlacedRow(row, ("relations", name, index))) for index, row in enumerate(rows)]
    decoded, _ = _decode(schema, [written], numbered)
    table = decoded.drop_columns([EXTRA_COLUMN]).combine_chunks()
    if len(table) == len(rows):  # else some are refused, and positions differ
        _check_versions(name, relation, table, written)
    return table


def _check_versions(name: str, relation: Relation, rows: pa.Table, written: WrittenInput) -> None:
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
            written.add_problem(message, "relations", name, index)


def _decode(
    schema: StreamSchema,
    batch: Sequence[WrittenInput],
    numbered: Sequence[tuple[int, PlacedRow]],
) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Rows that are written by column, and the test in the batch of each.

    Rows that are not valid become problems of their test.
    """
    if not numbered:
        types = {name: ARROW_TYPES[kind] for name, kind in schema.columns.items()}
        empty = pa.schema({**types, EXTRA_COLUMN: pa.string()}).empty_table()
        return empty, np.empty(0, np.int64)
    lines: list[bytes] = []
    unknown: dict[tuple[int, str], PlacedRow] = {}
    for number, placed in numbered:
        record = dict(placed.row)
        undeclared = record.pop(EXTRA_COLUMN, None) or {}
        for name in record.keys() - schema.columns.keys():
            unknown.setdefault((number, name), placed)
        if schema.time in record:
            record[schema.time] = resolve_time(record[schema.time], batch[number].start)
        lines.append(json.dumps({**undeclared, **record}).encode())
    for (number, name), placed in sorted(unknown.items(), key=lambda item: item[0]):
        message = f"{schema.name} has no column {name!r}: write {', '.join(schema.columns)}"
        batch[number].add_problem(message, *placed.path)
    decoded = decode_lines(schema, RecordReading(JSONL), lines, 0)
    for refused in decoded.refused_lines:
        number, placed = numbered[refused.line]
        batch[number].add_problem(refused.detail, *placed.path)
    numbers = np.array([number for number, _ in numbered], np.int64)
    return decoded.table, numbers[decoded.line_numbers]


def _read_file(
    stream: _InputStream, written: WrittenInput, placed: PlacedFile
) -> Iterator[pa.Table]:
    file = Path(written.origin.document.file).parent / placed.file.file
    if not file.is_file():
        written.add_problem(f"{file}: no such file", *placed.path, "file")
        return
    for part in read_stream_file(stream.schema, stream.source_format, file, written.start):
        if part.problem is not None:
            written.problems.append(part.problem)
        yield part.rows
