"""Settings of the archive: its chunks, its location and its backups."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from moirae.config.durations import PositiveDuration
from moirae.config.paths import LocalPath, PathOrUrl, is_url
from moirae.documents.types import ConfigModel, PositiveInt

_PREFIX_SLASHES = 3  # of s3://bucket/prefix
_BUCKET_PATTERN = re.compile(
    r"s3a?://(?P<path>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/(?!\.{1,2}(/|$))[A-Za-z0-9._=-]+)*/?)"
)


class Chunks(ConfigModel):
    """Division of history into chunks, and retention. All durations are event time."""

    rows: PositiveInt = Field(
        default=1_000_000,
        description="Number of rows over all streams at which the newest chunk closes.",
    )
    age: PositiveDuration = Field(
        default=timedelta(hours=1),
        description="Event time after which a chunk with at least rows/100 rows closes.",
    )
    recent: PositiveInt = Field(
        default=24, description="Number of chunks that stay materialised, indexed and clustered."
    )
    keep: PositiveDuration | None = Field(
        default=timedelta(days=90),
        description="Retention: event time after which chunks expire; null: never.",
    )


def parse_archive_location(location: str) -> str:
    """A folder as a path, or `s3://BUCKET/PREFIX`. Raises `ValueError`.

    Commits need hard links (local file systems) or conditional requests (S3).
    """
    if location.startswith("file:///"):
        return location.removeprefix("file://")
    if location.startswith(("s3://", "s3a://")):
        match = _BUCKET_PATTERN.fullmatch(location)
        if match is None:  # the value is not shown: it may contain a key
            raise ValueError(
                "not s3://bucket/prefix of letters, digits and . _ - =; set keys in the environment"
            )
        return f"s3://{match['path'].rstrip('/')}"
    if is_url(location):
        raise ValueError("must be a directory of a local file system, or s3://bucket/prefix")
    return location


def parse_landing_location(location: str) -> str:
    """`s3://BUCKET/PREFIX`. Raises `ValueError`."""
    parsed = parse_archive_location(location)
    if not is_url(parsed) or parsed.count("/") < _PREFIX_SLASHES:
        raise ValueError("must be s3://bucket/prefix, or null for the folder `landing` of the home")
    return parsed


class BackupSettings(ConfigModel):
    """Scheduled backups of the workspace."""

    to: Annotated[PathOrUrl, AfterValidator(parse_archive_location)] = Field(
        description="Folder of the backups, as a path or file:// URL, or s3://bucket/prefix with "
        "keys from the environment. Each workspace needs a folder of its own."
    )
    every: PositiveDuration = Field(
        default=timedelta(days=1), description="Wall-clock time between two backups."
    )
    keep: PositiveInt | None = Field(
        default=14, description="Number of newest backups that stay; null: all."
    )
    key_file: LocalPath | None = Field(
        default=None,
        description="File with the age key by which backups are encrypted; null: that of the "
        "environment variable MOIRAE_BACKUP_KEY, or none.",
    )
