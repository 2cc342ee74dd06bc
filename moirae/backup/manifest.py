"""What a backup holds: written last, so that a backup without it is not complete."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from archiver.delta import RowIds, TableKind
from moirae.errors import BackupDamaged

FORMAT = 1


@dataclass(frozen=True)
class FileEntry:
    """A file: bytes and SHA-256 before encryption. Of a stream's data file, also the number of
    rows that the ledger counts, and the digest of their identities.
    """

    bytes: int
    sha256: str
    rows: int | None = None
    ids: str | None = None

    @property
    def row_ids(self) -> RowIds:
        """The identities of its rows; none for other files."""
        if self.rows is None or self.ids is None:
            return RowIds()
        return RowIds.parse(self.rows, self.ids)


@dataclass(frozen=True)
class TableEntry:
    """A table at a version. `number`: of the last append, archived row or revision.

    `files`: its data files by path.
    """

    kind: TableKind
    version: int
    number: int
    files: Mapping[str, FileEntry]

    @property
    def row_ids(self) -> RowIds:
        """The identities of all rows, of a stream's table."""
        return RowIds.sum(entry.row_ids for entry in self.files.values())


@dataclass(frozen=True)
class RecordTotals:
    """The records of a stream by outcome."""

    read: int
    archived: int
    duplicates: int
    dead_lettered: int


@dataclass(frozen=True)
class Manifest:
    """A complete backup.

    `migration`: of the database. `taken_at`: the time of the state. `previous`: the backup before,
    if there was one. `workspace_file`: its name in the folder of the workspace. `parts`: the files
    that belong to this backup alone. `new_bytes`: of all files that were copied for it.
    """

    format: int
    name: str
    workspace: UUID
    generation: int
    moirae: str
    migration: int
    started_at: datetime
    taken_at: datetime
    finished_at: datetime
    previous: str | None
    has_database: bool
    workspace_file: str
    tables: Mapping[str, TableEntry]
    parts: Mapping[str, FileEntry]
    accounting: Mapping[str, RecordTotals] = field(default_factory=dict)
    new_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Of all its files, before encryption."""
        return sum(entry.bytes for entry in self._entries())

    @property
    def file_count(self) -> int:
        """The number of its files."""
        return sum(1 for _ in self._entries())

    @property
    def rows(self) -> int:
        """Rows of all streams."""
        return sum(table.row_ids.count for table in self.tables.values())

    def data_files(self) -> Iterator[tuple[str, str, FileEntry]]:
        """Table, path and entry of each data file."""
        for name, table in self.tables.items():
            for path, entry in table.files.items():
                yield name, path, entry

    def _entries(self) -> Iterator[FileEntry]:
        yield from self.parts.values()
        for _, _, entry in self.data_files():
            yield entry

    def to_summary(self) -> dict[str, Any]:
        """The form of `moirae backup list -o json`."""
        appends: dict[str, int] = {}
        for name, table in self.tables.items():
            if table.kind == "stream":
                appends[name.rpartition("/")[2]] = table.number
        return {
            "name": self.name,
            "taken_at": self.taken_at,
            "finished_at": self.finished_at,
            "workspace": str(self.workspace),
            "generation": self.generation,
            "rows": self.rows,
            "files": self.file_count,
            "bytes": self.bytes,
            "new_bytes": self.new_bytes,
            "appends": appends,
        }


@dataclass(frozen=True)
class _Header:
    """What manifests of all formats have."""

    format: int


_HEADER = TypeAdapter(_Header)
_MANIFEST = TypeAdapter(Manifest)
_COPIED = TypeAdapter(Mapping[str, Mapping[str, FileEntry]])


def encode_manifest(manifest: Manifest) -> bytes:
    """The content of a manifest file."""
    return _MANIFEST.dump_json(manifest)


def decode_manifest(name: str, content: bytes) -> Manifest:
    """Reverse `encode_manifest`. Raises `BackupDamaged`."""
    try:
        number = _HEADER.validate_json(content).format
        if number <= FORMAT:
            return _MANIFEST.validate_json(content)
    except ValidationError as error:
        raise BackupDamaged(
            f"backup {name}: its manifest is damaged: {error.errors()[0]['msg']}"
        ) from error
    raise BackupDamaged(
        f"backup {name}: has format {number}, this version of Moirae knows {FORMAT}: update Moirae"
    )


def encode_copied(copied: Mapping[str, Mapping[str, FileEntry]]) -> bytes:
    """The content of a record of copied data files: entries by table and path."""
    return _COPIED.dump_json(copied)


def decode_copied(content: bytes) -> Mapping[str, Mapping[str, FileEntry]]:
    """Reverse `encode_copied`. Raises `ValueError`."""
    return _COPIED.validate_json(content)
