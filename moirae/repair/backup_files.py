"""Files of tables in a folder of backups."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from tempfile import TemporaryFile
from typing import BinaryIO, cast

from archiver.clock import unix_now
from archiver.delta import ArchiveTable, begin_generation
from archiver.storage import Storage
from moirae.backup import FILES_PART, LOG_FOLDER, FileEntry, Manifest, Repository, read_tar
from sql.workspace import WorkspaceRow


class BackupFiles:
    """The files that any complete backup of a workspace has, the newest first."""

    def __init__(self, repository: Repository | None, identity: WorkspaceRow) -> None:
        """`identity`: of the workspace; logs of its other generations have other versions.

        Raises `Conflict` for backups of another workspace, and `NotFound` if there never were any.
        """
        self._repository = repository
        self._generation = identity.generation
        manifests: Sequence[Manifest] = []
        if repository is not None:
            manifests = repository.survey().complete
            repository.check_workspace(identity.id)
        self._manifests = list(reversed(manifests))
        self._logs: dict[str, Mapping[str, bytes]] = {}

    def find_data_file(
        self, table: ArchiveTable, path: str, digest: str | None, size: int
    ) -> FileEntry | None:
        """The entry of a data file that is what was written; None: no backup has it.

        A name is used once. Without a digest, the size must be that of the log.
        """
        for manifest in self._manifests:
            entry = (
                manifest.tables[table.name].files.get(path) if self._has(manifest, table) else None
            )
            if entry is None:
                continue
            if entry.bytes == size and digest in (None, entry.sha256):
                return entry
        return None

    def restore_data_file(self, table: ArchiveTable, path: str, entry: FileEntry) -> None:
        """Copy a data file into its table. Raises `BackupDamaged`."""
        assert self._repository is not None
        with table.storage.write_stream(path) as target:
            copied = self._repository.read_data_file(table.name, path, target)
            self._repository.check(f"files/{table.name}/{path}", entry, copied)

    def find_table(self, name: str) -> Manifest | None:
        """The newest backup, of any generation, in which a table has files; None: none has."""
        for manifest in self._manifests:
            if name in manifest.tables and manifest.tables[name].files:
                return manifest
        return None

    def restore_table(self, table: ArchiveTable, copy: Storage, manifest: Manifest) -> None:
        """Copy a whole table into another folder, and then to its place, as a table of the
        generation of the workspace. Until it is complete there, the folder exists.
        """
        copy.remove_all()
        copied_table = replace(table, storage=copy)
        for path, entry in manifest.tables[table.name].files.items():
            self.restore_data_file(copied_table, path, entry)
        for name, content in sorted(self._read_logs(manifest).items()):
            if name.startswith(f"{table.name}/"):
                with copy.write_stream(name.removeprefix(f"{table.name}/")) as target:
                    target.write(content)
        begin_generation(copy, self._generation, int(unix_now() * 1000))
        copy.replace(table.storage)

    def find_log_file(self, table: ArchiveTable, name: str) -> bytes | None:
        """The content of a file of the log of a table; None: no backup has it."""
        for manifest in self._manifests:
            if self._has(manifest, table) and manifest.generation == self._generation:
                content = self._read_logs(manifest).get(f"{table.name}/{name}")
                if content is not None:
                    return content
        return None

    def _has(self, manifest: Manifest, table: ArchiveTable) -> bool:
        return table.name in manifest.tables

    def _read_logs(self, manifest: Manifest) -> Mapping[str, bytes]:
        """The logs of a backup by table and path."""
        assert self._repository is not None
        if manifest.name not in self._logs:
            with TemporaryFile() as file:
                target = cast(BinaryIO, file)
                copied = self._repository.read_part(manifest.name, FILES_PART, target)
                path = f"backups/{manifest.name}/{FILES_PART}"
                self._repository.check(path, manifest.parts[FILES_PART], copied)
                self._logs[manifest.name] = {
                    name: cast(io.BufferedReader, content).read()
                    for name, _, content in read_tar(target, LOG_FOLDER)
                }
        return self._logs[manifest.name]
