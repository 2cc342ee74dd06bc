"""Asks the brokers about a topic, by Kafka's admin client in Spark's JVM."""

import re
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from archiver.ingest import OffsetRange
from moirae.live.sources.topics.client_settings import ClientSettings
from moirae.live.sources.topics.plan import TopicState

_TIMEOUT_MILLIS = 3_000  # of a request
# An entry of the text of a Java map from topic partitions to the results of `listOffsets`.
_OFFSET = re.compile(r"-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+)")
# Of a topic in brokers before version 2.8.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


class TopicClient:
    """A client for one topic, open between the first request and `close`."""

    def __init__(self, spark: SparkSession, settings: ClientSettings) -> None:
        self._spark = spark
        self._settings = settings
        self._topic = settings.topic
        self._admin: Any = None
        self._isolation = ""
        self._cluster = ""

    def fetch_state(self) -> TopicState:
        """The topic as it is now: its id, and the offsets of each partition.

        Raises `TopicError` or `TopicChanged`.
        """
        try:
            return self._fetch_state()
        except Py4JError as error:
            # A new client resolves the names of the servers again.
            self.close()
            raise self._settings.translate(error) from None

    def fetch_id(self) -> str:
        """The id of the topic as it is now. Raises as `fetch_state`."""
        try:
            return self._read_id(self._describe())
        except Py4JError as error:
            self.close()
            raise self._settings.translate(error) from None

    def close(self) -> None:
        """Close the client."""
        if self._admin is not None:
            with suppress(Py4JError):
                self._admin.close(self._jvm.java.time.Duration.ZERO)
        self._admin = None

    def _fetch_state(self) -> TopicState:
        description = self._describe()
        numbers = range(description.partitions().size())
        first_offsets = self._list_offsets(numbers, "earliest")
        end_offsets = self._list_offsets(numbers, "latest")
        partitions: dict[str, OffsetRange] = {}
        for number in map(str, numbers):
            partitions[number] = OffsetRange(first_offsets[number], end_offsets[number])
        return TopicState(self._read_id(description), self._cluster, partitions)

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm

    def _describe(self) -> Any:
        if self._admin is None:
            self._admin = self._open()
        if not self._cluster:
            self._cluster = str(self._get(self._admin.describeCluster().clusterId()))
        names = self._jvm.java.util.List.of(self._topic)
        described = self._get(self._admin.describeTopics(names).allTopicNames())
        return described.get(self._topic)

    def _read_id(self, description: Any) -> str:
        topic_id = str(description.topicId().toString())
        return f"{self._cluster}/{self._topic}" if topic_id == _NO_ID else topic_id

    def _list_offsets(self, numbers: range, which: str) -> dict[str, int]:
        kafka: Any = self._jvm.org.apache.kafka
        spec = getattr(kafka.clients.admin.OffsetSpec, which)()
        specs = self._jvm.java.util.HashMap()
        for number in numbers:
            specs.put(kafka.common.TopicPartition(self._topic, number), spec)
        # With read_committed, an open transaction is the end: its records are read when it is.
        isolation = kafka.common.IsolationLevel.valueOf(self._isolation.upper())
        options = kafka.clients.admin.ListOffsetsOptions(isolation)
        # The text is one call to the JVM, whatever the number of partitions.
        return parse_offsets(self._get(self._admin.listOffsets(specs, options).all()).toString())

    def _get(self, future: Any) -> Any:
        return future.get(_TIMEOUT_MILLIS, self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS)

    def _open(self) -> Any:
        settings = {
            "client.id": "moirae",
            "default.api.timeout.ms": str(_TIMEOUT_MILLIS),
            "request.timeout.ms": str(_TIMEOUT_MILLIS),
            **self._settings.load(),
        }
        self._isolation = settings.pop("isolation.level")  # of consumers
        properties = self._jvm.java.util.Properties()
        for name, value in settings.items():
            properties.put(name, value)
        return self._jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)


def parse_offsets(text: str) -> dict[str, int]:
    """Offsets by partition, of the text `{t-0=ListOffsetsResultInfo(offset=5, …), …}`."""
    return {partition: int(offset) for partition, offset in _OFFSET.findall(text)}
