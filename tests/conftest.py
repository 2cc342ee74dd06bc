"""What tests of several kinds share."""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import structlog
from pyspark.sql import SparkSession

from archiver.spark.session import start_session
from recall.statements import WORKER_DAEMON
from tests import no_services, store
from tests.examples import load_profiles
from tests.parent import end_with_parent

load_profiles()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="no test may use Spark or a server")
    parser.addoption(
        "--not-fast", action="store_true", help="only what `make test-fast` leaves out"
    )


def pytest_configure(config: pytest.Config) -> None:
    # Modules and tests are there to the end: they are not searched for garbage, again and again,
    # while they are collected or later (a quarter of the time of collection).
    gc.disable()
    # The JVMs of processes under test live too briefly for optimized code and for threads that
    # collect garbage beside the others to pay off.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    # As commands do: what a thread logs is no part of the output of a command that a test runs.
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist
        end_with_parent()
    if config.getoption("--fast"):
        no_services.refuse_services()
        config.pluginmanager.register(no_services.WithoutServices())
    if config.getoption("--not-fast"):
        config.pluginmanager.register(no_services.OnlyWithServices())


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the run. Tests mark themselves `spark` and leave no views behind."""
    session = start_session(
        "tests",
        "local[2]",
        tmp_path_factory.mktemp("warehouse"),
        {"spark.python.daemon.module": WORKER_DAEMON},
        profile="short",
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def public_folder() -> Iterator[Path]:
    """A folder that every user may enter: the embedded database gives up root's rights, pytest's
    folders are closed.
    """
    folder = Path(tempfile.mkdtemp(prefix="moirae-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def _store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    with store.serving(tmp_path_factory.mktemp("store")) as environment:
        yield environment


@pytest.fixture
def bucket(_store: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A prefix of a bucket of object storage that is no other test's; the environment has its keys."""
    for name, value in _store.items():
        monkeypatch.setenv(name, value)
    return f"s3://{store.BUCKET}/{tmp_path.name}"
