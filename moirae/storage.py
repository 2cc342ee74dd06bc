"""The archive of a workspace: a folder, or object storage with its copies under the workspace's home."""

from pathlib import Path
from typing import TYPE_CHECKING

from archiver.cache import Cache
from archiver.place import Root
from moirae.settings import Settings

if TYPE_CHECKING:
    from archiver.bucket import Bucket

_SCHEME = "s3://"
# Seconds longer than a history query may take, until copies of what it reads may go.
_GRACE = 60.0
# Trying again at a check: somebody waits for it.
_TRIES = 2


def root(settings: Settings) -> Root:
    """Where the archive is. Nothing is asked of it yet."""
    return _bucket(settings) or Path(settings.archive)


def check(settings: Settings) -> None:
    """Whether object storage is there, and does what commits rest on. Raises `StorageFailed`."""
    bucket = _bucket(settings, tries=_TRIES)
    if bucket is not None:
        bucket.check()


def _bucket(settings: Settings, **tries: int) -> "Bucket | None":
    if not settings.archive.startswith(_SCHEME):
        return None
    from archiver.bucket import Bucket  # loads a library that others do without

    home, grace = Path(settings.home), settings.recall.query_timeout.total_seconds() + _GRACE
    folder = home / "cache" / settings.archive.removeprefix(_SCHEME)
    cache = Cache(folder, settings.archive_cache << 20, grace)
    return Bucket(settings.archive, cache, home / "archive", **tries)
