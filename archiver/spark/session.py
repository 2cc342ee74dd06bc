"""Spark sessions with local jars, UTC, loopback addresses, and settings for small batches."""

import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Literal

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from archiver.errors import NotInstalled
from archiver.spark.environment import describe_environment
from archiver.spark.jvm_output import select_unexpected
from archiver.spark.paths import CLASS_ARCHIVE, JARS, OWN_JAR
from archiver.spark.scratch import scratch_folder
from archiver.task_environment import DRIVER_ENVIRONMENT
from archiver.threads import start_daemon

_JVM_LOG = logging.getLogger("spark.jvm")

StartupProfile = Literal["serve", "short"]
"""`serve`: for long-running processes. `short`: for checks and tests."""

_LOG4J_FILE = Path(__file__).parent / "log4j2.properties"

# No optimizing compiler: starts faster, but runs what is repeated for long more slowly.
_QUICK_START = "-XX:TieredStopAtLevel=1"

# Environment variables that would make pyspark start or connect to another Spark.
CONFLICTING_VARIABLES = (
    "SPARK_REMOTE",
    "SPARK_API_MODE",
    "SPARK_CONNECT_MODE_ENABLED",
    "PYSPARK_GATEWAY_PORT",
)

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.extensions": (
        "io.delta.sql.DeltaSparkSessionExtension,org.moirae.patterns.PatternExtension"
    ),
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Batches are small: splitting, replanning or compiling them costs more than running them.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    # Expressions of all rules stay compiled between batches (default: 100).
    "spark.sql.codegen.cache.maxEntries": "5000",
    "spark.sql.streaming.pollingDelay": "5ms",
    "spark.sql.files.openCostInBytes": "1048576",
    # All files have the table's schema: footers are not read to plan a query.
    "spark.sql.parquet.mergeSchema": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.history.metricsEnabled": "false",
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    # SQL of users is untrusted (see `recall.sandbox`): it has no access to files, variables
    # and scripts.
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.scripting.enabled": "false",
}
_MAX_SOCKET_FOLDER = 64  # characters: paths of sockets have at most 107, names of Spark's 42
_LOOPBACK_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_SECRET_SETTING = "spark.authenticate.secret"
PROPERTIES_VARIABLE = "MOIRAE_SPARK_PROPERTIES"
"""Names a file of Spark's properties; those of the workspace go before."""
_PYTHON_SETTING = "spark.pyspark.python"  # the Python of executors, if it has another path there
_EXECUTOR_JAVA_OPTIONS = "-Duser.timezone=UTC -Xss16m"
NUMBER_SOURCE = "org.moirae.numbers.NumberSource"
"""A streaming source whose offsets are published by `org.moirae.numbers.Numbers`."""
_LOCAL_FILE_SETTINGS = {
    "spark.hadoop.fs.file.impl": "org.moirae.files.PlainFiles",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.moirae.files.PlainFiles$Context",
}


def start_session(
    app: str,
    master: str,
    warehouse: Path,
    conf: Mapping[str, str],
    profile: StartupProfile = "serve",
) -> SparkSession:
    """Start the session of this process. `conf` overrides the settings here.

    Raises `NotInstalled`.
    """
    settings = {
        **_SETTINGS,
        **jar_settings(master),
        **_executor_settings(master),
        **_socket_settings(scratch_folder()),
        "spark.sql.warehouse.dir": str(warehouse),
        **conf,
    }
    all_java_options = [
        java_options(CLASS_ARCHIVE),
        f'"-Djava.io.tmpdir={scratch_folder()}"',
        _QUICK_START if profile == "short" or _is_cluster(master) else "",
        conf.get("spark.driver.extraJavaOptions", ""),
    ]
    settings["spark.driver.extraJavaOptions"] = " ".join(all_java_options).strip()
    for name in CONFLICTING_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(launcher_environment(master))
    os.environ["PYSPARK_PYTHON"] = settings.get(_PYTHON_SETTING, sys.executable)
    # Errors that these log are also raised as exceptions.
    for logger in ("SQLQueryContextLogger", "py4j"):
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    builder = SparkSession.builder.appName(app).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    _launch_jvm(settings, app, master)
    # In the main thread Spark puts a handler of its own in the place of the process's: a Ctrl-C
    # would then call the JVM in the midst of whatever the main thread does, perhaps of another call
    # to the JVM.
    interrupt = signal.getsignal(signal.SIGINT)
    session = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
    return session


def _socket_settings(folder: Path) -> dict[str, str]:
    """Settings for Unix domain sockets in a folder between the JVM and Python workers.

    Over TCP, each job waits 40 ms for delayed acknowledgements. Nothing if the path is too long.
    """
    if len(os.fsencode(folder)) > _MAX_SOCKET_FOLDER:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true"}


def _is_cluster(master: str) -> bool:
    """Whether tasks run in other JVMs: then this one plans, and its compiler would cost more
    processor time than its code.
    """
    return master.startswith("local-cluster[") or not master.startswith("local")


