"""Small tables beside the streams, kept with the event time in which each version of a row holds."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from psycopg import Connection
from psycopg.types.json import Jsonb

import sql
from archiver.decode import Decoded, csv_header, decode
from archiver.schema import ARROW_TYPES, StreamSchema
from archiver.units import SourceDamaged
from moirae.errors import MoiraeError, Problem, ProblemsError
from moirae.live.sources.files import lines
from moirae.streams import Relation
from recall.query.bind import VALID_FROM, VALID_TO

_QUERIES = sql.load("relations")

# The first version of a relation holds from the beginning of time, the last one to its end.
_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
_END = datetime(9999, 12, 31, tzinfo=UTC)


class Relations:
    """The relations of a workspace: read from their files, kept in PostgreSQL, given out as Arrow tables."""

    def __init__(self, connection: Connection[Any], declared: Mapping[str, Relation]) -> None:
        self._connection = connection
        self._declared = declared
        self._seen: dict[str, tuple[int, int]] = {}

    def changed(self) -> list[str]:
        """Relations whose file is new, or not as it was when it was read."""
        return [name for name, relation in self._declared.items() if _mark(relation) != self._seen.get(name)]

    def read(self, name: str, now: datetime) -> None:
        """Take in the file's rows: what differs from the newest versions holds from `now`, in event time, on.

        Raises `ProblemsError`, naming file and line, for a file with any bad row: then nothing has changed.
        """
        relation = self._declared[name]
        self._seen[name] = _mark(relation)  # a bad file is told of once, not with every look
        rows = _rows(name, relation)
        with self._connection.transaction():
            if relation.valid_from is not None:
                versions = [(row, row[relation.valid_from]) for row in rows]
                for row, valid_from in versions:
                    self._put(name, _key(relation, row), row, valid_from)
            else:
                self._differ(name, relation, rows, now)

    def known(self, name: str) -> bool:
        """Whether any version of the relation has been read, ever."""
        return bool(self._connection.execute(_QUERIES["latest"], {"relation": name}).fetchall())

    def _differ(self, name: str, relation: Relation, rows: list[dict[str, Any]], now: datetime) -> None:
        latest = {
            orjson.dumps(key): row for key, row in self._connection.execute(_QUERIES["latest"], {"relation": name})
        }
        since = now if latest else _BEGINNING
        keys = set()
        for row in rows:
            key = _key(relation, row)
            keys.add(orjson.dumps(key))
            if latest.get(orjson.dumps(key)) != _plain(row):
                self._put(name, key, row, since)
        for text, old in latest.items():
            if text not in keys and old is not None:
                self._put(name, orjson.loads(text), None, now)

    def _put(self, name: str, key: list[Any], row: dict[str, Any] | None, valid_from: datetime) -> None:
        values = {"relation": name, "key": Jsonb(key), "valid_from": valid_from}
        self._connection.execute(_QUERIES["put"], {**values, "row": None if row is None else Jsonb(_plain(row))})

    def table(self, name: str) -> pa.Table:
        """All versions: the declared columns and the time in which each holds."""
        relation = self._declared[name]
        found = self._connection.execute(_QUERIES["versions"], {"relation": name}).fetchall()
        kept = [(row, since, until or _END) for row, since, until in found if row is not None]
        columns = {
            column: _restored([row.get(column) for row, _, _ in kept], kind)
            for column, kind in relation.columns.items()
        }
        moment = ARROW_TYPES["timestamp"]
        columns[VALID_FROM] = pa.array([since for _, since, _ in kept], moment)
        columns[VALID_TO] = pa.array([until for _, _, until in kept], moment)
        return pa.table(columns)


def _restored(values: list[Any], kind: str) -> pa.Array:
    if kind in ("timestamp", "date"):
        return pa.array(values, pa.string()).cast(ARROW_TYPES[kind])
    return pa.array(values, ARROW_TYPES[kind])


def _mark(relation: Relation) -> tuple[int, int]:
    try:
        status = Path(relation.source.file).stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def _key(relation: Relation, row: Mapping[str, Any]) -> list[Any]:
    return [_plain(row)[column] for column in relation.key]


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    loaded: dict[str, Any] = orjson.loads(orjson.dumps(row, option=orjson.OPT_UTC_Z))
    return loaded


def _rows(name: str, relation: Relation) -> list[dict[str, Any]]:
    path = Path(relation.source.file)
    if not path.is_file():
        raise MoiraeError(f"relation {name}: there is no file {path}")
    try:
        read = _numbered(path)
    except (OSError, SourceDamaged) as error:
        raise MoiraeError(f"relation {name}: {path} cannot be read: {error}") from error
    header: list[str] = []
    if relation.source.format == "csv" and read:
        number, line = read.pop(0)
        try:
            header = csv_header(line)
        except ValueError as error:
            raise ProblemsError([Problem(str(path), number, None, f"header: {error}")]) from error
        missing = [column for column in relation.columns if column not in header]
        if missing:
            raise ProblemsError([Problem(str(path), number, None, f"the header lacks {', '.join(missing)}")])
    decoded = _decode(name, relation, [line for _, line in read], header)
    if decoded.refused:
        raise ProblemsError(Problem(str(path), read[r.line][0], None, r.detail) for r in decoded.refused)
    rows: list[dict[str, Any]] = decoded.table.drop_columns(["_extra"]).to_pylist()
    return rows


def _numbered(path: Path) -> list[tuple[int, bytes]]:
    return [(number, line) for number, line in enumerate(lines(path), 1) if line.strip()]


def _decode(name: str, relation: Relation, found: list[bytes], header: list[str]) -> Decoded:
    schema = StreamSchema(name, relation.columns, "", None, relation.key, timedelta(0), timedelta(0))
    return decode(schema, relation.source.format, found, 0, header)
