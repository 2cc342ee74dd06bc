"""Reads ranges of a topic's records by Spark."""

from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from archiver.ingest import OffsetRange
from moirae.errors import TopicChanged, TopicError
from moirae.live.sources.topics.client_settings import ClientSettings
from moirae.live.sources.topics.errors import is_topic_error

_COLUMNS = ("partition", "offset", "value")
_HEADERS = "headers"
# Milliseconds without an answer of a broker after which reading fails, to be tried again: an outage
# is to be noticed.
_TIMEOUT_MILLIS = "5000"


class RecordReader:
    """Reads the topic of one stream.

    `with_headers`: also the headers of records.
    """

    def __init__(
        self, spark: SparkSession, stream: str, settings: ClientSettings, with_headers: bool
    ) -> None:
        self._with_headers = with_headers
        self._spark = spark
        self._stream = stream
        self._settings = settings
        self._topic = settings.topic

    def open(self, ranges: Mapping[str, OffsetRange], number: int) -> DataFrame:
        """A frame of the records of ranges: columns `partition`, `offset`, `value` and perhaps `headers`.

        Each partition is one part of it. `number`: of the topic among those of its stream.
        Executors keep consumers for a topic; another one gets others. Raises as `read`.
        """
        consumer_settings = {
            "group.id": f"moirae-{self._stream}-{number}",
            "default.api.timeout.ms": _TIMEOUT_MILLIS,
            "request.timeout.ms": _TIMEOUT_MILLIS,
            **self._settings.load(),
        }
        reader = self._spark.read.format("kafka").options(
            **{
                **{f"kafka.{name}": value for name, value in consumer_settings.items()},
                "kafkaConsumer.pollTimeoutMs": _TIMEOUT_MILLIS,
                "fetchOffset.numRetries": "1",
                # A record that was deleted meanwhile is an error here: the loss is recorded by
                # what the brokers say then.
                "failOnDataLoss": "true",
                "includeHeaders": str(self._with_headers).lower(),
                "assign": self._dump(sorted(map(int, ranges))),
                "startingOffsets": self._dump({name: ranges[name].first for name in ranges}),
                "endingOffsets": self._dump({name: ranges[name].end for name in ranges}),
            }
        )
        try:
            return reader.load().select(*_COLUMNS, *([_HEADERS] if self._with_headers else []))
        except (Py4JError, PySparkException) as error:
            raise self._settings.translate(error) from None

    def read(self, frame: DataFrame) -> pa.Table:
        """The records of a frame. Raises `TopicError` or `TopicChanged`."""
        try:
            return frame.toArrow()
        except (Py4JError, PySparkException) as error:
            raise self._settings.translate(error) from None

    def find_topic_error(self, error: Exception) -> Exception | None:
        """What an error of a job over a frame says about the topic; None: nothing."""
        if isinstance(error, TopicError | TopicChanged):
            return error
        if not is_topic_error(error):
            return None
        return self._settings.translate(error)

    def _dump(self, of_topic: Any) -> str:
        """JSON of the partitions of the topic, or of their offsets."""
        return orjson.dumps({self._topic: of_topic}).decode()
