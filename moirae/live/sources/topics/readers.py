"""The topics of a workspace: each is read in its own thread."""

import time
from collections.abc import Collection

from pyspark.sql import SparkSession

from moirae.config import FileSource, KafkaSource, Settings
from moirae.live.sources.archiving import InputArchiving
from moirae.live.sources.source import Source
from moirae.live.sources.topics.client import TopicClient
from moirae.live.sources.topics.client_settings import ClientSettings
from moirae.live.sources.topics.outage import SourceProblem
from moirae.live.sources.topics.reader import TopicReader
from moirae.live.sources.topics.record_reader import RecordReader
from sql.topics import SourceErrorGateway

_STOP_TIMEOUT = 10.0  # seconds to wait for all threads: each may wait for a broker


class TopicReaders(Source):
    """The readers of one run."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        archiving: InputArchiving,
        errors: SourceErrorGateway,
        *,
        drain: bool,
    ) -> None:
        """`errors`: has the connection of the archive."""
        self._archiving = archiving
        self._errors = errors
        self._drain = drain
        self.by_stream: dict[str, TopicReader] = {}
        # Their files are partitions of a topic in the ledger.
        self._growing_streams = {
            stream
            for stream, declared in settings.streams.items()
            if isinstance(declared.source, FileSource) and declared.source.tail
        }
        self._reported: dict[str, SourceProblem | None] = {}
        for stream, declared in settings.streams.items():
            source = declared.source
            if isinstance(source, KafkaSource):
                client_settings = ClientSettings(spark, source.kafka)
                self.by_stream[stream] = TopicReader(
                    stream=stream,
                    declared=declared,
                    client=TopicClient(spark, client_settings),
                    records=RecordReader(
                        spark,
                        stream,
                        client_settings,
                        with_headers=declared.punctuation is not None,
                    ),
                    archiving=archiving,
                    drain=drain,
                )

    @property
    def streams(self) -> Collection[str]:
        return self.by_stream.keys()

    @property
    def failure(self) -> BaseException | None:
        """An error of the archive."""
        failures = (reader.failure for reader in self.by_stream.values())
        return next((failure for failure in failures if failure is not None), None)

    def start(self) -> None:
        self.leave_topics()
        for reader in self.by_stream.values():
            reader.start()

    def leave_topics(self) -> None:
        """Streams that have another source now leave their topics in the ledger."""
        with self._archiving.lock:
            with self._archiving.archive.fenced_transaction():
                for stream in self._archiving.archive.topics.streams():
                    if stream not in self.by_stream and stream not in self._growing_streams:
                        self._archiving.archive.topics.leave(stream)
            self._errors.delete_others(list(self.by_stream))

    def update(self) -> None:
        """Nothing: each topic is read by its thread."""

    def stop(self) -> None:
        for reader in self.by_stream.values():
            reader.request_stop()
        deadline = time.monotonic() + _STOP_TIMEOUT
        for reader in self.by_stream.values():
            reader.join(max(0.0, deadline - time.monotonic()))

    def report(self) -> None:
        """Store which topics cannot be read, for `moirae status`. The lock is held."""
        for stream, reader in self.by_stream.items():
            problem = reader.outage.problem
            if stream in self._reported and self._reported[stream] == problem:
                continue
            if problem is not None:
                self._errors.put(stream, problem.kind, problem.error)
            elif reader.position.was_seen:
                self._errors.delete(stream)
            else:
                continue  # the error of an earlier run may last
            self._reported[stream] = problem

    def has_unread(self, stream: str, partition: str | None = None) -> bool:
        """It may be known only for the whole topic. A drain may have given it up."""
        reader = self.by_stream[stream]
        return reader.is_running() if self._drain else reader.position.has_unread(partition)

    def oldest_unread(self, stream: str) -> float | None:
        """When unread records of a topic were first seen."""
        return self.by_stream[stream].position.unread_since
