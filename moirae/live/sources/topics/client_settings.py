"""The settings of Kafka's clients for one topic: Moirae's own, and those of a file of properties.

The file is read each time a client is opened, so that a password that was changed there is used
without a restart.
"""

import os
import re
from pathlib import Path
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from moirae.config import Kafka, interpolate
from moirae.errors import TopicError
from moirae.live.sources.topics.errors import translate

# What is read, in which order and how often is Moirae's: the ledger has the offsets.
_OWN_SETTINGS = {
    "bootstrap.servers": "write `servers` beside `properties`",
    "auto.offset.reset": "Moirae reads a topic from its first record on",
    "enable.auto.commit": "the ledger of Moirae has the offsets",
    "group.id": "the ledger of Moirae has the offsets; there is no group of consumers",
    "group.instance.id": "there is no group of consumers",
    "interceptor.classes": "Moirae loads no classes for clients",
    "key.deserializer": "`format` says what a record is",
    "value.deserializer": "`format` says what a record is",
}
# A file is often shared with producers and clients of a registry: their settings do not matter.
_REGISTRY_SETTINGS = ("schema.registry.", "basic.auth.")
# Settings of librdkafka, and what Java's clients have instead.
_NATIVE_SETTINGS = {
    "metadata.broker.list": "`servers` beside `properties`",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.password": "sasl.jaas.config",
    "sasl.username": "sasl.jaas.config",
    "ssl.ca.location": "ssl.truststore.location and ssl.truststore.type=PEM",
    "ssl.certificate.location": "ssl.keystore.location and ssl.keystore.type=PEM",
    "ssl.key.location": "ssl.keystore.location and ssl.keystore.type=PEM",
}
# Values of these are files, relative to the file of properties.
_FILE_SETTINGS = (".location", ".file")
_SECRET_NAME = re.compile(r"password|jaas|secret|token|keystore\.key", re.IGNORECASE)
_READ_COMMITTED = {"isolation.level": "read_committed"}


class ClientSettings:
    """Of one topic."""

    def __init__(self, spark: SparkSession, kafka: Kafka) -> None:
        self._spark = spark
        self._servers = kafka.servers
        self._file = kafka.properties
        self._secrets: list[str] = []
        self.topic = kafka.topic

    def load(self) -> dict[str, str]:
        """By name. Raises `TopicError`."""
        settings = _READ_COMMITTED | self._read_file() | {"bootstrap.servers": self._servers}
        self._secrets = [
            value for name, value in settings.items() if _SECRET_NAME.search(name) and value
        ]
        return settings

    def translate(self, error: BaseException) -> Exception:
        """What an error of a client or of Spark's reader means for the topic, without secrets."""
        return translate(error, self._servers, self.topic, self._secrets)

    def _read_file(self) -> dict[str, str]:
        if self._file is None:
            return {}
        path = Path(self._file)
        try:
            stored = self._parse(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise self._error(f"cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise self._error(f"is not UTF-8: {error.reason}") from None
        settings: dict[str, str] = {}
        for name, value in stored.items():
            if not self._is_consumer_setting(name, value):
                continue
            try:
                settings[name] = interpolate(value, os.environ)
            except ValueError as error:
                raise self._error(f"{name}: {error}") from None
            if name.endswith(_FILE_SETTINGS):
                settings[name] = str(path.parent / settings[name])
        return settings

    def _is_consumer_setting(self, name: str, value: str) -> bool:
        """Whether a setting is one of consumers. Raises `TopicError` for one that cannot be set."""
        clients = cast(Any, self._spark._jvm).org.apache.kafka.clients
        if name == "bootstrap.servers" and value == self._servers:
            return False
        if name in _OWN_SETTINGS:
            raise self._error(f"{name} cannot be set: {_OWN_SETTINGS[name]}")
        if clients.consumer.ConsumerConfig.configNames().contains(name):
            return True
        if name in _NATIVE_SETTINGS:
            raise self._error(f"has the setting {name} of librdkafka: use {_NATIVE_SETTINGS[name]}")
        configurations = (clients.producer.ProducerConfig, clients.admin.AdminClientConfig)
        is_known = any(config.configNames().contains(name) for config in configurations)
        if not is_known and not name.startswith(_REGISTRY_SETTINGS):
            raise self._error(f"has the unknown setting {name}")
        return False

    def _parse(self, text: str) -> dict[str, str]:
        """Properties as Java reads them: their escapes, comments and continued lines."""
        jvm: Any = self._spark._jvm
        properties = jvm.java.util.Properties()
        try:
            properties.load(jvm.java.io.StringReader(text))
        except (Py4JError, PySparkException):
            raise self._error("is no file of Java properties: it has a malformed \\u") from None
        names = list(properties.stringPropertyNames())
        return {name: str(properties.getProperty(name)) for name in sorted(names)}

    def _error(self, reason: str) -> TopicError:
        return TopicError(
            "failed",
            f"topic {self.topic} is not read: {self._file} {reason}: correct the file; it is read "
            "again by itself",
        )
