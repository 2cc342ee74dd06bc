"""The main loop of the live process: source → archive → rules → events and alerts.

Spark's micro-batches deliver new files and records, which are ingested in Spark's thread. Between
them the loop ingests the landing folders and runs the periodic work. One lock serializes all of it.
"""

import threading
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import SparkSession

from archiver.periodic import Schedule
from moirae.deployments import InitialRules, RuleReloader
from moirae.errors import MoiraeError, Stopped
from moirae.live.column_rewrites import ColumnRewrites
from moirae.live.detection import Detector
from moirae.live.end_of_input import EndOfInput
from moirae.live.ingest import Ingest
from moirae.live.landed_input import LandedInput
from moirae.live.live_role import LiveRole
from moirae.live.relations import Relations
from moirae.live.sources import SourceReaders
from moirae.live.unread_input import UnreadInputRecorder

_TICK_INTERVAL = 0.1  # seconds between rounds of periodic work


@dataclass(kw_only=True, eq=False)
class LiveProcess:
    """One run of the live process; built by `moirae.live.composition`."""

    role: LiveRole
    lock: threading.Lock
    """Held while a batch is ingested or periodic work is done."""
    spark: SparkSession
    initial_rules: InitialRules
    reloader: RuleReloader
    """Not started in a drain."""
    drain: bool
    """Whether to end when the sources are read."""
    relations: Relations
    detector: Detector
    ingest: Ingest
    landed_input: LandedInput
    readers: SourceReaders
    schedule: Schedule
    """The periodic work."""
    column_rewrites: ColumnRewrites
    unread_input: UnreadInputRecorder
    end_of_input: EndOfInput

    def apply_rules(self) -> None:
        """Make the rule files the desired rules, as `InitialRules.apply` says."""
        self.role.end_if_stopped()
        try:
            self.initial_rules.apply()
        except MoiraeError:
            self.spark.stop()
            raise

    def run(self) -> None:
        """Run the main loop until a stop is requested or, in a drain, the sources are read."""
        self._load_rules()
        self.readers.require_streams()
        self.column_rewrites.start()
        if self.drain:
            self._await_column_rewrites()
        if not self.drain:
            self.reloader.start()
        self.readers.start()
        with suppress(Stopped):
            if self.drain:
                self.ingest.retry_dead_letters()
                self.landed_input.limit_to_present()
            while self._is_reading() and not self.role.wait_for_stop(_TICK_INTERVAL):
                self.readers.update()
                with self.lock:
                    self.landed_input.ingest()
                    self.schedule.run_due()
        if self.role.is_stopped:
            with self.lock:  # wait for the current batch; the next one stops at the fence
                self.unread_input.record()
            self.readers.stop()
        else:
            self.readers.raise_failure()
            self.readers.stop()
            with self.lock:
                self.readers.topics.report()
                self.unread_input.record()
                self.end_of_input.settle_all()
        self._stop()

    def _await_column_rewrites(self) -> None:
        """Wait until no input waits for the rewrite of files. Raises `MoiraeError` if it fails."""
        while self.column_rewrites.waiting_streams:
            self.role.end_if_stopped()
            self.role.heartbeat()
            self.column_rewrites.update()
            self.column_rewrites.require_success()
            self.role.wait_for_stop(_TICK_INTERVAL)

    def _is_reading(self) -> bool:
        """Whether no reader has failed and, in a drain, any input is left."""
        if self.drain and not self.readers.has_failed and self.landed_input.has_unread():
            return True
        return self.readers.is_active()

    def _load_rules(self) -> None:
        """Load the desired rules; evaluate rows not settled by the previous process."""
        self.role.end_if_stopped()
        self.detector.reload(self.ingest.event_time)
        self.role.end_if_stopped()
        self.detector.detect_unsettled(self.detector.active_rules)
        self.role.end_if_stopped()

    def _stop(self) -> None:
        self.column_rewrites.stop()
        if not self.drain:
            self.reloader.stop()
        self.relations.stop()
        self.role.end()
        self.end_of_input.stop_chunk_work()
        self.spark.stop()
