"""Spark sessions: local jars, UTC, loopback, and the settings that make small batches fast."""

import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from archiver.errors import NotInstalled
from archiver.spark.paths import CLASS_ARCHIVE, JARS
from archiver.spark.scratch import scratch_folder

StartupProfile = Literal["serve", "short"]

_HERE = Path(__file__).parent

# `serve` is for processes that run long. `short` starts faster and stays slower: checks and tests.
_JAVA_OPTIONS: dict[StartupProfile, str] = {"serve": "", "short": "-XX:TieredStopAtLevel=1"}

# Variables that would make pyspark start, or look for, another Spark.
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
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A batch is small: splitting it, planning it twice or compiling it costs more than running it.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    # Each expression of each rule is compiled once, not again with every batch (the default keeps 100).
    "spark.sql.codegen.cache.maxEntries": "5000",
    "spark.sql.streaming.pollingDelay": "5ms",
    "spark.sql.files.openCostInBytes": "1048576",
    # The one reader of a file's footer is the query itself.
    "spark.sql.parquet.mergeSchema": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.history.metricsEnabled": "false",
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    # SQL that people write is code (see `recall.sandbox`): it reaches no files, no variables, no scripts.
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.scripting.enabled": "false",
}
_LOOPBACK_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
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
    """The session of this process. `conf` goes over the settings here. Raises `NotInstalled`."""
    settings = {
        **_SETTINGS,
        **jar_settings(master),
        "spark.sql.warehouse.dir": str(warehouse),
        **conf,
    }
    aside = f'"-Djava.io.tmpdir={scratch_folder()}"'
    java = f"{java_options(CLASS_ARCHIVE)} {aside} {_JAVA_OPTIONS[profile]} {conf.get('spark.driver.extraJavaOptions', '')}"
    settings["spark.driver.extraJavaOptions"] = java.strip()
    for name in CONFLICTING_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(launcher_environment(master))
    # What it would print is raised as an exception too.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    builder = SparkSession.builder.appName(app).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def jvm_process() -> subprocess.Popen[bytes] | None:
    """The JVM, where it runs as a child of this process."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return process


def launcher_environment(master: str) -> dict[str, str]:
    """Variables for Spark's launcher and its Python workers: this Spark, this Python, any name of a file."""
    variables = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": "pyspark-shell",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        # It lives for a moment only.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    if master.startswith("local"):
        # Also where no network is: the name of this machine need not lead anywhere.
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    if os.environ.get("LC_ALL") in ("C", "POSIX"):
        # Java names files in the locale's encoding, and this one has no letters but ASCII's.
        variables["LC_ALL"] = "C.UTF-8"
    return variables


def jar_settings(master: str) -> dict[str, str]:
    """Settings that bring the installed jars to where they are needed. Raises `NotInstalled`."""
    jars = sorted(str(jar) for jar in JARS.glob("*.jar"))
    if not jars:
        raise NotInstalled("Spark's jars are not installed; run `make setup`")
    if not master.startswith("local"):
        return {"spark.jars": ",".join(jars)}
    own = any(Path(jar).name == "moirae-files.jar" for jar in jars)
    return {
        "spark.driver.extraClassPath": ":".join(jars),
        **_LOOPBACK_SETTINGS,
        **(_LOCAL_FILE_SETTINGS if own else {}),
    }


def java_options(class_archive: Path | None) -> str:
    """Options of the JVM; `classes`: an archive of loaded classes, used where it fits, which halves the start."""
    options = [
        "-Duser.timezone=UTC",
        f"-Dlog4j2.configurationFile={_HERE / 'log4j2.properties'}",
        "-XX:+ExitOnOutOfMemoryError",
        # Spark reads the text of a failed callback with a regular expression that takes stack for every character.
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
