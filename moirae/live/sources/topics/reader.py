"""Reads the topic of one stream, in a thread of its own: what fails there stops this stream only.

Which records are read next follows from the ledger and from what the brokers say: there is no
checkpoint. A batch is read by Spark, then archived and evaluated like any other.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass

import structlog
from pyspark.sql import DataFrame

from archiver.periodic import Clock
from archiver.threads import start_thread
from moirae.config import KafkaSource, Stream
from moirae.errors import Stopped, TopicChanged, TopicError
from moirae.live.sources.archiving import InputArchiving
from moirae.live.sources.topics.client import TopicClient
from moirae.live.sources.topics.outage import SourceProblem, TopicOutage
from moirae.live.sources.topics.position import PlannedBatch, TopicPosition
from moirae.live.sources.topics.record_reader import RecordReader
from moirae.live.sources.topics.units import make_topic_records, make_units
from moirae.live.unit_failures import describe_failure, is_unit_failure

_LOG = structlog.get_logger()

_BUSY_INTERVAL = 0.1  # seconds between looks at a topic that has brought records
_QUIET_INTERVAL = 0.2  # the same, without records for some time
_BUSY_TIME = 5.0  # seconds after the last record


@dataclass(frozen=True)
class _DrainEnd:
    """Where a drain ends: offsets of the topic that was there at its start, by partition."""

    topic_id: str
    offsets: Mapping[str, int]


class TopicReader:
    """Reads until it is stopped or, in a drain, up to the end of the topic at the start."""

    def __init__(
        self,
        *,
        stream: str,
        declared: Stream,
        client: TopicClient,
        records: RecordReader,
        archiving: InputArchiving,
        drain: bool,
        clock: Clock = time.monotonic,
    ) -> None:
        assert isinstance(declared.source, KafkaSource)
        self.stream = stream
        self.position = TopicPosition(stream, declared.source, archiving, clock)
        self.outage = TopicOutage(clock)
        self._declared = declared
        self._topic = declared.source.kafka.topic
        self._client = client
        self._records = records
        self._archiving = archiving
        self._drain = drain
        self._drain_end: _DrainEnd | None = None
        self._clock = clock
        self._read_at = -_BUSY_TIME
        self._stop = threading.Event()
        self._reading: Future[None] | None = None

    @property
    def failure(self) -> BaseException | None:
        """An error of the archive, by which the thread has ended; it ends the process."""
        if self._reading is None or not self._reading.done():
            return None
        return self._reading.exception()

    def start(self) -> None:
        """Start the thread."""
        self._reading = start_thread(self._run, f"topic {self.stream}")

    def request_stop(self) -> None:
        """Have the thread end after what it is doing."""
        self._stop.set()

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, some seconds at most: it may wait for a broker."""
        if self._reading is not None:
            wait([self._reading], timeout)
        self._client.close()

    def is_running(self) -> bool:
        """Whether the topic is still read."""
        return self._reading is not None and not self._reading.done()

    def _run(self) -> None:
        pause: float | None = 0.0
        with suppress(Stopped):
            while pause is not None and not self._stop.wait(pause):
                pause = self.run_once()

    def run_once(self) -> float | None:
        """Look at the topic and read its next records.

        Returns the seconds until it is due again; None: a drain has read it, or gives it up.
        """
        topic = self._topic
        try:
            has_read = self._read_next()
        except TopicChanged:
            return self._record_problem(
                SourceProblem("failed", f"topic {topic} changes while it is read")
            )
        except TopicError as error:
            if error.kind == "missing":
                self.position.record_absence()
            return self._record_problem(SourceProblem(error.kind, str(error)))
        if self.outage.end():
            _LOG.info(
                "topic is read again", action="topic_returned", stream=self.stream, topic=topic
            )
        if has_read is None:
            return None
        now = self._clock()
        if has_read:
            self._read_at = now
            return 0.0
        return _BUSY_INTERVAL if now - self._read_at < _BUSY_TIME else _QUIET_INTERVAL

    def _record_problem(self, problem: SourceProblem) -> float | None:
        if self.outage.record(problem):
            _LOG.warning(
                "topic cannot be read",
                action="topic_unreadable",
                stream=self.stream,
                topic=self._topic,
                error=problem.error,
            )
        return None if self._drain and self.outage.is_given_up else self.outage.pause

    def _read_next(self) -> bool | None:
        """Whether there were records to read; None: a drain has read all of them.

        Raises `TopicError` and `TopicChanged`.
        """
        state = self._client.fetch_state()
        self.position.update(state, self._client.fetch_id)
        if self._drain and self._drain_end is None:
            ends = {name: offsets.end for name, offsets in state.partitions.items()}
            self._drain_end = _DrainEnd(state.topic_id, ends)
        limits: Mapping[str, int] | None = None
        if self._drain_end is not None:
            limits = self._drain_end.offsets
            if state.topic_id != self._drain_end.topic_id or self.position.is_past(limits):
                return None
        if self._archiving.archive.is_waiting(self.stream):
            return False
        batch = self.position.plan(limits)
        if batch.ranges:
            self._read(batch, state.topic_id)
            self.position.unread_since = None  # what came meanwhile is seen next
        return bool(batch.ranges)

    def _read(self, batch: PlannedBatch, topic_id: str) -> None:
        def verify() -> None:
            # Records of a topic that was made meanwhile have the same offsets.
            if self._client.fetch_id() != topic_id:
                raise TopicChanged

        frame = self._records.open(batch.ranges, batch.number)
        count = sum(offsets.end - offsets.first for offsets in batch.ranges.values())
        if self._archiving.archive.engines.choose_for_rows(count) == "spark":
            self._ingest_on_executors(batch, frame, verify)
            return
        table = self._records.read(frame)
        verify()
        units = make_units(self.stream, self._declared, batch.source, table, batch.ranges)
        with self._archiving.lock:
            try:
                postponed = self._archiving.ingest.ingest_units(units)
            except Exception as error:
                raise self._translate(error, batch) from None
        if postponed:
            raise TopicError("failed", f"topic {self._topic} waits for other input of its stream")

    def _ingest_on_executors(
        self, batch: PlannedBatch, frame: DataFrame, verify: Callable[[], None]
    ) -> None:
        records = make_topic_records(
            self.stream, self._declared, batch.source, frame, batch.ranges, verify
        )
        with self._archiving.lock:
            try:
                self._archiving.ingest.ingest_records(records)
            except Exception as error:
                raise self._translate(error, batch) from None

    def _translate(self, error: Exception, batch: PlannedBatch) -> Exception:
        """What an error of archiving means: one of the topic, or one that ends the process."""
        problem = self._records.find_topic_error(error)
        if problem is not None:
            return problem
        if not is_unit_failure(error):
            return error
        ranges = ", ".join(
            f"partition {name} offsets {offsets.first} to {offsets.end - 1}"
            for name, offsets in sorted(batch.ranges.items())
        )
        reason = describe_failure(error)
        return TopicError(
            "failed", f"records of topic {self._topic} cannot be archived ({ranges}): {reason}"
        )
