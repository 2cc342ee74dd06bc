"""Ingest: source units are archived and evaluated, and their alerts followed up."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain

from archiver.errors import SourceUnreachable
from archiver.ingest import ArchiveWriter, IngestResult, SourceUnit
from archiver.ingest.engines import TopicRecords
from archiver.times import to_micros
from moirae.errors import Unreachable
from moirae.live.detection import Detector
from moirae.live.follow_up import AlertFollowUp
from moirae.live.live_role import LiveRole
from moirae.live.metrics import BatchFigures
from moirae.live.sources import (
    IdleTracker,
    LandingFolders,
    SourceKey,
    make_landed_units,
    select_batches,
)
from moirae.runtime.storage import LandedBatch

_MICROS_PER_SECOND = 1_000_000

RecordBatch = Callable[[BatchFigures], None]


class Ingest:
    """Handles one batch of source units at a time.

    `idle_tracker` gets the sources that were active, `record_batch` each batch.
    """

    def __init__(
        self,
        *,
        archive: ArchiveWriter,
        detector: Detector,
        follow_up: AlertFollowUp,
        role: LiveRole,
        landing_folders: LandingFolders,
        idle_tracker: IdleTracker,
        record_batch: RecordBatch,
    ) -> None:
        self._archive = archive
        self._detector = detector
        self._follow_up = follow_up
        self._role = role
        self._landing_folders = landing_folders
        self._idle_tracker = idle_tracker
        self._record_batch = record_batch

    def ingest_units(self, units: Sequence[SourceUnit], arrived_at: Sequence[float] = ()) -> None:
        """Archive and evaluate units. `arrived_at`: when each arrived, in seconds; may be empty.

        Raises `Unreachable` if the disk of a file fails.
        """
        started_at = time.monotonic()
        try:
            ingested = self._archive.ingest(units, to_micros(datetime.now(UTC)))
        except SourceUnreachable as error:
            raise Unreachable(str(error)) from error
        self._detect_and_settle(ingested)
        now = time.time()
        self._record(ingested, started_at, [now - arrival for arrival in arrived_at])
        sources = {SourceKey(unit.stream, unit.partition) for unit in units}
        self._idle_tracker.record_activity(sources, time.monotonic())

    def ingest_records(self, records: TopicRecords) -> None:
        """Archive and evaluate a micro-batch of a topic on executors."""
        started_at = time.monotonic()
        ingested = self._archive.ingest_records(records, to_micros(datetime.now(UTC)))
        self._detect_and_settle(ingested)
        self._record(ingested, started_at)
        sources = {SourceKey(records.stream, name) for name in ingested.partitions}
        self._idle_tracker.record_activity(sources, time.monotonic())

    def ingest_landed(self) -> None:
        """Ingest the first batches of the landing folders."""
        self._ingest_batches(select_batches(self._landing_folders.pending_batches()))

    def ingest_all_landed(self, lock: threading.Lock) -> None:
        """Ingest all batches that are in the landing folders now; holds the lock for each part."""
        pending = self._landing_folders.pending_batches()
        while selected := select_batches(pending):
            with lock:
                self._ingest_batches(selected)
            for name, batches in selected.items():
                pending[name] = pending[name][len(batches) :]

    def retry_dead_letters(self) -> None:
        """Retry the dead letters for which it was requested, until their number stops falling."""
        pending_count = self._archive.count_pending_retries()
        while pending_count:
            self._detect_and_settle(self._archive.retry(to_micros(datetime.now(UTC))))
            previous_count = pending_count
            pending_count = self._archive.count_pending_retries()
            if pending_count >= previous_count:
                return

    def _ingest_batches(self, batches_by_stream: Mapping[str, Sequence[LandedBatch]]) -> None:
        """Archive and evaluate batches of the landing folders, then delete them."""
        if batches_by_stream:
            batches = chain.from_iterable(batches_by_stream.values())
            arrived_at = [batch.modified / _MICROS_PER_SECOND for batch in batches]
            self.ingest_units(make_landed_units(batches_by_stream), arrived_at)
            self._landing_folders.remove(batches_by_stream)

    def _record(
        self, ingested: IngestResult, started_at: float, latencies: Sequence[float] = ()
    ) -> None:
        """Count a batch that was started at a time of the monotonic clock."""
        stats = self._archive.engines.stats
        assert stats is not None
        seconds = time.monotonic() - started_at
        figures = BatchFigures(stats.engine, ingested.appended_rows, seconds, latencies)
        self._record_batch(figures)

    def _detect_and_settle(self, ingested: IngestResult) -> None:
        """Evaluate archived rows, settle what is due and follow up alerts."""
        self._role.record_commit(self._archive.engines.stats)
        self._detector.detect_and_settle(ingested)
        self._detector.detect_early(ingested.streams_on_time)
        self._follow_up.run()
