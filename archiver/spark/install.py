"""Installs Spark's jars, and a class archive for faster starts: `moirae setup`, or
`python -m archiver.spark.install [start|work|none]`.

Jars are resolved by Spark's launcher and verified against `jars.lock`; nothing is downloaded at run
time. The installation is skipped when it is complete and up to date.
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
from typing import Literal, get_args

from archiver.errors import ArchiverError
from archiver.spark.paths import CLASS_ARCHIVE, INSTALL_FOLDER, JARS, OWN_JAR
from archiver.spark.session import CONFLICTING_VARIABLES, launcher_environment

_MODULE_FOLDER = Path(__file__).parent
_LOCK_FILE = _MODULE_FOLDER / "jars.lock"
# Coordinates of packages, and dependencies to exclude: Spark's wheel contains them, or they are not
# used.
_PACKAGES = (
    (
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "com.*:*,org.*:*,commons-*:*,javax.*:*,io.airlift:*,io.unitycatalog:*",
    ),
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13,org.apache.spark:spark-tags_2.13,"
        "org.apache.hadoop:*,"
        "org.scala-lang*:*,org.slf4j:*,org.xerial*:*,at.yawk*:*,org.lz4:*,com.*:*",
    ),
    (
        # Some mirrors lack version 4.2.0. The classes are the same.
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.spark:spark-tags_2.13,org.apache.kafka:*,org.apache.hadoop:*,"
        "org.apache.commons:*,"
        "org.scala-lang*:*,org.slf4j:*,org.xerial*:*,at.yawk*:*,org.lz4:*,com.*:*",
    ),
)

# The launcher resolves packages before it starts Spark, so no Spark session is needed.
# Arguments: packages, excluded packages, folder of the Ivy cache.
_FETCH_SCRIPT = """
    import sys
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway
    conf = SparkConf(loadDefaults=False).set("spark.master", "local[1]")
    conf.set("spark.jars.packages", sys.argv[1]).set("spark.jars.excludes", sys.argv[2])
    conf.set("spark.jars.ivy", sys.argv[3])
    launch_gateway(conf).shutdown()
"""


ArchivedClasses = Literal["start", "work", "none"]
"""Those of a start of Spark (70 MB); or also those of typical queries (190 MB), which take 4 s of
processor time less then; or none.
"""


def main(source: Path | None = None, classes: ArchivedClasses = "work") -> int:
    """Install what is missing. Progress and errors go to standard error. Returns the exit code.

    `source`: a folder with the jars, such as `share/moirae/jars` of another installation; None:
    they are downloaded.
    """
    stamp = _installation_stamp(classes)
    stamp_file = INSTALL_FOLDER / "stamp"
    lock = read_lock(_LOCK_FILE.read_text())
    is_current = stamp_file.is_file() and stamp_file.read_text() == stamp
    has_archive = classes == "none" or CLASS_ARCHIVE.is_file()
    if is_current and has_archive and _is_complete(lock):
        return 0
    INSTALL_FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        _provide_jars(lock, source)
        _compile_java()
    except ArchiverError as error:
        print(f"moirae: setup failed: {error}", file=sys.stderr)
        return 1
    CLASS_ARCHIVE.unlink(missing_ok=True)
    if classes != "none":
        _create_class_archive(classes)
    stamp_file.write_text(stamp)
    return 0


def read_lock(text: str) -> dict[str, str]:
    """Parse a lock file into SHA-256 sums by file name."""
    digests: dict[str, str] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            digest, name = line.split()
            digests[name] = digest
    return digests


def verify_jars(folder: Path, lock: Mapping[str, str]) -> None:
    """Raise `ArchiverError` unless the folder has all jars of a lock file with these checksums."""
    for name, digest in lock.items():
        jar = folder / name
        if not jar.is_file():
            raise ArchiverError(
                f"{folder / name}: is missing: check access to the Maven repository, or the folder "
                "of --from"
            )
        if hashlib.sha256(jar.read_bytes()).hexdigest() != digest:
            raise ArchiverError(f"{name}: checksum differs from jars.lock")


def _is_complete(lock: Mapping[str, str]) -> bool:
    try:
        verify_jars(JARS, lock)
    except ArchiverError:
        return False
    return True


def _installation_stamp(classes: ArchivedClasses) -> str:
    """Hash everything that the installed files depend on."""
    java_version = subprocess.run(
        [_java_tool("java"), "-version"], capture_output=True, text=True, check=False
    ).stderr
    source_files = [
        *_java_files(),
        _MODULE_FOLDER / "session.py",
        _MODULE_FOLDER / "warm_up.py",
    ]
    sources = "".join(map(Path.read_text, source_files))
    inputs = [
        java_version,
        version("pyspark"),
        _LOCK_FILE.read_text(),
        sources,
        sys.prefix,
        classes,
    ]
    return hashlib.sha256("\n".join(inputs).encode()).hexdigest()


def _java_files() -> list[Path]:
    return sorted((_MODULE_FOLDER / "java").rglob("*.java"))


def _copy_jars(lock: Mapping[str, str], source: Path) -> None:
    """Make the folder of jars one of exactly those in the lock file, from another folder."""
    verify_jars(source, lock)
    with tempfile.TemporaryDirectory(dir=INSTALL_FOLDER) as temporary:
        copied_jars = Path(temporary) / "jars"
        copied_jars.mkdir()
        for name in lock:
            shutil.copy2(source / name, copied_jars / name)
        shutil.rmtree(JARS, ignore_errors=True)
        os.replace(copied_jars, JARS)


def _provide_jars(lock: Mapping[str, str], source: Path | None) -> None:
    if _is_complete(lock):
        return
    if source is not None:
        _report(f"copying the jars of Delta and Kafka from {source}")
        _copy_jars(lock, source)
        return
    _report("downloading the jars of Delta and Kafka")
    fetch_jars(_PACKAGES, lock, JARS)


def fetch_jars(packages: Sequence[tuple[str, str]], lock: Mapping[str, str], target: Path) -> None:
    """Download jars and make `target` a folder of exactly those in the lock file.

    `packages`: pairs of Maven coordinates and dependencies to exclude, separated by commas. Raises
    `ArchiverError` if a jar is missing or has another checksum; then `target` is unchanged.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    script = textwrap.dedent(_FETCH_SCRIPT)
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        ivy_cache = Path(temporary) / "ivy"
        for coordinates, excluded in packages:
            command = [sys.executable, "-c", script, coordinates, excluded, str(ivy_cache)]
            _run_command(command, "download of jars")
        downloads = ivy_cache / "jars"
        verify_jars(downloads, lock)
        locked_jars = Path(temporary) / "jars"
        locked_jars.mkdir()
        for name in lock:
            shutil.copy2(downloads / name, locked_jars / name)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(locked_jars, target)


