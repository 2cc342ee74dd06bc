"""The main loop of the live process: source → archive → rules → events and alerts.

Sources ingest what is new, in this thread or in threads of their own: files in that of a query of
Spark. Between batches the loop runs the periodic work. One lock serializes all of it.
"""

import threading
from collections.abc import Callable
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
from moirae.live.live_role import LiveRole
from moirae.live.relations import Relations
from moirae.live.sources import Sources

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
    sources: Sources
    schedule: Schedule
    """The periodic work."""
    column_rewrites: ColumnRewrites
    report_input: Callable[[], None]
    """Stores for `moirae status` what is unread, and what cannot be read."""
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
        self.column_rewrites.start()
        if self.drain:
            self._await_column_rewrites()
        if not self.drain:
            self.reloader.start()
        self.sources.start()
        with suppress(Stopped):
            if self.drain:
                self.ingest.retry_dead_letters()
            while self._is_reading() and not self.role.wait_for_stop(_TICK_INTERVAL):
                self.sources.update()
                with self.lock:
                    self.schedule.run_due()
        if self.role.is_stopped:
            with self.lock:  # wait for the current batch; the next one stops at the fence
                self.report_input()
            self.sources.stop()
        else:
            if self.sources.failure is not None:
                raise self.sources.failure
            self.sources.stop()
            with self.lock:
                self.report_input()
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
        with self.lock:
            return self.sources.is_active()

    def _load_rules(self) -> None:
        """Load the desired rules; evaluate rows not settled by the previous process."""
        self.role.end_if_stopped()
        self.detector.reload(self.ingest.event_time)
        self.role.end_if_stopped()
        self.detector.detect_unsettled(self.detector.active_rules)
        self.ingest.recover()
        self.role.end_if_stopped()

    def _stop(self) -> None:
        self.column_rewrites.stop()
        if not self.drain:
            self.reloader.stop()
        self.relations.stop()
        self.role.end()
        self.end_of_input.stop_chunk_work()
        self.spark.stop()
