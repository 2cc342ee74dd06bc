"""The list of all tables of an archive: what a check, a backup or a restore of it walks over."""

from dataclasses import dataclass
from typing import Literal

from archiver.delta.declared_table import APPENDS_APPLICATION_ID
from archiver.delta.revision_table import REVISIONS_APPLICATION_ID
from archiver.delta.sequenced_table import CONTEXTS, EVENTS
from archiver.delta.summary_table import FOLDER as SUMMARIES
from archiver.delta.summary_table import list_summaries
from archiver.storage import Storage, StorageRoot, as_storage

TableKind = Literal["stream", "derived", "events", "contexts", "revisions", "rows", "summaries"]

# Under which application id the log of a table counts up to where it holds its source; derived
# streams are replaced chunk by chunk and count nothing, and nodes of summaries name their inputs.
_APPLICATION_IDS: dict[TableKind, str | None] = {
    "stream": APPENDS_APPLICATION_ID,
    "derived": None,
    "events": EVENTS.name,
    "contexts": CONTEXTS.name,
    "revisions": REVISIONS_APPLICATION_ID,
    "rows": REVISIONS_APPLICATION_ID,
    "summaries": None,
}


@dataclass(frozen=True)
class ArchiveTable:
    """A table. `name`: its folder below the root of the archive, with `/`."""

    name: str
    kind: TableKind
    storage: Storage

    @property
    def stream(self) -> str:
        """The last part of the name: of a stream or derived stream, its name."""
        return self.name.rpartition("/")[2]

    @property
    def application_id(self) -> str | None:
        """Under which the log counts appends, numbers of rows, or revisions; None: it does not."""
        return _APPLICATION_IDS[self.kind]


def list_tables(root: StorageRoot) -> list[ArchiveTable]:
    """All tables below the root of an archive, by kind and name.

    Raises `OSError` and `ArchiverError`.
    """
    storage = as_storage(root)
    folders = set(storage.list_folders())
    tables: list[ArchiveTable] = []

    def add(kind: TableKind, *path: str) -> None:
        folder = storage
        for part in path:
            folder = folder / part
        if folder.has_table():
            tables.append(ArchiveTable("/".join(path), kind, folder))

    if "streams" in folders:
        for name in (storage / "streams").list_folders():
            add("stream", "streams", name)
    if "derived" in folders:
        for version in (storage / "derived").list_folders():
            for name in (storage / "derived" / version / "streams").list_folders():
                add("derived", "derived", version, "streams", name)
    if EVENTS.name in folders:
        add("events", EVENTS.name)
    if CONTEXTS.name in folders:
        add("contexts", CONTEXTS.name)
    if "recalls" in folders:
        for name in (storage / "recalls" / "revisions").list_folders():
            add("revisions", "recalls", "revisions", name)
        for name in (storage / "recalls" / "rows").list_folders():
            add("rows", "recalls", "rows", name)
    if SUMMARIES in folders:
        for stream, key in list_summaries(root):
            add("summaries", SUMMARIES, stream, key)
    return tables
