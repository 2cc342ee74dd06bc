"""The archive of a workspace: a folder, or object storage with its copies under the workspace's
home.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from moirae.config import Settings

if TYPE_CHECKING:
    from archiver.storage import S3Storage, StorageRoot

_S3_SCHEME = "s3://"
# Seconds longer than a history query may take, until copies of what it reads may go.
_CACHE_GRACE = 60.0
# Trying again at a check: somebody waits for it.
_CHECK_ATTEMPTS = 2


def open_storage(settings: Settings) -> "StorageRoot":
    """Where the archive is. Nothing is asked of it yet."""
    return _open_s3(settings) or Path(settings.archive)


def check_storage(settings: Settings) -> None:
    """Whether object storage is there, and does what commits rest on. Raises `StorageFailed`."""
    bucket = _open_s3(settings, tries=_CHECK_ATTEMPTS)
    if bucket is not None:
        bucket.check()


def _open_s3(settings: Settings, **tries: int) -> "S3Storage | None":
    if not settings.archive.startswith(_S3_SCHEME):
        return None
    from archiver.storage import FileCache, S3Storage

    home, grace = Path(settings.home), settings.recall.query_timeout.total_seconds() + _CACHE_GRACE
    folder = home / "cache" / settings.archive.removeprefix(_S3_SCHEME)
    cache = FileCache(folder, settings.archive_cache << 20, grace)
    return S3Storage(settings.archive, cache, home / "archive", **tries)
