"""Opens the folder of backups that a command or the workspace file names."""

import tempfile
from pathlib import Path

from archiver.storage import FileCache, LocalStorage, S3Storage, Storage
from moirae.backup.encryption import make_cipher, read_key_file
from moirae.backup.repository import Repository
from moirae.config import BackupSettings, parse_archive_location, read_backup_key
from moirae.errors import UsageError


def open_repository(destination: str, key_file: Path | None) -> Repository:
    """The backups at a location: a folder, or `s3://BUCKET/PREFIX`.

    The key is that of the file, or else of the environment (`MOIRAE_BACKUP_KEY`). Raises
    `UsageError`.
    """
    try:
        location = parse_archive_location(destination)
    except ValueError as error:
        raise UsageError(f"{destination}: {error}") from None
    key = read_backup_key() if key_file is None else read_key_file(key_file)
    return Repository(_open_storage(location), make_cipher(key))


def open_scheduled(backup: BackupSettings) -> Repository:
    """The backups of the schedule in the workspace file."""
    key_file = None if backup.key_file is None else Path(backup.key_file)
    return open_repository(backup.to, key_file)


def _open_storage(location: str) -> Storage:
    if not location.startswith("s3://"):
        return LocalStorage(Path(location).absolute())
    # Streams do not use the cache.
    unused = Path(tempfile.gettempdir()) / "moirae-backup"
    return S3Storage(location, FileCache(unused, 0, 0.0), unused)
