"""A folder of backups, local or in object storage.

moirae-backup.json             whose backups these are
files/<table>/<path>           data files, each once, shared by all backups
backups/<name>/files.tar       logs of the tables, accepted batches, files of the workspace
backups/<name>/database.dump   PostgreSQL's custom format
backups/<name>/copied-<n>.json data files copied so far; only until the backup is complete
backups/<name>/manifest.json   written last
backups/<name>/verified.json   once the backup was verified
erasures.json                  keyed hashes of the rows that were erased from the workspace
"""

import io
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

import orjson
import structlog

from archiver.storage import LocalStorage, Storage
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

_LOG = structlog.get_logger()

_IDENTITY_FILE = "moirae-backup.json"
_MANIFEST_FILE = "manifest.json"
_VERIFIED_FILE = "verified.json"
_ERASURES_FILE = "erasures.json"


# Names are the times at which backups were begun.
_NAME = re.compile(r"\d{8}T\d{9}Z")
_NAME_FORMAT = "%Y%m%dT%H%M%S%fZ"


@dataclass(frozen=True)
class Ownership:
    """Whose backups are in a folder. `generation`: the newest that is known here."""

    workspace: UUID
    generation: int


@dataclass(frozen=True)
class Survey:
    """Backups in a folder. `complete`: oldest first; `damaged`: what is wrong with those whose
    manifests cannot be used, by name.
    """

    complete: Sequence[Manifest]
    damaged: Mapping[str, str]

    def describe_damage(self) -> str:
        """What is wrong."""
        return "; ".join(self.damaged.values())

    def list_expired(self, keep: int) -> list[str]:
        """The names of the backups that are older than the newest `keep` complete ones."""
        if len(self.complete) <= keep:
            return []
        oldest = self.complete[-keep].name
        names = [*(manifest.name for manifest in self.complete), *self.damaged]
        return sorted(name for name in names if name < oldest)


