"""An archive in object storage: S3, or what speaks its language, through `obstore`.

A commit is an object that is put under a name only if there is none (`If-None-Match: *`). Data files are written and
read on this machine, in a cache. Keys and the address of the store come from the environment (`AWS_…`), which both
libraries read.
"""

import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import copy
from datetime import timedelta
from pathlib import Path
from typing import Any
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

# Seconds: to connect, and for one request; trying again ends after so many times, and so long.
_CONNECT_TIMEOUT, _REQUEST_TIMEOUT = 5, 120
_MAX_RETRIES, _RETRY_TIMEOUT = 8, 90
# A file of more bytes goes in parts; downloads at once; objects deleted by one request.
_MULTIPART_SIZE, _DOWNLOAD_CONCURRENCY, _DELETE_BATCH_SIZE = 32 << 20, 8, 1000
# Times that we try again where files go as fast as they come, or the store answers that somebody else is at it.
_CONFLICT_RETRIES, _CONFLICT_PAUSE = 20, 0.1
_READ_SIZE = 4 << 20
# Whoever writes an address with http:// means it; keys are signed with, never sent.
_CLIENT_OPTIONS: Any = {
    "allow_http": True,
    "connect_timeout": timedelta(seconds=_CONNECT_TIMEOUT),
    "timeout": timedelta(seconds=_REQUEST_TIMEOUT),
}


