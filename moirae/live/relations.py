"""Small tables beside the streams, kept with the event time in which each version of a row holds."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson
import pyarrow as pa
from psycopg import Connection
from psycopg.types.json import Jsonb

import sql
from archiver.delta import ARROW_TYPES
from moirae.config import Relation, TableSource
from moirae.errors import MoiraeError
from moirae.live.sources.relation_file import FileRelationReader
from moirae.live.sources.relation_table import TableRelationReader
from recall.query import sql_names

_QUERIES = sql.load("relations")

# The first version of a relation holds from the beginning of time, the last one to its end.
_TIME_BEGIN = datetime(1, 1, 1, tzinfo=UTC)
_TIME_END = datetime(9999, 12, 31, tzinfo=UTC)


class RelationReader(Protocol):
    """Where the rows of a relation come from."""

    def has_changed(self) -> bool:
        """Whether they may not be those that were given last. Never waits, but for the first time."""
        ...

    def read_rows(self) -> list[dict[str, Any]]:
        """The rows as they are now. Raises `MoiraeError` where they cannot be had, each time for its reason once."""
        ...

    def stop(self) -> None:
        """Nobody will ask any more."""
        ...


class Relations:
    """The relations of a workspace: read from their sources, kept in PostgreSQL, given out as Arrow tables."""

    def __init__(self, connection: Connection[Any], declared: Mapping[str, Relation]) -> None:
        self._connection = connection
        self._declared = declared
        # Read by this process; where the source had no rows nothing else tells.
        self._loaded: set[str] = set()
        self._readers: dict[str, RelationReader] = {
            name: _make_reader(name, relation) for name, relation in declared.items()
        }

    def changed_relations(self) -> list[str]:
        """Relations whose source is new, or not as it was when it was read."""
        return [name for name, source in self._readers.items() if source.has_changed()]

    def stop(self) -> None:
        """Nothing is read any more."""
        for source in self._readers.values():
            source.stop()

    def refresh(self, name: str, now: datetime) -> None:
        """Take in the source's rows: what differs from the newest versions holds from `now`, in event time, on.

        Raises `MoiraeError` where they cannot be had or any is bad: then nothing has changed.
        """
        relation = self._declared[name]
        try:
            rows = self._readers[name].read_rows()
        except MoiraeError as error:
            values = {"relation": name, "error": sql.replace_nul(str(error)[:2000])}
            self._connection.execute(_QUERIES["put_error"], values)
            raise
        with self._connection.transaction():
            self._connection.execute(_QUERIES["drop_error"], {"relation": name})
            if relation.valid_from is not None:
                versions = [(row, row[relation.valid_from]) for row in rows]
                for row, valid_from in versions:
                    self._insert_version(name, _key_values(relation, row), row, valid_from)
            else:
                self._store_differences(name, relation, rows, now)
        self._loaded.add(name)

    def forget_undeclared(self) -> None:
        """Relations that are not declared any more have no errors."""
        self._connection.execute(_QUERIES["forget_undeclared"], {"declared": list(self._declared)})

    def is_loaded(self, name: str) -> bool:
        """Whether the relation has been read by this process, or any row of it ever."""
        if name in self._loaded:
            return True
        row = self._connection.execute(_QUERIES["known"], {"relation": name}).fetchone()
        assert row is not None
        return bool(row[0])

    def _store_differences(
        self, name: str, relation: Relation, rows: list[dict[str, Any]], now: datetime
    ) -> None:
        latest = {
            orjson.dumps(key): row
            for key, row in self._connection.execute(_QUERIES["latest"], {"relation": name})
        }
        since = now if latest else _TIME_BEGIN
        keys = set()
        for row in rows:
            key = _key_values(relation, row)
            keys.add(orjson.dumps(key))
            if latest.get(orjson.dumps(key)) != _to_json_values(row):
                self._insert_version(name, key, row, since)
        for text, old in latest.items():
            if text not in keys and old is not None:
                self._insert_version(name, orjson.loads(text), None, now)

    def _insert_version(
        self, name: str, key: list[Any], row: dict[str, Any] | None, valid_from: datetime
    ) -> None:
        values = {"relation": name, "key": Jsonb(key), "valid_from": valid_from}
        self._connection.execute(
            _QUERIES["put"], {**values, "row": None if row is None else Jsonb(_to_json_values(row))}
        )

    def table(self, name: str) -> pa.Table:
        """All versions: the declared columns and the time in which each holds."""
        relation = self._declared[name]
        found = self._connection.execute(_QUERIES["versions"], {"relation": name}).fetchall()
        kept = [(row, since, until or _TIME_END) for row, since, until in found if row is not None]
        columns = {
            column: _to_arrow([row.get(column) for row, _, _ in kept], kind)
            for column, kind in relation.columns.items()
        }
        moment = ARROW_TYPES["timestamp"]
        columns[sql_names.VALID_FROM] = pa.array([since for _, since, _ in kept], moment)
        columns[sql_names.VALID_TO] = pa.array([until for _, _, until in kept], moment)
        return pa.table(columns)


def _make_reader(name: str, relation: Relation) -> RelationReader:
    if isinstance(relation.source, TableSource):
        return TableRelationReader(name, relation, relation.source)
    return FileRelationReader(name, relation, relation.source)


def _to_arrow(values: list[Any], kind: str) -> pa.Array:
    if kind in ("timestamp", "date"):
        return pa.array(values, pa.string()).cast(ARROW_TYPES[kind])
    return pa.array(values, ARROW_TYPES[kind])


def _key_values(relation: Relation, row: Mapping[str, Any]) -> list[Any]:
    return [_to_json_values(row)[column] for column in relation.key]


def _to_json_values(row: Mapping[str, Any]) -> dict[str, Any]:
    loaded: dict[str, Any] = orjson.loads(orjson.dumps(row, option=orjson.OPT_UTC_Z))
    return loaded