class Repository:
    """The backups in a folder. Raises `OSError`, `ArchiverError` and `MoiraeError`."""

    def __init__(self, storage: Storage, cipher: Cipher) -> None:
        self._storage = storage
        self._cipher = cipher

    def __str__(self) -> str:
        return str(self._storage)

    def is_within(self, location: str) -> bool:
        """Whether the folder is another one, a path or a URL, or in it."""
        if isinstance(self._storage, LocalStorage) and "://" not in location:
            folder = Path(location).resolve()
            return self._storage.data_folder.resolve().is_relative_to(folder)
        return f"{self._storage}/".startswith(f"{location}/")

    def is_gone(self) -> bool:
        """Whether a local folder has nothing of what a backup leaves, as without its disk."""
        is_local = isinstance(self._storage, LocalStorage)
        return is_local and not any(map(self._storage.exists, (_IDENTITY_FILE, "backups")))

    def read_ownership(self) -> Ownership | None:
        """Whose backups these are; None for an empty folder. Raises `Conflict` for another key."""
        try:
            content = self._storage.read_log_file(_IDENTITY_FILE)
        except FileNotFoundError:
            return self._infer_ownership()
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
            raise BackupDamaged(
                f"{self}/{_IDENTITY_FILE}: damaged: {error}: remove it, then it is made again from "
                "the backups"
            ) from error
        return ownership

    def _infer_ownership(self) -> Ownership | None:
        """Whose backups these are if the file that says so was lost."""
        survey = self._survey()
        if survey.damaged:
            # Also if they are encrypted for another key.
            raise BackupDamaged(
                f"{self}/{_IDENTITY_FILE}: is missing, and {survey.describe_damage()}"
            )
        if not survey.complete:
            return None
        workspace = survey.complete[-1].workspace
        return Ownership(workspace, max(manifest.generation for manifest in survey.complete))

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
        self.check_workspace(ownership.workspace)
        recorded = self.read_ownership()
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

    def survey(self) -> "Survey":
        """The backups that are complete. Raises `Conflict` for another key, and `NotFound` if none
        was ever begun here.
        """
        if self.read_ownership() is None:
            raise NotFound(f"{self}: is no folder of backups: is the name right, its disk mounted?")
        return self._survey()

    def check_workspace(self, workspace: UUID) -> None:
        """Raise `Conflict` if these are the backups of another workspace."""
        ownership = self.read_ownership()
        if ownership is not None and ownership.workspace != workspace:
            raise Conflict(
                f"{self}: holds backups of another workspace ({ownership.workspace}): use a folder "
                "of its own for each workspace"
            )

    def _survey(self) -> "Survey":
        complete: list[Manifest] = []
        damaged: dict[str, str] = {}
        for name in self._list_names():
            try:
                complete.append(self._read_manifest(name))
            except FileNotFoundError:
                continue
            except BackupDamaged as error:
                damaged[name] = str(error)
        return Survey(complete, damaged)

    def _list_names(self) -> list[str]:
        """Names of backups, complete or not, oldest first."""
        return (self._storage / "backups").list_folders()

    def choose_name(self, now: datetime) -> str:
        """The name of a new backup: after those of all others, also if a clock was set back."""
        names = [name for name in self._list_names() if _NAME.fullmatch(name)]
        if names:
            newest = datetime.strptime(max(names), _NAME_FORMAT).replace(tzinfo=UTC)
            now = max(now, newest + timedelta(milliseconds=1))
        return f"{now:%Y%m%dT%H%M%S%f}"[:-3] + "Z"

    def get(self, name: str | None) -> Manifest:
        """A complete backup; None: the newest one. Raises `NotFound`, `Conflict` for another key,
        and `BackupDamaged`, also if one that is damaged is newer than all others.
        """
        self.read_ownership()
        if name is None:
            return self._get_newest()
        try:
            return self._read_manifest(name)
        except FileNotFoundError:
            raise NotFound(
                f"{self}: no complete backup {name!r}: see `moirae backup list`"
            ) from None

    def _get_newest(self) -> Manifest:
        damaged: str | None = None
        for name in reversed(self._list_names()):
            try:
                manifest = self._read_manifest(name)
            except FileNotFoundError:
                continue
            except BackupDamaged as error:
                damaged = damaged or str(error)
                continue
            if damaged is not None:
                raise BackupDamaged(f"{damaged}; the newest other one: --backup {name}")
            return manifest
        if damaged is not None:
            raise BackupDamaged(damaged)
        raise NotFound(f"{self}: holds no complete backup")

    def find_newest(self) -> Manifest | None:
        """The complete backup that was begun last, whatever is damaged; None: there is none."""
        self.read_ownership()
        for name in reversed(self._list_names()):
            try:
                return self._read_manifest(name)
            except FileNotFoundError:
                continue
            except BackupDamaged as error:
                _LOG.warning("a backup is damaged", action="backup_damaged", error=str(error))
        return None

    def _read_manifest(self, name: str) -> Manifest:
        """Raises `FileNotFoundError`, `BackupDamaged`."""
        content = io.BytesIO()
        self._copy_out(_manifest_path(name), content)
        manifest = decode_manifest(name, content.getvalue())
        if manifest.name != name:
            raise BackupDamaged(f"backup {name}: its manifest is that of backup {manifest.name}")
        return manifest

    def remove_unfinished(self) -> None:
        """Remove what a killed backup has left of files that it wrote. No other one may run."""
        for folder in ("files", "backups"):
            (self._storage / folder).remove_unfinished()

    def list_incomplete(self) -> list[str]:
        """The names of backups that were begun and not completed."""
        return [
            name for name in self._list_names() if not self._storage.exists(_manifest_path(name))
        ]

    def read_copied(self, name: str) -> Mapping[tuple[str, str], FileEntry]:
        """Entries of the data files that a backup that is not complete has copied."""
        copied: dict[tuple[str, str], FileEntry] = {}
        for file_name in self._storage_of(name).list_sizes():
            if file_name.startswith("copied-"):
                content = io.BytesIO()
                try:
                    self._copy_out(f"backups/{name}/{file_name}", content)
                    record = decode_copied(content.getvalue())
                except (BackupDamaged, ValueError):
                    continue  # its files are copied again
                for table, entries in record.items():
                    copied.update(((table, path), entry) for path, entry in entries.items())
        return copied

    def write_copied(
        self, name: str, number: int, copied: Mapping[str, Mapping[str, FileEntry]]
    ) -> None:
        """Record the data files that a backup has copied so far."""
        self.sync_data_files(copied)
        self._copy_in(f"backups/{name}/copied-{number:06d}.json", encode_copied(copied))

    def list_data_files(self) -> Mapping[str, int]:
        """`<table>/<path>` of the data files that exist, with their bytes as they are stored."""
        return (self._storage / "files").list_sizes()

    def may_hold(self, stored: int | None, entry: FileEntry) -> bool:
        """Whether a file of these bytes, None if there is none, may be the one of an entry: it was
        not truncated.
        """
        return stored is not None and self._cipher.may_hold(stored, entry.bytes)

    def write_data_file(self, table: str, path: str, source: BinaryIO) -> FileEntry:
        """Copy a data file into the folder; return its entry without rows.

        Its name is durable after `sync_data_files` only.
        """
        return self._write(f"files/{table}/{path}", source, sync_folder=False)

    def sync_data_files(self, copied: Mapping[str, Iterable[str]]) -> None:
        """Make the names of data files durable, by table."""
        names = [f"files/{table}/{path}" for table, paths in copied.items() for path in paths]
        self._storage.sync_folders(names)

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

    def write_erasures(self, content: bytes) -> None:
        """Store the list of what was erased from the workspace, which a restore applies."""
        self._copy_in(_ERASURES_FILE, content)

    def read_erasures(self) -> bytes | None:
        """The list of what was erased from the workspace; None: nothing is known to be."""
        if not self._storage.exists(_ERASURES_FILE):
            return None
        content = io.BytesIO()
        self._copy_out(_ERASURES_FILE, content)
        return content.getvalue()

    def mark_verified(self, name: str, is_good: bool) -> None:
        """Record whether a backup, restored beside, is what was backed up."""
        path = f"backups/{name}/{_VERIFIED_FILE}"
        if is_good:
            self._copy_in(path, b"{}")
        else:
            self._storage.remove(path)

    def is_verified(self, name: str) -> bool:
        """Whether a backup was verified."""
        return self._storage.exists(f"backups/{name}/{_VERIFIED_FILE}")

    def remove_backups(self, names: Collection[str]) -> None:
        """Remove what belongs to some backups alone, their manifests first."""
        for name in names:
            self._storage.remove(_manifest_path(name))
            self._storage_of(name).remove_all()

    def remove_unused_files(self, check_stop: Callable[[], None] = lambda: None) -> int:
        """Remove data files that no backup has; return their number. None are removed while a
        backup is damaged: which ones it has is not known. `check_stop` may end it by an error.
        """
        survey = self.survey()
        if survey.damaged:
            return 0
        used: set[str] = set()
        for manifest in survey.complete:
            used.update(f"{table}/{path}" for table, path, _ in manifest.data_files())
        unused = self.list_data_files().keys() - used
        for name in unused:
            check_stop()
            self._storage.remove(f"files/{name}")
        return len(unused)

    def _storage_of(self, name: str) -> Storage:
        return self._storage / "backups" / name

    def _copy_in(self, path: str, content: bytes) -> None:
        self._write(path, io.BytesIO(content))

    def _copy_out(self, path: str, target: BinaryIO) -> FileEntry:
        with self._storage.open_stream(path) as source:
            try:
                return self._cipher.decrypt(source, target)
            except BackupDamaged as error:
                raise BackupDamaged(f"{self}/{path}: {error}") from error

    def _write(self, path: str, source: BinaryIO, *, sync_folder: bool = True) -> FileEntry:
        with self._storage.write_stream(path, sync_folder=sync_folder) as target:
            return self._cipher.encrypt(source, target)

    def _read(self, path: str, target: BinaryIO) -> FileEntry:
        try:
            return self._copy_out(path, target)
        except FileNotFoundError as error:
            raise BackupDamaged(f"{self}/{path}: is missing") from error

    def check(self, path: str, expected: FileEntry, copied: FileEntry) -> None:
        """Raise `BackupDamaged` unless a file was copied as its manifest says."""
        if (expected.bytes, expected.sha256) != (copied.bytes, copied.sha256):
            raise BackupDamaged(
                f"{self}/{path}: is not the file that was backed up ({copied.bytes:,} bytes, "
                f"{expected.bytes:,} expected; SHA-256 differs): restore another backup; once the "
                "file is removed, the next backup copies it again if the archive still has it"
            )


def _manifest_path(name: str) -> str:
    return f"backups/{name}/{_MANIFEST_FILE}"
