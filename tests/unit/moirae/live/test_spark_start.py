"""Failures of the start of Spark, without Spark."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkRuntimeError

from archiver.errors import NotInstalled
from moirae.errors import MoiraeError, Unreachable
from moirae.live import spark_start
from tests.unit.moirae.config.workspace_files import STREAM, load


class _JavaError(Py4JJavaError):  # type: ignore[misc]
    """An exception of Java with a message."""

    def __init__(self, message: str) -> None:
        self.java_exception = SimpleNamespace(getMessage=lambda: message)

    def __str__(self) -> str:
        return "An error occurred while calling None.org.apache.spark."


def _start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    def fail(*_: Any) -> None:
        raise failure

    monkeypatch.setattr(spark_start, "start_session", fail)
    spark_start.start_spark(
        load(tmp_path, f"{STREAM}spark: {{master: 'spark://host:1', secret: s}}\n")
    )


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (
            _JavaError("Cannot call methods on a stopped SparkContext.\nThis stopped\n\tat x"),
            "its master does not answer or has refused the application",
        ),
        (_JavaError("Asked for too much\n\tat x"), "Asked for too much"),
        (
            PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={}),
            "its JVM exits at once, for a reason that it has logged",
        ),
    ],
)
def test_start_that_fails_names_the_master_and_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, reason: str
) -> None:
    with pytest.raises(Unreachable) as caught:
        _start(tmp_path, monkeypatch, failure)
    assert str(caught.value) == (
        f"Spark does not start: {reason} "
        f"(spark.master spark://host:1; see spark.conf in {tmp_path}/moirae.yaml)"
    )


def test_missing_jars_are_reported_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MoiraeError, match="make setup") as caught:
        _start(tmp_path, monkeypatch, NotInstalled("run `make setup`"))
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("redact", "is_encrypted"), [("", None), ("    redact: [{column: host, pattern: x}]\n", "true")]
)
def test_records_with_secrets_are_not_in_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redact: str, is_encrypted: str | None
) -> None:
    started: list[Mapping[str, str]] = []
    monkeypatch.setattr(
        spark_start, "start_session", lambda _app, _master, _folder, conf: started.append(conf)
    )
    spark_start.start_spark(load(tmp_path, f"{STREAM}{redact}"))
    assert started[0].get("spark.io.encryption.enabled") == is_encrypted
