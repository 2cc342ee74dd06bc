"""Storage of an archive in S3-compatible object storage, accessed with `obstore`.

A commit is an object that is put only if none of its name exists (`If-None-Match: *`). Data files
are written and read in a local cache. Credentials and endpoint come from the environment (`AWS_…`),
which both libraries read.
"""

import io
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import copy
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from uuid import uuid4

import obstore
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from archiver.errors import StorageFailed
from archiver.storage.base import LOG_FOLDER, Storage, TryCommit
from archiver.storage.file_cache import FileCache
from archiver.storage.s3_errors import (
    ACCESS_DENIED,
    NO_SUCH_BUCKET,
    is_missing_bucket,
    summarize_error,
)

if TYPE_CHECKING:
    from obstore import ObjectMeta

_CONNECT_TIMEOUT = 5  # seconds
_REQUEST_TIMEOUT = 120  # seconds
_MAX_RETRIES = 8  # of one request
_RETRY_TIMEOUT = 90  # seconds, for all retries of one request
_MULTIPART_SIZE = 32 << 20  # bytes; larger files are uploaded in parts
_DOWNLOAD_CONCURRENCY = 8  # threads
_READ_SIZE = 4 << 20  # bytes of a download that are written at once
_LIST_PAGE_SIZE = 1000  # objects
_DELETE_BATCH_SIZE = 1000  # objects of one request
# Attempts when another process creates the same object, or cached files disappear.
_COMPLETE_MARK = ".copied"  # in a folder that is a complete copy of the one that it replaces
_CONFLICT_RETRIES = 20
_CONFLICT_PAUSE = 0.1  # seconds
_CLIENT_OPTIONS: Any = {
    # An endpoint with http:// is chosen by the user. Requests are signed; no key is sent.
    "allow_http": True,
    "connect_timeout": timedelta(seconds=_CONNECT_TIMEOUT),
    "timeout": timedelta(seconds=_REQUEST_TIMEOUT),
}


