"""What tests of several kinds share."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from archiver.engine.session import start_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the run. Tests mark themselves `spark` and leave no views behind."""
    session = start_session("tests", "local[2]", tmp_path_factory.mktemp("warehouse"), {}, profile="short")
    yield session
    session.stop()
