"""The files of all streams, in folders and object storage: discovered, and ingested in batches."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog
from pyspark.sql import SparkSession

from archiver.formats import Format
from archiver.ingest import SourceUnit
from archiver.periodic import Timer
from archiver.storage import ObjectPath
from moirae.config import FileSource, Settings
from moirae.errors import Unreachable
from moirae.live.sources import files
from moirae.live.sources.archiving import InputArchiving
from moirae.live.sources.discovery import (
    ChangedFiles,
    FileBatches,
    FolderDiscovery,
    ObjectDiscovery,
    RecordedVersions,
    RenamedFiles,
)
from moirae.live.sources.files import DiscoveredFile
from moirae.live.sources.queries import NumberQuery
from moirae.live.sources.settling import SourceSettling
from moirae.live.sources.source import UnitSource

_LOG = structlog.get_logger()

# Bytes and number of the files of one stream in a batch: they bound its duration, and what is
# repeated after a crash. Ten thousand files of one row take 3 s.
MAX_BATCH_BYTES = 64 << 20
_MAX_BATCH_FILES = 10_000
_RETRY_INTERVAL = 1.0  # seconds between looks for files to be tried again
# Starts of the query without its checkpoint, of which none has handled a batch, until it fails.
_MAX_RESTARTS = 2


class Discovery(Protocol):
    """Finds the files of one stream; see `FolderDiscovery`."""

    @property
    def problem(self) -> str | None: ...

    def find_new(self) -> list[DiscoveredFile]: ...


class FileInput(UnitSource):
    """Discovers files in the main thread, and ingests them in the thread of a Spark query.

    `drain`: read the files that are there at the start.
    """

    def __init__(
        self, spark: SparkSession, settings: Settings, archiving: InputArchiving, *, drain: bool
    ) -> None:
        self._base = settings.file.parent
        self._archiving = archiving
        self._drain = drain
        self._formats: dict[str, Format] = {}
        self._settling: dict[str, SourceSettling] = {}
        self._discoveries: dict[str, Discovery] = {}
        self._changed_files: dict[str, ChangedFiles] = {}
        self._renamed_files: dict[str, RenamedFiles] = {}
        for stream, declared in settings.streams.items():
            if isinstance(declared.source, FileSource) and not declared.source.tail:
                self._formats[stream] = declared.source.record_format
                self._settling[stream] = SourceSettling(declared.source.after)
                self._discoveries[stream] = self._make_discovery(stream, declared.source)
        # Streams that could not be listed at the last try, and whether this is set aside.
        self._unlisted_streams = dict.fromkeys(self._discoveries, False)
        self._batches = FileBatches(MAX_BATCH_BYTES, _MAX_BATCH_FILES)
        self._present: list[DiscoveredFile] = []  # those of the batch that exist
        self._failure: Exception | None = None
        self._retry_timer = Timer(_RETRY_INTERVAL)
        self._restarts = 0
        self._query = NumberQuery(
            spark, "ingest", Path(settings.home) / "checkpoints" / "live", self._handle_batch
        )

    def _make_discovery(self, stream: str, source: FileSource) -> Discovery:
        units = self._archiving.units
        versions = RecordedVersions(
            stream, partial(units.list_versions, stream), partial(units.put_version, stream)
        )
        if source.is_in_object_storage:
            return ObjectDiscovery(stream, source.files, versions, ordered=source.ordered)
        find_archived = partial(units.finished_names, stream)
        discovery = FolderDiscovery(
            stream, source.files, self._base, find_archived, watch=not self._drain
        )
        self._changed_files[stream] = ChangedFiles(
            stream,
            self._base,
            versions=versions,
            iterate_paths=discovery.iterate_paths,
            settle=self._settling[stream].settle,
        )
        schema = self._archiving.archive.tables[stream].schema
        if schema.is_identified_by_place and source.after == "keep":
            self._renamed_files[stream] = RenamedFiles(
                stream,
                self._base,
                list_stamps=partial(units.list_places, stream),
                list_stamps_of_names=partial(units.list_places_of_names, stream),
            )
        return discovery

    @property
    def streams(self) -> Collection[str]:
        return self._discoveries.keys()

    @property
    def failure(self) -> Exception | None:
        return self._failure

    def start(self) -> None:
        """Start the query. Raises `MoiraeError`."""
        if not self._discoveries:
            return
        for discovery in self._discoveries.values():
            if isinstance(discovery, FolderDiscovery):
                with suppress(OSError):  # its listing tells
                    discovery.create_folders()
        self._query.start()

    def update(self) -> None:
        """Discover files, and start a batch of them. The lock is not held. Raises `Unreachable`."""
        if not self._discoveries:
            return
        self._discover()
        reason = self._query.find_failure()
        if reason is not None and self._failure is None:
            self._restart_query(reason)
        with self._archiving.lock:
            self._resume_postponed()
            self._start_batch()

    def has_unread(self, stream: str, partition: str | None = None) -> bool:
        if self._drain and self._unlisted_streams.get(stream) is False:
            return True
        if stream in self._batches.ready_streams():
            return True
        postponed = [file for file in self._batches.postponed if file.stream == stream]
        return not all(map(self._archiving.failures.is_set_aside, self._make_units(postponed)))

    def oldest_unread(self, stream: str) -> float | None:
        candidates = [self._batches.oldest(stream)]
        for file in self._batches.postponed:
            if file.stream == stream and not self._archiving.failures.is_set_aside(
                *self._make_units([file])
            ):
                candidates.append(file)
        times = [files.arrived_at(file) for file in candidates if file is not None]
        return min(times, default=None)

    def stop(self) -> None:
        """Stop the query. The lock is not held."""
        self._query.stop()
        for discovery in self._discoveries.values():
            if isinstance(discovery, FolderDiscovery):
                discovery.stop()

    def _discover(self) -> None:
        """Discover files; in a drain, once for each stream that can be listed."""
        for stream, discovery in self._discoveries.items():
            if self._archiving.archive.is_waiting(stream):
                continue
            if self._drain and self._unlisted_streams.get(stream, True):
                continue
            new_files = discovery.find_new()
            if stream in self._changed_files:
                changed_files = self._changed_files[stream]
                new_files += changed_files.find_changed(all_files=self._drain)
            problem = discovery.problem
            if not new_files and problem is None and stream not in self._unlisted_streams:
                continue
            with self._archiving.lock:
                self._batches.add(new_files)
                is_set_aside = self._archiving.failures.record_listing(stream, problem)
                if problem is None and stream in self._unlisted_streams:  # the first whole listing
                    names = {unit.name for unit in self._make_units(new_files)}
                    self._archiving.failures.forget_missing(stream, names)
            if problem is None:
                self._unlisted_streams.pop(stream, None)
            else:
                self._unlisted_streams[stream] = is_set_aside

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
            with self._archiving.lock:
                if self._failure is None and self._batches.current:
                    self.ingest_next()
                    self._restarts = 0
                    self._start_batch()
        except Exception as error:
            self._failure = error
            raise RuntimeError(type(error).__name__) from None

    def _resume_postponed(self) -> None:
        """Let files that could not be archived be tried again when it is time. The lock is held."""
        postponed = self._batches.postponed
        if postponed and self._retry_timer.is_due():
            self._retry_timer.restart()
            readable = self._archiving.failures.select_readable(self._make_units(postponed))
            self._batches.resume(_select_files(postponed, readable))

    def discover(self) -> list[SourceUnit]:
        """The files of the batch that still exist."""
        self._present = []
        missing: list[DiscoveredFile] = []
        for file in self._batches.current:
            if isinstance(file.path, ObjectPath):
                self._present.append(file)
            elif (current := files.stat_file(file.stream, file.path)) is None:
                missing.append(file)
            else:
                self._present.append(replace(current, reading=file.reading))
        for stream, renamed_files in self._renamed_files.items():
            stream_files = [file for file in self._present if file.stream == stream]
            self._present = [file for file in self._present if file.stream != stream]
            self._present += renamed_files.find_places(stream_files)
        self._forget(self._make_units(missing))
        return self._make_units(self._present)

    def settle(self, archived: Sequence[SourceUnit]) -> None:
        archived_files = _select_files(self._present, archived)
        for file in archived_files:
            self._settling[file.stream].settle(file)
        postponed = set(self._present).difference(archived_files)
        self._batches.finish_batch(file for file in self._present if file in postponed)

    def _forget(self, missing: Sequence[SourceUnit]) -> None:
        self._archiving.failures.forget(missing)
        for unit in missing:
            _LOG.warning(
                "file was removed before it was read",
                action="file_removed_unread",
                stream=unit.stream,
                name=unit.name,
            )

    def _make_units(self, discovered: Sequence[DiscoveredFile]) -> list[SourceUnit]:
        return files.make_units(discovered, self._formats, self._base)


def _select_files(
    discovered: Sequence[DiscoveredFile], units: Sequence[SourceUnit]
) -> list[DiscoveredFile]:
    """The files of some units."""
    selected = {(unit.stream, unit.path) for unit in units}
    return [file for file in discovered if (file.stream, file.path) in selected]
