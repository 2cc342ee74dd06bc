"""Fixtures of several modules: a history without recalls, and the world of tests of rules. A module
that needs another one has its own fixture of that name.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from pyspark.sql import SparkSession

from moirae.config.settings import Settings
from moirae.runtime import database
from tests.integration.history import CHUNKS, History, history, without_tasks
from tests.property.world import World, definitions, workspace


@pytest.fixture(scope="module")
def _history() -> Iterator[History]:
    with history(chunks=CHUNKS, rows=50) as new_history:
        yield new_history


@pytest.fixture
def past(_history: History) -> History:
    return without_tasks(_history)


@pytest.fixture(scope="module")
def workspace_settings(public_folder: Path) -> Settings:
    return workspace(public_folder)


@pytest.fixture(scope="module")
def connection(workspace_settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(workspace_settings, "tests") as new_connection:
        yield new_connection


@pytest.fixture
def world(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    connection: Connection[Any],
    workspace_settings: Settings,
    tmp_path: Path,
) -> World:
    """With the rules of the module, `RULES`; `World` empties the database."""
    rules = definitions(spark, workspace_settings, request.module.RULES)
    return World(spark, connection, workspace_settings, rules, tmp_path)
