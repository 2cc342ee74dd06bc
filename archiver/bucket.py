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
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from archiver.cache import Cache
from archiver.errors import StorageFailed
from archiver.place import LOG, Commit, Place

# Seconds: to connect, and for one request; trying again ends after so many times, and so long.
_CONNECT, _REQUEST = 5, 120
_TRIES, _TRYING = 8, 90
# A file of more bytes goes in parts; downloads at once; objects deleted by one request.
_LARGE, _AT_ONCE, _DELETED = 32 << 20, 8, 1000
# Times that we try again where files go as fast as they come, or the store answers that somebody else is at it.
_AGAIN, _PAUSE = 20, 0.1
_READ = 4 << 20
# Whoever writes an address with http:// means it; keys are signed with, never sent.
_CLIENT: Any = {
    "allow_http": True,
    "connect_timeout": timedelta(seconds=_CONNECT),
    "timeout": timedelta(seconds=_REQUEST),
}


class Bucket(Place):
    """A prefix of a bucket. `local`: for what is made from it."""

    patience = 3 * 3600.0

    def __init__(self, url: str, cache: Cache, local: Path, tries: int = _TRIES) -> None:
        """`url`: `s3://bucket` or `s3://bucket/prefix`."""
        self._url = url.rstrip("/")
        self._cache = cache
        self._local = local
        self._inner = ""
        self._tries = tries
        retry: Any = {
            "max_retries": tries,
            "retry_timeout": timedelta(seconds=_TRYING),
            "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=10), "base": 2},
        }
        with self.told():
            self._store = S3Store.from_url(self._url, client_options=_CLIENT, retry_config=retry)

    def __truediv__(self, name: str) -> "Bucket":
        inner = copy(self)
        inner._inner = self._key(name)
        return inner

    def __str__(self) -> str:
        return f"{self._url}/{self._inner}" if self._inner else self._url

    @property
    def folder(self) -> Path:
        return self._cache.folder / self._inner

    @property
    def local(self) -> Path:
        return self._local / self._inner

    def check(self) -> None:
        """Whether it is there, and does what commits rest on. Raises `StorageFailed`."""
        self.has_table()  # may look what there is
        name = f".moirae-{uuid4().hex}"
        with self.committing(b"first") as commit:
            commit(name)
        try:
            with self.committing(b"second") as commit:
                again = commit(name)
        finally:
            self.remove(name)
        if again:
            raise StorageFailed(
                f"the archive {self._url} cannot be used: this object storage does not heed If-None-Match, and puts an "
                "object where there is one: commits would be lost"
            )

    def has_table(self) -> bool:
        with self.told():
            return any(obstore.list(self._store, self._key(LOG), chunk_size=1))

    def table(self) -> DeltaTable:
        with self.told():
            return DeltaTable(str(self), storage_options=self._options())

    def create(self, **declared: Any) -> DeltaTable:
        with self.told():
            try:
                return DeltaTable.create(str(self), storage_options=self._options(), **declared)
            except DeltaError:
                with suppress(TableNotFoundError):
                    return self.table()  # somebody else has made it
                raise

    def _options(self) -> dict[str, str]:
        return {
            "allow_http": "true",
            "connect_timeout": f"{_CONNECT}s",
            "timeout": f"{_REQUEST}s",
            "max_retries": str(self._tries),
            "retry_timeout": f"{_TRYING}s",
            "conditional_put": "etag",
        }

    def read(self, name: str) -> bytes:
        with self.told():
            return obstore.get(self._store, self._key(name)).bytes().to_bytes()

    def exists(self, name: str) -> bool:
        try:
            with self.told():
                obstore.head(self._store, self._key(name))
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def committing(self, text: bytes) -> Iterator[Commit]:
        def commit(name: str) -> bool:
            for _ in range(_AGAIN):
                try:
                    with self.told():
                        obstore.put(self._store, self._key(name), text, mode="create", use_multipart=False)
                    return True
                except AlreadyExistsError:
                    with suppress(FileNotFoundError):
                        # Ours, where the answer to a first attempt was lost: no two commits are the same.
                        return self.read(name) == text
                except FileNotFoundError:
                    raise self._failed("there is no such bucket") from None
                time.sleep(_PAUSE)  # another is being put there
            raise self._failed(f"{name} is neither there nor free")

        yield commit

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        with self._cache.writing(self.folder / name) as path:
            yield path
            with self.told():
                obstore.put(self._store, self._key(name), path, use_multipart=path.stat().st_size > _LARGE)

    def fetch(self, names: Sequence[str]) -> None:
        self._fetch_all(names, hold=False)

    def _fetch_all(self, names: Sequence[str], hold: bool) -> None:
        missing = [name for name in names if not (self.folder / name).exists()]

        def fetch(name: str) -> None:
            self._fetch(name, hold).close()  # what is fetched waits for its turn here, and there may be many

        if len(missing) > 1:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for _ in pool.map(fetch, missing):
                    pass
        elif missing:
            fetch(missing[0])

    def _fetch(self, name: str, hold: bool) -> Any:
        """A copy, open."""
        with self.told():
            found = obstore.get(self._store, self._key(name))
            self._cache.room(found.meta["size"])
            with self._cache.writing(self.folder / name, hold) as path:
                with path.open("wb") as file:
                    for piece in found.stream(min_chunk_size=_READ):
                        file.write(piece)
                if path.stat().st_size != found.meta["size"]:
                    raise self._failed(f"{name} did not arrive whole")
                return pa.OSFile(str(path))

    def source(self, name: str) -> Any:
        path = self.folder / name
        try:
            file = pa.OSFile(str(path))  # stays readable, whatever becomes of its name
        except FileNotFoundError:
            return self._fetch(name, hold=False)
        self._cache.opened(path)
        return file

    def paths(self, names: Sequence[str]) -> list[str]:
        paths = [self.folder / name for name in names]
        for _ in range(_AGAIN):
            self._cache.hold(paths)
            self._fetch_all(names, hold=True)
            if self._cache.hold(paths):
                return list(map(str, paths))
        raise self._failed("files leave the cache as fast as they come: is the clock set again and again?")

    def files(self) -> list[str]:
        # What the log holds, which sorts before, is not looked through.
        found = self._listed(offset=self._key("chunk"))
        return [name for name, _ in found if name.startswith("chunk=") and name.endswith(".parquet")]

    def _listed(self, offset: str | None = None) -> list[tuple[str, float]]:
        """What there is below, with the time when it was put."""
        cut = len(self._key(""))
        with self.told():
            parts = obstore.list(self._store, self._inner or None, offset=offset, chunk_size=_DELETED)
            return [(one["path"][cut:], one["last_modified"].timestamp()) for part in parts for one in part]

    def remove(self, name: str) -> None:
        with self.told(), suppress(FileNotFoundError):
            obstore.delete(self._store, self._key(name))
        (self.folder / name).unlink(missing_ok=True)

    def folders(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, moment in self._listed():
            folder, inside, _ = name.partition("/")
            if inside:
                found[folder] = max(moment, found.get(folder, moment))
        return found

    def use(self) -> None:
        with self.told():
            obstore.put(self._store, self._key(".used"), b"")

    def clear(self) -> None:
        names = [self._key(name) for name, _ in self._listed()]
        with self.told():
            for start in range(0, len(names), _DELETED):
                obstore.delete(self._store, names[start : start + _DELETED])

    def _key(self, name: str) -> str:
        return f"{self._inner}/{name}" if self._inner else name

    @contextmanager
    def told(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, DeltaError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of this machine's disk
            # What they say may hold keys: nobody shall print it, not as a cause either.
            if isinstance(error, PermissionDeniedError | UnauthenticatedError):
                raise self._failed(_REFUSED) from None
            means_something = isinstance(error, AlreadyExistsError | FileNotFoundError | TableNotFoundError)
            if means_something and "NoSuchBucket" not in str(error):
                raise type(error)(_reason(str(error))) from None
            raise self._failed(_reason(str(error))) from None

    def _failed(self, reason: str) -> StorageFailed:
        return StorageFailed(f"the archive {self._url} cannot be used: {reason}")


_COLOUR = re.compile("\x1b\\[[0-9;]*m|↳")
_REFUSED = "access is refused; the keys are those of the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, …)"
_REFUSALS = ("403 Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken")
# Of an answer: its status, and the code in its text, which may also repeat what it was asked with.
_STATUS, _CODE = re.compile(r"(non-2xx status code)\W+(\d+).*"), re.compile(r"<Code>(\w+)</Code>")
# Of an address: no name and password before its host, nor what comes behind its path.
_ADDRESS = re.compile(r"(\w://)(?:[^\s/?#]*@)?([^\s?#]*)[^\s,)]*")


def _reason(text: str) -> str:
    """One line of what a library says in many, without what is secret."""
    if "NoSuchBucket" in text:
        return "there is no such bucket"
    if "169.254.169.254" in text:
        return "there are no keys in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), nor of a role"
    if any(word in text for word in _REFUSALS):
        return _REFUSED
    said, _, _ = _COLOUR.sub("", text).partition("Debug source:")
    said, _, answer = " ".join(said.split()).partition("<")
    code = _CODE.search(f"<{answer}")
    said = _ADDRESS.sub(r"\1\2", _STATUS.sub(r"\1 \2", said)).strip()
    return f"{said} ({code[1]})"[:400] if code else said[:400]
