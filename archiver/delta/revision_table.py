"""A revision stream as two Delta tables: all revisions, and the rows after the last one.

The second has a change feed (`readChangeFeed` of Spark). A commit of either records up to which
number it contains the stream, so that a revision is applied once, whatever process repeats it. Rows
are JSON.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta.unpartitioned import TableFile, UnpartitionedTable
from archiver.storage import Storage, StorageRoot, as_storage

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
_ROW_KEY = ["eid", "version", "row_key"]
# Small files of a table above which they are merged.
_MAX_FILES = 64
_SMALL_FILE_BYTES = 16 << 20


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
        for storage, open_table in self._list_tables():
            if not storage.has_table():
                continue
            table = open_table()
            _delete_before(table, time, has_changes=storage is self._rows)
            table.vacuum(history)

    def _open_revisions(self) -> UnpartitionedTable:
        return UnpartitionedTable(self._revisions, _REVISIONS, REVISIONS_APPLICATION_ID)

    def _open_rows(self) -> UnpartitionedTable:
        return UnpartitionedTable(self._rows, _ROWS, REVISIONS_APPLICATION_ID, has_changes=True)

    def rewrite(self, change: Callable[[pa.Table], pa.Table]) -> int:
        """Replace the rows of both tables; return how many rows are others or gone.

        `change`: returns what remains of rows, with the same columns. The change feed does not have
        it. Earlier versions stay until `purge`.
        """
        changed = 0
        for storage, open_table in self._list_tables():
            if storage.has_table():
                table = open_table()
                for file in table.files():
                    rows = table.read(file.path)
                    remaining = change(rows)
                    if not remaining.equals(rows):
                        table.commit("DELETE", [remaining], remove=[file])
                        changed += len(rows)
        return changed

    def purge(self) -> None:
        """Remove superseded files, commits and the change feed, whatever their age."""
        for storage, open_table in self._list_tables():
            if storage.has_table():
                open_table().purge()

    def _list_tables(self) -> list[tuple[Storage, Callable[[], UnpartitionedTable]]]:
        return [(self._revisions, self._open_revisions), (self._rows, self._open_rows)]

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
        table = self._open_revisions()
        table.commit("WRITE", [pa.table(columns, _REVISIONS)], number=new[-1].seq)
        _merge_small_files(table)

    def _merge_rows(self, revisions: Sequence[ArchivedRevision]) -> None:
        last = _last_number(self._rows)
        new = [revision for revision in revisions if revision.seq > last]
        if not new:
            return
        last_by_row: dict[tuple[str, str, str], ArchivedRevision] = {}
        for revision in new:
            if revision.op != "boundary":
                last_by_row[revision.eid, revision.version, revision.row_key] = revision
        present: dict[str, list[Any]] = {name: [] for name in _ROWS.names}
        for revision in last_by_row.values():
            if revision.op != "delete":
                values = {**vars(revision), "row": _dump(revision.row)}
                for name, column in present.items():
                    column.append(values[name])
        keys = [dict(zip(_ROW_KEY, key, strict=True)) for key in last_by_row]
        key_fields = pa.schema([(name, pa.string()) for name in _ROW_KEY])
        table = self._open_rows()
        _replace_rows(
            table, pa.Table.from_pylist(keys, key_fields), pa.table(present, _ROWS), new[-1].seq
        )
        _merge_small_files(table)


def _replace_rows(table: UnpartitionedTable, keys: pa.Table, rows: pa.Table, number: int) -> None:
    """Commit rows in place of those with `keys`, among which theirs are."""
    replaced_files: list[TableFile] = []
    kept_rows: list[pa.Table] = []
    replaced_rows = [_ROWS.empty_table()]
    for file in table.files():
        file_rows = table.read(file.path)
        replaced = file_rows.join(keys, _ROW_KEY, join_type="left semi")
        if len(replaced):
            replaced_files.append(file)
            replaced_rows.append(replaced)
            kept_rows.append(file_rows.join(keys, _ROW_KEY, join_type="left anti"))
    before = pa.concat_tables(replaced_rows)
    changes = {
        "delete": before.join(rows.select(_ROW_KEY), _ROW_KEY, join_type="left anti"),
        "update_preimage": before.join(rows.select(_ROW_KEY), _ROW_KEY, join_type="left semi"),
        "update_postimage": rows.join(before.select(_ROW_KEY), _ROW_KEY, join_type="left semi"),
        "insert": rows.join(before.select(_ROW_KEY), _ROW_KEY, join_type="left anti"),
    }
    table.commit(
        "MERGE",
        [*kept_rows, rows],
        remove=replaced_files,
        changes=_describe_changes(changes),
        number=number,
    )


def _describe_changes(changes: Mapping[str, pa.Table]) -> pa.Table:
    """Rows by kind of change, as a change feed has them."""
    parts = []
    for kind, rows in changes.items():
        kinds = pa.array([kind] * len(rows), pa.string())
        parts.append(rows.append_column("_change_type", kinds))
    return pa.concat_tables(parts)


def _merge_small_files(table: UnpartitionedTable) -> None:
    small = [file for file in table.files() if file.bytes < _SMALL_FILE_BYTES]
    if len(small) > _MAX_FILES:
        rows = pa.concat_tables([table.read(file.path) for file in small])
        table.commit("OPTIMIZE", [rows], remove=small, data_change=False)


def _delete_before(table: UnpartitionedTable, time: datetime, has_changes: bool) -> None:
    files: list[TableFile] = []
    kept_rows: list[pa.Table] = []
    deleted_rows: list[pa.Table] = []
    for file in table.files():
        if file.oldest is not None and file.oldest >= time:
            continue
        rows = table.read(file.path)
        is_expired = pc.less(rows["ts"], pa.scalar(time, _TIMESTAMP))
        deleted = rows.filter(is_expired)
        if len(deleted):
            files.append(file)
            deleted_rows.append(deleted)
            kept_rows.append(rows.filter(pc.invert(is_expired)))
    if not files:
        return
    changes = None
    if has_changes:
        changes = _describe_changes({"delete": pa.concat_tables(deleted_rows)})
    table.commit("DELETE", kept_rows, remove=files, changes=changes)


def _last_number(storage: Storage) -> int:
    if not storage.has_table():
        return 0
    with storage.translate_errors():
        return storage.open_table().transaction_version(REVISIONS_APPLICATION_ID) or 0


def _dump(row: Mapping[str, Any] | None) -> str | None:
    if row is None:
        return None
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS).decode()
