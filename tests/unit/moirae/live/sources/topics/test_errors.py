"""What exceptions of the JVM mean for a topic."""

import pytest
from py4j.protocol import Py4JNetworkError

from moirae.errors import TopicChanged, TopicError, Unreachable
from moirae.live.sources.topics.errors import JavaError, is_topic_error, translate, translate_causes

KAFKA = "org.apache.kafka.common.errors"
EXECUTION: JavaError = ("java.util.concurrent.ExecutionException", "…")


@pytest.mark.parametrize(
    ("causes", "kind", "words"),
    [
        ([EXECUTION, (f"{KAFKA}.TimeoutException", "Call: listNodes")], "away", "do not answer"),
        ([("java.util.concurrent.TimeoutException", "")], "away", "b:9092"),
        (
            [(f"{KAFKA}.X", ""), (f"{KAFKA}.ConfigException", "No resolvable bootstrap urls")],
            "away",
            "`servers`",
        ),
        (
            [EXECUTION, (f"{KAFKA}.UnknownTopicOrPartitionException", "…")],
            "missing",
            "topic t does not exist",
        ),
        (
            [EXECUTION, (f"{KAFKA}.TopicAuthorizationException", "Not authorized")],
            "failed",
            "do not permit",
        ),
        (
            [(f"{KAFKA}.ConfigException", "Invalid url in bootstrap.servers: x")],
            "failed",
            "Invalid url in bootstrap.servers: x",
        ),
        (
            [("org.apache.spark.SparkException", f"Lost task\n{KAFKA}.TimeoutException: 5 s")],
            "away",
            "do not answer",
        ),
    ],
)
def test_message_names_topic_servers_and_remedy(
    causes: list[JavaError], kind: str, words: str
) -> None:
    error = translate_causes(causes, "b:9092", "t")
    assert isinstance(error, TopicError)
    assert error.kind == kind
    assert words in str(error)
    assert "t" in str(error) and "b:9092" in str(error)
    assert "Exception" not in str(error) and "\n" not in str(error)


def test_lost_records_are_looked_for_again() -> None:
    lost = ("org.apache.spark.sql.kafka010.KafkaIllegalStateException", "data may have been lost")
    assert isinstance(translate_causes([EXECUTION, lost], "b", "t"), TopicChanged)


def test_other_errors_say_nothing_about_a_topic() -> None:
    assert not is_topic_error(ValueError("org.apache.kafka."))


def test_end_of_spark_is_no_error_of_a_topic() -> None:
    for error in (Py4JNetworkError("Answer from Java side is empty"), _StoppedSpark()):
        assert isinstance(translate(error, "b:9092", "t"), Unreachable)


class _StoppedSpark(Exception):
    def __str__(self) -> str:
        return "Cannot call methods on a stopped SparkContext."
