"""The archive of a workspace: a local folder, or object storage with a file cache in the home."""

from pathlib import Path
from typing import TYPE_CHECKING

from moirae.config import Settings

if TYPE_CHECKING:
    from archiver.storage import S3Storage, StorageRoot

_S3_SCHEME = "s3://"
_MIB = 1 << 20  # bytes
# Seconds that a cached file outlives the longest history query, which may still read it.
_CACHE_GRACE = 60.0
# Retries of a request during a check: few, because a user waits for the result.
_CHECK_RETRIES = 2


def open_storage(settings: Settings) -> "StorageRoot":
    """The root of the archive. Makes no request yet."""
    return _open_s3(settings) or Path(settings.archive)


def check_storage(settings: Settings) -> None:
    """Check that object storage is reachable and supports conditional writes, which commits need.

    Does nothing for a local archive. Raises `StorageFailed`.
    """
    bucket = _open_s3(settings, max_retries=_CHECK_RETRIES)
    if bucket is not None:
        bucket.check()


def _open_s3(settings: Settings, **options: int) -> "S3Storage | None":
    """None where the archive is a local folder. `options`: keyword arguments of `S3Storage`."""
    if not settings.archive.startswith(_S3_SCHEME):
        return None
    from archiver.storage import FileCache, S3Storage

    home = Path(settings.home)
    folder = home / "cache" / settings.archive.removeprefix(_S3_SCHEME)
    grace = settings.recall.longest_query + _CACHE_GRACE
    cache = FileCache(folder, settings.archive_cache * _MIB, grace)
    return S3Storage(settings.archive, cache, home / "archive", **options)
