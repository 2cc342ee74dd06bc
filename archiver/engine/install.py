"""`python -m archiver.engine.install`: the jars Spark needs beside its wheel, and what makes it start faster.

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

from archiver.engine import CLASSES, JARS, PLACE
from archiver.engine.session import FOREIGN, launcher
from archiver.errors import ArchiverError

_HERE = Path(__file__).parent
_LOCK = _HERE / "jars.lock"
# What is fetched, and what of its needs is left out: it comes with Spark's wheel, or is not used.
_FETCHED = (
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
_FETCH = """
    import sys
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway
    conf = SparkConf(loadDefaults=False).set("spark.master", "local[1]").set("spark.jars.ivy", sys.argv[3])
    conf.set("spark.jars.packages", sys.argv[1]).set("spark.jars.excludes", sys.argv[2])
    launch_gateway(conf).shutdown()
"""


def main() -> int:
    """Install what is missing; progress goes to standard error."""
    stamp = _stamp()
    marker = PLACE / "stamp"
    lock = read_lock(_LOCK.read_text())
    if marker.is_file() and marker.read_text() == stamp and CLASSES.is_file() and _whole(lock):
        return 0
    PLACE.mkdir(parents=True, exist_ok=True)
    try:
        _fetch(lock)
    except ArchiverError as error:
        print(f"set-up failed: {error}", file=sys.stderr)
        return 1
    _compile()
    _share_classes()
    marker.write_text(stamp)
    return 0


def read_lock(text: str) -> dict[str, str]:
    """File names and SHA-256 sums of a lock file."""
    pairs = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {name: digest for digest, name in pairs}


def verify(folder: Path, lock: Mapping[str, str]) -> None:
    """Raises `ArchiverError` unless the folder holds all locked jars, byte for byte."""
    for name, digest in lock.items():
        jar = folder / name
        if not jar.is_file():
            raise ArchiverError(f"{name} was not fetched")
        if hashlib.sha256(jar.read_bytes()).hexdigest() != digest:
            raise ArchiverError(f"{name} is not the file that jars.lock names")


def _whole(lock: Mapping[str, str]) -> bool:
    try:
        verify(JARS, lock)
    except ArchiverError:
        return False
    return True


def _stamp() -> str:
    java = subprocess.run([_tool("java"), "-version"], capture_output=True, text=True, check=False).stderr
    made_by = [*sorted((_HERE / "java").rglob("*.java")), _HERE / "session.py", _HERE / "warm_up.py"]
    sources = "".join(path.read_text() for path in made_by)
    parts = [java, version("pyspark"), _LOCK.read_text(), sources, sys.prefix]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _fetch(lock: Mapping[str, str]) -> None:
    if _whole(lock):
        return
    _say("fetching the jars of Delta and Kafka")
    fetch(_FETCHED, lock, JARS)


def fetch(wanted: Sequence[tuple[str, str]], lock: Mapping[str, str], target: Path) -> None:
    """Make `target` a folder of the locked jars. `wanted`: coordinates, and what of their needs is left out.

    Raises `ArchiverError` where any jar is not the one that was locked; then `target` is as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        for coordinates, excluded in wanted:
            _run([sys.executable, "-c", textwrap.dedent(_FETCH), coordinates, excluded, f"{work}/ivy"], "fetching jars")
        fetched = Path(work) / "ivy" / "jars"
        verify(fetched, lock)
        whole = Path(work) / "jars"
        whole.mkdir()
        for name in lock:
            shutil.copy2(fetched / name, whole / name)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(whole, target)


def _compile() -> None:
    """The local file system class, where there is a compiler; without it Spark is slower, not different."""
    import pyspark

    target = JARS / "moirae-files.jar"
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=PLACE) as work:
        sources = [str(path) for path in (_HERE / "java").rglob("*.java")]
        spark = str(Path(pyspark.__file__).parent / "jars" / "*")
        javac = [_tool("javac"), "-nowarn", "--release", "17", "-cp", spark, "-d", f"{work}/classes", *sources]
        try:
            _run(javac, "compiling")
            _run([_tool("jar"), "--create", "--file", f"{work}/files.jar", "-C", f"{work}/classes", "."], "packing")
        except (ArchiverError, FileNotFoundError):
            _say("no Java compiler that works: small batches will be slower (install a JDK, not a JRE)")
            return
        os.replace(f"{work}/files.jar", target)


def _share_classes() -> None:
    """An archive of the classes that a start loads."""
    _say("preparing a faster start")
    CLASSES.unlink(missing_ok=True)
    result = subprocess.run(
        [sys.executable, "-m", "archiver.engine.warm_up", str(CLASSES)],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0 or not CLASSES.is_file():
        _say("no class archive: Spark will start slower")
        sys.stderr.write(result.stderr[-2000:])


def _tool(name: str) -> str:
    """A program of the Java that Spark's launcher takes: the one of JAVA_HOME, else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", name)) if home else name


def _run(command: list[str], what: str) -> None:
    own = {name: value for name, value in os.environ.items() if name not in FOREIGN} | launcher("local[1]")
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    if result.returncode != 0:
        sys.stderr.write((result.stdout + result.stderr)[-4000:])
        raise ArchiverError(f"{what} ended with {result.returncode}; its last words are above")


def _say(text: str) -> None:
    print(f"moirae: {text} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
