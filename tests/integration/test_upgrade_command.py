"""`moirae upgrade`: data are rewritten only by it, and only after a verified backup."""

import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import orjson
import pytest
from click.testing import Result
from typer.testing import CliRunner

import sql
from moirae.backup.repository import Ownership
from moirae.backup.verification import verify_backup
from moirae.cli import app
from moirae.config.settings import Settings
from moirae.errors import MoiraeError
from moirae.runtime.database import connect_database, database_dsn
from moirae.runtime.storage import check_generation
from sql.migrate import Migration, migrations
from sql.processes import ProcessGateway
from tests.backups import (
    filled,
    make_backup,
    make_workspace,
    problems_of,
    repository,
    stop_database,
)

pytestmark = pytest.mark.services
_MODULE = import_module("sql.migrate")  # `sql.migrate` is the function


@pytest.fixture
def workspace(public_folder: Path) -> Iterator[Settings]:
    settings = make_workspace(public_folder / "workspace")
    with filled(settings) as archive:
        archive.archive_each(range(3))
        check_generation(settings, archive.connection)
    yield settings
    stop_database(settings)
    shutil.rmtree(settings.file.parent)


@pytest.fixture
def rewriting(workspace: Settings) -> Iterator[None]:
    """As if this version had one more migration, which rewrites data."""
    migration = Migration(9999, "other_names")
    texts = {"9999_other_names.sql": "-- Rewrites: names.\nUPDATE streams SET name = name;"}

    def read_text(*path: str) -> str:
        return texts.get(path[-1]) or original(*path)

    original = _MODULE.read_text
    known = (*migrations(), migration)
    with (
        patch.object(_MODULE, "read_text", read_text),
        patch.object(_MODULE, "migrations", lambda: known),
    ):
        yield


def _upgrade(settings: Settings, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["upgrade", *arguments, "--workspace", str(settings.file)])


@pytest.mark.slow
def test_data_are_rewritten_after_a_verified_backup(
    workspace: Settings, rewriting: None, tmp_path: Path
) -> None:
    backups = tmp_path / "backups"
    with pytest.raises(MoiraeError, match=r"migrations 9999 rewrite it: run `moirae upgrade`"):
        connect_database(workspace, "tests")
    assert "rewrites data" in _upgrade(workspace, "--dry-run").stdout
    assert "no backup is known" in str(_upgrade(workspace).exception)
    with patch.object(_MODULE, "migrations", migrations):
        manifest = make_backup(workspace, backups)
        refused = _upgrade(workspace, "--from", str(backups))
        assert "nothing to upgrade" in refused.stdout
    assert "is not verified" in str(_upgrade(workspace, "--from", str(backups)).exception)
    others = tmp_path / "others"
    repository(others).claim(Ownership(uuid4(), 1))
    assert "of another workspace" in str(_upgrade(workspace, "--from", str(others)).exception)
    source = repository(backups)
    with patch.object(_MODULE, "migrations", migrations):
        assert verify_backup(
            source, manifest, tmp_path / "beside", lambda done, total: None
        ).is_good
    source.mark_verified(manifest.name, is_good=True)
    result = _upgrade(workspace, "--from", str(backups))
    assert (result.exit_code, manifest.name in result.stdout) == (0, True)
    assert "nothing to upgrade" in _upgrade(workspace).stdout
    assert problems_of(workspace) == []
    with (
        patch.object(_MODULE, "migrations", migrations),
        pytest.raises(
            MoiraeError, match="the database has migration 9999, this version of Moirae knows"
        ),
    ):
        connect_database(workspace, "tests")


@pytest.mark.slow
def test_nothing_is_upgraded_while_processes_of_the_earlier_version_run(
    workspace: Settings, rewriting: None
) -> None:
    with patch.object(_MODULE, "migrations", migrations):
        running = sql.connect(database_dsn(workspace), application_name="tests")
    with running:
        assert ProcessGateway(running).try_lock("live")
        with pytest.raises(MoiraeError, match="the live process of an earlier version runs"):
            connect_database(workspace, "tests")
        refused = _upgrade(workspace, "--without-backup")
        assert "stop the workspace on all machines first" in str(refused.exception)
    done = _upgrade(workspace, "--without-backup")
    assert (done.exit_code, "Takes up to a minute" in done.stdout) == (0, True)


def _set_archive_format(workspace: Settings, number: int) -> Path:
    path = Path(workspace.archive) / "moirae-workspace.json"
    path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), "format": number}))
    return path


def test_archive_of_a_later_format_is_refused(workspace: Settings) -> None:
    _set_archive_format(workspace, 3)
    with (
        connect_database(workspace, "tests") as connection,
        pytest.raises(
            MoiraeError, match="the archive has format 3, this version of Moirae knows 2"
        ),
    ):
        check_generation(workspace, connection)


def test_archive_of_an_earlier_format_gets_the_present_one(workspace: Settings) -> None:
    path = _set_archive_format(workspace, 1)
    with connect_database(workspace, "tests") as connection:
        check_generation(workspace, connection)
    assert orjson.loads(path.read_bytes())["format"] == 2
