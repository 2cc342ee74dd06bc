"""The landing folder in object storage: batches that any machine accepts and any machine reads.

An object is named `STREAM/NUMBER-BATCH.SUFFIX`. The times of objects are whole seconds: batches are
ordered by the number, the microseconds of the shared clock, each larger than the one before. So
posting needs no database, and several servers write at the same time.
"""

import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import BinaryIO, cast

from archiver.clock import unix_now
from archiver.periodic import Clock
from archiver.storage import ListedObject, ObjectFolder
from moirae.runtime.storage.landing import BatchPath, LandedBatch, Landing

# Seconds between two listings, at least, of which each is a request.
_MIN_INTERVAL = 0.25
_LISTING_SHARE = 0.1  # of the time
_IN_MEMORY = 8 << 20  # bytes of a batch that is written; larger ones wait in a temporary file
_NUMBER_LENGTH = 16  # digits
_NAME = re.compile(r"(?P<number>\d{16})-(?P<batch>[^./]+)\.[^/]+")
_MICROS = 1_000_000  # of a second


class LandingBucket:
    """The batches of all streams below a URL. One listing, some moments old, serves all streams."""

    def __init__(self, url: str, clock: Clock = time.monotonic) -> None:
        self.folder = ObjectFolder(url)
        self._clock = clock
        self._lock = threading.Lock()
        self._listed: dict[str, list[LandedBatch]] = {}
        self._list_again_at = 0.0
        self._last_number = 0

    def next_number(self) -> int:
        """The number of the next batch: microseconds since the epoch."""
        with self._lock:
            self._last_number = max(self._last_number + 1, int(unix_now() * _MICROS))
            return self._last_number

    def pending_batches(self, stream: str) -> Sequence[LandedBatch]:
        """Batches of a stream in order, as they were a moment ago. Raises `StorageFailed`."""
        with self._lock:
            started_at = self._clock()
            if started_at >= self._list_again_at:
                self._listed = self._list()
                ended_at = self._clock()
                pause = max(_MIN_INTERVAL, (ended_at - started_at) / _LISTING_SHARE)
                self._list_again_at = ended_at + pause
            return list(self._listed.get(stream, ()))

    def forget_listing(self) -> None:
        """List again at the next call: this process has changed what is there."""
        with self._lock:
            self._list_again_at = 0.0

    def remove(self, path: BatchPath) -> None:
        """Delete a batch, also from the last listing. Raises `OSError`."""
        stream, _, name = str(path).removeprefix(f"{self.folder.url}/").partition("/")
        self.folder.delete(f"{stream}/{name}")
        with self._lock:
            batches = self._listed.get(stream, ())
            self._listed[stream] = [batch for batch in batches if batch.path != path]

    def _list(self) -> dict[str, list[LandedBatch]]:
        by_stream: dict[str, list[LandedBatch]] = {}
        for listed in self.folder.list():
            stream, _, name = str(listed.path).removeprefix(f"{self.folder.url}/").partition("/")
            batch = _parse(listed, name)
            if batch is not None:
                by_stream.setdefault(stream, []).append(batch)
        return by_stream


class LandingObjects(Landing):
    """The batches of one stream."""

    def __init__(self, bucket: LandingBucket, stream: str) -> None:
        self.stream = stream
        self._bucket = bucket

    @contextmanager
    def open_batch(self, name: str, suffix: str, modified: int | None = None) -> Iterator[BinaryIO]:
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spooled:
            file = cast(BinaryIO, spooled)
            yield file
            size = file.tell()
            file.seek(0)
            number = self._bucket.next_number() if modified is None else modified
            self._bucket.folder.put(f"{self.stream}/{number:016d}-{name}{suffix}", file, size)
        self._bucket.forget_listing()

    def has_batch(self, name: str, suffix: str) -> bool:
        return any(
            listed.path.name[_NUMBER_LENGTH:] == f"-{name}{suffix}"
            for listed in self._bucket.folder.list(self.stream)
        )

    def pending_batches(self) -> list[LandedBatch]:
        return list(self._bucket.pending_batches(self.stream))

    def remove(self, path: BatchPath) -> None:
        self._bucket.remove(path)

    def remove_unfinished(self, prefix: str) -> None:
        pass  # an object appears whole

    def move_to(self, target: Landing) -> None:
        for batch in self.pending_batches():
            with (
                batch.path.open("rb") as source,
                target.open_batch(batch.name, batch.suffix, batch.modified) as file,
            ):
                shutil.copyfileobj(source, file, _IN_MEMORY)
            self.remove(batch.path)


@cache
def open_landing_bucket(url: str) -> LandingBucket:
    """The batches below a URL, with one listing for all of this process."""
    return LandingBucket(url)


def _parse(listed: ListedObject, name: str) -> LandedBatch | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return LandedBatch(match["batch"], listed.path, int(match["number"]), listed.size)
