"""Errors of a topic, translated from the exceptions of Kafka's client and of Spark's reader."""

import re
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from moirae.errors import TopicChanged, TopicError, Unreachable

_MAX_CAUSES = 12  # of one exception
_MAX_LENGTH = 300  # characters of a message

JavaError = tuple[str, str]
"""The name of a Java class, and its message."""

_PACKAGES = ("org.apache.kafka.", "org.apache.spark.sql.kafka010.")
# Spark may have the causes of an error of a task in its message only.
_CLASS = re.compile(r"[\w.]+\.(\w+(?:Exception|Error))\b")

_MISSING = {"UnknownTopicOrPartitionException", "UnknownTopicIdException"}
_AWAY = {
    "TimeoutException",
    "DisconnectException",
    "NetworkException",
    "BrokerNotAvailableException",
    "LeaderNotAvailableException",
    "NotLeaderOrFollowerException",
    "CoordinatorNotAvailableException",
    "UnknownHostException",
    "ConnectException",
}
_CHANGED = {
    "KafkaIllegalStateException",
    "OffsetOutOfRangeException",
    "InconsistentTopicIdException",
}
_STOPPED = ("stopped SparkContext", "SparkContext was shut down", "SparkContext has been shutdown")
_UNRESOLVABLE = "No resolvable bootstrap urls"


def is_topic_error(error: BaseException) -> bool:
    """Whether an error of Spark comes from reading a topic."""
    if not isinstance(error, Py4JError | PySparkException):
        return False
    texts = [text for cause in list_causes(error) for text in cause]
    return any(package in text for text in texts for package in _PACKAGES)


def translate(
    error: BaseException, servers: str, topic: str, secrets: Sequence[str] = ()
) -> Exception:
    """What an error of the client or of the reader means: `TopicError`, `TopicChanged`, or that
    Spark has ended (`Unreachable`). `secrets`: texts that no message may have.
    """
    if isinstance(error, Py4JNetworkError) or any(text in str(error) for text in _STOPPED):
        return Unreachable("Spark has ended: topics cannot be read without it")
    return translate_causes(list_causes(error), servers, topic, secrets)


def translate_causes(
    causes: Sequence[JavaError], servers: str, topic: str, secrets: Sequence[str] = ()
) -> TopicError | TopicChanged:
    """The same, of the exception and its causes, the innermost last."""
    names = {name.rpartition(".")[2] for name, _ in causes}
    messages = [message for _, message in causes]
    for message in messages:
        names.update(_CLASS.findall(message))
    if names & _CHANGED:
        return TopicChanged()
    if names & _MISSING:
        return TopicError(
            "missing",
            f"topic {topic} does not exist in the Kafka brokers {servers}: create it, or correct "
            "`topic`; it is read as soon as it is there",
        )
    if names & _AWAY or any(_UNRESOLVABLE in message for message in messages):
        return away(servers, topic)
    name, message = causes[-1]
    for secret in secrets:
        message = message.replace(secret, "***")
    detail = " ".join(message.split())[:_MAX_LENGTH] or name.rpartition(".")[2]
    if any("Authentication" in name for name in names):
        return TopicError(
            "failed",
            f"the Kafka brokers {servers} or this client refuse to connect, topic {topic} is not "
            f"read: {detail}: correct the file of `properties`; it is read again by itself",
        )
    if any("Authorization" in name for name in names):
        return TopicError(
            "failed",
            f"the Kafka brokers {servers} do not permit to read topic {topic}: {detail}: permit it "
            "(operations Read and Describe)",
        )
    return TopicError(
        "failed", f"topic {topic} of the Kafka brokers {servers} cannot be read: {detail}"
    )


def away(servers: str, topic: str) -> TopicError:
    """The brokers do not answer."""
    return TopicError(
        "away",
        f"the Kafka brokers {servers} do not answer, topic {topic} is not read: start them, or "
        "correct `servers`; reading goes on by itself",
    )


def list_causes(error: BaseException) -> list[JavaError]:
    """An error of the JVM and its causes, the innermost last."""
    exception: Any = getattr(error, "java_exception", None)
    if exception is None and isinstance(error, PySparkException):
        exception = getattr(error, "_origin", None)
    if exception is None:
        return [(type(error).__name__, str(error))]
    causes: list[JavaError] = []
    try:
        while exception is not None and len(causes) < _MAX_CAUSES:
            name = str(exception.getClass().getName())
            causes.append((name, str(exception.getMessage() or "")))
            exception = exception.getCause()
    except (Py4JError, Py4JJavaError):
        pass  # the JVM has ended
    return causes or [(type(error).__name__, str(error))]
