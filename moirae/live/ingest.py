"""Ingest: source units are archived and evaluated, and their alerts followed up.

A unit that breaks its reader is found by dividing the batch; everything else is archived.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

from archiver.clock import unix_now, utc_now
from archiver.ingest import ArchiveWriter, IngestResult, SourceUnit
from archiver.ingest.engines import TopicRecords
from archiver.times import to_micros
from moirae.live.detection import Detector
from moirae.live.event_time import current_event_time
from moirae.live.external_alerts import ExternalAlerts
from moirae.live.follow_up import AlertFollowUp
from moirae.live.live_role import LiveRole
from moirae.live.metrics import BatchFigures
from moirae.live.sources import IdleTracker, SourceKey
from moirae.live.unit_failures import UnitFailures, describe_failure, is_unit_failure, split_units

_LOG = structlog.get_logger()

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
        unit_failures: UnitFailures,
        idle_tracker: IdleTracker,
        record_batch: RecordBatch,
    ) -> None:
        self._archive = archive
        self._detector = detector
        self._follow_up = follow_up
        self._role = role
        self._failures = unit_failures
        self._idle_tracker = idle_tracker
        self._record_batch = record_batch
        self.external_alerts: ExternalAlerts | None = None
        """Records posted alerts; None: not yet."""

    @property
    def event_time(self) -> datetime:
        """The event time of what is archived; see `current_event_time`."""
        return current_event_time(self._archive)

    def recover(self) -> None:
        """Record what the process before has archived, and not recorded."""
        if self.external_alerts is not None:
            self.external_alerts.recover()

    def ingest_units(self, units: Sequence[SourceUnit]) -> list[SourceUnit]:
        """Archive and evaluate units.

        Returns those that are not archived: they failed, wait for a try, or are set aside.
        """
        plan = self._failures.plan(units)
        postponed = plan.postponed
        waiting_streams: set[str] = set()
        for group in plan.groups:
            failed = group
            if group[0].stream not in waiting_streams:
                failed = self._ingest_group(group)
            postponed += failed
            for unit in failed:
                if not self._failures.is_set_aside(unit):
                    waiting_streams.add(unit.stream)
        self._failures.record_unopened(postponed)
        return postponed

    def _ingest_group(self, units: Sequence[SourceUnit]) -> list[SourceUnit]:
        """Archive and evaluate units together; if that fails, in parts until one unit is left.

        Returns the units that are not archived.
        """
        started_at = time.monotonic()
        self._failures.begin(units)
        try:
            ingested = self._archive.ingest(units, to_micros(utc_now()))
        except Exception as error:
            # Records of a topic are not skipped: their stream stops.
            if not is_unit_failure(error) or any(unit.partition for unit in units):
                raise
            return self._ingest_parts(units, error)
        self._failures.record_read(units)
        self._detect_and_settle(ingested)
        now = unix_now()
        latencies = [now - unit.arrived_at for unit in units if unit.arrived_at is not None]
        self._record(ingested, started_at, latencies)
        sources = {SourceKey(unit.stream, unit.partition) for unit in units}
        self._record_activity(sources, ingested)
        return []

    def _ingest_parts(self, units: Sequence[SourceUnit], error: Exception) -> list[SourceUnit]:
        """Find out which of the units fails, and archive the others."""
        if len(units) == 1:
            self._failures.record_failure(units[0], error)
            return list(units)
        postponed: list[SourceUnit] = []
        waiting_streams: set[str] = set()
        for part in split_units(units):  # each of one stream
            stream = part[0].stream
            failed = list(part) if stream in waiting_streams else self._ingest_group(part)
            postponed += failed
            if not all(map(self._failures.is_set_aside, failed)):
                waiting_streams.add(stream)
        return postponed

    def ingest_records(self, records: TopicRecords) -> None:
        """Archive and evaluate a micro-batch of a topic on executors."""
        started_at = time.monotonic()
        ingested = self._archive.ingest_records(records, to_micros(utc_now()))
        self._detect_and_settle(ingested)
        self._record(ingested, started_at)
        sources = {SourceKey(records.stream, name) for name in ingested.partitions}
        self._record_activity(sources, ingested)

    def retry_dead_letters(self) -> None:
        """Retry the dead letters for which it was requested, until their number stops falling.

        If they break their reader, the requests are withdrawn: the records stay dead letters.
        """
        pending_count = self._archive.count_pending_retries()
        while pending_count:
            try:
                ingested = self._archive.retry(to_micros(utc_now()))
            except Exception as error:
                if not is_unit_failure(error):
                    raise
                self._archive.cancel_retries()
                _LOG.error(
                    "retry of dead letters failed, they stay dead letters",
                    action="retry_failed",
                    error=describe_failure(error),
                )
                return
            self._detect_and_settle(ingested)
            previous_count = pending_count
            pending_count = self._archive.count_pending_retries()
            if pending_count >= previous_count:
                return

    def _record_activity(self, sources: set[SourceKey], ingested: IngestResult) -> None:
        now = time.monotonic()
        self._idle_tracker.record_activity(sources, now)
        not_ahead = map(SourceKey._make, ingested.sources_not_ahead)
        self._idle_tracker.record_rows_not_ahead(not_ahead, now)

    def _record(
        self, ingested: IngestResult, started_at: float, latencies: Sequence[float] = ()
    ) -> None:
        """Count a batch that was started at a time of the monotonic clock."""
        self._detector.flows.add_rows(ingested)
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
        if self.external_alerts is not None:
            self.external_alerts.record(ingested)
        self._detector.detect_alerts()
        self._follow_up.run()
