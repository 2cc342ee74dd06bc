"""Verifies a backup: restores it beside, and compares the result with what was backed up."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from archiver.delta import (
    RowIds,
    TableFiles,
    list_tables,
    read_newest_version,
    read_recorded_schema,
    read_version,
)
from archiver.storage import StorageRoot
from moirae.backup.manifest import Manifest
from moirae.backup.repository import Repository
from moirae.backup.restoration import Report, Restoration
from moirae.config import Settings, load_settings_from_environment
from moirae.runtime import connect_database, release_database
from moirae.runtime.storage import open_storage

if TYPE_CHECKING:
    from moirae.inspect import Finding


@dataclass(frozen=True)
class Verification:
    """The result of a comparison. `rows`: whose identities were compared, of all streams.
    `findings`: the checks of `moirae doctor` over the restored workspace.
    """

    backup: str
    files: int
    bytes: int
    rows: int
    findings: Sequence["Finding"]

    @property
    def is_good(self) -> bool:
        """Whether all checks hold."""
        return not any(finding.problems for finding in self.findings)


def verify_backup(
    repository: Repository, manifest: Manifest, folder: Path, report: Report
) -> Verification:
    """Restore a backup below an empty folder, and compare. Nothing of the workspace is touched.

    Each file is compared by its SHA-256 digest, the rows of each stream by their identities, the
    database with the archive by the checks of `moirae doctor`. Raises `BackupDamaged`.
    """
    from moirae.inspect import run_checks  # a backup that is only made does without it

    restoration = Restoration(repository, manifest, report)
    restored = restoration.restore_workspace_files(folder)
    settings = _settings_beside(restored.workspace_file, folder)
    try:
        restoration.restore_content(settings, generation=None)
        findings = [_compare_ids(manifest, open_storage(settings))]
        with connect_database(settings, "verify") as connection:
            findings += run_checks(settings, connection)
    finally:
        release_database(settings)
    return Verification(manifest.name, manifest.file_count, manifest.bytes, manifest.rows, findings)


def _settings_beside(file: Path, folder: Path) -> Settings:
    """The settings of the restored workspace file, with everything below a folder."""
    settings = load_settings_from_environment(file)
    home = folder / "home"
    return settings.model_copy(
        update={"home": home, "archive": str(home / "archive"), "database": None}
    )


def _compare_ids(manifest: Manifest, root: StorageRoot) -> "Finding":
    """Whether the rows of each restored stream are those that were backed up."""
    from moirae.inspect import Finding

    problems: list[str] = []
    rows = 0
    tables = {table.name: table for table in list_tables(root)}
    for name, entry in manifest.tables.items():
        if name not in tables:
            problems.append(f"{name}: is missing")
            continue
        if entry.kind != "stream":
            continue
        schema = read_recorded_schema(root, tables[name].stream)
        assert schema is not None
        files = TableFiles(schema, tables[name].storage)
        version = read_version(tables[name], read_newest_version(tables[name]))
        ids = RowIds.sum(files.read_row_ids(path) for path in version.files)
        rows += ids.count
        if ids != entry.row_ids:
            problems.append(
                f"{name}: {ids.count:,} rows restored, {entry.row_ids.count:,} backed up, with "
                "other identities"
            )
    check = "the restored rows are those that were backed up, by identity"
    return Finding(check, problems, f"{rows:,} rows")
