"""Relations: small tables next to the streams, with the validity interval of each row version.

Validity is a range of event time, as in a slowly changing dimension of type 2.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson
import pyarrow as pa

import sql
from archiver.delta import ARROW_TYPES
from moirae.config import Relation, TableSource
from moirae.errors import MoiraeError
from moirae.live.sources import FileRelationReader, TableRelationReader
from recall.query import sql_names
from sql.archive import RelationGateway

_TIME_BEGIN = datetime(1, 1, 1, tzinfo=UTC)  # start of validity of the first version
_TIME_END = datetime(9999, 12, 31, tzinfo=UTC)  # end of validity of the current version
_MAX_ERROR_LENGTH = 2_000  # characters


class RelationReader(Protocol):
    """Reads the rows of a relation from its source."""

    def has_changed(self) -> bool:
        """Whether the rows may differ from the last ones read. Blocks on the first call only."""
        ...

    def read_rows(self) -> list[dict[str, Any]]:
        """The present rows. Raises `MoiraeError`, once for each cause, if they cannot be read."""
        ...

    def stop(self) -> None:
        """Release what the reader uses; it is not called again."""
        ...


class Relations:
    """The relations of a workspace: read from their sources, versioned in PostgreSQL."""

    def __init__(self, connection: sql.Connection, declared: Mapping[str, Relation]) -> None:
        self._connection = connection
        self._gateway = RelationGateway(connection)
        self._declared = declared
        # Loaded by this process. A relation without rows leaves no trace in the database.
        self._loaded: set[str] = set()
        self._readers: dict[str, RelationReader] = {
            name: _make_reader(name, relation) for name, relation in declared.items()
        }

    @property
    def columns(self) -> dict[str, Mapping[str, str]]:
        """The declared columns of each relation, with their types."""
        return {name: relation.columns for name, relation in self._declared.items()}

    def changed_relations(self) -> list[str]:
        """The relations that were never read, or whose source may have changed since."""
        return [name for name, reader in self._readers.items() if reader.has_changed()]

    def stop(self) -> None:
        """Stop reading the sources."""
        for reader in self._readers.values():
            reader.stop()

    def refresh(self, name: str, now: datetime) -> None:
        """Read the rows; those that differ from their newest version are valid from `now` on.

        `now` is event time. Raises `MoiraeError`, and changes nothing, if the source cannot be read
        or a row is invalid. The error is stored for the status.
        """
        relation = self._declared[name]
        try:
            rows = self._readers[name].read_rows()
        except MoiraeError as error:
            self._gateway.put_error(name, str(error)[:_MAX_ERROR_LENGTH])
            raise
        with self._connection.transaction():
            self._gateway.delete_error(name)
            if relation.valid_from is not None:
                for row in rows:
                    valid_from = row[relation.valid_from]
                    self._insert_version(name, _key_values(relation, row), row, valid_from)
            else:
                self._store_differences(name, relation, rows, now)
        self._loaded.add(name)

    def forget_undeclared(self) -> None:
        """Delete the stored errors of relations that are no longer declared."""
        self._gateway.delete_undeclared_errors(list(self._declared))

    def is_loaded(self, name: str) -> bool:
        """Whether this process has loaded the relation, or the database has a row of it."""
        return name in self._loaded or self._gateway.has_versions(name)

    def _store_differences(
        self, name: str, relation: Relation, rows: list[dict[str, Any]], now: datetime
    ) -> None:
        """Insert a version for each changed row, and an empty version for each removed one."""
        newest_versions: dict[bytes, Mapping[str, Any] | None] = {}
        for version in self._gateway.list_newest(name):
            newest_versions[orjson.dumps(version.key)] = version.row
        valid_from = now if newest_versions else _TIME_BEGIN
        present_keys: set[bytes] = set()
        for row in rows:
            key = _key_values(relation, row)
            json_key = orjson.dumps(key)
            present_keys.add(json_key)
            if newest_versions.get(json_key) != _to_json_values(row):
                self._insert_version(name, key, row, valid_from)
        for json_key, newest in newest_versions.items():
            if json_key not in present_keys and newest is not None:
                self._insert_version(name, orjson.loads(json_key), None, now)

    def _insert_version(
        self, name: str, key: list[Any], row: dict[str, Any] | None, valid_from: datetime
    ) -> None:
        json_row = None if row is None else _to_json_values(row)
        self._gateway.put_version(name, key, row=json_row, valid_from=valid_from)

    def table(self, name: str) -> pa.Table:
        """All row versions: the declared columns, and `VALID_FROM` and `VALID_TO` of each."""
        rows: list[Mapping[str, Any]] = []
        valid_from: list[datetime] = []
        valid_to: list[datetime] = []
        for version in self._gateway.list_versions(name):
            if version.row is not None:
                rows.append(version.row)
                valid_from.append(version.valid_from)
                valid_to.append(version.valid_to or _TIME_END)
        columns: dict[str, pa.Array] = {}
        for column, column_type in self._declared[name].columns.items():
            columns[column] = _to_arrow([row.get(column) for row in rows], column_type)
        columns[sql_names.VALID_FROM] = pa.array(valid_from, ARROW_TYPES["timestamp"])
        columns[sql_names.VALID_TO] = pa.array(valid_to, ARROW_TYPES["timestamp"])
        return pa.table(columns)


def _make_reader(name: str, relation: Relation) -> RelationReader:
    if isinstance(relation.source, TableSource):
        return TableRelationReader(name, relation, relation.source)
    return FileRelationReader(name, relation, relation.source)


def _to_arrow(values: list[Any], column_type: str) -> pa.Array:
    if column_type in ("timestamp", "date"):  # ISO 8601 text in JSON
        return pa.array(values, pa.string()).cast(ARROW_TYPES[column_type])
    return pa.array(values, ARROW_TYPES[column_type])


def _key_values(relation: Relation, row: Mapping[str, Any]) -> list[Any]:
    """The values of the key columns, as in JSON."""
    values = _to_json_values(row)
    return [values[column] for column in relation.key]


def _to_json_values(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as it comes back from JSON: times are ISO 8601 texts."""
    values: dict[str, Any] = orjson.loads(orjson.dumps(row, option=orjson.OPT_UTC_Z))
    return values
