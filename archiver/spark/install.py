"""`python -m archiver.spark.install`: the jars Spark needs beside its wheel, and what makes it start faster.

Jars are resolved by Spark's own means and held against `jars.lock`; nothing is fetched at run time. Each step is
skipped when what it made is there and still fits.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from archiver.errors import ArchiverError
from archiver.spark.paths import CLASS_ARCHIVE, INSTALL_FOLDER, JARS
from archiver.spark.session import CONFLICTING_VARIABLES, launcher_environment

_HERE = Path(__file__).parent
_LOCK_FILE = _HERE / "jars.lock"
# What is fetched, and what of its needs is left out: it comes with Spark's wheel, or is not used.
_PACKAGES = (
    (
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "com.*:*,org.*:*,commons-*:*,javax.*:*,io.airlift:*,io.unitycatalog:*",
    ),
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13,org.apache.spark:spark-tags_2.13,org.apache.hadoop:*,"
        "org.scala-lang*:*,org.slf4j:*,org.xerial*:*,at.yawk*:*,org.lz4:*,com.*:*",
    ),
    (
        # Version 4.2.0 is not to be had everywhere; what it holds has not changed.
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.spark:spark-tags_2.13,org.apache.kafka:*,org.apache.hadoop:*,org.apache.commons:*,"
        "org.scala-lang*:*,org.slf4j:*,org.xerial*:*,at.yawk*:*,org.lz4:*,com.*:*",
    ),
)

# Spark's launcher resolves packages before anything of Spark itself starts, which is not needed here.
_FETCH_SCRIPT = """
    import sys
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway
    conf = SparkConf(loadDefaults=False).set("spark.master", "local[1]").set("spark.jars.ivy", sys.argv[3])
    conf.set("spark.jars.packages", sys.argv[1]).set("spark.jars.excludes", sys.argv[2])
    launch_gateway(conf).shutdown()
"""


def main() -> int:
    """Install what is missing; progress goes to standard error."""
    stamp = _installation_stamp()
    marker = INSTALL_FOLDER / "stamp"
    lock = read_lock(_LOCK_FILE.read_text())
    if (
        marker.is_file()
        and marker.read_text() == stamp
        and CLASS_ARCHIVE.is_file()
        and _is_complete(lock)
    ):
        return 0
    INSTALL_FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        _fetch_missing_jars(lock)
    except ArchiverError as error:
        print(f"set-up failed: {error}", file=sys.stderr)
        return 1
    _compile_java()
    _create_class_archive()
    marker.write_text(stamp)
    return 0


def read_lock(text: str) -> dict[str, str]:
    """File names and SHA-256 sums of a lock file."""
    pairs = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {name: digest for digest, name in pairs}


def verify_jars(folder: Path, lock: Mapping[str, str]) -> None:
    """Raises `ArchiverError` unless the folder holds all locked jars, byte for byte."""
    for name, digest in lock.items():
        jar = folder / name
        if not jar.is_file():
            raise ArchiverError(f"{name} was not fetched")
        if hashlib.sha256(jar.read_bytes()).hexdigest() != digest:
            raise ArchiverError(f"{name} is not the file that jars.lock names")


def _is_complete(lock: Mapping[str, str]) -> bool:
    try:
        verify_jars(JARS, lock)
    except ArchiverError:
        return False
    return True


def _installation_stamp() -> str:
    java = subprocess.run(
        [_java_tool("java"), "-version"], capture_output=True, text=True, check=False
    ).stderr
    made_by = [
        *sorted((_HERE / "java").rglob("*.java")),
        _HERE / "session.py",
        _HERE / "warm_up.py",
    ]
    sources = "".join(path.read_text() for path in made_by)
    parts = [java, version("pyspark"), _LOCK_FILE.read_text(), sources, sys.prefix]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _fetch_missing_jars(lock: Mapping[str, str]) -> None:
    if _is_complete(lock):
        return
    _report("fetching the jars of Delta and Kafka")
    fetch_jars(_PACKAGES, lock, JARS)


def fetch_jars(packages: Sequence[tuple[str, str]], lock: Mapping[str, str], target: Path) -> None:
    """Make `target` a folder of the locked jars. `wanted`: coordinates, and what of their needs is left out.

    Raises `ArchiverError` where any jar is not the one that was locked; then `target` is as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        for coordinates, excluded in packages:
            _run_command(
                [
                    sys.executable,
                    "-c",
                    textwrap.dedent(_FETCH_SCRIPT),
                    coordinates,
                    excluded,
                    f"{work}/ivy",
                ],
                "fetching jars",
            )
        fetched = Path(work) / "ivy" / "jars"
        verify_jars(fetched, lock)
        whole = Path(work) / "jars"
        whole.mkdir()
        for name in lock:
            shutil.copy2(fetched / name, whole / name)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(whole, target)


def _compile_java() -> None:
    """The local file system class, where there is a compiler; without it Spark is slower, not different."""
    import pyspark

    target = JARS / "moirae-files.jar"
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=INSTALL_FOLDER) as work:
        sources = [str(path) for path in (_HERE / "java").rglob("*.java")]
        spark = str(Path(pyspark.__file__).parent / "jars" / "*")
        javac = [
            _java_tool("javac"),
            "-nowarn",
            "--release",
            "17",
            "-cp",
            spark,
            "-d",
            f"{work}/classes",
            *sources,
        ]
        try:
            _run_command(javac, "compiling")
            _run_command(
                [
                    _java_tool("jar"),
                    "--create",
                    "--file",
                    f"{work}/files.jar",
                    "-C",
                    f"{work}/classes",
                    ".",
                ],
                "packing",
            )
        except (ArchiverError, FileNotFoundError):
            _report(
                "no Java compiler that works: small batches will be slower (install a JDK, not a JRE)"
            )
            return
        os.replace(f"{work}/files.jar", target)


def _create_class_archive() -> None:
    """An archive of the classes that a start loads."""
    _report("preparing a faster start")
    CLASS_ARCHIVE.unlink(missing_ok=True)
    result = subprocess.run(
        [sys.executable, "-m", "archiver.spark.warm_up", str(CLASS_ARCHIVE)],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0 or not CLASS_ARCHIVE.is_file():
        _report("no class archive: Spark will start slower")
        sys.stderr.write(result.stderr[-2000:])


def _java_tool(name: str) -> str:
    """A program of the Java that Spark's launcher takes: the one of JAVA_HOME, else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", name)) if home else name


def _run_command(command: list[str], what: str) -> None:
    own = {
        name: value for name, value in os.environ.items() if name not in CONFLICTING_VARIABLES
    } | launcher_environment("local[1]")
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    if result.returncode != 0:
        sys.stderr.write((result.stdout + result.stderr)[-4000:])
        raise ArchiverError(f"{what} ended with {result.returncode}; its last words are above")


def _report(text: str) -> None:
    print(f"moirae: {text} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
