"""The rows of a relation that stand in a file."""

from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from archiver.delta import StreamSchema
from archiver.errors import SourceDamaged
from archiver.ingest import DecodedRows, decode_lines, parse_csv_header
from moirae.config import Relation, RelationFile
from moirae.errors import MoiraeError, Problem, ProblemsError
from moirae.live.sources.files import read_lines


class FileRelationReader:
    """Read again when the file's time or size has changed."""

    def __init__(self, name: str, relation: Relation, source: RelationFile) -> None:
        self._name = name
        self._relation = relation
        self._source = source
        self._last_stat: tuple[int, int] | None = None

    def has_changed(self) -> bool:
        """Whether the file is not as it was when it was read."""
        return _stat_file(self._source) != self._last_stat

    def read_rows(self) -> list[dict[str, Any]]:
        """The file's rows. Raises `ProblemsError`, naming file and line, for a file with any bad row."""
        self._last_stat = _stat_file(
            self._source
        )  # a bad file is told of once, not with every look
        return _read_file(self._name, self._relation, self._source)

    def stop(self) -> None:
        """Nothing goes on between two readings."""


def decode_rows(
    name: str,
    relation: Relation,
    file_format: Literal["jsonl", "csv"],
    raw_lines: list[bytes],
    header: list[str],
) -> DecodedRows:
    """Lines as rows of the relation."""
    schema = StreamSchema(
        name, relation.columns, "", None, relation.key, timedelta(0), timedelta(0)
    )
    return decode_lines(schema, file_format, raw_lines, 0, header)


def identity_columns(relation: Relation) -> list[str]:
    """The columns by which rows are told apart: at no time two of one key hold."""
    return [*relation.key, *([relation.valid_from] if relation.valid_from else [])]


def _stat_file(source: RelationFile) -> tuple[int, int]:
    try:
        status = Path(source.file).stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def _read_file(name: str, relation: Relation, source: RelationFile) -> list[dict[str, Any]]:
    path = Path(source.file)
    if not path.is_file():
        raise MoiraeError(f"relation {name}: there is no file {path}")
    try:
        read = _read_numbered_lines(path)
    except (OSError, SourceDamaged) as error:
        raise MoiraeError(f"relation {name}: {path} cannot be read: {error}") from error
    header: list[str] = []
    if source.format == "csv" and not read:
        # Who writes a file anew may have emptied it first.
        raise ProblemsError(
            [Problem(str(path), 1, None, "the file is empty: not even a header is there")]
        )
    if source.format == "csv":
        number, line = read.pop(0)
        try:
            header = parse_csv_header(line)
        except ValueError as error:
            raise ProblemsError([Problem(str(path), number, None, f"header: {error}")]) from error
        missing = [column for column in relation.columns if column not in header]
        if missing:
            raise ProblemsError(
                [Problem(str(path), number, None, f"the header lacks {', '.join(missing)}")]
            )
    decoded = decode_rows(name, relation, source.format, [line for _, line in read], header)
    if decoded.refused_lines:
        raise ProblemsError(
            Problem(str(path), read[r.line][0], None, r.detail) for r in decoded.refused_lines
        )
    rows: list[dict[str, Any]] = decoded.table.drop_columns(["_extra"]).to_pylist()
    key, lines_of = identity_columns(relation), dict[tuple[Any, ...], int]()
    for (number, _), row in zip(read, rows, strict=True):
        first = lines_of.setdefault(tuple(row[column] for column in key), number)
        if first != number:
            raise ProblemsError(
                [Problem(str(path), number, None, f"the same {', '.join(key)} as in line {first}")]
            )
    return rows


def _read_numbered_lines(path: Path) -> list[tuple[int, bytes]]:
    return [(number, line) for number, line in enumerate(read_lines(path), 1) if line.strip()]
