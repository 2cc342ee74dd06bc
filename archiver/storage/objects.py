"""Source files in S3-compatible object storage: listed by a glob, opened by their URL.

Credentials and endpoint come from the environment (`AWS_…`), as for the archive.
"""

import errno
import glob
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import translate
from functools import cache, cached_property
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from archiver.errors import StorageFailed
from archiver.storage.s3_errors import summarize_error

_SCHEME = "s3://"

# Short, compared with those of the archive: the live process waits meanwhile.
_REQUEST_TIMEOUT = timedelta(seconds=30)
_RETRY_CONFIG: Any = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=10),
    "backoff": {
        "init_backoff": timedelta(seconds=0.1),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    },
}
_CLIENT_OPTIONS: Any = {
    "allow_http": True,
    "connect_timeout": timedelta(seconds=5),
    "timeout": _REQUEST_TIMEOUT,
}
_READ_SIZE = 4 << 20  # bytes of a request


@dataclass(frozen=True)
class ObjectPath:
    """An object by its URL, `s3://bucket/key`, with the part of a `Path` that readers need."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part of the key."""
        return PurePosixPath(self.url).name

    @property
    def suffix(self) -> str:
        """The suffix of the name, with its dot."""
        return PurePosixPath(self.url).suffix

    def version(self) -> str:
        """Identifies the content: the ETag, with time and size. Raises `OSError`."""
        metadata = self._head()
        return f"{metadata['e_tag']} {metadata['last_modified']} {metadata['size']}"

    def inspect(self) -> "ListedObject":
        """The object as it is now. Raises `OSError`."""
        metadata = self._head()
        return ListedObject(self, metadata["last_modified"], metadata["size"])

    def _head(self) -> Any:
        bucket, key = split_url(self.url)
        try:
            return obstore.head(open_bucket(bucket), key)
        except FileNotFoundError:
            raise
        except BaseError as error:
            raise to_os_error(error) from error

    def open(self, _mode: str = "rb") -> BinaryIO:
        """Open the object to read it, in requests of some megabytes. Raises `OSError`."""
        bucket, key = split_url(self.url)
        try:
            reader = obstore.open_reader(open_bucket(bucket), key, buffer_size=_READ_SIZE)
        except FileNotFoundError:
            raise
        except BaseError as error:
            raise to_os_error(error) from error
        return cast(BinaryIO, io.BufferedReader(_ObjectReader(reader), _READ_SIZE))


class _ObjectReader(io.RawIOBase):
    """A raw stream over a reader of obstore."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._reader.read(len(buffer))
        except BaseError as error:
            raise to_os_error(error) from error
        buffer[: len(content)] = memoryview(content)
        return len(content)


@dataclass(frozen=True)
class ListedObject:
    """`size`: in bytes."""

    path: ObjectPath
    modified: datetime
    size: int


class ObjectGlob:
    """The objects whose URL matches a glob; `*` matches no slash.

    Names of incomplete files begin with a dot, as in a folder.
    """

    def __init__(self, pattern: str) -> None:
        self._bucket, self._key_pattern = split_url(pattern)
        parts = self._key_pattern.split("/")
        fixed = 0
        while fixed < len(parts) - 1 and not glob.has_magic(parts[fixed]):
            fixed += 1
        self._prefix = "/".join(parts[:fixed])
        self._is_flat = fixed == len(parts) - 1

    @cached_property
    def _part_patterns(self) -> list[re.Pattern[str]]:
        return [re.compile(translate(part)) for part in self._key_pattern.split("/")]

    def list(self, after: ObjectPath | None = None) -> list[ListedObject]:
        """The matching objects. `after`: only those with later names. Raises `StorageFailed`."""
        try:
            return [
                ListedObject(
                    ObjectPath(f"{_SCHEME}{self._bucket}/{metadata['path']}"),
                    metadata["last_modified"],
                    metadata["size"],
                )
                for metadata in self._list_prefix(after)
                if self._matches(metadata["path"])
            ]
        except (BaseError, OSError) as error:
            url = f"{_SCHEME}{self._bucket}/{self._key_pattern}"
            raise StorageFailed(f"source {url}: {summarize_error(str(error))}") from error

    def _list_prefix(self, after: ObjectPath | None) -> Iterable[Any]:
        store = open_bucket(self._bucket)
        prefix = self._prefix or None
        if self._is_flat and after is None:
            return obstore.list_with_delimiter(store, prefix)["objects"]
        offset = None if after is None else split_url(after.url)[1]
        return chain.from_iterable(obstore.list(store, prefix, offset=offset))

    def _matches(self, key: str) -> bool:
        parts = key.split("/")
        if len(parts) != len(self._part_patterns) or parts[-1].startswith("."):
            return False
        return all(
            pattern.match(part) for pattern, part in zip(self._part_patterns, parts, strict=True)
        )


@cache
def open_bucket(bucket: str) -> S3Store:
    """A bucket by its name. Makes no request yet."""
    return S3Store.from_url(
        _SCHEME + bucket, client_options=_CLIENT_OPTIONS, retry_config=_RETRY_CONFIG
    )


def split_url(url: str) -> tuple[str, str]:
    """Bucket and key."""
    bucket, _, key = url.removeprefix(_SCHEME).partition("/")
    return bucket, key


def to_os_error(error: BaseError) -> OSError:
    """Any error but a missing object may be temporary: the unit is read again."""
    if isinstance(error, NotFoundError):
        return FileNotFoundError(errno.ENOENT, "no such object")
    return OSError(errno.EIO, summarize_error(str(error)))
