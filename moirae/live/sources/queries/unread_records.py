"""Unread records of a Kafka topic: its end offsets, compared with a query's checkpoint."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from archiver.periodic import Timer
from moirae.config import KafkaSource
from moirae.live.sources.queries.checkpoint import last_batch, read_offsets

_CHECK_INTERVAL = 0.2  # seconds between requests to the broker
_TIMEOUT_MILLIS = 500  # of a request: the live process waits for it
# How soon a new partition is seen.
_METADATA_AGE_MILLIS = "5000"
_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
# An entry of the text of a Java map from topic partitions to offsets.
_OFFSET = re.compile(r"-(\d+)=(\d+)[,}]")


class UnreadRecordsCheck:
    """Tells whether a topic may have records that are in no finished batch of a query.

    It asks the broker by a consumer in Spark's JVM, which is open between the first call and
    `close`. Any failure counts as unread records: the query itself reports what is wrong.
    """

    def __init__(self, spark: SparkSession, source: KafkaSource, checkpoint: Path) -> None:
        self._spark = spark
        self._topic = source.kafka.topic
        self._servers = source.kafka.servers
        self._checkpoint = checkpoint
        self._consumer: Any = None
        self._partitions: Any = None  # java.util.ArrayList of TopicPartition
        self._timer = Timer(_CHECK_INTERVAL)

    def __call__(self) -> bool:
        """Whether there may be unread records; False between two checks."""
        if not self._timer.is_due():
            return False
        self._timer.restart()
        handled = read_handled_offsets(self._checkpoint, self._topic)
        if handled is None:
            return True
        try:
            return self._end_offsets() != handled
        except Py4JError:
            self.close()
            return True

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            with suppress(Py4JError):
                self._consumer.close()
        self._consumer = None
        self._partitions = None

    def _end_offsets(self) -> Mapping[str, int]:
        """The offset after the last record of each partition. Raises `Py4JError`."""
        jvm: Any = self._spark._jvm
        if self._consumer is None:
            self._consumer = self._open_consumer(jvm)
        timeout = jvm.java.time.Duration.ofMillis(_TIMEOUT_MILLIS)
        infos = self._consumer.partitionsFor(self._topic, timeout)
        if self._partitions is None or self._partitions.size() != infos.size():
            self._partitions = jvm.java.util.ArrayList()
            for info in infos:
                partition = jvm.org.apache.kafka.common.TopicPartition(
                    self._topic, info.partition()
                )
                self._partitions.add(partition)
        # The text is one call to the JVM, whatever the number of partitions.
        return parse_offsets(self._consumer.endOffsets(self._partitions, timeout).toString())

    def _open_consumer(self, jvm: Any) -> Any:
        settings = jvm.java.util.Properties()
        settings.put("bootstrap.servers", self._servers)
        settings.put("key.deserializer", _DESERIALIZER)
        settings.put("value.deserializer", _DESERIALIZER)
        settings.put("enable.auto.commit", "false")
        settings.put("metadata.max.age.ms", _METADATA_AGE_MILLIS)
        return jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)


def parse_offsets(text: str) -> dict[str, int]:
    """Offsets by partition, of the text `{topic-0=5, topic-1=7}`."""
    return {partition: int(offset) for partition, offset in _OFFSET.findall(text)}


def read_handled_offsets(checkpoint: Path, topic: str) -> dict[str, int] | None:
    """The offsets, by partition, up to which the batches of a query are finished.

    None if the checkpoint has no batch, or its last one is not finished.
    """
    batch = last_batch(checkpoint)
    if batch is None or batch != last_batch(checkpoint, "commits"):
        return None
    try:
        offsets = orjson.loads(read_offsets(checkpoint, batch)[-1])[topic]
        return {partition: int(offset) for partition, offset in offsets.items()}
    except (OSError, IndexError, KeyError, ValueError, TypeError, AttributeError):
        return None
