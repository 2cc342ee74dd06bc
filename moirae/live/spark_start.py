"""Starts the Spark session of the live process."""

from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from archiver.errors import NotInstalled
from archiver.spark import start_session
from moirae.config import Settings, build_spark_settings
from moirae.errors import MoiraeError, Unreachable, first_line
from recall.statements import WORKER_DAEMON

# What Spark says when no master has answered for a minute, or one has refused the application.
_STOPPED = "Cannot call methods on a stopped SparkContext"


def start_spark(settings: Settings) -> SparkSession:
    """Start the session. Raises `Unreachable` if it does not start, `MoiraeError` without its jars,
    or if the connections of a cluster are not protected.

    A start may be repeated: a cluster may be back, or memory free, by then.
    """
    master = settings.spark.master
    conf = {"spark.python.daemon.module": WORKER_DAEMON}
    if any(stream.redact for stream in settings.streams.values()):
        # Records on their way to tasks are otherwise in temporary files, as they were read.
        conf["spark.io.encryption.enabled"] = "true"
    conf.update(build_spark_settings(settings, "live"))
    try:
        return start_session("moirae live", master, Path(settings.home) / "warehouse", conf)
    except NotInstalled as error:
        raise MoiraeError(str(error)) from error
    except (PySparkException, Py4JError) as error:
        raise Unreachable(
            f"Spark does not start: {_reason(error)} "
            f"(spark.master {master}; see spark.conf in {settings.file})"
        ) from error


def _reason(error: Exception) -> str:
    text = first_line(error)
    if isinstance(error, Py4JJavaError):
        text = error.java_exception.getMessage() or text
    if _STOPPED in text:
        return "its master does not answer or has refused the application"
    if "JAVA_GATEWAY_EXITED" in text:
        return "its JVM exits at once, for a reason that it has logged"
    return text.splitlines()[0]
