"""Relations: small tables next to the streams, with the validity interval of each row version.

Validity is a range of event time, as in a slowly changing dimension of type 2.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import orjson
import pyarrow as pa
import structlog

import sql
from archiver.clock import utc_now
from archiver.delta import ARROW_TYPES
from moirae.config import Relation, TableSource
from moirae.errors import MoiraeError
from moirae.live.relation_changes import Row, RowChanges, compare_rows, is_shrunk
from moirae.live.set_aside import SetAside
from moirae.live.sources import (
    STABLE_AFTER,
    FileRelationReader,
    MoveWatcher,
    ObjectRelationReader,
    RelationContent,
    TableRelationReader,
    identity_columns,
)
from recall.engines import to_json_value
from recall.query import sql_names
from sql.archive import (
    HeldRelationRow,
    RelationGateway,
    RelationSourceRow,
    SetAsideGateway,
    Subject,
)

_LOG = structlog.get_logger()

_TIME_BEGIN = datetime(1, 1, 1, tzinfo=UTC)  # start of validity of the first version
_TIME_END = datetime(9999, 12, 31, tzinfo=UTC)  # end of validity of the current version
_MAX_ERROR_LENGTH = 2_000  # characters
_SHORTEST_TIME = timedelta(microseconds=1)


class RelationReader(Protocol):
    """Reads the rows of a relation from its source."""

    @property
    def fingerprint(self) -> str:
        """Identifies the present state of the source; empty if it is unknown."""
        ...

    def has_changed(self) -> bool:
        """Whether there is a version that was not read. Blocks on the first call only."""
        ...

    def read(self) -> RelationContent:
        """The newest version. Raises `MoiraeError`, once for each cause, if it cannot be read."""
        ...

    def read_again(self) -> None:
        """Have `has_changed` return True for the present version too."""
        ...

    def stop(self) -> None:
        """Release what the reader uses; it is not called again."""
        ...


class Relations:
    """The relations of a workspace: read from their sources, versioned in PostgreSQL."""

    def __init__(
        self,
        connection: sql.Connection,
        declared: Mapping[str, Relation],
        *,
        failures: SetAside | None = None,
        stable_after: float = STABLE_AFTER,
    ) -> None:
        """`failures`: of readers. `stable_after`: seconds after which a file is complete."""
        self._connection = connection
        self._gateway = RelationGateway(connection)
        self._declared = declared
        self._stable_after = stable_after
        # Loaded by this process. A relation without rows leaves no trace in the database.
        self._loaded: set[str] = set()
        self._moves: MoveWatcher | None = None
        self._failures = failures or SetAside(SetAsideGateway(connection))
        self._readers: dict[str, RelationReader] = {}
        # Versions that this process has read and holds back, by relation.
        self._held: dict[str, RelationContent] = {}
        # Relations whose reader broke.
        self._broken: set[str] = set()

    @property
    def columns(self) -> dict[str, Mapping[str, str]]:
        """The declared columns of each relation, with their types."""
        return {name: relation.columns for name, relation in self._declared.items()}

    def watch(self) -> None:
        """Begin to look at the sources: a file that stays the same from now on is complete soon.

        Files that are moved to their path are complete at once, as long as this process runs.
        """
        self._moves = MoveWatcher()
        self._open_sources()

    def _open_sources(self) -> None:
        complete: dict[str, set[str]] = {name: set() for name in self._declared}
        known_versions = [(row.relation, row.fingerprint) for row in self._gateway.list_sources()]
        known_versions += [(row.relation, row.fingerprint) for row in self._gateway.list_held()]
        for name, fingerprint in known_versions:
            if name in complete:
                complete[name].add(fingerprint)
        for name, relation in self._declared.items():
            self._readers[name] = self._make_reader(name, relation, complete[name])

    def changed_relations(self) -> list[str]:
        """The relations that were never read, or of which there is another version to be read."""
        if len(self._readers) < len(self._declared):
            self._open_sources()
        accepted = self._accepted_relations()
        return [name for name in self._readers if name in accepted or self._has_changed(name)]

    def stop(self) -> None:
        """Stop reading the sources."""
        for reader in self._readers.values():
            reader.stop()
        if self._moves is not None:
            self._moves.stop()

    def refresh(self, name: str, now: datetime) -> None:
        """Read the rows; those that differ from their newest version are valid right after `now`.

        `now` is event time: events at that time have been evaluated with the version before. A
        version with far fewer rows is held back. Raises `MoiraeError`, and changes nothing, if the
        source cannot be read or a row is invalid. The error is stored for the status.
        """
        is_accepted = name in self._accepted_relations()
        try:
            content = self._held[name] if is_accepted else self._read(name)
        except MoiraeError as error:
            self._held.pop(name, None)
            self._gateway.delete_held(name)
            self._gateway.put_error(name, str(error)[:_MAX_ERROR_LENGTH])
            raise
        with self._connection.transaction():
            self._gateway.delete_error(name)
            self._use_or_hold(name, content, now)
        self._loaded.add(name)

    def forget_undeclared(self) -> None:
        """Delete what is stored about the sources of relations that are no longer declared."""
        self._gateway.delete_undeclared_errors(list(self._declared))
        self._gateway.delete_undeclared_held(list(self._declared))

    def is_loaded(self, name: str) -> bool:
        """Whether this process has loaded the relation, or the database has a row of it."""
        return name in self._loaded or self._gateway.has_versions(name)

    def _has_changed(self, name: str) -> bool:
        reader = self._readers[name]
        if reader.has_changed():
            return True
        if name in self._broken and self._failures.may_try(
            Subject("relation", name), reader.fingerprint, utc_now()
        ):
            reader.read_again()
        return reader.has_changed()

    def _accepted_relations(self) -> set[str]:
        """The relations whose version that is held back has been accepted."""
        if not self._held:
            return set()
        rows = self._gateway.list_held()
        return {
            row.relation for row in rows if self._is_accepted(row, self._held.get(row.relation))
        }

    def _is_accepted(self, row: HeldRelationRow, content: RelationContent | None) -> bool:
        return row.accepted and content is not None and content.fingerprint == row.fingerprint

    def _read(self, name: str) -> RelationContent:
        """Read the source. What breaks the reader is tried again, then set aside."""
        subject = Subject("relation", name)
        try:
            content = self._readers[name].read()
        except MoiraeError:
            self._forget_failures(subject)
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            fingerprint = self._readers[name].fingerprint
            self._failures.record_failure(subject, reason, fingerprint, utc_now())
            self._broken.add(name)
            raise MoiraeError(f"relation {name}: its reader failed: {reason}") from error
        self._forget_failures(subject)
        return content

    def _forget_failures(self, subject: Subject) -> None:
        self._failures.record_success(subject)
        self._broken.discard(subject.name)

    def _use_or_hold(self, name: str, content: RelationContent, now: datetime) -> None:
        relation = self._declared[name]
        rows = {_json_key(relation, row): _to_json_values(row) for row in content.rows}
        rows_in_use = self._load_rows(name, relation)
        source = self._sources().get(name)
        row_count = sum(row is not None for row in rows_in_use.values())
        if relation.valid_from is not None and source is not None:
            row_count = source.rows  # rows that its source no longer has stay in use
        if self._must_hold(name, content, row_count):
            self._hold(name, content, row_count)
            return
        changes = compare_rows(rows_in_use, rows)
        if relation.valid_from is not None:
            changes.removed.clear()
        valid_from = now + _SHORTEST_TIME if rows_in_use else _TIME_BEGIN
        self._store_changes(name, relation, changes, valid_from)
        self._gateway.put_source(name, fingerprint=content.fingerprint, rows=len(rows))
        self._gateway.delete_held(name)
        self._held.pop(name, None)
        if source is None or source.fingerprint != content.fingerprint or any(changes):
            _LOG.info(
                "version of a relation in use",
                action="relation_taken",
                relation=name,
                rows=len(rows),
                added=len(changes.added),
                changed=len(changes.changed),
                removed=len(changes.removed),
            )

    def _must_hold(self, name: str, content: RelationContent, row_count: int) -> bool:
        if self._declared[name].shrink == "allow" or not is_shrunk(row_count, len(content.rows)):
            return False
        held_version = next(
            (row for row in self._gateway.list_held() if row.relation == name), None
        )
        return held_version is None or not self._is_accepted(held_version, content)

    def _hold(self, name: str, content: RelationContent, row_count: int) -> None:
        """Leave the version in use until the source changes, or this one is accepted."""
        self._held[name] = content
        self._gateway.put_held(
            name, fingerprint=content.fingerprint, rows=len(content.rows), rows_in_use=row_count
        )
        _LOG.warning(
            "version of a relation held back: it has far fewer rows",
            action="relation_held",
            relation=name,
            rows=len(content.rows),
            rows_in_use=row_count,
        )

    def _sources(self) -> dict[str, RelationSourceRow]:
        return {source.relation: source for source in self._gateway.list_sources()}

    def _load_rows(self, name: str, relation: Relation) -> dict[bytes, Row | None]:
        """The rows in use by key; None: it was removed. With `valid_from`: all versions."""
        if relation.valid_from is None:
            newest_rows = self._gateway.list_newest(name)
            return {orjson.dumps(newest.key): newest.row for newest in newest_rows}
        rows = [version.row for version in self._gateway.list_versions(name)]
        return {_json_key(relation, row): row for row in rows if row is not None}

    def _store_changes(
        self, name: str, relation: Relation, changes: RowChanges, valid_from: datetime
    ) -> None:
        """Store a version of each row that changed; an empty one of each that was removed."""
        for row in (*changes.added.values(), *changes.changed.values()):
            start = valid_from
            if relation.valid_from is not None:
                start = datetime.fromisoformat(row[relation.valid_from])
            key = [row[column] for column in relation.key]
            self._gateway.put_version(name, key, row=row, valid_from=start)
        for json_key in changes.removed:
            self._gateway.put_version(name, orjson.loads(json_key), row=None, valid_from=valid_from)

    def _make_reader(
        self, name: str, relation: Relation, complete: Collection[str]
    ) -> RelationReader:
        source = relation.source
        if isinstance(source, TableSource):
            return TableRelationReader(name, relation, source)
        if source.is_in_object_storage:
            return ObjectRelationReader(name, relation, source)
        return FileRelationReader(
            name,
            relation,
            source,
            moves=self._moves,
            complete=complete,
            stable_after=self._stable_after,
        )

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


def _to_arrow(values: list[Any], column_type: str) -> pa.Array:
    if column_type in ("timestamp", "date"):  # ISO 8601 text in JSON
        return pa.array(values, pa.string()).cast(ARROW_TYPES[column_type])
    if column_type in ("float", "double"):  # NaN and infinity are text in JSON
        values = [None if value is None else float(value) for value in values]
    return pa.array(values, ARROW_TYPES[column_type])


def _json_key(relation: Relation, row: Row) -> bytes:
    """The values that identify a row version, as JSON."""
    values = _to_json_values({name: row[name] for name in identity_columns(relation)})
    return orjson.dumps(list(values.values()))


def _to_json_values(row: Row) -> dict[str, Any]:
    """The row as it comes back from JSON: times, NaN and infinity are texts, NUL is ␀."""
    values = {
        name: to_json_value(value) if isinstance(value, float) else value
        for name, value in row.items()
    }
    stored: dict[str, Any] = sql.replace_nul(
        orjson.loads(orjson.dumps(values, option=orjson.OPT_UTC_Z))
    )
    return stored