class S3Storage(Storage):
    """A bucket, or a prefix of one."""

    min_file_retention = 3 * 3600.0

    def __init__(
        self, url: str, cache: FileCache, work_folder: Path, max_retries: int = _MAX_RETRIES
    ) -> None:
        """`url`: `s3://bucket` or `s3://bucket/prefix`."""
        self._url = url.rstrip("/")
        self._cache = cache
        self._work_folder = work_folder
        self._prefix = ""
        self._max_retries = max_retries
        retry_config: Any = {
            "max_retries": max_retries,
            "retry_timeout": timedelta(seconds=_RETRY_TIMEOUT),
            "backoff": {
                "init_backoff": timedelta(seconds=0.1),
                "max_backoff": timedelta(seconds=10),
                "base": 2,
            },
        }
        with self.translate_errors():
            self._store = S3Store.from_url(
                self._url, client_options=_CLIENT_OPTIONS, retry_config=retry_config
            )

    def __truediv__(self, name: str) -> "S3Storage":
        subfolder = copy(self)
        subfolder._prefix = self._object_key(name)
        return subfolder

    def __str__(self) -> str:
        return f"{self._url}/{self._prefix}" if self._prefix else self._url

    @property
    def data_folder(self) -> Path:
        return self._cache.folder / self._prefix

    @property
    def work_folder(self) -> Path:
        return self._work_folder / self._prefix

    def check(self) -> None:
        """Check access to the bucket, and that it supports conditional puts.

        Raises `StorageFailed`.
        """
        self.has_table()  # checks the permission to list objects
        name = f".moirae-{uuid4().hex}"
        with self.prepare_commit(b"first") as commit:
            commit(name)
        try:
            with self.prepare_commit(b"second") as commit:
                overwritten = commit(name)
        finally:
            self.remove(name)
        if overwritten:
            raise self._storage_error(
                "this object storage ignores If-None-Match and overwrites existing objects, so "
                "concurrent commits would be lost: use one that supports conditional writes"
            )

    def has_table(self) -> bool:
        with self.translate_errors():
            return any(obstore.list(self._store, self._object_key(LOG_FOLDER), chunk_size=1))

    def open_table(self) -> DeltaTable:
        with self.translate_errors():
            return DeltaTable(str(self), storage_options=self._storage_options())

    def create_log_folder(self) -> None:
        pass

    def _storage_options(self) -> dict[str, str]:
        """Options for the deltalake library, as `_CLIENT_OPTIONS` are for obstore."""
        return {
            "allow_http": "true",
            "connect_timeout": f"{_CONNECT_TIMEOUT}s",
            "timeout": f"{_REQUEST_TIMEOUT}s",
            "max_retries": str(self._max_retries),
            "retry_timeout": f"{_RETRY_TIMEOUT}s",
            "conditional_put": "etag",
        }

    def read_log_file(self, name: str) -> bytes:
        with self.translate_errors():
            return obstore.get(self._store, self._object_key(name)).bytes().to_bytes()

    def exists(self, name: str) -> bool:
        try:
            with self.translate_errors():
                obstore.head(self._store, self._object_key(name))
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def prepare_commit(self, content: bytes) -> Iterator[TryCommit]:
        def commit(name: str) -> bool:
            for _ in range(_CONFLICT_RETRIES):
                try:
                    self._put_if_absent(name, content)
                    return True
                except AlreadyExistsError:
                    with suppress(FileNotFoundError):
                        # No two commits have the same content: an equal one is this commit, whose
                        # first response was lost.
                        return self.read_log_file(name) == content
                except FileNotFoundError:
                    raise self._storage_error(NO_SUCH_BUCKET) from None
                time.sleep(_CONFLICT_PAUSE)  # a put of another process is in progress
            raise self._storage_error(
                f"cannot create {name}: the storage reports that it exists, but cannot read it"
            )

        yield commit

    def _put_if_absent(self, name: str, content: bytes) -> None:
        with self.translate_errors():
            obstore.put(
                self._store, self._object_key(name), content, mode="create", use_multipart=False
            )

    @contextmanager
    def write_data_file(self, name: str) -> Iterator[Path]:
        with self._cache.write_file(self.data_folder / name) as path:
            yield path
            is_large = path.stat().st_size > _MULTIPART_SIZE
            with self.translate_errors():
                obstore.put(self._store, self._object_key(name), path, use_multipart=is_large)

    def fetch(self, names: Sequence[str]) -> None:
        self._fetch_missing(names, lease=False)

    def _fetch_missing(self, names: Sequence[str], lease: bool) -> None:
        missing = [name for name in names if not (self.data_folder / name).exists()]

        def fetch(name: str) -> None:
            # Closed at once: there may be more files than descriptors.
            self._fetch_file(name, lease).close()

        if len(missing) > 1:
            with ThreadPoolExecutor(_DOWNLOAD_CONCURRENCY) as pool:
                for _ in pool.map(fetch, missing):
                    pass
        elif missing:
            fetch(missing[0])

    def _fetch_file(self, name: str, lease: bool) -> Any:
        """Download a data file into the cache. Returns it open for reading."""
        with self.translate_errors():
            download = obstore.get(self._store, self._object_key(name))
            size = download.meta["size"]
            self._cache.ensure_space(size)
            with self._cache.write_file(self.data_folder / name, lease) as path:
                with path.open("wb") as file:
                    for content in download.stream(min_chunk_size=_READ_SIZE):
                        file.write(content)
                if path.stat().st_size != size:
                    raise self._storage_error(f"incomplete download of {name}")
                return pa.OSFile(str(path))

    def open_data_file(self, name: str) -> Any:
        path = self.data_folder / name
        try:
            file = pa.OSFile(str(path))  # stays readable when the file is evicted
        except FileNotFoundError:
            return self._fetch_file(name, lease=False)
        self._cache.record_read(path)
        return file

    def lease_paths(self, names: Sequence[str]) -> list[str]:
        paths = [self.data_folder / name for name in names]
        for _ in range(_CONFLICT_RETRIES):
            self._cache.lease(paths)
            self._fetch_missing(names, lease=True)
            if self._cache.lease(paths):
                return list(map(str, paths))
        raise self._storage_error(
            f"files were removed from the cache {self._cache.folder} while in use: "
            "check whether another program deletes them"
        )

    def list_files(self) -> list[str]:
        # Objects of the log sort before the data files and are skipped.
        objects = self._list_objects(offset=self._object_key("chunk"))
        return [name for name, _ in objects if _is_data_file(name)]

    def _list_objects(self, offset: str | None = None) -> list[tuple[str, float]]:
        """List (name, last modified in Unix seconds) of all objects below the prefix."""
        listed = self._list_metadata(offset)
        return [(name, meta["last_modified"].timestamp()) for name, meta in listed]

    def _list_metadata(self, offset: str | None = None) -> Iterator[tuple[str, "ObjectMeta"]]:
        """Names below the prefix and what the storage says of the objects."""
        prefix_length = len(self._object_key(""))
        with self.translate_errors():
            for page in obstore.list(
                self._store, self._prefix or None, offset=offset, chunk_size=_LIST_PAGE_SIZE
            ):
                for meta in page:
                    yield meta["path"][prefix_length:], meta

    def list_folders(self) -> list[str]:
        with self.translate_errors():
            prefix = f"{self._prefix}/" if self._prefix else None
            listed = obstore.list_with_delimiter(self._store, prefix)
        return sorted(folder.rpartition("/")[2] for folder in listed["common_prefixes"])

    def list_sizes(self) -> dict[str, int]:
        return {name: meta["size"] for name, meta in self._list_metadata()}

    @contextmanager
    def open_stream(self, name: str) -> Iterator[BinaryIO]:
        with self.translate_errors():
            download = obstore.get(self._store, self._object_key(name))
            blocks = _Blocks(iter(download.stream(min_chunk_size=_READ_SIZE)))
            yield cast(BinaryIO, io.BufferedReader(blocks, _READ_SIZE))

    @contextmanager
    def write_stream(
        self, name: str, *, sync: bool = True, sync_folder: bool = True
    ) -> Iterator[BinaryIO]:
        with tempfile.SpooledTemporaryFile(max_size=_MULTIPART_SIZE) as file:
            yield cast(BinaryIO, file)
            is_large = file.tell() > _MULTIPART_SIZE
            file.seek(0)
            with self.translate_errors():
                content = cast(BinaryIO, file)
                obstore.put(self._store, self._object_key(name), content, use_multipart=is_large)

    def sync_folders(self, names: Iterable[str]) -> None:
        pass  # an object is durable under its name

    def remove_unfinished(self) -> None:
        pass  # an object appears whole

    def remove(self, name: str) -> None:
        with self.translate_errors(), suppress(FileNotFoundError):
            obstore.delete(self._store, self._object_key(name))
        (self.data_folder / name).unlink(missing_ok=True)

    def folder_use_times(self) -> dict[str, float]:
        use_times: dict[str, float] = {}
        for name, modified in self._list_objects():
            folder, separator, _ = name.partition("/")
            if separator:
                use_times[folder] = max(modified, use_times.get(folder, modified))
        return use_times

    def touch(self) -> None:
        with self.translate_errors():
            obstore.put(self._store, self._object_key(".used"), b"")

    def remove_all(self) -> None:
        keys = [self._object_key(name) for name, _ in self._list_objects()]
        with self.translate_errors():
            for start in range(0, len(keys), _DELETE_BATCH_SIZE):
                obstore.delete(self._store, keys[start : start + _DELETE_BATCH_SIZE])

    def replace(self, target: Storage) -> None:
        assert isinstance(target, S3Storage)
        # The beginning of the log last: until then, readers do not take the copy for a table.
        names = sorted((name for name, _ in self._list_objects()), reverse=True)
        if names:
            if not target.exists(_COMPLETE_MARK):
                target.remove_all()
                with self.translate_errors():
                    for name in names:
                        obstore.copy(self._store, self._object_key(name), target._object_key(name))
                    obstore.put(target._store, target._object_key(_COMPLETE_MARK), b"")
            self.remove_all()
        target.remove(_COMPLETE_MARK)

    def _object_key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, DeltaError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # an error of the local disk
            # The libraries' messages may contain credentials: they are replaced, and `from None`
            # keeps the original out of tracebacks.
            if isinstance(error, PermissionDeniedError | UnauthenticatedError):
                raise self._storage_error(ACCESS_DENIED) from None
            is_documented = isinstance(
                error, AlreadyExistsError | FileNotFoundError | TableNotFoundError
            )
            if is_documented and not is_missing_bucket(str(error)):
                raise type(error)(summarize_error(str(error))) from None
            raise self._storage_error(summarize_error(str(error))) from None

    def _storage_error(self, reason: str) -> StorageFailed:
        return StorageFailed(f"archive {self._url}: {reason}")


class _Blocks(io.RawIOBase):
    """The blocks of a download as a raw file."""

    def __init__(self, blocks: Iterator[Any]) -> None:
        self._blocks = blocks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = memoryview(next(self._blocks, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _is_data_file(name: str) -> bool:
    return name.startswith("chunk=") and name.endswith(".parquet")
