"""The files of all streams, in folders and in object storage: discovered, and ingested in batches."""

import threading
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog
from pyspark.sql import SparkSession

from archiver.ingest import SourceUnit
from archiver.storage import ObjectPath
from moirae.config import FileFormat, FileSource, Settings
from moirae.errors import Unreachable
from moirae.live.sources import files
from moirae.live.sources.discovery import FileBatches, FolderDiscovery, ObjectDiscovery
from moirae.live.sources.files import DiscoveredFile
from moirae.live.sources.queries import NumberQuery

_LOG = structlog.get_logger()

# Bytes of files of one stream in a batch: bounds its duration, and what is repeated after a crash.
MAX_BATCH_BYTES = 64 << 20
# Starts of the query without its checkpoint, of which none has handled a batch, until it fails.
_MAX_RESTARTS = 2


class Discovery(Protocol):
    """Finds the files of one stream; see `FolderDiscovery`."""

    @property
    def problem(self) -> str | None: ...

    def find_new(self) -> list[DiscoveredFile]: ...


class FileInput:
    """Discovers files in the main thread, and ingests them in the thread of a Spark query.

    `find_archived`: of a stream and names of files, those that the ledger has. `lock` is held while
    a batch is ingested. `drain`: read the files that are there at the start.
    """

    def __init__(
        self,
        *,
        spark: SparkSession,
        settings: Settings,
        ingest_units: Callable[[Sequence[SourceUnit]], None],
        find_archived: Callable[[str, Set[str]], Set[str]],
        lock: threading.Lock,
        drain: bool,
    ) -> None:
        self._base = settings.file.parent
        self._ingest_units = ingest_units
        self._lock = lock
        self._drain = drain
        self._formats: dict[str, FileFormat] = {}
        self._discoveries: dict[str, Discovery] = {}
        for stream, declared in settings.streams.items():
            if isinstance(declared.source, FileSource):
                self._formats[stream] = declared.source.format
                self._discoveries[stream] = self._make_discovery(
                    stream, declared.source, partial(find_archived, stream)
                )
        self._problems: dict[str, str] = {}
        self._batches = FileBatches(MAX_BATCH_BYTES)
        self._restarts = 0
        self._failure: Exception | None = None
        self._query = NumberQuery(
            spark, "ingest", Path(settings.home) / "checkpoints" / "live", self._handle_batch
        )

    def _make_discovery(
        self, stream: str, source: FileSource, find_archived: Callable[[Set[str]], Set[str]]
    ) -> Discovery:
        if source.is_in_object_storage:
            return ObjectDiscovery(stream, source.files, find_archived)
        return FolderDiscovery(stream, source.files, self._base, find_archived)

    def start(self) -> None:
        """Start the query; in a drain, discover the files. Raises `MoiraeError`."""
        if not self._discoveries:
            return
        for discovery in self._discoveries.values():
            if isinstance(discovery, FolderDiscovery):
                with suppress(OSError):  # its listing tells
                    discovery.create_folders()
        self._query.start()
        if self._drain:
            self._discover()

    def update(self) -> None:
        """Discover files, and start a batch of them. The lock is not held. Raises `Unreachable`."""
        if not self._discoveries:
            return
        if not self._drain:
            self._discover()
        reason = self._query.failure()
        if reason is not None and self._failure is None:
            self._restart_query(reason)
        with self._lock:
            self._start_batch()

    def has_unread(self, stream: str) -> bool:
        """Whether a stream has discovered files that are not archived. The lock is held."""
        return stream in self._batches.count_by_stream()

    def is_active(self) -> bool:
        """Whether no batch has failed and, in a drain, files are unread."""
        if self._failure is not None:
            return False
        return not self._drain or bool(self._batches.count_by_stream())

    def raise_failure(self) -> None:
        """Raise the error of a batch and, in a drain, of folders that cannot be listed."""
        if self._failure is not None:
            raise self._failure
        if self._drain and self._problems:
            raise Unreachable("; ".join(self._problems.values()))

    def stop(self) -> None:
        """Stop the query. The lock is not held."""
        self._query.stop()

    def _discover(self) -> None:
        for stream, discovery in self._discoveries.items():
            new_files = discovery.find_new()
            self._record_problem(stream, discovery.problem)
            if new_files:
                with self._lock:
                    self._batches.add(new_files)

    def _record_problem(self, stream: str, problem: str | None) -> None:
        """Log that files of a stream cannot be listed, or can be again."""
        if problem == self._problems.get(stream):
            return
        if problem is None:
            del self._problems[stream]
            _LOG.info("files can be listed again", action="listing_recovered", stream=stream)
            return
        self._problems[stream] = f"stream {stream}: {problem}"
        _LOG.warning("cannot list files", action="listing_failed", stream=stream, reason=problem)

    def _restart_query(self, reason: str) -> None:
        """Start the query without its checkpoint, which may be damaged: the ledger replaces it."""
        self._restarts += 1
        if self._restarts > _MAX_RESTARTS:
            raise Unreachable(f"cannot read source files, Spark's query ends: {reason}")
        self._query.restart(reason)

    def _start_batch(self) -> None:
        """Start the next batch, unless there is one. The lock is held."""
        if self._batches.start_batch():
            self._query.publish()

    def _handle_batch(self) -> None:
        """Ingest the batch; store an error for the main thread.

        Spark would pass on the text of the error only.
        """
        try:
            with self._lock:
                if self._failure is None and self._batches.current:
                    self._ingest(self._batches.current)
                    self._batches.finish_batch()
                    self._restarts = 0
                    self._start_batch()
        except Exception as error:
            self._failure = error
            raise RuntimeError(type(error).__name__) from None

    def _ingest(self, discovered: Sequence[DiscoveredFile]) -> None:
        """Ingest the files that still exist."""
        present: list[DiscoveredFile] = []
        for file in discovered:
            if isinstance(file.path, ObjectPath):
                present.append(file)
            elif (current := files.stat_file(file.stream, file.path)) is not None:
                present.append(current)
        if present:
            self._ingest_units(files.make_units(present, self._formats, self._base))