@contextmanager
def open_session(
    app: str,
    warehouse: Path,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
    profile: StartupProfile = "short",
) -> Iterator[SparkSession]:
    """Start the session of this process, and stop it at the end.

    A session that this process has already is used instead, and left running.

    Raises `NotInstalled`.
    """
    if SparkContext._active_spark_context is not None:
        yield SparkSession.builder.getOrCreate()
        return
    session = start_session(app, master, warehouse, conf or {}, profile)
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def session_on_demand(app: str, warehouse: Path) -> Iterator[Callable[[], SparkSession]]:
    """A function that opens the session when it is first called; see `open_session`."""
    with ExitStack() as stack:
        yield cache(lambda: stack.enter_context(open_session(app, warehouse)))


def _launch_jvm(settings: Mapping[str, str], app: str, master: str) -> None:
    """Launch the JVM of this process, unless it runs, and log what it writes to standard error."""
    if SparkContext._gateway is not None:
        return
    # Other users of this machine see the command line: the session gives the JVM the secret.
    public = [setting for setting in settings.items() if setting[0] != _SECRET_SETTING]
    conf = SparkConf().setAppName(app).setMaster(master).setAll(public)
    reader, writer = os.pipe()
    output = os.fdopen(reader, "rb")
    start_daemon(lambda: _log_jvm_output(output), "JVM output")
    try:
        gateway = launch_gateway(conf, {"stderr": writer})  # type: ignore[no-untyped-call]
    finally:
        os.close(writer)
    SparkContext._ensure_initialized(gateway=gateway)


def _log_jvm_output(pipe: IO[bytes]) -> None:
    """Log what is unexpected until the JVM exits."""
    for text in select_unexpected(iter(pipe.readline, b"")):
        _JVM_LOG.warning(text)


def jvm_process() -> subprocess.Popen[bytes] | None:
    """Return the JVM if it is a child of this process, else None."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return process


def launcher_environment(master: str) -> dict[str, str]:
    """Environment for Spark's launcher and its Python workers: this Spark, this Python, UTF-8."""
    variables = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": " ".join([*_properties_arguments(master), "pyspark-shell"]),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        # The launcher is a short-lived JVM of its own.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    if master.startswith("local"):
        # Without network the host name may not resolve.
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    if sys.getfilesystemencoding() in ("utf-8", "ascii"):
        # Java encodes file names by the locale, Python perhaps not: in C and POSIX it uses UTF-8.
        variables["LC_ALL"] = "C.UTF-8"
    return variables


def _properties_arguments(master: str) -> list[str]:
    """On a cluster: the file of properties that who has started this process has written.

    The Spark operator tells a driver there of its pod and of the pods of executors.
    """
    file = os.environ.get(PROPERTIES_VARIABLE)
    if not file or not _is_cluster(master):
        return []
    return ["--deploy-mode", "client", "--properties-file", shlex.quote(file)]


def sees_driver_files(spark: SparkSession) -> bool:
    """Whether tasks run on the driver's machine: on others they have none of its files."""
    return str(spark.sparkContext.master).startswith("local")


def _executor_settings(master: str) -> dict[str, str]:
    """Settings of executors on other machines, whose environment is not that of the driver."""
    if master.startswith("local"):
        return {}
    return {
        "spark.executor.extraJavaOptions": _EXECUTOR_JAVA_OPTIONS,
        "spark.executorEnv.LC_ALL": "C.UTF-8",
        f"spark.executorEnv.{DRIVER_ENVIRONMENT}": json.dumps(describe_environment()),
    }


def jar_settings(master: str) -> dict[str, str]:
    """Settings that load the installed jars on driver and executors. Raises `NotInstalled`."""
    jars = sorted(str(jar) for jar in JARS.glob("*.jar"))
    if str(JARS / OWN_JAR) not in jars:
        raise NotInstalled("Spark's jars are not installed; run `moirae setup`")
    if not master.startswith("local"):
        return {"spark.jars": ",".join(jars)}
    return {
        "spark.driver.extraClassPath": ":".join(jars),
        **_LOOPBACK_SETTINGS,
        **_LOCAL_FILE_SETTINGS,
    }


def java_options(class_archive: Path | None) -> str:
    """Options of the driver's JVM.

    `class_archive`: an archive of loaded classes, which halves the time of a start. It is ignored
    if it is absent, or of another JVM.
    """
    options = [
        "-Duser.timezone=UTC",
        f"-Dlog4j2.configurationFile={_LOG4J_FILE}",
        "-XX:+ExitOnOutOfMemoryError",
        # Spark parses the text of a failed callback with a regular expression that recurses for
        # each character.
        "-Xss16m",
    ]
    if class_archive is not None and class_archive.is_file():
        options += [
            f"-XX:SharedArchiveFile={class_archive}",
            "-Xshare:auto",
            "-Xlog:cds=off",
            "-Xlog:cds+dynamic=off",
        ]
    return " ".join(options)
