"""Relations read from a file."""

from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from archiver.delta import StreamSchema
from archiver.errors import SourceDamaged, SourceUnreachable
from archiver.ingest import read_lines
from archiver.ingest.decoding import DecodedRows, decode_lines, parse_csv_header
from moirae.config import Relation, RelationFile
from moirae.errors import MoiraeError, Problem, ProblemsError


class FileRelationReader:
    """Reads a file again when its modification time or size has changed."""

    def __init__(self, name: str, relation: Relation, source: RelationFile) -> None:
        self._name = name
        self._relation = relation
        self._source = source
        self._last_stat: tuple[int, int] | None = None

    def has_changed(self) -> bool:
        """Whether the file differs from when it was last read, by time or size."""
        return _stat_file(self._source) != self._last_stat

    def read_rows(self) -> list[dict[str, Any]]:
        """The rows of the file.

        Raises `ProblemsError` with file and line for invalid rows, and `MoiraeError` if the file
        cannot be read.
        """
        # Before reading, so that an invalid file is reported once.
        self._last_stat = _stat_file(self._source)
        return _read_file(self._name, self._relation, self._source)

    def stop(self) -> None:
        """Do nothing: the file is open only while it is read."""


def decode_rows(
    name: str,
    relation: Relation,
    file_format: Literal["jsonl", "csv"],
    raw_lines: list[bytes],
    header: list[str],
) -> DecodedRows:
    """Decode lines as rows of a relation. `header`: the columns of a CSV file, else empty."""
    schema = StreamSchema(
        name,
        relation.columns,
        time="",
        id=None,
        key=relation.key,
        lateness=timedelta(0),
        future=timedelta(0),
        fields=relation.fields,
    )
    return decode_lines(schema, file_format, raw_lines, 0, header)


def identity_columns(relation: Relation) -> list[str]:
    """The columns that identify a row version: the key and, if declared, the start of validity."""
    columns = list(relation.key)
    if relation.valid_from:
        columns.append(relation.valid_from)
    return columns


def _stat_file(source: RelationFile) -> tuple[int, int]:
    """Modification time (nanoseconds) and size (bytes); zeros if the file is missing."""
    try:
        status = Path(source.file).stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def _read_file(name: str, relation: Relation, source: RelationFile) -> list[dict[str, Any]]:
    path = Path(source.file)
    if not path.is_file():
        raise MoiraeError(f"{path}: the file of relation {name} does not exist")
    try:
        numbers, lines = _read_numbered_lines(path)
    except (OSError, SourceDamaged, SourceUnreachable) as error:
        raise MoiraeError(f"{path}: cannot read the file of relation {name}: {error}") from error
    header: list[str] = []
    if source.format == "csv":
        if not lines:
            # An error, not an empty relation: the file may be truncated to be written again.
            raise _problem(path, 1, "the file is empty: add a header")
        header = _parse_header(path, numbers.pop(0), lines.pop(0), relation)
    decoded = decode_rows(name, relation, source.format, lines, header)
    if decoded.refused_lines:
        raise ProblemsError(
            Problem(str(path), numbers[refused.line], None, refused.detail)
            for refused in decoded.refused_lines
        )
    rows: list[dict[str, Any]] = decoded.table.drop_columns(["_extra"]).to_pylist()
    columns = identity_columns(relation)
    first_numbers: dict[tuple[Any, ...], int] = {}
    for number, row in zip(numbers, rows, strict=True):
        first = first_numbers.setdefault(tuple(map(row.__getitem__, columns)), number)
        if first != number:
            raise _problem(path, number, f"duplicate {', '.join(columns)}, first in line {first}")
    return rows


def _parse_header(path: Path, number: int, line: bytes, relation: Relation) -> list[str]:
    try:
        header = parse_csv_header(line)
    except ValueError as error:
        raise _problem(path, number, f"header: {error}") from error
    missing = []
    for column in relation.columns:
        fields = relation.fields.get(column, (column,))
        if not set(fields).intersection(header):
            missing.append(fields[0])
    if missing:
        raise _problem(path, number, f"missing columns in the header: {', '.join(missing)}")
    return header


def _problem(path: Path, number: int, message: str) -> ProblemsError:
    return ProblemsError([Problem(str(path), number, None, message)])


def _read_numbered_lines(path: Path) -> tuple[list[int], list[bytes]]:
    """The line numbers, from 1, and contents of the lines that are not blank."""
    numbers: list[int] = []
    lines: list[bytes] = []
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            numbers.append(number)
            lines.append(line)
    return numbers, lines
