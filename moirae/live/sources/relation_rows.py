"""Rows of relations, decoded as those of streams."""

from typing import Any, NamedTuple

from archiver.formats import Format, RecordReading
from archiver.ingest import TextRecord, split_records
from archiver.ingest.decoding import DecodedRows, decode_lines, parse_csv_header
from moirae.config import Relation, relation_schema
from moirae.errors import Problem, ProblemsError


class RelationContent(NamedTuple):
    """A version of a relation, as read from its source. `fingerprint` differs between versions."""

    rows: list[dict[str, Any]]
    fingerprint: str


def parse_rows(
    name: str, relation: Relation, file_format: Format, file: str, content: bytes
) -> list[dict[str, Any]]:
    """The rows of a file. `file`: as errors name it.

    Raises `ProblemsError` with file and line for invalid rows.
    """
    records = split_records(content, file_format)
    header: list[str] = []
    if file_format.is_csv:
        if not records:
            # An error, not an empty relation: the file may be truncated to be written again.
            raise _problem(file, 1, "the file is empty: add a header")
        header = _parse_header(file, records.pop(0), relation)
    lines = [record.text for record in records]
    decoded = decode_rows(name, relation, file_format, lines, header)
    if decoded.refused_lines:
        raise ProblemsError(
            Problem(file, records[refused.line].line, None, refused.detail)
            for refused in decoded.refused_lines
        )
    rows = to_rows(decoded)
    columns = identity_columns(relation)
    first_lines: dict[tuple[Any, ...], int] = {}
    for record, row in zip(records, rows, strict=True):
        first = first_lines.setdefault(tuple(map(row.__getitem__, columns)), record.line)
        if first != record.line:
            message = f"duplicate {', '.join(columns)}, first in line {first}"
            raise _problem(file, record.line, message)
    return rows


def decode_rows(
    name: str,
    relation: Relation,
    file_format: Format,
    raw_lines: list[bytes],
    header: list[str],
) -> DecodedRows:
    """Decode lines as rows of a relation. `header`: the columns of a CSV file, else empty."""
    schema = relation_schema(name, relation)
    reading = RecordReading(file_format, tuple(header) if file_format.is_csv else None)
    return decode_lines(schema, reading, raw_lines, 0)


def to_rows(decoded: DecodedRows) -> list[dict[str, Any]]:
    """The declared columns of decoded rows, by name."""
    rows: list[dict[str, Any]] = decoded.table.drop_columns(["_extra"]).to_pylist()
    return rows


def identity_columns(relation: Relation) -> list[str]:
    """The columns that identify a row version: the key and, if declared, the start of validity."""
    columns = list(relation.key)
    if relation.valid_from:
        columns.append(relation.valid_from)
    return columns


def _parse_header(file: str, record: TextRecord, relation: Relation) -> list[str]:
    try:
        header = parse_csv_header(record.text)
    except ValueError as error:
        raise _problem(file, record.line, f"header: {error}") from error
    missing = []
    for column in relation.columns:
        fields = relation.fields.get(column, (column,))
        if not set(fields).intersection(header):
            missing.append(fields[0])
    if missing:
        message = f"missing columns in the header: {', '.join(missing)}"
        raise _problem(file, record.line, message)
    return header


def _problem(file: str, line: int, message: str) -> ProblemsError:
    return ProblemsError([Problem(file, line, None, message)])
