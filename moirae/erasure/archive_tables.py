"""Tables of the archive that follow from streams: events, contexts, revisions, derived streams and
summaries.
"""

from collections.abc import Callable, Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

import sql
from archiver.delta import RevisionTables, list_tables
from archiver.delta.sequenced_table import CONTEXTS, EVENTS, SequencedTable
from archiver.delta.summary_table import delete_summary
from archiver.storage import StorageRoot, as_storage
from moirae.erasure.values import ErasedValues
from sql.archive import DerivedChunkGateway

# Columns with JSON or text that rows of these tables may hold of rows of streams.
_DOCUMENT_COLUMNS = frozenset(
    {"key", "attributes", "contexts", "surroundings", "row", "old_row", "row_key"}
)
_IDENTIFYING_COLUMNS = ("key", "attributes")


def read_archived_events(root: StorageRoot) -> Iterator[pa.Table]:
    """The rows of the table of events, file by file."""
    if SequencedTable.exists(root, EVENTS):
        table = SequencedTable(root, EVENTS)
        table.last_number()
        yield from map(table.read_file, table.data_files())


def find_archived_events(root: StorageRoot, values: ErasedValues) -> set[str]:
    """The archived events with an erased value in their key or attributes."""
    events: set[str] = set()
    for rows in read_archived_events(root):
        for column in _IDENTIFYING_COLUMNS:
            for eid, text in zip(rows["eid"].to_pylist(), rows[column].to_pylist(), strict=True):
                if text is not None and values.search(text):
                    events.add(eid)
    return events


def erase_from_tables(
    root: StorageRoot, connection: sql.Connection, events: Collection[str], values: ErasedValues
) -> dict[str, int]:
    """Remove events and values from tables of events, contexts and revisions, and have derived
    streams and summaries computed again. Returns the number of changed rows by table; 1 for a table
    that is computed again.
    """
    change = _make_change(events, values)
    counts: dict[str, int] = {}
    for spec in (EVENTS, CONTEXTS):
        if SequencedTable.exists(root, spec):
            counts[spec.name] = SequencedTable(root, spec).rewrite(change)
    for table in list_tables(root):
        if table.kind == "revisions":
            counts[table.name] = RevisionTables(root, table.stream, "").rewrite(change)
        elif table.kind == "derived":
            _, version, _, stream = table.name.split("/")
            DerivedChunkGateway(connection).delete_version(stream, version)
            table.storage.remove_all()
            counts[table.name] = 1
        elif table.kind == "summaries":
            _, stream, key = table.name.split("/")
            delete_summary(root, stream, key)
            counts[table.name] = 1
    return {name: count for name, count in counts.items() if count}


def purge_tables(root: StorageRoot) -> None:
    """Remove superseded files and commits of the tables of events, contexts and revisions."""
    for spec in (EVENTS, CONTEXTS):
        if SequencedTable.exists(root, spec):
            SequencedTable(root, spec).purge()
    for table in list_tables(root):
        if table.kind == "revisions":
            RevisionTables(root, table.stream, "").purge()


def remove_local_copies(root: StorageRoot) -> None:
    """Remove what processes keep of the archive on local disks: indexes, which are built again."""
    indexes = as_storage(root).work_folder / "indexes"
    if indexes.is_dir():
        for path in sorted(indexes.rglob("*"), reverse=True):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)


def _make_change(events: Collection[str], values: ErasedValues) -> Callable[[pa.Table], pa.Table]:
    erased = pa.array(sorted(events), pa.string())

    def change(rows: pa.Table) -> pa.Table:
        rows = rows.filter(pc.invert(pc.is_in(rows["eid"], value_set=erased)))
        for name in rows.column_names:
            if name in _DOCUMENT_COLUMNS:
                column = _mask_column(rows[name], values)
                rows = rows.set_column(rows.column_names.index(name), rows.field(name), column)
        return rows

    return change


def _mask_column(column: pa.ChunkedArray, values: ErasedValues) -> pa.ChunkedArray:
    masked = {text: values.mask_json(text) for text in pc.unique(column).drop_null().to_pylist()}
    if all(text == replaced for text, replaced in masked.items()):
        return column
    texts = [None if text is None else masked[text] for text in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, column.type)])
