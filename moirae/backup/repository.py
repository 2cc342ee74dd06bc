"""A folder of backups, local or in object storage.

moirae-backup.json             whose backups these are
files/<table>/<path>           data files, each once, shared by all backups
backups/<name>/files.tar       logs of the tables, accepted batches, files of the workspace
backups/<name>/database.dump   PostgreSQL's custom format
backups/<name>/copied-<n>.json data files copied so far; only until the backup is complete
backups/<name>/manifest.json   written last
backups/<name>/verified.json   once the backup was verified
"""

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BufferedIOBase
from typing import Any, BinaryIO, cast
from uuid import UUID

import orjson

from archiver.storage import Storage
from moirae.backup.encryption import Cipher
from moirae.backup.manifest import (
    FORMAT,
    FileEntry,
    Manifest,
    decode_copied,
    decode_manifest,
    encode_copied,
    encode_manifest,
)
from moirae.errors import BackupDamaged, Conflict, NotFound

_IDENTITY_FILE = "moirae-backup.json"
_MANIFEST_FILE = "manifest.json"
_VERIFIED_FILE = "verified.json"


@dataclass(frozen=True)
class Ownership:
    """Whose backups are in a folder. `generation`: the newest that is known here."""

    workspace: UUID
    generation: int


class _HashedFile(io.RawIOBase):
    """Hashes and counts what is read from a file, or written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = sha256()
        self._bytes = 0

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self._count(content)
        return content

    def readinto(self, buffer: Any) -> int:
        count = cast(BufferedIOBase, self._file).readinto(buffer)
        self._count(memoryview(buffer)[:count])
        return count

    def write(self, content: Any) -> int:
        self._count(content)
        self._file.write(content)
        return len(content)

    def _count(self, content: Any) -> None:
        self._hash.update(content)
        self._bytes += len(content)

    @property
    def entry(self) -> FileEntry:
        return FileEntry(self._bytes, self._hash.hexdigest())


class Repository:
    """The backups in a folder. Raises `OSError`, `ArchiverError` and `MoiraeError`."""

    def __init__(self, storage: Storage, cipher: Cipher) -> None:
        self._storage = storage
        self._cipher = cipher

    def __str__(self) -> str:
        return str(self._storage)

    def read_ownership(self) -> Ownership | None:
        """Whose backups these are; None for an empty folder. Raises `Conflict` for another key."""
        try:
            content = self._storage.read_log_file(_IDENTITY_FILE)
        except FileNotFoundError:
            return None
        try:
            document = orjson.loads(content)
            if document["format"] > FORMAT:
                raise Conflict(
                    f"{self}: backups of format {document['format']}, this version of Moirae "
                    f"knows {FORMAT}: update Moirae"
                )
            ownership = Ownership(UUID(document["workspace"]), int(document["generation"]))
            self._check_key(document["recipient"])
        except (KeyError, TypeError, ValueError) as error:
            raise BackupDamaged(f"{self}/{_IDENTITY_FILE}: damaged: {error}") from error
        return ownership

    def _check_key(self, recipient: str | None) -> None:
        if recipient == self._cipher.recipient:
            return
        if recipient is None:
            raise Conflict(
                f"{self}: its backups are not encrypted: omit the key, or use a new folder"
            )
        if self._cipher.recipient is None:
            raise Conflict(
                f"{self}: its backups are encrypted for {recipient}: give the key with --key-file"
            )
        raise Conflict(f"{self}: its backups are encrypted for another key, {recipient}")

    def claim(self, ownership: Ownership) -> None:
        """Record whose backups these are. Raises `Conflict` if they are another workspace's.

        Also if a later generation of the workspace, restored from one of them, is known here.
        """
        recorded = self.read_ownership()
        if recorded is not None and recorded.workspace != ownership.workspace:
            raise Conflict(
                f"{self}: holds backups of another workspace ({recorded.workspace}): use a folder of "
                "its own for each workspace"
            )
        if recorded is not None and recorded.generation > ownership.generation:
            raise Conflict(
                f"{self}: this workspace is of generation {ownership.generation}, and was restored "
                f"elsewhere since (generation {recorded.generation}): stop it, or use another folder"
            )
        if recorded != ownership:
            document = {
                "format": FORMAT,
                "workspace": str(ownership.workspace),
                "generation": ownership.generation,
                "recipient": self._cipher.recipient,
            }
            with self._storage.write_stream(_IDENTITY_FILE) as file:
                file.write(orjson.dumps(document, option=orjson.OPT_INDENT_2))

    def find_newest(self) -> Manifest | None:
        """The complete backup that was begun last; None: there is none. Raises as `get`."""
        self.read_ownership()
        for name in reversed((self._storage / "backups").list_folders()):
            manifest = self._read_manifest(name)
            if manifest is not None:
                return manifest
        return None

    def list_complete(self) -> list[Manifest]:
        """The complete backups, oldest first. Raises `BackupDamaged`, `Conflict` for another key."""
        self.read_ownership()
        manifests: list[Manifest] = []
        for name in (self._storage / "backups").list_folders():
            manifest = self._read_manifest(name)
            if manifest is not None:
                manifests.append(manifest)
        return sorted(manifests, key=lambda manifest: (manifest.taken_at, manifest.name))

    def get(self, name: str | None) -> Manifest:
        """A complete backup; None: the newest one. Raises `NotFound`, `Conflict` for another key."""
        self.read_ownership()
        if name is not None:
            manifest = self._read_manifest(name)
            if manifest is None:
                raise NotFound(f"{self}: no complete backup {name!r}: see `moirae backup list`")
            return manifest
        manifests = self.list_complete()
        if not manifests:
            raise NotFound(f"{self}: holds no complete backup")
        return manifests[-1]

    def _read_manifest(self, name: str) -> Manifest | None:
        content = io.BytesIO()
        try:
            self._copy_out(_manifest_path(name), content)
        except FileNotFoundError:
            return None
        return decode_manifest(name, content.getvalue())

    def list_incomplete(self) -> list[str]:
        """The names of backups that were begun and not completed."""
        names = (self._storage / "backups").list_folders()
        return [name for name in names if not self._storage.exists(_manifest_path(name))]

    def read_copied(self, name: str) -> Mapping[tuple[str, str], FileEntry]:
        """Entries of the data files that a backup that is not complete has copied."""
        copied: dict[tuple[str, str], FileEntry] = {}
        for file_name in self._storage_of(name).list_sizes():
            if file_name.startswith("copied-"):
                content = io.BytesIO()
                self._copy_out(f"backups/{name}/{file_name}", content)
                for table, entries in decode_copied(content.getvalue()).items():
                    copied.update(((table, path), entry) for path, entry in entries.items())
        return copied

    def write_copied(
        self, name: str, number: int, copied: Mapping[str, Mapping[str, FileEntry]]
    ) -> None:
        """Record the data files that a backup has copied so far."""
        self._copy_in(f"backups/{name}/copied-{number:06d}.json", encode_copied(copied))

    def list_data_files(self) -> set[str]:
        """`<table>/<path>` of the data files that exist."""
        return set((self._storage / "files").list_sizes())

    def write_data_file(self, table: str, path: str, source: BinaryIO) -> FileEntry:
        """Copy a data file into the folder; return its entry without rows."""
        return self._write(f"files/{table}/{path}", source)

    def read_data_file(self, table: str, path: str, target: BinaryIO) -> FileEntry:
        """Copy a data file out of the folder; return the entry of what was copied."""
        return self._read(f"files/{table}/{path}", target)

    def write_part(self, name: str, part: str, source: BinaryIO) -> FileEntry:
        """Copy a file that belongs to one backup into the folder."""
        return self._write(f"backups/{name}/{part}", source)

    def read_part(self, name: str, part: str, target: BinaryIO) -> FileEntry:
        """Copy a file that belongs to one backup out of the folder."""
        return self._read(f"backups/{name}/{part}", target)

    def write_manifest(self, manifest: Manifest) -> None:
        """Complete a backup."""
        self._copy_in(_manifest_path(manifest.name), encode_manifest(manifest))
        for file_name in self._storage_of(manifest.name).list_sizes():
            if file_name.startswith("copied-"):
                self._storage.remove(f"backups/{manifest.name}/{file_name}")

    def mark_verified(self, name: str) -> None:
        """Record that a backup was restored beside and is what was backed up."""
        self._copy_in(f"backups/{name}/{_VERIFIED_FILE}", b"{}")

    def is_verified(self, name: str) -> bool:
        """Whether a backup was verified."""
        return self._storage.exists(f"backups/{name}/{_VERIFIED_FILE}")

    def remove_backups(self, names: Collection[str]) -> None:
        """Remove what belongs to some backups alone, their manifests first."""
        for name in names:
            self._storage.remove(_manifest_path(name))
            self._storage_of(name).remove_all()

    def remove_unused_files(self, manifests: Sequence[Manifest]) -> int:
        """Remove data files that none of the complete backups has; return their number."""
        used: set[str] = set()
        for manifest in manifests:
            used.update(f"{table}/{path}" for table, path, _ in manifest.data_files())
        unused = self.list_data_files() - used
        for name in unused:
            self._storage.remove(f"files/{name}")
        return len(unused)

    def _storage_of(self, name: str) -> Storage:
        return self._storage / "backups" / name

    def _copy_in(self, path: str, content: bytes) -> None:
        self._write(path, io.BytesIO(content))

    def _copy_out(self, path: str, target: BinaryIO) -> None:
        with self._storage.open_stream(path) as source:
            try:
                self._cipher.decrypt(source, target)
            except BackupDamaged as error:
                raise BackupDamaged(f"{self}/{path}: {error}") from error

    def _write(self, path: str, source: BinaryIO) -> FileEntry:
        hashed = _HashedFile(source)
        with self._storage.write_stream(path) as target:
            self._cipher.encrypt(cast(BinaryIO, hashed), target)
        return hashed.entry

    def _read(self, path: str, target: BinaryIO) -> FileEntry:
        hashed = _HashedFile(target)
        try:
            self._copy_out(path, cast(BinaryIO, hashed))
        except FileNotFoundError as error:
            raise BackupDamaged(f"{self}/{path}: is missing") from error
        return hashed.entry

    def check(self, path: str, expected: FileEntry, copied: FileEntry) -> None:
        """Raise `BackupDamaged` unless a file was copied as its manifest says."""
        if (expected.bytes, expected.sha256) != (copied.bytes, copied.sha256):
            raise BackupDamaged(
                f"{self}/{path}: is not the file that was backed up ({copied.bytes:,} bytes, "
                f"{expected.bytes:,} expected; SHA-256 differs): restore another backup"
            )


def _manifest_path(name: str) -> str:
    return f"backups/{name}/{_MANIFEST_FILE}"
