"""A revision stream as two Delta tables: all revisions, and the rows after the last one.

The second has a change feed (`readChangeFeed` of Spark). A commit of either records up to which
number it contains the stream, so that a revision is applied once, whatever process repeats it. Rows
are JSON.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Any
from uuid import uuid4

import orjson
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError

from archiver.delta.protocol import CommitSummary, commit_info_action, encode_actions
from archiver.storage import LOG_FOLDER, Storage, StorageRoot, as_storage

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_REVISIONS = pa.schema(
    [
        ("seq", pa.int64()),
        ("eid", pa.string()),
        ("ts", _TIMESTAMP),
        ("op", pa.string()),
        ("row_key", pa.string()),
        ("row", pa.string()),
        ("old_row", pa.string()),
        ("rule", pa.string()),
        ("version", pa.string()),
    ]
)
_ROWS = pa.schema(
    [
        ("eid", pa.string()),
        ("version", pa.string()),
        ("row_key", pa.string()),
        ("seq", pa.int64()),
        ("ts", _TIMESTAMP),
        ("row", pa.string()),
    ]
)
# The application id under which the logs count row revisions.
REVISIONS_APPLICATION_ID = "moirae revisions"
_SAME_ROW = "t.eid = s.eid AND t.version = s.version AND t.row_key = s.row_key"
# Files of a table above which they are merged.
_MAX_FILES = 64
_CHANGE_FEED = {"delta.enableChangeDataFeed": "true"}
# The versions of the Delta protocol with change feeds, for readers and writers.
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 4}


@dataclass(frozen=True)
class ArchivedRevision:
    """A row revision; see the columns of the table `row_revisions` of the database."""

    seq: int
    eid: str
    ts: datetime
    op: str
    row_key: str
    row: Mapping[str, Any] | None
    old_row: Mapping[str, Any] | None
    version: str


class RevisionTables:
    """The tables `revisions/<name>` and `rows/<name>` of a stream below a folder of the archive.

    For one process at a time.
    """

    def __init__(self, root: StorageRoot, name: str, rule: str) -> None:
        folder = as_storage(root) / "recalls"
        self._rule = rule
        self._revisions = folder / "revisions" / name
        self._rows = folder / "rows" / name

    def last_number(self) -> int:
        """The number up to which both tables contain the stream."""
        return min(_last_number(self._revisions), _last_number(self._rows))

    def read(self, after: int, last: int) -> list[ArchivedRevision]:
        """The archived revisions with numbers from behind `after` up to `last`, in order."""
        return self._read([("seq", ">", after), ("seq", "<=", last)])

    def read_events(
        self, start: datetime | None, end: datetime | None, last: int
    ) -> list[ArchivedRevision]:
        """Those about events in a range of event time, up to the number `last`, in order."""
        filters: list[tuple[str, str, Any]] = [("seq", "<=", last)]
        if start is not None:
            filters.append(("ts", ">=", start))
        if end is not None:
            filters.append(("ts", "<", end))
        return self._read(filters)

    def _read(self, filters: list[tuple[str, str, Any]]) -> list[ArchivedRevision]:
        if not self._revisions.has_table():
            return []
        with self._revisions.translate_errors():
            table = self._revisions.open_table().to_pyarrow_table(filters=filters)
        revisions = []
        for values in table.sort_by("seq").to_pylist():
            del values["rule"]
            for name in ("row", "old_row"):
                if values[name] is not None:
                    values[name] = orjson.loads(values[name])
            revisions.append(ArchivedRevision(**values))
        return revisions

    def append(self, revisions: Sequence[ArchivedRevision]) -> None:
        """Archive consecutive revisions, at least one; those that are archived are left out."""
        self._append_revisions(revisions)
        self._merge_rows(revisions)

    def delete_before(self, time: datetime, history: float) -> None:
        """Delete what is about events before an event time.

        Files that were part of a table stay for `history` seconds after the commit that replaced
        them, and as long the change feed is readable.
        """
        predicate = f"ts < '{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}'"
        for storage in (self._revisions, self._rows):
            if not storage.has_table():
                continue
            with storage.translate_errors():
                table = storage.open_table()
                table.delete(predicate)
                table.vacuum(
                    retention_hours=ceil(history / 3_600),
                    enforce_retention_duration=False,
                    dry_run=False,
                )

    def _append_revisions(self, revisions: Sequence[ArchivedRevision]) -> None:
        last = _last_number(self._revisions)
        new = [revision for revision in revisions if revision.seq > last]
        if not new:
            return
        columns: dict[str, list[Any]] = {name: [] for name in _REVISIONS.names}
        for revision in new:
            values = {**vars(revision), "rule": self._rule}
            values |= {"row": _dump(revision.row), "old_row": _dump(revision.old_row)}
            for name, column in columns.items():
                column.append(values[name])
        table = _open_or_create(self._revisions, _REVISIONS, {})
        with self._revisions.translate_errors():
            write_deltalake(
                table,
                pa.table(columns, _REVISIONS),
                mode="append",
                commit_properties=_commit_properties(new[-1].seq),
            )
            if len(table.file_uris()) > _MAX_FILES:
                table.optimize.compact()

    def _merge_rows(self, revisions: Sequence[ArchivedRevision]) -> None:
        last = _last_number(self._rows)
        new = [revision for revision in revisions if revision.seq > last]
        if not new:
            return
        last_by_row: dict[tuple[str, str, str], ArchivedRevision] = {}
        for revision in new:
            if revision.op != "boundary":
                last_by_row[revision.eid, revision.version, revision.row_key] = revision
        columns: dict[str, list[Any]] = {name: [] for name in (*_ROWS.names, "op")}
        for revision in last_by_row.values():
            values = {**vars(revision), "row": _dump(revision.row)}
            for name, column in columns.items():
                column.append(values[name])
        schema = _ROWS.append(pa.field("op", pa.string()))
        table = _open_or_create(self._rows, _ROWS, _CHANGE_FEED)
        values_of_source = {name: f"s.{name}" for name in _ROWS.names}
        merge = table.merge(
            pa.table(columns, schema),
            _SAME_ROW,
            source_alias="s",
            target_alias="t",
            commit_properties=_commit_properties(new[-1].seq),
        )
        with self._rows.translate_errors():
            (
                merge.when_matched_delete("s.op = 'delete'")
                .when_matched_update(values_of_source, "s.op <> 'delete'")
                .when_not_matched_insert(values_of_source, "s.op <> 'delete'")
                .execute()
            )
            if len(table.file_uris()) > _MAX_FILES:
                table.optimize.compact()


def _open_or_create(
    storage: Storage, schema: pa.Schema, configuration: Mapping[str, str]
) -> DeltaTable:
    try:
        return storage.open_table()
    except TableNotFoundError:
        storage.create_log_folder()
    timestamp = int(time.time() * 1_000)
    metadata = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": Schema.from_arrow(schema).to_json(),
        "partitionColumns": [],
        "configuration": configuration,
        "createdTime": timestamp,
    }
    info = commit_info_action(CommitSummary("CREATE TABLE"), timestamp)
    content = encode_actions([info, {"protocol": _PROTOCOL}, {"metaData": metadata}])
    with storage.prepare_commit(content) as commit:
        commit(f"{LOG_FOLDER}/{0:020d}.json")  # fails if another process has created the table
    return storage.open_table()


def _last_number(storage: Storage) -> int:
    if not storage.has_table():
        return 0
    with storage.translate_errors():
        return storage.open_table().transaction_version(REVISIONS_APPLICATION_ID) or 0


def _commit_properties(number: int) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(REVISIONS_APPLICATION_ID, number)])


def _dump(row: Mapping[str, Any] | None) -> str | None:
    if row is None:
        return None
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS).decode()