def _compile_java() -> None:
    """Compile the classes in `java`. Raises `ArchiverError`."""
    import pyspark

    for jar in JARS.glob("moirae*.jar"):
        jar.unlink()
    spark_jars = Path(pyspark.__file__).parent / "jars" / "*"
    with tempfile.TemporaryDirectory(dir=INSTALL_FOLDER) as temporary:
        classes = f"{temporary}/classes"
        jar_file = f"{temporary}/{OWN_JAR}"
        javac = [_java_tool("javac"), "-nowarn", "--release", "17"]
        javac += ["-cp", str(spark_jars), "-d", classes, *map(str, _java_files())]
        create_jar = [_java_tool("jar"), "--create", "--file", jar_file, "-C", classes, "."]
        try:
            _run_command(javac, "compilation")
            _run_command(create_jar, "creation of a jar")
        except (ArchiverError, FileNotFoundError) as error:
            raise ArchiverError(
                "no working Java compiler: install a JDK of version 17 or newer, not a JRE"
            ) from error
        os.replace(jar_file, JARS / OWN_JAR)


def _create_class_archive(classes: ArchivedClasses) -> None:
    """Archive the classes that Spark loads, to be shared by later starts."""
    _report("creating a class archive for faster starts")
    result = subprocess.run(
        [sys.executable, "-m", "archiver.spark.warm_up", str(CLASS_ARCHIVE), classes],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0 or not CLASS_ARCHIVE.is_file():
        _report("no class archive was created: Spark will start slower")
        sys.stderr.write(result.stderr[-2000:])


def _java_tool(name: str) -> str:
    """Return the command of a JDK program: from JAVA_HOME if set, as Spark does, else PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", name)) if home else name


def _run_command(command: list[str], description: str) -> None:
    """Run a command. Raises `ArchiverError` if it fails, with its output on standard error."""
    environment = {**os.environ, **launcher_environment("local[1]")}
    for name in CONFLICTING_VARIABLES:
        environment.pop(name, None)
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode != 0:
        sys.stderr.write((result.stdout + result.stderr)[-4000:])
        raise ArchiverError(
            f"{description} failed with exit code {result.returncode}; its output is above"
        )


def _report(text: str) -> None:
    print(f"moirae: {text} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    chosen = [name for name in get_args(ArchivedClasses) if name in sys.argv[1:]]
    sys.exit(main(classes=chosen[0]) if chosen else main())