class S3Storage(Storage):
    """A prefix of a bucket. `local`: for what is made from it."""

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
        retry: Any = {
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
                self._url, client_options=_CLIENT_OPTIONS, retry_config=retry
            )

    def __truediv__(self, name: str) -> "S3Storage":
        inner = copy(self)
        inner._prefix = self._object_key(name)
        return inner

    def __str__(self) -> str:
        return f"{self._url}/{self._prefix}" if self._prefix else self._url

    @property
    def data_folder(self) -> Path:
        return self._cache.folder / self._prefix

    @property
    def work_folder(self) -> Path:
        return self._work_folder / self._prefix

    def check(self) -> None:
        """Whether it is there, and does what commits rest on. Raises `StorageFailed`."""
        self.has_table()  # may look what there is
        name = f".moirae-{uuid4().hex}"
        with self.prepare_commit(b"first") as commit:
            commit(name)
        try:
            with self.prepare_commit(b"second") as commit:
                again = commit(name)
        finally:
            self.remove(name)
        if again:
            raise StorageFailed(
                f"the archive {self._url} cannot be used: this object storage does not heed If-None-Match, and puts an "
                "object where there is one: commits would be lost"
            )

    def has_table(self) -> bool:
        with self.translate_errors():
            return any(obstore.list(self._store, self._object_key(LOG_FOLDER), chunk_size=1))

    def open_table(self) -> DeltaTable:
        with self.translate_errors():
            return DeltaTable(str(self), storage_options=self._storage_options())

    def create_table(self, **table_options: Any) -> DeltaTable:
        with self.translate_errors():
            try:
                return DeltaTable.create(
                    str(self), storage_options=self._storage_options(), **table_options
                )
            except DeltaError:
                with suppress(TableNotFoundError):
                    return self.open_table()  # somebody else has made it
                raise

    def _storage_options(self) -> dict[str, str]:
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
                    with self.translate_errors():
                        obstore.put(
                            self._store,
                            self._object_key(name),
                            content,
                            mode="create",
                            use_multipart=False,
                        )
                    return True
                except AlreadyExistsError:
                    with suppress(FileNotFoundError):
                        # Ours, where the answer to a first attempt was lost: no two commits are the same.
                        return self.read_log_file(name) == content
                except FileNotFoundError:
                    raise self._storage_error("there is no such bucket") from None
                time.sleep(_CONFLICT_PAUSE)  # another is being put there
            raise self._storage_error(f"{name} is neither there nor free")

        yield commit

    @contextmanager
    def write_data_file(self, name: str) -> Iterator[Path]:
        with self._cache.write_file(self.data_folder / name) as path:
            yield path
            with self.translate_errors():
                obstore.put(
                    self._store,
                    self._object_key(name),
                    path,
                    use_multipart=path.stat().st_size > _MULTIPART_SIZE,
                )

    def fetch(self, names: Sequence[str]) -> None:
        self._fetch_all(names, lease=False)

    def _fetch_all(self, names: Sequence[str], lease: bool) -> None:
        missing = [name for name in names if not (self.data_folder / name).exists()]

        def fetch(name: str) -> None:
            self._fetch(
                name, lease
            ).close()  # what is fetched waits for its turn here, and there may be many

        if len(missing) > 1:
            with ThreadPoolExecutor(_DOWNLOAD_CONCURRENCY) as pool:
                for _ in pool.map(fetch, missing):
                    pass
        elif missing:
            fetch(missing[0])

    def _fetch(self, name: str, lease: bool) -> Any:
        """A copy, open."""
        with self.translate_errors():
            found = obstore.get(self._store, self._object_key(name))
            self._cache.ensure_space(found.meta["size"])
            with self._cache.write_file(self.data_folder / name, lease) as path:
                with path.open("wb") as file:
                    for piece in found.stream(min_chunk_size=_READ_SIZE):
                        file.write(piece)
                if path.stat().st_size != found.meta["size"]:
                    raise self._storage_error(f"{name} did not arrive whole")
                return pa.OSFile(str(path))

    def open_data_file(self, name: str) -> Any:
        path = self.data_folder / name
        try:
            file = pa.OSFile(str(path))  # stays readable, whatever becomes of its name
        except FileNotFoundError:
            return self._fetch(name, lease=False)
        self._cache.record_read(path)
        return file

    def lease_paths(self, names: Sequence[str]) -> list[str]:
        paths = [self.data_folder / name for name in names]
        for _ in range(_CONFLICT_RETRIES):
            self._cache.lease(paths)
            self._fetch_all(names, lease=True)
            if self._cache.lease(paths):
                return list(map(str, paths))
        raise self._storage_error(
            "files leave the cache as fast as they come: is the clock set again and again?"
        )

    def list_files(self) -> list[str]:
        # What the log holds, which sorts before, is not looked through.
        found = self._list_objects(offset=self._object_key("chunk"))
        return [
            name for name, _ in found if name.startswith("chunk=") and name.endswith(".parquet")
        ]

    def _list_objects(self, offset: str | None = None) -> list[tuple[str, float]]:
        """What there is below, with the time when it was put."""
        cut = len(self._object_key(""))
        with self.translate_errors():
            parts = obstore.list(
                self._store, self._prefix or None, offset=offset, chunk_size=_DELETE_BATCH_SIZE
            )
            return [
                (one["path"][cut:], one["last_modified"].timestamp())
                for part in parts
                for one in part
            ]

    def remove(self, name: str) -> None:
        with self.translate_errors(), suppress(FileNotFoundError):
            obstore.delete(self._store, self._object_key(name))
        (self.data_folder / name).unlink(missing_ok=True)

    def folder_use_times(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, moment in self._list_objects():
            folder, inside, _ = name.partition("/")
            if inside:
                found[folder] = max(moment, found.get(folder, moment))
        return found

    def touch(self) -> None:
        with self.translate_errors():
            obstore.put(self._store, self._object_key(".used"), b"")

    def remove_all(self) -> None:
        names = [self._object_key(name) for name, _ in self._list_objects()]
        with self.translate_errors():
            for start in range(0, len(names), _DELETE_BATCH_SIZE):
                obstore.delete(self._store, names[start : start + _DELETE_BATCH_SIZE])

    def _object_key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, DeltaError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of this machine's disk
            # What they say may hold keys: nobody shall print it, not as a cause either.
            if isinstance(error, PermissionDeniedError | UnauthenticatedError):
                raise self._storage_error(_ACCESS_DENIED) from None
            means_something = isinstance(
                error, AlreadyExistsError | FileNotFoundError | TableNotFoundError
            )
            if means_something and "NoSuchBucket" not in str(error):
                raise type(error)(_error_summary(str(error))) from None
            raise self._storage_error(_error_summary(str(error))) from None

    def _storage_error(self, reason: str) -> StorageFailed:
        return StorageFailed(f"the archive {self._url} cannot be used: {reason}")


_TERMINAL_CODES = re.compile("\x1b\\[[0-9;]*m|↳")
_ACCESS_DENIED = "access is refused; the keys are those of the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, …)"
_ACCESS_DENIED_CODES = (
    "403 Forbidden",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
)
# Of an answer: its status, and the code in its text, which may also repeat what it was asked with.
_STATUS_PATTERN, _ERROR_CODE_PATTERN = (
    re.compile(r"(non-2xx status code)\W+(\d+).*"),
    re.compile(r"<Code>(\w+)</Code>"),
)
# Of an address: no name and password before its host, nor what comes behind its path.
_URL_PATTERN = re.compile(r"(\w://)(?:[^\s/?#]*@)?([^\s?#]*)[^\s,)]*")


def _error_summary(text: str) -> str:
    """One line of what a library says in many, without what is secret."""
    if "NoSuchBucket" in text:
        return "there is no such bucket"
    if "169.254.169.254" in text:
        return "there are no keys in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), nor of a role"
    if any(word in text for word in _ACCESS_DENIED_CODES):
        return _ACCESS_DENIED
    said, _, _ = _TERMINAL_CODES.sub("", text).partition("Debug source:")
    said, _, answer = " ".join(said.split()).partition("<")
    code = _ERROR_CODE_PATTERN.search(f"<{answer}")
    said = _URL_PATTERN.sub(r"\1\2", _STATUS_PATTERN.sub(r"\1 \2", said)).strip()
    return f"{said} ({code[1]})"[:400] if code else said[:400]
